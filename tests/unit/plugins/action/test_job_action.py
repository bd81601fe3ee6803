# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job's driver: progress, adoption, a lost connection, the one error. The module and systemd have their own tests."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.gb10.cluster.plugins.action import job
from drivers import LOST, Node

BASE = {"argv": ["docker", "pull", "x"], "unit": "gb10-job-pull.service", "log": "/var/log/gb10/pull.log", "changed": True, "adopted": False}
DONE = {**BASE, "running": False, "rc": 0, "result": "success", "seconds": 61.0, "last_lines": ["done"], "invocation": {"module_args": {}}}


def running(percent: int, **changes: Any) -> dict[str, Any]:
    progress = {"done": percent * 1e9, "total": 100e9, "percent": percent, "unit": "bytes"}
    return {**BASE, "running": True, "seconds": 5.0, "last_lines": [], "progress": progress, **changes}


def task(**changes: Any) -> dict[str, Any]:
    return {"name": "pull", "argv": ["docker", "pull", "x"], "label": "Pulling x on spark-head", **changes}


def test_progress_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, job, running(10), running(20), running(20), running(30), DONE)
    result = node.run(**task())
    assert [call["state"] for call in node.calls] == ["started", "polled", "polled", "polled", "polled"]
    assert len({call["token"] for call in node.calls}) == 1
    assert node.said == [
        "  Pulling x on spark-head: 10 % of 100.0 GB",
        "  Pulling x on spark-head: 20 % of 100.0 GB, 2.0 GB/s, 40 s left",
        "  Pulling x on spark-head: runs on the node as gb10-job-pull.service; a lost connection does not stop it, and the next run finds it",
        "  Pulling x on spark-head: 20 % of 100.0 GB, 1.0 GB/s, 80 s left",
        "  Pulling x on spark-head: 30 % of 100.0 GB, 1.3 GB/s, 52 s left",
        "  Pulling x on spark-head: done in 61 s",
    ]
    assert result == {**{key: DONE[key] for key in BASE}, "rc": 0, "result": "success", "seconds": 61.0, "last_lines": ["done"]}


def test_a_short_job_needs_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, job, DONE)
    node.run(**task())
    assert node.said == []


def test_a_running_job_is_adopted_aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, job, running(50, adopted=True, seconds=3600.0), DONE)
    result = node.run(**task())
    assert node.said[0] == "  Pulling x on spark-head: already running for 60 min as gb10-job-pull.service, going on with that"
    assert result["adopted"] is True


def test_a_lost_connection_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, job, running(10), *[LOST] * 5, running(40), DONE)
    result = node.run(**task())
    assert result["rc"] == 0
    assert node.resets == 5
    lost = [line for line in node.said if "connection lost" in line]
    # Five attempts, ten seconds apart, are said twice.
    assert len(lost) == 2
    assert "trying again for 5 min; the job does not depend on it" in lost[0]
    assert any("connected again after" in line for line in node.said)


def test_a_start_that_was_lost_is_sent_again_with_the_same_token(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, job, LOST, DONE)
    node.run(**task())
    assert [call["state"] for call in node.calls] == ["started", "started"]
    assert node.calls[0]["token"] == node.calls[1]["token"] != ""


def test_a_node_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, job, running(10), LOST)
    with pytest.raises(AnsibleConnectionFailure):
        node.run(**task(reconnect=60))
    assert 60 <= node.now - 1000 < 90


def test_one_error_says_all(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {**DONE, "rc": 1, "result": "exit-code", "last_lines": ["fetching", "no space: s3cret-value"], "advice": "Free some space."}
    node = Node(monkeypatch, job, running(10), failed)
    result = node.run(**task(argv=["docker", "pull", "a b"], secret_environment={"TOKEN": "s3cret-value"}))
    assert (result["failed"], result["changed"], result["rc"]) == (True, True, 1)
    assert result["msg"].splitlines() == [
        "Pulling x on spark-head: the command failed with exit code 1 after 61 s.",
        "It ran: docker pull x",
        "The last lines of /var/log/gb10/pull.log:",
        "  fetching",
        "  no space: REDACTED",
        "What to do: Free some space.",
    ]
    assert "last_lines" not in result


@pytest.mark.parametrize(
    ("end", "words"),
    [("timeout", "was stopped at its limit of 60 min"), ("oom-kill", "was killed for want of memory"), ("vanished", "is gone without a trace")],
)
def test_other_ends(monkeypatch: pytest.MonkeyPatch, end: str, words: str) -> None:
    result = Node(monkeypatch, job, {**DONE, "rc": 143, "result": end, "last_lines": [], "advice": "x"}).run(**task())
    assert words in result["msg"]
    assert "It said nothing (/var/log/gb10/pull.log is empty)." in result["msg"]


def test_a_job_that_systemd_does_not_stop_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, job, running(10))
    result = node.run(**task(timeout=60, reconnect=30))
    assert result["failed"]
    assert "still running after its time limit" in result["msg"]
    assert node.now - 1000 < 60 + 30 + job.GRACE + 10


def test_what_the_module_refuses_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Node(monkeypatch, job, {"failed": True, "msg": "needs root", "changed": False}).run(**task())
    assert result == {"failed": True, "msg": "needs root", "changed": False}


def test_check_mode_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, job, BASE)
    assert node.run(check_mode=True, **task()) == BASE
    assert len(node.calls) == 1
    assert node.said == []


def test_a_wrong_option_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, job, DONE)
    with pytest.raises(AnsibleActionFail, match="intervall"):
        node.run(**task(intervall=3))
    assert node.calls == []


def test_the_total_makes_percent_of_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = {**BASE, "running": True, "seconds": 1.0, "progress": {"done": 5e9, "unit": "bytes", "rate": 1e9}}
    node = Node(monkeypatch, job, piped, DONE)
    node.run(**task(total=20_000_000_000))
    assert node.said[0] == "  Pulling x on spark-head: 25 % of 20.0 GB, 1.0 GB/s, 15 s left"
