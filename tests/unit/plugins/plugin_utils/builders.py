# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of GB10 machines by the contract (docs/contracts.md), small and typed, with the values of real ones.

Memory class A (125442868 kB), driver 580.142, Docker 29.2.1, kernel 6.17.0-1014-nvidia and the names of the ConnectX-7 functions are
what recorded machines print. A builder returns a healthy idle machine; tests change what they are about.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ansible_collections.gb10.cluster.plugins.plugin_utils._plan import make_plan, read_settings
from ansible_collections.gb10.cluster.plugins.plugin_utils._recipes import load_recipe

GIB = 2**30
TOTAL = 125442868 * 1024
HOME = "/home/aurora"
CACHE = f"{HOME}/.cache/huggingface"
REFERENCE = "qwen3.5-122b-a10b-fp8"
HEAD, WORKER = "spark-head", "spark-worker"

Facts = dict[str, Any]
Plan = dict[str, Any]


def port(cage: int, twin: int, address: str | None = None, *, up: bool = True, mtu: int = 9000, prefix: int = 24, scope: str = "global") -> Facts:
    """One of the four ConnectX-7 functions."""
    p2 = "P2" if twin else ""
    entry: Facts = {
        "netdev": f"en{p2 or ''}p1s0f{cage}np{cage}" if twin else f"enp1s0f{cage}np{cage}",
        "hca": f"roce{p2}p1s0f{cage}",
        "pci": f"000{2 * twin}:01:00.{cage}",
        "cage": cage,
        "twin": twin,
        "carrier": up,
        "operstate": "up" if up else "down",
        "speed": 200000 if up else None,
        "mtu": mtu,
        "addresses": [{"address": address, "prefix": prefix, "scope": scope}] if address else [],
        "state": "ACTIVE" if up else "DOWN",
        "rate": 200 if up else 40,
    }
    return entry


def cabled(number: int, cage: int = 1, **changes: Any) -> list[Facts]:
    """All four functions, the cable in one cage, both twins addressed: 192.168.200.<number> and 192.168.201.<number>."""
    other = 1 - cage
    first, second = (changes.pop(key, default) for key, default in (("first", f"192.168.200.{number}"), ("second", f"192.168.201.{number}")))
    return [port(cage, 0, first, **changes), port(cage, 1, second, **changes), port(other, 0, up=False, mtu=1500), port(other, 1, up=False, mtu=1500)]


def spark(number: int = 12, management: str = "192.0.2.10", **changes: Any) -> Facts:
    """An idle Spark that nothing is wrong with. ``changes`` replace top-level facts."""
    interface = "enP7s7"
    facts: Facts = {
        "schema": 1,
        "source": "live",
        "root": False,
        "identity": {"hostname": f"spark-{number}", "vendor": "NVIDIA", "product": "NVIDIA_DGX_Spark", "family": "DGX Spark", "gb10": True},
        "os": {"id": "ubuntu", "version": "24.04", "name": "Ubuntu 24.04.3 LTS"},
        "kernel": {"release": "6.17.0-1014-nvidia", "machine": "aarch64", "cmdline": ""},
        "memory": {"total": TOTAL, "free": 112 * GIB, "available": 116 * GIB, "swap_total": 0, "swap_free": 0},
        "gpu": {
            "present": True,
            "driver": "580.142",
            "cuda": "13.0",
            "devices": [{"index": 0, "name": "NVIDIA GB10", "compute_capability": "12.1"}],
            "processes": [],
        },
        "fabric": {
            "ports": cabled(number),
            "interfaces": [
                {
                    "name": interface,
                    "kind": "ethernet",
                    "operstate": "up",
                    "mtu": 1500,
                    "addresses": [{"address": management, "prefix": 24, "scope": "global"}],
                }
            ],
            "routes": [
                {"destination": "default", "gateway": "192.0.2.1", "interface": interface},
                {"destination": "192.0.2.0/24", "interface": interface},
            ],
            "ssh": {"interface": interface, "address": management, "peer": "192.0.2.2"},
            "devices": [f"/dev/infiniband/{name}" for name in ("by-ibdev", "rdma_cm", "umad0", "uverbs0", "uverbs1")],
        },
        "docker": {
            "available": True,
            "version": "29.2.1",
            "root_dir": "/var/lib/docker",
            "storage_driver": "overlay2",
            "runtimes": ["runc"],
            "images": [],
            "containers": [],
            "volumes": [],
        },
        "workloads": [],
        "models": {"cache": CACHE, "exists": True, "owner": "aurora", "repositories": []},
        "disk": [
            {"path": CACHE, "mount": "/", "filesystem": "ext4", "total": 3700 * GIB, "free": 3000 * GIB},
            {"path": "/var/lib/docker", "mount": "/", "filesystem": "ext4", "total": 3700 * GIB, "free": 3000 * GIB},
        ],
        "services": {"listening": [{"address": "0.0.0.0", "port": 22}], "units": []},
        "python": {"version": "3.12.3", "executable": "/usr/bin/python3", "requests": True},
        "user": {"name": "aurora", "uid": 1000, "gid": 1000, "home": HOME, "groups": ["aurora", "docker"]},
        "probes": {"nvidia_smi": {"status": "ok", "seconds": 0.3}},
    }
    facts.update(deepcopy(changes))
    return facts


