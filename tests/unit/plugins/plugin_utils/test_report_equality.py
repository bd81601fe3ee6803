# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is the same on all nodes, what is not, and what nobody knows."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._report import build, terminal
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.equality import CLOCK_MARGIN, equality, equality_lines
from builders import HEAD, WORKER, Facts, plan, spark, twin, worker

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def pair(**changes: Any) -> tuple[Facts, Facts]:
    head, other = spark(**changes), worker(**changes)
    for facts in (head, other):
        facts["time"] = {"epoch": 1796054700.0, "synchronized": True}
    return head, other


def row(what: str, head: Facts | None, other: Facts | None, made: dict[str, Any] | None = None) -> dict[str, Any]:
    facts = {HEAD: head, WORKER: other}
    rows = equality(facts, made if made is not None else plan(facts))
    return next(entry for entry in rows if entry["what"] == what)


def image(**changes: Any) -> Facts:
    return {"id": "sha256:" + "1" * 64, "tags": ["mine:1"], "digests": [], **changes}


PLAN = {"ranks": [HEAD, WORKER], "image": {"run": "mine:1", "pull": "mine:1"}, "model": {"repo": "a/b", "revision": "c" * 40}}


def test_rows_are_always_the_same_in_the_order_of_ranks() -> None:
    full = equality(twin(), plan(twin()))
    none = equality({WORKER: None, HEAD: {"unreachable": "timed out"}}, {"ranks": [HEAD, WORKER]})
    assert [entry["what"] for entry in full] == [entry["what"] for entry in none]
    assert all(list(entry["values"]) == [HEAD, WORKER] for entry in none)
    assert all(set(entry["values"].values()) == {None} and entry["equal"] is None for entry in none)


@pytest.mark.parametrize(
    ("what", "path", "values"),
    [
        ("driver", ("gpu", "driver"), ("580.142", "580.95.05")),
        ("kernel", ("kernel", "release"), ("6.17.0-1014-nvidia", "6.11.0-1016-nvidia")),
        ("OTA version", ("identity", "ota_version"), ("7.4.0", "7.3.1")),
        ("BIOS", ("identity", "bios_version"), ("5.36_0ACUM018", "5.35")),
        ("Docker", ("docker", "version"), ("29.2.1", "28.3.3")),
        ("image store", ("docker", "store"), ("overlay2", "containerd")),
        ("container toolkit", ("docker", "toolkit"), ("1.18.1", "1.17.8")),
        ("Python", ("python", "version"), ("3.12.3", "3.11.2")),
    ],
)
def test_equal_different_and_not_known(what: str, path: tuple[str, str], values: tuple[str, str]) -> None:
    head, other = pair()
    head[path[0]][path[1]] = other[path[0]][path[1]] = values[0]
    assert row(what, head, other)["equal"] is True
    other[path[0]][path[1]] = values[1]
    assert row(what, head, other) == {"what": what, "values": dict(zip((HEAD, WORKER), values, strict=True)), "equal": False}
    del other[path[0]][path[1]]
    assert row(what, head, other) == {"what": what, "values": {HEAD: values[0], WORKER: None}, "equal": None}


def test_a_known_difference_is_not_hidden_by_a_node_that_did_not_answer() -> None:
    head, other = pair()
    other["gpu"]["driver"] = "580.95.05"
    rows = equality({"a": head, "b": other, "c": None}, None)
    assert next(entry for entry in rows if entry["what"] == "driver")["equal"] is False


def test_firmware_of_all_functions() -> None:
    head, other = pair()
    for port in (*head["fabric"]["ports"], *other["fabric"]["ports"]):
        port["firmware"] = "28.45.4028"
    assert row("ConnectX firmware", head, other)["equal"] is True
    other["fabric"]["ports"][0]["firmware"] = "28.43.2038"
    assert row("ConnectX firmware", head, other)["values"][WORKER] == "28.43.2038 and 28.45.4028"


