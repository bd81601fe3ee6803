# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for all rules: how they are registered, which ones are silent for whose sake, and the documented table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules import RULES, table
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules.base import SEVERITIES, rule
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules.recipe import argument, docker_size, number
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules.variables import chosen_hcas, unknown_hcas
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules.versions import requirement_met, version
from cases_gpu import MISMATCH
from healthy import HEAD, HEALTHY_HEAD, HEALTHY_WORKER, RECORDED, WORKER
from replay import RECORDINGS, Facts, Patch, answers, planned, replayed
from stories import SINGLE

PAGE = Path(__file__).resolve().parents[5] / "docs" / "findings.md"
HCAS = ("rocep1s0f0", "rocep1s0f1", "roceP2p1s0f1")
#: What each recorded machine is told on its own, apart from information: a machine that is in use, or that was not asked everything.
ALONE = {
    "gigabyte-f0-cabled": {"docker.unavailable", "memory.occupied", "node.facts_incomplete"},
    "lab-head-used": {"memory.occupied", "platform.architecture", "port.taken"},
    "lab-worker-idle": {"platform.architecture", "interface.no_default_route"},
    "pgx-vllm": {"memory.occupied", "port.taken"},
    "spark-idle": set(),
    "spark-nvidia-smi-hangs": {"docker.unavailable", "gpu.unreachable"},
    "spark-uncabled": {"docker.group"},
}


def pair(*head: Patch) -> dict[str, Facts | None]:
    """A healthy pair with a change at its head."""
    return {HEAD: replayed(RECORDED, *HEALTHY_HEAD, *head), WORKER: replayed(RECORDED, *HEALTHY_WORKER)}


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDINGS.glob("*.json")))
def test_what_a_recorded_machine_is_told(name: str) -> None:
    made = planned({"a": replayed(name)}, SINGLE, api_key=True)
    assert {finding["id"] for finding in made["findings"] if finding["severity"] != "info"} == ALONE[name]


def test_there_are_rules_for_what_can_be_seen() -> None:
    assert len(RULES) >= 70


def test_every_rule_says_where_it_comes_from() -> None:
    for entry in RULES.values():
        assert entry.source.startswith("https://") or (PAGE.parents[1] / entry.source).is_file(), entry.id
        assert entry.summary.endswith(".") and entry.check.__doc__, entry.id


def test_a_cause_is_a_rule_and_no_milder_than_what_it_explains() -> None:
    for entry in RULES.values():
        for cause in entry.explained_by:
            assert SEVERITIES.index(RULES[cause].severity) <= SEVERITIES.index(entry.severity), (entry.id, cause)


def test_a_rule_needs_a_free_id_and_a_known_severity() -> None:
    for id_, severity in (("memory.occupied", "block"), ("memory", "block"), ("memory.new", "fatal")):
        with pytest.raises(ValueError, match="a rule needs"):
            rule(id_, severity, "Summary.", source="docs/contracts.md")


def test_a_cause_that_was_accepted_explains_nothing_away() -> None:
    facts = pair(MISMATCH)
    assert "gpu.unreachable" not in {finding["id"] for finding in planned(facts)["findings"]}
    made = planned(facts, accept=["gpu.driver_mismatch"])
    assert "gpu.unreachable" in {finding["id"] for finding in made["findings"]}
    assert not made["ok"]


def test_a_cause_on_one_node_explains_nothing_on_another() -> None:
    facts = pair(MISMATCH)
    facts[WORKER] = replayed(RECORDED, *HEALTHY_WORKER, answers("nvidia-smi", rc=124))
    found = {finding["id"]: finding["nodes"] for finding in planned(facts)["findings"]}
    assert found["gpu.driver_mismatch"] == [HEAD]
    assert found["gpu.unreachable"] == [WORKER]


def test_the_fabric_is_nothing_to_a_single_node() -> None:
    facts = replayed(RECORDED)
    assert facts is not None
    facts["fabric"] = {"ports": [], "interfaces": [], "routes": facts["fabric"]["routes"], "ssh": {}}
    found = {finding["id"] for finding in planned({"a": facts}, SINGLE)["findings"]}
    assert not found & {id_ for id_, entry in RULES.items() if entry.several}
    assert all(entry.several for id_, entry in RULES.items() if id_.startswith(("fabric.", "drift.")))


def test_the_same_facts_give_the_same_findings_in_the_same_order() -> None:
    facts = pair(MISMATCH)
    assert planned(facts)["findings"] == planned(facts)["findings"]
    severities = [SEVERITIES.index(finding["severity"]) for finding in planned(facts)["findings"]]
    assert severities == sorted(severities)