def worker(number: int = 13, **changes: Any) -> Facts:
    """A Spark that is reached through the head, over the first rail: its session arrives at its rail."""
    facts = spark(number, **changes)
    first = facts["fabric"]["ports"][0]
    facts["fabric"]["interfaces"] = []
    facts["fabric"]["routes"] = []
    if first["addresses"]:
        facts["fabric"]["ssh"] = {"interface": first["netdev"], "address": first["addresses"][0]["address"], "peer": "192.168.200.12"}
    return facts


def container(name: str, **changes: Any) -> Facts:
    """A running container of somebody else."""
    return {
        "id": f"{name}-id",
        "name": name,
        "image": "vllm-node:latest",
        "running": True,
        "state": "running",
        "pid": 4711,
        "restart_policy": "unless-stopped",
        "labels": {},
        "ports": [],
        **changes,
    }


def workload(name: str, memory: int, **changes: Any) -> Facts:
    """Somebody who holds memory, a container unless told otherwise."""
    return {"name": name, "kind": "container", "memory": memory, "pids": [4711], "managed": False, **changes}


def hold(facts: Facts, *held: tuple[str, int]) -> Facts:
    """The machine with these containers running, each with its memory (bytes), and that much less available."""
    for name, memory in held:
        facts["docker"]["containers"].append(container(name))
        facts["workloads"].append(workload(name, memory))
    facts["workloads"].sort(key=lambda row: -row["memory"])
    facts["memory"]["available"] = TOTAL - 2 * GIB - sum(row["memory"] for row in facts["workloads"])
    return facts


def used_head() -> Facts:
    """The head of the reference story: 104 of 119 GiB held by three containers."""
    return hold(spark(), ("vllm_node", 92 * GIB), ("vllm_embeddings", 7 * GIB), ("reranker", 3 * GIB))


def twin() -> dict[str, Facts | None]:
    """Two idle Sparks on one cable, the second behind the first."""
    return {HEAD: spark(), WORKER: worker()}


def row(count: int) -> dict[str, Facts | None]:
    """That many idle Sparks on one switch."""
    return {f"spark-{i}": spark(12 + i, f"192.0.2.{10 + i}") for i in range(count)}


def plan(facts: dict[str, Facts | None], overrides: Facts | None = None, recipe: str = REFERENCE, **variables: Any) -> Plan:
    """The plan for these facts. ``variables`` are those of the user without their prefix: ``reclaim=[...]``."""
    resolved = load_recipe(recipe, [], overrides)
    settings = read_settings({f"gb10_{name}": value for name, value in variables.items()}, resolved)
    return make_plan(facts, resolved, settings)


def ids(plan_: Plan, severity: str | None = None) -> list[str]:
    """The ids of the plan's findings, of one severity if it is given."""
    return [finding["id"] for finding in plan_["findings"] if severity in (None, finding["severity"])]
