# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a machine printed to the plan: the two ends of the way of the data meet in the contract."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import gather, select
from ansible_collections.gb10.cluster.plugins.module_utils._runner import load_recording
from builders import Facts, ids, plan

RECORDINGS = Path(__file__).resolve().parents[2] / "fixtures" / "recordings"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.json"))
SINGLE: Facts = {"nodes": 1, "tensor_parallel": 1, "model": {"size": 60 * 10**9}}


def facts_of(name: str) -> Facts:
    """The facts of a recorded machine."""
    facts: Facts = json.loads(json.dumps(gather(load_recording(str(RECORDINGS / f"{name}.json")), select(["all"]), 10)))
    return facts


def peer_of(facts: Facts) -> Facts:
    """A machine at the other end of its cable: the same one, with the next address on each rail, and nothing on it."""
    peer = deepcopy(facts)
    for port in peer["fabric"]["ports"]:
        for entry in [*port["addresses"], *(gid for gid in port.get("gids", []) if "address" in gid)]:
            head, _, last = entry["address"].rpartition(".")
            entry["address"] = f"{head}.{int(last) ^ 1}"
    for row in [*peer["fabric"]["ports"], *peer["fabric"]["interfaces"]]:
        row["mac"] = f"06:{row['mac'][3:]}"
    peer["ssh"] = {"host_keys": []}
    peer["workloads"] = []
    return peer


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_machine_can_be_planned_for(name: str) -> None:
    facts = facts_of(name)
    alone = plan({"a": facts}, SINGLE)
    both: dict[str, Any] = plan({"a": facts, "b": peer_of(facts)})
    for made in (alone, both):
        assert json.loads(json.dumps(made)) == made
        assert not {"platform.not_gb10", "platform.architecture", "gpu.absent", "deployment.world_size"} & set(ids(made)) or "lab" in name
    assert not [id_ for id_ in ids(alone) if id_.startswith("fabric.")]
    if any(port.get("carrier") and port["addresses"] for port in facts["fabric"]["ports"]):
        assert both["nodes"]["a"]["environment"]["NCCL_IB_HCA"].startswith("=roce")
        assert both["nodes"]["b"]["fabric_address"] != both["nodes"]["a"]["fabric_address"]
    else:
        assert {"fabric.no_rail", "fabric.no_address"} & set(ids(both, "block"))


def test_the_used_head_of_the_lab() -> None:
    facts = facts_of("lab-head-used")
    made = plan({"a": facts, "b": peer_of(facts)}, accept=["platform.architecture"])
    finding = next(finding for finding in made["findings"] if finding["id"] == "memory.occupied")
    assert finding["nodes"] == ["a"]
    assert '["vllm_node"]' in finding["remedy"]
    assert finding["observed"].index("vllm_node") < finding["observed"].index("vllm_embeddings") < finding["observed"].index("reranker")
