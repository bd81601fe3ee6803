# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed since the last report, what is only noise, and a last report that is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._report import SCHEMA, build, markdown, page, terminal
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.drift import compare
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.previous import find_previous, put_aside
from builders import GIB, HEAD, WORKER, Facts, hold, plan, spark, used_head, worker

NODES = [HEAD, WORKER]
Changed = tuple[str | None, str, str | None, str | None]


def cluster() -> dict[str, Any]:
    facts: dict[str, Any] = {HEAD: used_head(), WORKER: worker()}
    for entry in facts.values():
        entry["kernel"]["uptime"] = 90000.0
        entry["time"] = {"epoch": 1796054700.0, "synchronized": True}
        entry["identity"] |= {"ota_version": "7.3.1", "bios_version": "5.35"}
        entry["docker"] |= {"toolkit": "1.18.1", "images": [{"id": "1", "tags": ["a:1"], "digests": [], "layers": "sha256:" + "1" * 64}]}
        entry["models"]["repositories"] = [{"repo": "a/b", "revisions": [{"revision": "c" * 40, "complete": True}]}]
        for port in entry["fabric"]["ports"]:
            port["firmware"] = "28.43.2038"
    return facts


def report(facts: dict[str, Any], previous: dict[str, Any] | None = None, kind: str = "recon") -> dict[str, Any]:
    return build(kind, facts, plan(facts), generated="2026-11-30T15:00:00+01:00", previous=previous)


def drift(change: Callable[[dict[str, Any]], Any], findings: bool = False) -> list[Changed]:
    """What is said after this change, without findings unless they are asked for."""
    before = report(cluster())
    facts = cluster()
    change(facts)
    record = report(facts, before)["drift"]
    assert record["since"] == "2026-11-30T15:00:00+01:00"
    changes = [(entry["node"], entry["what"], entry["before"], entry["after"]) for entry in record["changes"]]
    return [entry for entry in changes if findings or not entry[1].startswith("finding ")]


def put(facts: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    record = facts[HEAD]
    for key in way:
        record = record[int(key)] if isinstance(record, list) else record[key]
    record[int(last) if isinstance(record, list) else last] = value


def test_the_same_again_is_no_change() -> None:
    assert drift(lambda facts: None, findings=True) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("memory.free", 3 * GIB),
        ("memory.cached", 30 * GIB),
        ("gpu.devices.0.temperature", 71),
        ("gpu.devices.0.utilization", 96),
        ("workloads.0.pids", [815]),
        ("workloads.0.memory", 93 * GIB),
        ("docker.containers.0.pid", 815),
        ("disk.0.free", 2999 * GIB),
        ("time.epoch", 1796054760.0),
        ("kernel.uptime", 90060.0),
        ("seconds", 2.5),
    ],
)
def test_what_breathes_is_no_change(path: str, value: Any) -> None:
    def breathe(facts: dict[str, Any]) -> None:
        facts[HEAD]["seconds"] = 1.0
        put(facts, path, value)

    assert drift(breathe) == []


@pytest.mark.parametrize(
    ("path", "value", "change"),
    [
        ("kernel.release", "7.0.0-1019-nvidia", ("kernel", "6.17.0-1014-nvidia", "7.0.0-1019-nvidia")),
        ("gpu.driver", "590.48.01", ("driver", "580.142", "590.48.01")),
        ("identity.ota_version", "7.4.0", ("OTA version", "7.3.1", "7.4.0")),
        ("identity.bios_version", "5.36", ("BIOS", "5.35", "5.36")),
        ("docker.version", "29.3.0", ("Docker", "29.2.1", "29.3.0")),
        ("docker.toolkit", "1.19.0", ("container toolkit", "1.18.1", "1.19.0")),
        ("fabric.ports.0.mtu", 1500, ("MTU of enp1s0f1np1", "9000", "1500")),
        ("fabric.ports.0.speed", 100000, ("speed of enp1s0f1np1", "200 Gb/s", "100 Gb/s")),
        ("fabric.ports.0.addresses", [], ("addresses of enp1s0f1np1", "192.168.200.12/24", "none")),
        ("fabric.ports.0.firmware", "28.45.4028", ("ConnectX firmware", "28.43.2038", "28.45.4028")),
        ("docker.images.0.layers", "sha256:" + "2" * 64, ("image a:1", "1" * 12, "2" * 12)),
        ("docker.images", [], ("image a:1", "1" * 12, None)),
        ("models.repositories.0.revisions.0.complete", False, ("model a/b", "c" * 12 + " complete", "c" * 12 + " incomplete")),
        ("models.repositories", [], ("model a/b", "c" * 12 + " complete", None)),
    ],
)
def test_what_is_worth_telling(path: str, value: Any, change: tuple[str, str | None, str | None]) -> None:
    assert drift(lambda facts: put(facts, path, value)) == [(HEAD, *change)]


def test_a_link_that_went() -> None:
    def unplug(facts: dict[str, Any]) -> None:
        facts[HEAD]["fabric"]["ports"][0] |= {"carrier": False, "speed": None}

    assert (HEAD, "link of enp1s0f1np1", "up", "no link") in drift(unplug)


