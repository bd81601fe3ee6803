"""After recon.yml on the used twin: the report tells the reference story, and the worker is reachable through the head alone."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from testinfra.host import Host

GIB = 1 << 30


def test_the_head_is_occupied_and_by_whom(report: dict[str, Any]) -> None:
    blocking = {finding["id"]: finding for finding in report["plan"]["findings"] if finding["severity"] == "block" and not finding["accepted"]}
    # vllm_node holds the memory, and the API's port as well: one consent mends both
    assert set(blocking) == {"memory.occupied", "port.taken"}
    assert all(finding["nodes"] == ["spark-head"] for finding in blocking.values())
    assert all('{"gb10_reclaim": ["vllm_node"]}' in finding["remedy"] for finding in blocking.values())
    for name in ("vllm_node", "vllm_embeddings", "reranker"):
        assert name in blocking["memory.occupied"]["observed"]
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


def test_the_controller_reaches_the_worker_through_the_head_alone(nodes: dict[str, Host]) -> None:
    """Asks this machine's routing table; nothing is sent."""
    direct = subprocess.run(["ip", "route", "get", "192.168.200.13"], capture_output=True, text=True, check=False)
    assert direct.returncode != 0, direct.stdout
    assert "unreachable" in direct.stderr or "No route to host" in direct.stderr
    peer = nodes["spark-worker"].check_output("echo $SSH_CONNECTION").split()[0]
    assert peer == "192.168.200.12", "the worker sees the head's end of the cable as its client"
