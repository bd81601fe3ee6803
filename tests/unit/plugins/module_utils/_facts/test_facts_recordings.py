# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole machines, from recordings."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import gather, select
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import SUBSETS
from ansible_collections.gb10.cluster.plugins.module_utils._runner import RecordedRunner, load_recording

RECORDINGS = Path(__file__).resolve().parents[3] / "fixtures" / "recordings"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.json"))
GIB = 1024**3
# Probes whose answers nobody has recorded on an idle Spark yet.
NEVER_CAPTURED = (
    "cdi", "container_toolkit", "container_toolkit_mode", "cuda_toolkit", "docker_group", "docker_socket", "firewall", "hotplug", "ip_neigh",
    "ip_neigh_link",
    "kernel_candidate", "kernel_counters", "kernel_images", "kernel_log", "libcuda", "netplan", "network_manager", "networkd", "previous_boot",
    "pstore", "reboot_required", "resolve", "shm", "swaps", "uptime",
)  # fmt: skip
HCAS = {
    "enP2p1s0f0np0": "roceP2p1s0f0",
    "enP2p1s0f1np1": "roceP2p1s0f1",
    "enp1s0f0np0": "rocep1s0f0",
    "enp1s0f1np1": "rocep1s0f1",
}


def facts_of(name: str, *subsets: str) -> dict[str, Any]:
    facts = gather(load_recording(str(RECORDINGS / f"{name}.json")), select(subsets or ["all"]), 10)
    return json.loads(json.dumps(facts))


