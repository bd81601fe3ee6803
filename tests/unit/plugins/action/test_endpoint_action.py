# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waiting for a completion: what is asked, what is said meanwhile, when it ends."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gb10.cluster.plugins.action import endpoint_info
from drivers import LOST, Node

URL = "http://192.0.2.10:8000/v1"
DOWN = {"failed": True, "reason": "refused", "retry": True, "activity": "", "msg": "connection refused"}
LISTED = {"changed": False, "models": ["tiny"], "url": URL, "waited": 0.1}
ANSWER = {**LISTED, "completion": {"text": "Hi"}, "model": "tiny", "invocation": {"module_args": {"api_key": "x"}}}


def loading(activity: str) -> dict[str, Any]:
    return {**DOWN, "activity": activity}


def test_waits_and_says_what_the_engine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(
        monkeypatch, endpoint_info, DOWN, loading("Loading shards: 40 %"), loading("Loading shards: 40 %"), loading("Compiling"), LISTED, ANSWER
    )
    result = node.run(url=URL, wait=1800)
    assert [(call["completion"], call["wait"]) for call in node.calls] == [(False, 8)] * 5 + [(True, 0)]
    assert node.said == [
        f"  Waiting for {URL}: nothing listens there yet (5 s)",
        f"  Waiting for {URL}: Loading shards: 40 % (11 s)",
        f"  Waiting for {URL}: Compiling (23 s)",
        f"  Waiting for {URL}: the API answers, asking for a first completion (which may compile; at most 2 min) (29 s)",
    ]
    assert result["completion"] == {"text": "Hi"}
    assert result["waited"] == 34.0
    assert "invocation" not in result


def test_one_attempt_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, endpoint_info, ANSWER)
    assert node.run(url=URL)["completion"] == {"text": "Hi"}
    assert [(call["completion"], call["wait"]) for call in node.calls] == [(True, 0)]
    assert node.said == []
    assert Node(monkeypatch, endpoint_info, DOWN).run(url=URL)["msg"] == "connection refused"


def test_an_engine_that_is_there_is_asked_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, endpoint_info, LISTED, ANSWER)
    node.seconds = 1.0
    node.run(url=URL, wait=1800)
    assert node.said == []


def test_only_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, endpoint_info, DOWN, LISTED)
    assert node.run(url=URL, wait=60, completion=False)["models"] == ["tiny"]
    assert len(node.calls) == 2


def test_a_long_stage_is_said_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, endpoint_info, *[loading("Compiling")] * 24, LISTED, ANSWER)
    node.run(url=URL, wait=1800)
    assert [line for line in node.said if "Compiling" in line] == [
        f"  Waiting for {URL}: Compiling (5 s)",
        f"  Waiting for {URL}: Compiling (65 s)",
        f"  Waiting for {URL}: Compiling (2 min)",
    ]


def test_what_cannot_be_mended_by_waiting_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = {"failed": True, "reason": "ended", "retry": False, "msg": "gb10-vllm.service has failed."}
    node = Node(monkeypatch, endpoint_info, DOWN, ended)
    result = node.run(url=URL, wait=1800)
    assert (result["failed"], result["msg"]) == (True, "gb10-vllm.service has failed.")
    assert len(node.calls) == 2


def test_a_completion_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = {"failed": True, "reason": "server_error", "retry": True, "activity": "", "msg": "HTTP 500"}
    node = Node(monkeypatch, endpoint_info, LISTED, dead, LISTED, ANSWER)
    assert node.run(url=URL, wait=1800)["completion"] == {"text": "Hi"}
    assert any("it answers with an error, still trying" in line for line in node.said)


def test_waiting_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, endpoint_info, DOWN)
    result = node.run(url=URL, wait=60)
    assert result["msg"] == "No completion within 60 s. connection refused"
    assert node.now - 1000 < 80


def test_a_lost_connection_is_survived_within_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, endpoint_info, DOWN, LOST, LISTED, ANSWER)
    assert node.run(url=URL, wait=600)["completion"] == {"text": "Hi"}
    with pytest.raises(AnsibleConnectionFailure):
        Node(monkeypatch, endpoint_info, LOST).run(url=URL)


def test_the_key_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, endpoint_info, loading("args --api-key open-sesame"), loading("key open-sesame"), LISTED, ANSWER)
    node.run(url=URL, wait=600, api_key="open-sesame", label="Starting vLLM")
    assert node.said[0].startswith("  Starting vLLM: ")
    assert not any("open-sesame" in line for line in node.said)