#: What may be said of a healthy pair of which one fact is not known: that it is not known, or what a port without it looks like.
UNKNOWN = {"node.facts_incomplete", "gpu.unreachable", "fabric.twin_without_address", "fabric.port_elsewhere", "fabric.no_gid"}
UNKNOWN |= {"interface.no_default_route", "image.missing", "model.missing", "memory.swap"}


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all facts, those of probes and of the names of ports left out."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        if key not in ("probes", "netdev"):
            yield (*way, key)
            yield from places(entry, (*way, key))


@pytest.mark.parametrize("start", range(5))
def test_a_fact_that_is_not_known_is_neither_a_fault_nor_a_defect(start: int) -> None:
    facts = pair()
    for way in list(places(facts[HEAD]))[start::15]:
        known = json.loads(json.dumps(facts))
        place = known[HEAD]
        for key in way[:-1]:
            place = place[key]
        del place[way[-1]]
        assert {finding["id"] for finding in planned(known, api_key=True)["findings"]} <= UNKNOWN, way


def test_the_table_has_every_rule_once() -> None:
    lines = table().splitlines()
    assert len(lines) == len(RULES) + 2
    for id_, entry in RULES.items():
        nodes = "several" if entry.several else "any"
        assert any(line.startswith(f"| `{id_}` | {entry.severity} | {nodes} | {entry.summary} |") for line in lines), id_


def test_the_documented_table_is_the_codes() -> None:
    assert PAGE.read_text().endswith("\n\n" + table()), "write the new table into docs/findings.md"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("580.142", (580, 142)),
        ("6.17.0-1014-nvidia", (6, 17, 0, 1014)),
        ("7.0.0-1019.19", (7, 0, 0, 1019, 19)),
        ("rc1", None),
        (None, None),
        ("", None),
    ],
)
def test_versions(text: str | None, numbers: tuple[int, ...] | None) -> None:
    assert version(text) == numbers


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("", True),
        ("cuda>=13.0", True),
        ("cuda>=13.1", False),
        ("cuda>=13.0.0", True),
        ("cuda==13.0", True),
        ("cuda=12.9", False),
        ("cuda!=13.0", False),
        ("driver<580", False),
        ("driver<=580.142", True),
        ("driver>580", True),
        ("cuda>=13.1 driver>=580", True),
        ("driver>=580,cuda>=13.1", False),
        ("brand=tesla,driver>=535,driver<536", False),
        ("brand=tesla", True),
        ("arch", True),
        ("cuda>=new", True),
    ],
)
def test_what_an_image_requires(requirement: str, met: bool) -> None:
    assert requirement_met(requirement, (580, 142), (13, 0)) is met
    assert requirement_met(requirement, None, None) is True


@pytest.mark.parametrize(
    ("value", "unknown", "chosen"),
    [
        (None, [], list(HCAS)),
        ("=rocep1s0f1", [], ["rocep1s0f1"]),
        ("=rocep1s0f1:1,roceP2p1s0f1:1", [], ["rocep1s0f1", "roceP2p1s0f1"]),
        ("rocep1", [], ["rocep1s0f0", "rocep1s0f1"]),
        ("=rocep1", ["rocep1"], []),
        ("mlx5_0,rocep1s0f1", ["mlx5_0"], ["rocep1s0f1"]),
        ("^rocep1s0f1", [], ["rocep1s0f0", "roceP2p1s0f1"]),
        ("^=mlx5_0", [], list(HCAS)),
    ],
)
def test_the_grammar_of_hcas(value: str | None, unknown: list[str], chosen: list[str]) -> None:
    assert unknown_hcas(value or "", HCAS) == unknown
    assert chosen_hcas(value, HCAS) == chosen


def test_engine_arguments() -> None:
    words = ["--max-model-len", "8192", "--gpu_memory_utilization=0.7", "--flag", "--gpu-memory-utilization", "0.8", "--last"]
    assert argument(words, "--gpu-memory-utilization") == "0.8"
    assert argument(words, "--max-model-len") == "8192"
    assert argument(words, "--last") is None
    assert argument(words, "--none") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("8192", 8192), ("64k", 64000), ("64K", 65536), ("0.8", 0.8), ("1M", 2**20), ("auto", None), (".", None), (None, None), ("1.2.3", None)],
)
def test_numbers_as_the_engine_reads_them(text: str | None, value: float | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "size"),
    [("16g", 16 * 2**30), ("64gb", 64 * 2**30), ("16GiB", 16 * 2**30), ("512", 512), ("1.5m", 1572864), ("much", None), ("", None), (".", None)],
)
def test_sizes_as_docker_reads_them(text: str, size: int | None) -> None:
    assert docker_size(text) == size
