"""After recon.yml on the used twin: the report tells the reference story, and the worker is reachable through the head alone."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from testinfra.host import Host

GIB = 1 << 30


def test_the_head_is_occupied_and_by_whom(report: dict[str, Any]) -> None:
    blocking = [finding for finding in report["plan"]["findings"] if finding["severity"] == "block" and not finding["accepted"]]
    assert [finding["id"] for finding in blocking] == ["memory.occupied"]
    occupied = blocking[0]
    assert occupied["nodes"] == ["spark-head"]
    for name in ("vllm_node", "vllm_embeddings", "reranker"):
        assert name in occupied["observed"]
    assert "gb10_reclaim" in occupied["remedy"]
    assert "vllm_node" in occupied["remedy"]
    assert not report["plan"]["ok"]


def test_the_twin_without_an_address_is_seen(report: dict[str, Any]) -> None:
    assert "fabric.twin_without_address" in {finding["id"] for finding in report["plan"]["findings"]}


def test_the_plan_fits_what_the_lab_is(report: dict[str, Any]) -> None:
    plan = report["plan"]
    assert plan["ranks"] == ["spark-head", "spark-worker"]
    memory = plan["nodes"]["spark-head"]["memory"]
    assert 119 * GIB < memory["total"] < 120 * GIB
    assert memory["total"] - memory["available"] > 103 * GIB
    assert plan["nodes"]["spark-worker"]["memory"]["fits"]
    assert {rail["hca"] for rail in plan["nodes"]["spark-worker"]["rails"]} >= {"rocep1s0f1"}


def test_the_worker_has_no_network_but_the_cable(nodes: dict[str, Host]) -> None:
    interfaces = json.loads(nodes["spark-worker"].check_output("ip -json address"))
    addressed = {link["ifname"] for link in interfaces if any(a["family"] == "inet" for a in link["addr_info"])}
    assert addressed <= {"lo", "docker0", "enp1s0f1np1", "enP2p1s0f1np1"}
    assert json.loads(nodes["spark-worker"].check_output("ip -json route show default")) == []


def test_the_controller_has_no_route_to_the_cable(nodes: dict[str, Host]) -> None:
    """Asks the kernel's routing table alone; nothing is sent."""
    rails = json.loads(nodes["spark-worker"].check_output("ip -json route"))
    subnets = {route["dst"] for route in rails if route["dev"].startswith("en")}
    assert "192.168.200.0/24" in subnets
    here = json.loads(subprocess.run(["ip", "-json", "route"], check=True, capture_output=True, text=True).stdout)
    assert not subnets & {route["dst"] for route in here}
