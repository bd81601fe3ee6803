# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule fires where it should, says what matters, and is quiet otherwise. Cases are in tables, one file a topic."""

from __future__ import annotations

import re

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules import RULES
from cases_docker import CASES as DOCKER
from cases_fabric import CASES as FABRIC
from cases_gpu import CASES as GPU
from cases_image import CASES as IMAGE
from cases_memory import CASES as MEMORY
from cases_node import CASES as NODE
from cases_path import CASES as PATH
from cases_recipe import CASES as RECIPE
from cases_shape import CASES as SHAPE
from healthy import HEAD, HEALTHY_HEAD, HEALTHY_WORKER, RECORDED, WORKER
from replay import planned, replayed
from stories import Story

CASES: list[Story] = [*GPU, *MEMORY, *DOCKER, *IMAGE, *FABRIC, *SHAPE, *PATH, *RECIPE, *NODE]
NAMES = [f"{number}-{case.rule}-{'quiet' if case.says is None else 'fires'}" for number, case in enumerate(CASES)]
#: What an idle healthy pair is told before its first deployment.
FIRST = {"image.missing", "model.missing", "memory.swap"}


def test_an_idle_healthy_pair() -> None:
    facts = {HEAD: replayed(RECORDED, *HEALTHY_HEAD), WORKER: replayed(RECORDED, *HEALTHY_WORKER)}
    # A probe that asks for more than the pair answers would make cases quiet for the wrong reason.
    assert {name for name, probe in (facts[HEAD] or {})["probes"].items() if probe["status"] != "ok"} == set()
    made = planned(facts, api_key=True)
    assert {finding["id"] for finding in made["findings"]} == FIRST
    assert made["ok"]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_case(case: Story) -> None:
    made = case.plan()
    found = [finding for finding in made["findings"] if finding["id"] == case.rule]
    if case.says is None:
        assert not found, found
        return
    texts = [f"{finding['observed']} {finding['remedy']}" for finding in found]
    assert any(re.search(case.says, text) for text in texts), texts or [finding["id"] for finding in made["findings"]]
    for finding in found:
        assert finding["severity"] == RULES[case.rule].severity
        assert finding["nodes"] and set(finding["nodes"]) <= set(made["ranks"])
        assert all(finding[key].endswith((".", "?")) for key in ("observed", "expected", "remedy")), finding
    assert not made["ok"] or RULES[case.rule].severity != "block"


def test_every_rule_is_tested_both_ways() -> None:
    assert {case.rule for case in CASES if case.says is not None} == set(RULES)
    assert {case.rule for case in CASES if case.says is None} == set(RULES)
