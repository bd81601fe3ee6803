# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Ray cluster consists of, and what it lacks: the question to ask inside its container, and the reading of the answer."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._words import count, listing

BEGIN, END = "<<<gb10", "gb10>>>"

# Runs inside the container. Only Ray's public API: init() as a driver without a log, then nodes(), once a second, until the
# cluster is as expected or the time is over. argv: seconds, GPUs (-1: any), addresses.
QUESTION = f"""
import json, sys, time
import ray
seconds, gpus, wanted = float(sys.argv[1]), float(sys.argv[2]), set(sys.argv[3:])
ray.init(address="auto", logging_level="error", log_to_driver=False)
end = time.monotonic() + seconds
while True:
    nodes = [
        {{"address": n["NodeManagerAddress"], "alive": bool(n["Alive"]), "gpus": n.get("Resources", {{}}).get("GPU", 0),
          "cpus": n.get("Resources", {{}}).get("CPU", 0), "memory": n.get("Resources", {{}}).get("memory", 0)}}
        for n in ray.nodes()
    ]
    alive = [n for n in nodes if n["alive"]]
    ready = (not wanted or {{n["address"] for n in alive}} == wanted and len(alive) == len(wanted)) and (
        gpus < 0 or sum(n["gpus"] for n in alive) == gpus)
    if ready or time.monotonic() >= end:
        break
    time.sleep(1)
print("{BEGIN}" + json.dumps(nodes) + "{END}", flush=True)
"""


@dataclass(frozen=True)
class RayNode:
    """One node as Ray sees it; `memory` is what Ray would hand out, in bytes, not what is free."""

    address: str
    alive: bool
    gpus: int
    cpus: int
    memory: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def command(container: str, python: str, seconds: float, nodes: Sequence[str], gpus: int | None) -> list[str]:
    """The question as one asks it from outside."""
    return ["docker", "exec", container, python, "-c", QUESTION, f"{seconds:.1f}", str(-1 if gpus is None else gpus), *nodes]


def parse_nodes(stdout: str) -> list[RayNode]:
    """The answer, by address; raises ParseError where there is none."""
    start, end = stdout.rfind(BEGIN), stdout.rfind(END)
    if start < 0 or end < start:
        raise ParseError("ray", stdout.strip().rpartition("\n")[2])
    text = stdout[start + len(BEGIN) : end]
    try:
        nodes = [
            RayNode(str(entry["address"]), entry["alive"] is True, int(entry["gpus"]), int(entry["cpus"]), int(entry["memory"]))
            for entry in json.loads(text)
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError("ray", text) from error
    return sorted(nodes, key=lambda node: (not node.alive, node.address))


def gpus_of(nodes: Collection[RayNode]) -> int:
    return sum(node.gpus for node in nodes if node.alive)


def lacks(nodes: Collection[RayNode], expected: Sequence[str], gpus: int | None) -> list[str]:
    """What is not as expected, one sentence each, with what to do; empty if the cluster is complete."""
    alive = [node.address for node in nodes if node.alive]
    missing = [address for address in expected if address not in alive]
    strange = sorted({address for address in alive if address not in expected}) if expected else []
    twice = sorted({address for address in alive if alive.count(address) > 1})
    found = []
    if missing:
        died = [address for address in missing if any(node.address == address for node in nodes)]
        found.append(f"{listing(missing)} {'has' if len(missing) == 1 else 'have'} not joined{' (was there and died)' if died == missing else ''}.")
    if strange:
        found.append(
            f"{listing(strange)} joined and {'is' if len(strange) == 1 else 'are'} not planned: a node that registers with another address than its "
            "fabric address (--node-ip-address, VLLM_HOST_IP) or belongs to another cluster."
        )
    if twice:
        found.append(f"{listing(twice)} joined twice: an old Ray still runs there beside ours.")
    if gpus is not None and gpus_of(nodes) != gpus and not missing:
        found.append(
            f"Ray counts {count(gpus_of(nodes), 'GPU')} where {gpus} {'is' if gpus == 1 else 'are'} expected: check --num-gpus on each node."
        )
    return found
