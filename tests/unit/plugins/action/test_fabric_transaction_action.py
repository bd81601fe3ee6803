# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of the transaction: a new connection before the confirmation, a controller that cannot come back, a module that was interrupted."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gb10.cluster.plugins.action import fabric_transaction
from drivers import LOST, Node

RAILS = [{"netdev": "enp1s0f0np0", "address": "192.168.200.12/24"}]
DIFF = {"before": "", "after": "x", "before_header": "f", "after_header": "f"}
BASE = {"changed": True, "state": "new", "commands": [["netplan", "generate"]], "messages": [], "diff": DIFF}
PENDING = {**BASE, "pending": True, "deadline": 1.0, "reverts_at": "2026-11-30 15:01:00 UTC", "seconds_left": 50.0}
KEPT = {**BASE, "commands": [], "diff": {}, "messages": ["kept"], "invocation": {}}
SAME = {**BASE, "same_connection": True}


def test_made_and_confirmed_over_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, fabric_transaction, {**PENDING, "messages": ["made"]}, KEPT)
    result = node.run(rails=RAILS, management={"interface": "enP7s7", "address": "192.168.1.10"})
    assert result == {**BASE, "messages": ["made", "kept"]}
    assert [call["phase"] for call in node.calls] == ["apply", "confirm"]
    assert node.calls[0]["token"] == node.calls[1]["token"] != ""
    assert node.resets == 1


def test_two_runs_have_nothing_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Node(monkeypatch, fabric_transaction, KEPT) for _ in range(2))
    first.run(rails=RAILS)
    second.run(rails=RAILS)
    assert first.calls[0]["token"] != second.calls[0]["token"]


@pytest.mark.parametrize("check", [True, False])
def test_without_a_change_the_connection_stays(monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    node = Node(monkeypatch, fabric_transaction, {**BASE, "changed": check})
    result = node.run(check_mode=check, rails=RAILS)
    assert result["changed"] is check
    assert (len(node.calls), node.resets) == (1, 0)


def test_what_the_module_refuses_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(
        monkeypatch, fabric_transaction, {**BASE, "changed": False, "state": "old", "failed": True, "msg": "40-cx7.yaml claims it", "busy": False}
    )
    result = node.run(rails=RAILS)
    assert (result["failed"], result["msg"], result["state"], "busy" in result) == (True, "40-cx7.yaml claims it", "old", False)
    assert len(node.calls) == 1


def test_it_tries_again_as_long_as_the_node_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, fabric_transaction, PENDING, LOST, SAME, {"failed": True, "busy": True, "msg": "Another run"}, KEPT)
    assert node.run(rails=RAILS)["state"] == "new"
    assert node.resets == 4


@pytest.mark.parametrize(
    ("answer", "why"),
    [(LOST, "Failed to connect to the host via ssh: Connection timed out"), (SAME, "the old connection could not be dropped")],
)
def test_a_controller_that_cannot_come_back_says_what_will_happen(monkeypatch: pytest.MonkeyPatch, answer: Any, why: str) -> None:
    node = Node(monkeypatch, fabric_transaction, PENDING, answer)
    result = node.run(rails=RAILS)
    assert (result["failed"], result["state"], result["reverts_at"]) == (True, "old", PENDING["reverts_at"])
    assert result["msg"] == (
        f"spark-head could not be reached over a new connection after the change of its rails ({why}). "
        "It takes the change back by itself at 2026-11-30 15:01:00 UTC: wait for that, look at the cables and run again."
    )
    # Bounded by what the node gives, and one attempt beyond it at most.
    assert 40 <= node.now - 1000 - node.seconds <= 50 + node.seconds


def test_the_node_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    reverted = {**BASE, "failed": True, "changed": False, "state": "old", "commands": [], "msg": "The node reverted the change at noon: too late."}
    result = Node(monkeypatch, fabric_transaction, PENDING, LOST, reverted).run(rails=RAILS)
    assert (result["failed"], result["changed"], result["state"]) == (True, False, "old")
    assert result["msg"] == "The node reverted the change at noon: too late."


def test_a_connection_lost_in_the_middle_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, fabric_transaction, LOST, KEPT)
    result = node.run(rails=RAILS)
    assert (result["changed"], result["state"]) == (True, "new")
    assert result["messages"][0].startswith("The connection was lost while the change was made (Failed to connect")


def test_and_given_up_within_the_nodes_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, fabric_transaction, LOST)
    result = node.run(rails=RAILS, revert_after=30)
    assert "by itself within 30 s of the change" in result["msg"]
    assert node.now - 1000 <= 30 + node.seconds


def test_in_check_mode_a_lost_connection_is_just_that(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleConnectionFailure):
        Node(monkeypatch, fabric_transaction, LOST).run(check_mode=True, rails=RAILS)


def test_a_module_that_was_killed_is_followed_by_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    back = {"failed": True, "state": "old", "msg": "The change was interrupted on the node before it was checked, and was taken back: run again."}
    node = Node(monkeypatch, fabric_transaction, {"failed": True, "msg": "MODULE FAILURE: Killed", "module_stdout": "Killed"}, back)
    result = node.run(rails=RAILS)
    assert [call["phase"] for call in node.calls] == ["apply", "confirm"]
    assert result["msg"] == f"The change was interrupted (MODULE FAILURE: Killed). {back['msg']}"
    assert (result["failed"], result["state"], result["module_stdout"]) == (True, "old", "Killed")


def test_and_if_the_node_is_gone_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Node(monkeypatch, fabric_transaction, {"failed": True, "msg": "Killed"}, LOST).run(rails=RAILS)
    assert "what was begun it takes back by itself within 60 s" in result["msg"]