def test_ports_that_went_with_the_cable() -> None:
    gone = drift(lambda facts: put(facts, "fabric.ports", facts[HEAD]["fabric"]["ports"][:3]))
    assert gone == [(HEAD, "port enP2p1s0f0np0", "there", None)]


def test_firmware_is_said_once_for_all_functions() -> None:
    def flash(facts: dict[str, Any]) -> None:
        for port in facts[WORKER]["fabric"]["ports"]:
            port["firmware"] = "28.45.4028"

    assert drift(flash) == [(WORKER, "ConnectX firmware", "28.43.2038", "28.45.4028")]


def test_holders_that_came_and_went_by_name() -> None:
    def move(facts: dict[str, Any]) -> None:
        facts[HEAD]["workloads"] = [row for row in facts[HEAD]["workloads"] if row["name"] != "reranker"]
        hold(facts[WORKER], ("ollama", 20 * GIB))
        facts[WORKER]["workloads"].append({"name": "gnome-shell", "kind": "process", "memory": 1.2 * GIB, "pids": [9]})

    assert drift(move) == [(HEAD, "holder reranker", "3.0 GiB", None), (WORKER, "holder ollama", None, "20.0 GiB")]


def test_findings_that_came_and_went() -> None:
    def free(facts: dict[str, Any]) -> None:
        fresh = cluster()[WORKER]
        facts[HEAD]["workloads"], facts[HEAD]["memory"] = [], fresh["memory"]
        facts[HEAD]["docker"]["containers"] = []
        facts[WORKER]["fabric"]["ports"][0]["mtu"] = 1500

    changes = drift(free, findings=True)
    assert (None, "finding memory.occupied on spark-head", "block", None) in changes
    assert any(what.startswith("finding fabric.mtu_mismatch") and before is None and after == "block" for _n, what, before, after in changes)


@pytest.mark.parametrize(
    ("uptime", "epoch", "synchronized", "rebooted"),
    [
        (600.0, 1796054760.0, True, True),
        (600.0, 1796054760.0, None, True),
        # Up for longer than then, but the time between was longer still.
        (100000.0, 1796054700.0 + 500000, True, True),
        (100000.0, 1796054700.0 + 500000, False, False),
        (100000.0, 1796054700.0 + 10000, True, False),
    ],
)
def test_boots(uptime: float, epoch: float, synchronized: bool | None, rebooted: bool) -> None:
    def boot(facts: dict[str, Any]) -> None:
        facts[HEAD]["kernel"]["uptime"] = uptime
        facts[HEAD]["time"] = {"epoch": epoch, "synchronized": synchronized}

    assert [what for _node, what, _before, _after in drift(boot)] == (["boot"] if rebooted else [])


def test_a_node_that_does_not_answer_any_more() -> None:
    changes = drift(lambda facts: facts.update({WORKER: None}))
    assert [entry for entry in changes if entry[0]] == [(WORKER, "answers", "yes", "no")]


def test_what_could_not_be_read_has_not_changed() -> None:
    def blind(facts: dict[str, Any]) -> None:
        for key in ("gpu", "workloads", "docker", "models"):
            del facts[HEAD][key]
        del facts[HEAD]["fabric"]["ports"]

    assert [entry for entry in drift(blind) if entry[0]] == []


def test_the_order_is_always_the_same() -> None:
    def all_at_once(facts: dict[str, Any]) -> None:
        for host in (WORKER, HEAD):
            facts[host]["kernel"]["release"] = "7.0.0-1019-nvidia"
            facts[host]["docker"]["images"] = [{"tags": [name], "digests": [], "layers": "x"} for name in ("z:1", "b:1")]

    assert [(node, what) for node, what, _before, _after in drift(all_at_once)] == [
        (host, what) for host in (HEAD, WORKER) for what in ("kernel", "image a:1", "image b:1", "image z:1")
    ]


class TestScreen:
    def lines(self, diff: bool, changed: bool = True) -> str:
        before = report(cluster())
        facts = cluster()
        if changed:
            facts[HEAD]["kernel"]["release"] = "7.0.0-1019-nvidia"
            hold(facts[WORKER], ("ollama", 20 * GIB))
            facts[HEAD]["docker"]["images"] = []
        made = report(facts, before)
        assert ("7.0.0-1019-nvidia" in markdown(made).split("## Since 2026-11-30 15:00")[1]) == changed
        assert "Since the last report" in page(made)
        # The rules may have something to say about it too.
        self.count = len(made["drift"]["changes"])
        return "\n".join(line.text for line in terminal(made, diff))

    def test_one_line_without_diff(self) -> None:
        said = self.lines(False)
        assert f"Since 2026-11-30 15:00: {self.count} changes; --diff shows them." in said
        assert "kernel: 6.17" not in said

    def test_a_block_with_it(self) -> None:
        said = self.lines(True)
        assert f"Since 2026-11-30 15:00 ({self.count} changes)\n" in said
        assert "  ~ spark-head: kernel: 6.17.0-1014-nvidia → 7.0.0-1019-nvidia\n" in said
        assert "  - spark-head: image a:1 is gone (111111111111)\n" in said
        assert "  + spark-worker: holder ollama is new (20.0 GiB)\n" in said

    @pytest.mark.parametrize("diff", [True, False])
    def test_nothing_changed(self, diff: bool) -> None:
        assert "Since 2026-11-30 15:00: no change worth telling." in self.lines(diff, changed=False)

    def test_no_report_before(self) -> None:
        assert "Since" not in "\n".join(line.text for line in terminal(report(cluster()), True))


