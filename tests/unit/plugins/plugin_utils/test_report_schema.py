# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""report.json is what docs/report.schema.json says: for every kind, for built machines and for recorded ones."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._report import KINDS, build, markdown, page, terminal
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.equality import equality
from builders import HEAD, WORKER, container, plan, row, spark, twin, used_head, worker
from test_plan_recordings import NAMES, facts_of, peer_of
from test_report import COMMANDS, COMPLETION

SCHEMA = json.loads((Path(__file__).resolve().parents[4] / "docs" / "report.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
COMMUNITY = {"provider": "exa", "entries": [{"title": "a", "url": "https://example.com", "excerpt": "b", "about": ["model"], "score": 0.5}]}


def document(kind: str, facts: dict[str, Any], results: dict[str, Any] | None = None, previous: dict[str, Any] | None = None) -> dict[str, Any]:
    return build(kind, facts, plan(facts), results, "2026-11-30T15:00:00+01:00", COMMANDS, True, COMMUNITY, previous, "0.1.0")


def faults(made: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in VALIDATOR.iter_errors(made)]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("facts", [twin(), {HEAD: used_head(), WORKER: None}, {HEAD: {}, WORKER: {"schema": 1}}, {HEAD: spark()}, row(4)])
@pytest.mark.parametrize("results", [None, {"completion": COMPLETION, "models": ["qwen"], "changes": ["a"]}, {"msg": "refused"}])
def test_every_kind_of_report(kind: str, facts: dict[str, Any], results: dict[str, Any] | None) -> None:
    before = document(kind, facts, results)
    assert faults(before) == []
    after = document(kind, {**facts, HEAD: None}, results, before)
    assert after["drift"]["changes"]
    assert faults(after) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_machine(name: str) -> None:
    facts = facts_of(name)
    made = document("recon", {HEAD: facts, WORKER: peer_of(facts)})
    assert faults(made) == []
    assert page(made).startswith("<!DOCTYPE html>")
    assert markdown(made).startswith("# ")
    assert len(terminal(made)) > 10


def test_without_a_plan() -> None:
    assert faults(build("recon", {HEAD: spark(), WORKER: {"unreachable": "timed out"}}, None)) == []


def test_the_points_of_comparison_are_those_of_the_code() -> None:
    known = [entry["what"] for entry in equality(twin(), None)]
    assert SCHEMA["$defs"]["comparison"]["properties"]["what"]["enum"] == known


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema", "gb10-report/2"),
        ("kind", "other"),
        ("ok", "yes"),
        ("nodes.spark-head.memory.total", -1),
        ("nodes.spark-head.serial", "1"),
        ("nodes.spark-head.ports", {}),
        ("findings.0.severity", "fatal"),
        ("equality.0.equal", "unknown"),
        ("drift", {"since": ""}),
        ("surplus", 1),
    ],
)
def test_it_is_strict_enough_to_find_this(path: str, value: Any) -> None:
    head = used_head()
    head["docker"]["containers"].append(container("gb10-vllm"))
    made = deepcopy(document("recon", {HEAD: head, WORKER: worker()}))
    *way, last = path.split(".")
    record: Any = made
    for key in way:
        record = record[int(key)] if isinstance(record, list) else record[key]
    record[last] = value
    assert len(faults(made)) == 1