def ports_of(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {port["netdev"]: port for port in facts["fabric"]["ports"]}


@pytest.mark.parametrize("name", NAMES)
def test_every_recording_says_where_it_is_from(name: str) -> None:
    recording = json.loads((RECORDINGS / f"{name}.json").read_text())
    assert len(recording["provenance"]) > 40
    contents = [entry.get("content") or entry.get("stdout") or "" for entry in recording["entries"]]
    assert {match for content in contents for match in re.findall(r'DGX_SERIAL_NUMBER="?([^"\n]*)', content)} <= {"REDACTED"}


@pytest.mark.parametrize("name", NAMES)
def test_what_holds_for_every_machine(name: str) -> None:
    facts = facts_of(name)
    assert facts["source"] == "recording"
    assert facts["schema"] == 1
    assert facts["identity"]["gb10"] is True
    assert set(facts) <= {*SUBSETS, "schema", "source", "root", "seconds", "probes"}
    assert facts["memory"]["total"] > 119 * GIB
    assert "internal" not in json.dumps(facts["probes"])
    assert {probe["status"] for probe in facts["probes"].values()} <= {"ok", "unavailable", "failed", "timeout"}
    assert _nothing_is_none(facts)
    for port in facts["fabric"]["ports"]:
        assert port["cage"] == int(port["netdev"][-1])
        assert port["twin"] == (1 if "P2" in port["netdev"] else 0)
        assert port["hca"] == "roce" + port["netdev"][2:].rpartition("np")[0]
    assert [port["netdev"] for port in facts["fabric"]["ports"]] == sorted(ports_of(facts))


def test_an_idle_spark() -> None:
    facts = facts_of("spark-idle")
    # Of the newer probes nobody has captured the answers of this machine.
    others = {name: probe["status"] for name, probe in facts["probes"].items() if probe["status"] != "ok"}
    assert others == dict.fromkeys(NEVER_CAPTURED, "unavailable")
    assert facts["identity"]["ota_version"] == "7.3.1"
    assert facts["identity"]["ota_history"] == [{"version": "7.3.1", "date": "Wed Nov 19 05:05:30 PM CET 2025"}]
    assert facts["cpu"] == {"count": 20, "models": ["Cortex-A725", "Cortex-X925"]}
    assert facts["gpu"]["present"] is True
    assert facts["gpu"]["devices"][0]["bus_id"] == "000f:01:00.0"
    assert "memory_total" not in facts["gpu"]["devices"][0]
    assert facts["gpu"]["processes"] == facts["workloads"] == []
    assert facts["docker"]["runtimes"] == ["io.containerd.runc.v2", "runc"]
    assert facts["gpu"]["module"] == {"version": "580.142", "flavor": "open"}
    assert (facts["gpu"]["devices"][0]["state"], "clock" in facts["gpu"]["devices"][0]) == ("P8", False)
    assert (facts["docker"]["unit"], facts["docker"]["store"]) == ("active", "overlay2")
    assert facts["models"] == {
        "cache": "/home/user/.cache/huggingface",
        "exists": False,
        "filesystem": "ext4",
        "environment": {},
        "repositories": [],
    }
    assert facts["root"] is False
    assert facts["limits"] == {"memlock": 16056320000, "nofile": 1024}
    assert facts["fabric"]["ssh"] == {"interface": "enP7s7", "address": "192.168.1.163", "peer": "192.168.1.20"}


def test_the_ports_of_an_idle_spark() -> None:
    ports = ports_of(facts_of("spark-idle"))
    up, down, twin = ports["enp1s0f1np1"], ports["enp1s0f0np0"], ports["enP2p1s0f1np1"]
    assert (up["carrier"], up["speed"], up["state"], up["rate"], up["active_mtu"]) == (True, 200000, "ACTIVE", 200, 1024)
    assert up["addresses"] == [{"address": "169.254.127.30", "prefix": 16, "scope": "link"}]
    assert [gid["index"] for gid in up["gids"] if gid.get("address") == "169.254.127.30"] == [2, 3]
    assert up["rdma_rx_bytes"] == 4096
    assert (up["pci"], twin["pci"]) == ("0000:01:00.1", "0002:01:00.1")
    assert (down["carrier"], down["state"], "speed" in down) == (False, "DOWN", False)
    assert twin["addresses"] == []


def test_a_machine_that_serves() -> None:
    facts = facts_of("pgx-vllm")
    (workload,) = facts["workloads"]
    assert workload["kind"] == "container"
    assert workload["name"] == "aeon_gemma26_dflash_20260608T0436JST"
    assert workload["gpu_memory"] == 89093 * 1024**2
    assert workload["rss"] == 4 * GIB  # anonymous and shared, not the 50 GiB of page cache
    assert workload["memory"] == workload["gpu_memory"] + workload["rss"]
    assert workload["pids"] == [577729]
    assert (workload["engine"], workload["managed"]) == ("vllm", False)
    assert 8000 in [listener["port"] for listener in facts["services"]["listening"]]


def test_hotplug_without_a_cable_is_no_fault() -> None:
    facts = facts_of("spark-uncabled")
    assert facts["fabric"]["ports"] == facts["fabric"]["devices"] == []
    assert facts["fabric"]["ssh"]["interface"] == "wlP9s9"
    assert facts["fabric"]["hotplug"] == {"platform": True, "enabled": True}
    assert {entry["name"]: entry["kind"] for entry in facts["fabric"]["interfaces"]}["wlP9s9"] == "wireless"
    for probe in ("ip_addr", "sysfs_infiniband", "rdma_link", "ibv_devinfo"):
        assert facts["probes"][probe]["status"] == "ok"


def test_a_user_outside_the_docker_group() -> None:
    facts = facts_of("spark-uncabled")
    assert facts["docker"]["available"] is False
    assert "permission denied" in facts["docker"]["reason"]
    assert set(facts["docker"]) == {"available", "reason", "unit"}
    assert facts["docker"]["unit"] == "active"  # the engine runs, this user may not ask it
    assert facts["probes"]["docker_containers"]["status"] == "failed"


def test_a_cable_in_the_other_cage_and_other_tools() -> None:
    facts = facts_of("gigabyte-f0-cabled")
    ports = ports_of(facts)
    assert ports["enP2p1s0f0np0"]["rdma_rx_bytes"] == 22031403016
    assert ports["enp1s0f0np0"]["rdma_tx_bytes"] == 22447376952
    assert [name for name, port in ports.items() if port["carrier"]] == ["enP2p1s0f0np0", "enp1s0f0np0"]
    assert "asked ibstat" in facts["probes"]["ibv_devinfo"]["reason"]
    assert facts["memory"]["swap_free"] == 13608574976 // 1024 * 1024
    assert facts["memory"]["mlocked"] == 25022464
    assert ports["enp1s0f0np0"]["errors"] == {"rx_errors": 0, "tx_errors": 0, "link_downed": 0, "out_of_sequence": 0}
    assert "link_downed" not in ports["enP2p1s0f0np0"].get("errors", {})


@pytest.mark.parametrize("tool", ["rdma", "ibdev2netdev", ""])
def test_netdevs_and_adapters_belong_together_by_whatever_says_so(tool: str) -> None:
    """The kernel's table is left out here; the tools' order is not that of the ports, and without tools PCI functions decide."""
    recording = json.loads((RECORDINGS / "gigabyte-f0-cabled.json").read_text())
    link = [{"ifname": hca, "port": 1, "state": "ACTIVE", "netdev": netdev} for netdev, hca in reversed(HCAS.items())]
    recording["entries"].append({"kind": "command", "argv": ["rdma", "-j", "link"], "rc": 0, "stdout": json.dumps(link)})
    recording["entries"] = [
        entry
        for entry in recording["entries"]
        if not entry.get("path", "").endswith("ndevs/0") and entry.get("argv", [tool])[0] in (tool, "ip", "id", "ibstat")
    ]
    facts = gather(RecordedRunner(recording), select(["fabric"]), 10)
    assert {port["netdev"]: port["hca"] for port in facts["fabric"]["ports"]} == HCAS


def test_what_was_not_recorded_is_absent() -> None:
    facts = facts_of("gigabyte-f0-cabled")
    assert "gpu" not in facts
    assert "workloads" not in facts
    assert facts["docker"] == {"available": False, "reason": "docker: not in the recording", "unit": "active"}


def test_a_gpu_that_does_not_answer_is_still_there() -> None:
    facts = facts_of("spark-nvidia-smi-hangs")
    assert facts["gpu"] == {"present": True, "module": {"version": "580.142", "flavor": "open"}}
    assert facts["probes"]["nvidia_smi"]["status"] == "timeout"
    assert "workloads" not in facts
    assert facts["identity"]["gb10"] is True


def test_the_used_head_of_the_lab() -> None:
    facts = facts_of("lab-head-used")
    held = {workload["name"]: workload["gpu_memory"] // GIB for workload in facts["workloads"]}
    assert list(held.items()) == [("vllm_node", 98), ("vllm_embeddings", 4), ("reranker", 2)]
    assert {workload["engine"] for workload in facts["workloads"]} == {"vllm"}
    assert facts["deployments"] == [{"kind": "spark-vllm-docker", "path": "/home/aurora/spark-vllm-docker"}]
    (repository,) = facts["models"]["repositories"]
    assert len(repository["incomplete"]) == 1
    assert repository["revisions"][0]["complete"] is False
    assert facts["fabric"]["ssh"]["interface"] == "enP7s7"


def test_the_worker_is_reached_over_the_rail() -> None:
    facts = facts_of("lab-worker-idle")
    assert facts["fabric"]["ssh"] == {"interface": "enp1s0f1np1", "address": "192.168.200.13", "peer": "192.168.200.12"}


def test_a_subset_asks_only_its_own_probes() -> None:
    facts = facts_of("spark-idle", "memory", "cpu")
    assert set(facts) == {"schema", "source", "root", "seconds", "probes", "memory", "cpu"}
    assert set(facts["probes"]) == {"id", "meminfo", "cpuinfo", "shm", "swaps"}


def test_an_empty_recording_gives_no_facts_but_reasons() -> None:
    facts = gather(RecordedRunner({"schema": "gb10-recording/1", "host": "x", "entries": []}), select(["all"]), 10)
    assert facts.get("docker") == {"available": False, "reason": "docker: not in the recording"}
    assert set(facts) - {"schema", "source", "seconds", "probes", "docker"} <= {"fabric"}
    assert {probe["status"] for probe in facts["probes"].values()} <= {"ok", "unavailable"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(12))
def test_garbled_answers_cost_only_their_own_facts(name: str, seed: int) -> None:
    dice = random.Random(seed)
    recording = json.loads((RECORDINGS / f"{name}.json").read_text())
    for entry in recording["entries"]:
        field = "stdout" if entry["kind"] == "command" else "content"
        text = entry.get(field)
        if text and dice.random() < 0.3:
            cut = dice.randrange(len(text))
            entry[field] = dice.choice([text[:cut], text[cut:], "\ufffd\n", text.replace("\n", "\r\n"), text * 2])
            entry["rc"] = dice.choice([0, 0, 1, 9, 255])
    facts = gather(RecordedRunner(recording), select(["all"]), 10)
    reasons = {probe: fact.get("reason", "") for probe, fact in facts["probes"].items()}
    # A defect is reported as the type of an error that no probe raises on purpose.
    assert {probe: reason for probe, reason in reasons.items() if re.match(r"\w+Error: ", reason)} == {}
    assert _nothing_is_none(facts)


def _nothing_is_none(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_nothing_is_none, value.values()))
    return all(map(_nothing_is_none, value)) if isinstance(value, list) else value is not None
