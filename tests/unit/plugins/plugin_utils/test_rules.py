# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stories in which rules and planner work together. What each rule sees is in rules/, on recorded machines."""

from __future__ import annotations

import pytest
from builders import (
    GIB,
    HEAD,
    WORKER,
    Facts,
    hold,
    ids,
    plan,
    spark,
    used_head,
    worker,
    workload,
)


def test_an_accepted_finding_stays_and_does_not_block() -> None:
    facts: dict[str, Facts | None] = {HEAD: spark(kernel={"machine": "x86_64"}), WORKER: worker()}
    assert not plan(facts)["ok"]
    made = plan(facts, accept=["platform.architecture"])
    assert made["ok"]
    assert [finding["accepted"] for finding in made["findings"] if finding["id"] == "platform.architecture"] == [True]


def test_the_reference_story() -> None:
    facts = {HEAD: used_head(), WORKER: worker()}
    refused = plan(facts)
    assert not refused["ok"]
    assert ids(refused, "block") == ["memory.occupied"]
    finding = refused["findings"][0]
    assert finding["nodes"] == [HEAD]
    assert """-e '{"gb10_reclaim": ["vllm_node"]}'""" in finding["remedy"]
    assert "vllm_embeddings" not in finding["remedy"]
    agreed = plan(facts, reclaim=["vllm_node"])
    assert agreed["ok"]
    assert agreed["nodes"][HEAD]["reclaim"] == ["vllm_node"]
    assert agreed["nodes"][HEAD]["memory"]["reclaimed"] == 92 * GIB
    assert agreed["nodes"][WORKER]["reclaim"] == []


@pytest.mark.parametrize(
    ("held", "remedy"),
    [
        ([("a", 60), ("b", 30), ("c", 10)], '"gb10_reclaim": ["a", "b"]'),
        ([("a", 100), ("b", 5)], '"gb10_reclaim": ["a"]'),
        ([("a", 9), ("b", 6)], '"gb10_reclaim": ["a"]'),
    ],
)
def test_the_fewest_stops_that_suffice(held: list[tuple[str, int]], remedy: str) -> None:
    facts = hold(spark(), *((name, size * GIB) for name, size in held))
    facts["memory"]["available"] = min(facts["memory"]["available"], 102 * GIB)
    made = plan({HEAD: facts, WORKER: worker()})
    assert remedy + "}" in next(finding["remedy"] for finding in made["findings"] if finding["id"] == "memory.occupied")


def test_no_stop_suffices_where_a_process_holds_the_memory() -> None:
    facts = hold(spark(), ("small", GIB))
    facts["workloads"].append(workload("llama-server", 90 * GIB, kind="process"))
    facts["memory"]["available"] = 25 * GIB
    finding = plan({HEAD: facts, WORKER: worker()})["findings"][0]
    assert "llama-server (pid 4711) 90.0 GiB" in finding["observed"]
    assert "would still leave 80.3 GiB too little" in finding["remedy"]


def test_memory_that_is_not_known_is_not_nothing() -> None:
    facts = hold(spark(), ("a", 60 * GIB))
    facts["workloads"] = [
        {"name": "a", "kind": "container", "rss": 60 * GIB, "pids": [1]},
        {"name": "b", "kind": "container", "pids": [2]},
        *(workload(f"c{i}", GIB) for i in range(6)),
    ]
    observed = plan({HEAD: facts, WORKER: worker()})["findings"][0]["observed"]
    assert "a at least 60.0 GiB" in observed
    assert "2 more" in observed
    facts["workloads"] = [{"name": "b", "kind": "container", "pids": [2]}]
    assert "b an unknown amount" in plan({HEAD: facts, WORKER: worker()})["findings"][0]["observed"]
    facts["workloads"] = []
    finding = plan({HEAD: facts, WORKER: worker()})["findings"][0]
    assert "No workload that could be named" in finding["observed"]
    assert "No container can be stopped" in finding["remedy"]


def test_only_some_of_many_probes_are_named() -> None:
    facts = spark()
    for name, fact in (("python", "python"), ("ss", "services"), ("df", "disk"), ("hf_cache", "models"), ("meminfo", "memory"), ("kernel", "kernel")):
        del facts[fact]
        facts["probes"][name] = {"status": "failed", "reason": "x"}
    facts["probes"]["cuda_toolkit"] = {"status": "failed", "reason": "nobody needs it"}
    found = plan({HEAD: facts, WORKER: worker()})["findings"]
    observed = next(finding["observed"] for finding in found if finding["id"] == "node.facts_incomplete")
    assert observed.endswith("Probes: df failed (x); hf_cache failed (x); kernel failed (x); meminfo failed (x); and 2 more.")


def test_a_missing_fact_without_a_reason() -> None:
    facts = spark()
    del facts["memory"]["available"]
    found = plan({HEAD: facts, WORKER: worker()})["findings"]
    observed = next(finding["observed"] for finding in found if finding["id"] == "node.facts_incomplete")
    assert observed == f"Unknown on {HEAD}: the available memory. No probe says why."
