# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles read off the plan and the facts."""

from __future__ import annotations

import json

from ansible_collections.gb10.cluster.plugins.filter.plan_views import blocking, rail_bytes, reclaim_record


def finding(name: str, severity: str = "block", accepted: bool = False) -> dict[str, object]:
    return {"id": name, "severity": severity, "accepted": accepted, "nodes": ["spark-head"], "observed": f"{name} seen.", "remedy": f"Mend {name}."}


def test_only_what_blocks_and_is_not_accepted_is_named() -> None:
    text = blocking(
        {"findings": [finding("memory.occupied"), finding("platform.architecture", accepted=True), finding("memory.swap", "info")]},
        "Stopped, because:",
    )
    assert text.splitlines() == ["Stopped, because:", "  memory.occupied on spark-head: memory.occupied seen. Mend memory.occupied."]


def test_both_kinds_of_counters_count_and_only_those_of_the_rails() -> None:
    ports = [
        {"netdev": "enp1s0f1np1", "rx_bytes": 1, "tx_bytes": 20, "rdma_rx_bytes": 300, "rdma_tx_bytes": 4000},
        {"netdev": "enP2p1s0f1np1", "rx_bytes": 50000, "tx_bytes": 0},
        {"netdev": "enp1s0f0np0", "rx_bytes": 7_000_000, "tx_bytes": 0},
    ]
    assert rail_bytes({"fabric": {"ports": ports}}, [{"netdev": "enp1s0f1np1"}, {"netdev": "enP2p1s0f1np1"}]) == 54321


def test_the_record_holds_what_a_restart_needs_and_no_environment() -> None:
    container = {
        "name": "vllm_node",
        "id": "abc",
        "image": "vllm-node:latest",
        "image_id": "sha256:1",
        "restart_policy": "always",
        "labels": {"token": "x"},
    }
    assert json.loads(reclaim_record(container)) == {
        "name": "vllm_node", "id": "abc", "image": "vllm-node:latest", "image_id": "sha256:1", "restart_policy": "always",
    }  # fmt: skip