class TestImage:
    def images(self, head: list[Facts], other: list[Facts]) -> dict[str, Any]:
        first, second = pair()
        first["docker"]["images"], second["docker"]["images"] = head, other
        return row("image", first, second, PLAN)

    def test_a_digest_in_common_is_equal_whatever_the_ids(self) -> None:
        made = self.images([image(digests=[f"x@{OTHER}", f"x@{DIGEST}"])], [image(id="sha256:" + "2" * 64, digests=[f"y@{DIGEST}"])])
        assert made == {"what": "image", "values": {HEAD: DIGEST, WORKER: DIGEST}, "equal": True}

    def test_other_digests_differ(self) -> None:
        assert self.images([image(digests=[f"x@{DIGEST}"])], [image(digests=[f"x@{OTHER}"])])["equal"] is False

    def test_without_digests_the_layers_tell(self) -> None:
        assert self.images([image(layers=DIGEST)], [image(layers=DIGEST, id="sha256:" + "2" * 64)])["equal"] is True
        assert self.images([image(layers=DIGEST)], [image(layers=OTHER)])["equal"] is False
        # One was pulled, one was copied: only the layers can be compared.
        assert self.images([image(layers=DIGEST, digests=[f"x@{OTHER}"])], [image(layers=DIGEST)])["equal"] is True

    def test_equal_ids_alone_prove_nothing(self) -> None:
        assert self.images([image()], [image()]) == {"what": "image", "values": {HEAD: None, WORKER: None}, "equal": None}

    def test_absent_is_known_and_unreadable_is_not(self) -> None:
        assert self.images([image(layers=DIGEST)], []) == {"what": "image", "values": {HEAD: DIGEST, WORKER: "not there"}, "equal": False}
        head, other = pair()
        head["docker"]["images"] = [image(layers=DIGEST)]
        del other["docker"]["images"]
        assert row("image", head, other, PLAN)["equal"] is None

    def test_by_digest_without_a_tag(self) -> None:
        named = {**PLAN, "image": {"run": f"mine@{DIGEST}"}}
        head, other = pair()
        head["docker"]["images"] = other["docker"]["images"] = [image(tags=[], digests=[f"mine@{DIGEST}"])]
        assert row("image", head, other, named)["equal"] is True


@pytest.mark.parametrize(
    ("revisions", "value", "equal"),
    [
        ([{"revision": "c" * 40, "complete": True}], "cccccccccccc complete", True),
        ([{"revision": "c" * 40, "complete": False}], "cccccccccccc incomplete", False),
        ([{"revision": "c" * 40}], None, None),
        ([{"revision": "d" * 40, "complete": True}], "not there", False),
    ],
)
def test_revision_of_the_model(revisions: list[Facts], value: str | None, equal: bool | None) -> None:
    head, other = pair()
    head["models"]["repositories"] = [{"repo": "a/b", "revisions": [{"revision": "c" * 40, "complete": True}]}]
    other["models"]["repositories"] = [{"repo": "a/b", "revisions": revisions}]
    made = row("model revision", head, other, PLAN)
    assert (made["values"][WORKER], made["equal"]) == (value, equal)


def test_mtu_of_the_rails_and_of_nothing_else() -> None:
    head, other = pair()
    other["fabric"]["ports"][2]["mtu"] = 4200
    assert row("MTU of the rails", head, other) == {"what": "MTU of the rails", "values": {HEAD: "9000", WORKER: "9000"}, "equal": True}
    other["fabric"]["ports"][1]["mtu"] = 1500
    assert row("MTU of the rails", head, other)["values"][WORKER] == "1500 and 9000"


SAME_TIME = f"within {CLOCK_MARGIN} s"


@pytest.mark.parametrize(
    ("seconds", "said", "equal"),
    [(3, SAME_TIME, True), (CLOCK_MARGIN, SAME_TIME, True), (CLOCK_MARGIN + 1, "+121 s", False), (-3600, "-3600 s", False)],
)
def test_clocks(seconds: int, said: str, equal: bool) -> None:
    head, other = pair()
    other["time"]["epoch"] += seconds
    assert row("clock", head, other) == {"what": "clock", "values": {HEAD: SAME_TIME, WORKER: said}, "equal": equal}


def test_clocks_of_recordings_of_different_days_are_not_compared() -> None:
    head, other = pair(source="recording")
    assert row("clock", head, other)["equal"] is True, "of one run"
    other["time"]["epoch"] += 86400
    assert row("clock", head, other)["equal"] is None


class TestSentence:
    def lines(self, head: Facts, other: Facts | None) -> str:
        facts = {HEAD: head, WORKER: other}
        made = build("recon", facts, plan(facts))
        said = " ".join(line.text for line in equality_lines(made))
        # The screen has it, in its own place.
        assert said.split(".")[0] in " ".join(line.text for line in terminal(made))
        return said

    def test_only_differences_are_listed(self) -> None:
        head, other = pair()
        other["gpu"]["driver"] = "580.95.05"
        said = self.lines(head, other)
        assert "The nodes differ in driver (spark-head 580.142, spark-worker 580.95.05)." in said
        assert "kernel" not in said

    def test_alike(self) -> None:
        head, other = pair()
        facts = {HEAD: head, WORKER: other}
        same = sum(1 for entry in equality(facts, plan(facts)) if entry["equal"])
        assert self.lines(head, other).startswith(f"The nodes do not differ in what is known: {same} points are equal")

    def test_a_node_that_did_not_answer_is_not_compared(self) -> None:
        assert self.lines(pair()[0], None) == ""


def test_a_single_node_is_compared_with_nothing() -> None:
    facts = {HEAD: spark()}
    assert "equality" not in build("recon", facts, plan(facts, {"nodes": 1, "tensor_parallel": 1}))


def test_the_facts_are_not_touched() -> None:
    facts = twin()
    before = deepcopy(facts)
    equality(facts, plan(facts))
    assert facts == before