class TestPrevious:
    """The file is anybody's: nothing in it may stop a run, and nothing of it may be lost."""

    def keep(self, folder: Path, document: Any, name: str = "report.json") -> None:
        (folder / name).write_text(document if isinstance(document, str) else json.dumps(document))

    def test_none(self, tmp_path: Path) -> None:
        assert find_previous(str(tmp_path / "absent"), "recon", NODES, SCHEMA) == (None, "")
        assert put_aside(str(tmp_path), "recon", NODES, SCHEMA) == ""

    def test_its_successor_replaces_it(self, tmp_path: Path) -> None:
        before = report(cluster())
        self.keep(tmp_path, before)
        assert find_previous(str(tmp_path), "recon", NODES, SCHEMA) == (before, "")
        assert put_aside(str(tmp_path), "recon", NODES, SCHEMA) == ""
        assert (tmp_path / "report.json").exists()

    def test_one_of_another_kind_makes_room_and_is_found_again(self, tmp_path: Path) -> None:
        before = report(cluster())
        self.keep(tmp_path, before)
        assert find_previous(str(tmp_path), "site", NODES, SCHEMA) == (None, "")
        assert put_aside(str(tmp_path), "site", NODES, SCHEMA) == "report-recon.json"
        self.keep(tmp_path, report(cluster(), kind="site"))
        assert find_previous(str(tmp_path), "recon", NODES, SCHEMA) == (before, "")

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("", "it is not JSON"),
            ('{"schema": "gb10-report/1", "kind"', "it is not JSON"),
            ("[" * 100_000, "it is not JSON"),
            ("[]", "it is no gb10-report/1 document"),
            ('{"schema": "gb10-report/2"}', "it is no gb10-report/1 document"),
            ('{"schema": "gb10-report/1", "kind": "recon", "nodes": []}', "it has no kind, nodes or findings"),
            ('{"schema": "gb10-report/1", "kind": "recon", "nodes": {"other": null}, "findings": []}', "it is of other nodes (other)"),
        ],
    )
    def test_a_corrupt_or_foreign_one_is_one_sentence_and_kept(self, tmp_path: Path, content: str, words: str) -> None:
        self.keep(tmp_path, content)
        (tmp_path / "report.json.1").touch()
        found = find_previous(str(tmp_path), "recon", NODES, SCHEMA)
        assert found.document is None
        assert found.remark.startswith(f"Nothing is compared with {tmp_path / 'report.json'}: {words}")
        assert "\n" not in found.remark
        assert put_aside(str(tmp_path), "recon", NODES, SCHEMA) == "report.json.2"
        assert (tmp_path / "report.json.2").read_text() == content

    def test_bytes_and_directories(self, tmp_path: Path) -> None:
        (tmp_path / "report.json").write_bytes(b"\xff\xfe{}")
        assert "it is not text in UTF-8" in find_previous(str(tmp_path), "recon", NODES, SCHEMA).remark
        (tmp_path / "report.json").unlink()
        (tmp_path / "report.json").mkdir()
        assert "Is a directory" in find_previous(str(tmp_path), "recon", NODES, SCHEMA).remark

    def test_a_kind_is_no_path(self, tmp_path: Path) -> None:
        self.keep(tmp_path, {**report(cluster()), "kind": "../../x"})
        assert put_aside(str(tmp_path), "recon", NODES, SCHEMA) == "report.json.1"

    @pytest.mark.parametrize(
        "nodes",
        [
            {HEAD: "text", WORKER: 7},
            {HEAD: {"ports": "x", "workloads": [1], "units": {}}, WORKER: None},
            {HEAD: {"uptime": "long", "docker": {"image_list": [{}]}}, WORKER: {}},
        ],
    )
    def test_one_that_is_built_otherwise_is_not_compared(self, nodes: Any) -> None:
        after = report(cluster())
        before = {**deepcopy(after), "nodes": nodes}
        assert compare(before, after) is None
        assert "drift" not in report(cluster(), before)


def test_other_names_of_the_same_machine_are_other_nodes(tmp_path: Path) -> None:
    facts: dict[str, Facts] = {"a": spark(), "b": worker()}
    (tmp_path / "report.json").write_text(json.dumps(report(facts)))
    assert "it is of other nodes (a and b)" in find_previous(str(tmp_path), "recon", NODES, SCHEMA).remark
