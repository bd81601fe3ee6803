# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each rank runs: the container specs, and what becomes of the containers that are there.

Shapes: ``nodes.*.containers`` of docs/contracts.md. A spec is complete before it is hashed; roles add nothing but secrets.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .._rules.context import DEPLOYMENT_LABEL, PORTS_LABEL, Listener, Node, Recipe, Settings, is_managed
from .environment import HF_HOME, RAY_TOKEN, RAY_TOKEN_INSIDE, server_environment

RAY_PORT = 6379
MASTER_PORT = 29501
#: Ray's object store, bytes. vLLM moves nothing through it; Ray's own default is 30 % of the memory that the model needs.
OBJECT_STORE = 2**30
#: Processes that Ray keeps ready. vLLM's workers ask for a GPU and no CPU; one a core would take memory from the model.
RAY_CPUS = 2
_RDMA_DEVICE = re.compile(r"/dev/infiniband/(uverbs\d+|rdma_cm)")


class Rank:
    """What the containers of one rank are made from."""

    def __init__(self, node: Node, fabric_address: str | None, environment: dict[str, str], cache: str) -> None:
        self.node = node
        self.fabric_address = fabric_address
        self.environment = environment
        self.cache = cache


def ray_containers(rank: Rank, head: str, recipe: Recipe, settings: Settings, image: str, host: str) -> list[dict[str, Any]]:
    """Ray on every rank, and beside it on the head the server, in Ray's namespaces.

    The server finds Ray by its process list, its shared memory and its /tmp: without any of the three it waits for ever.
    ``head`` is the head's fabric address, ``host`` where the API listens.
    """
    first = rank.node.rank == 0
    where = ["--head", f"--port={RAY_PORT}", "--include-dashboard=false", "--disable-usage-stats"] if first else [f"--address={head}:{RAY_PORT}"]
    common = [f"--num-gpus={_gpus(rank.node)}", f"--num-cpus={RAY_CPUS}", f"--object-store-memory={OBJECT_STORE}", "--block"]
    ray = _container(
        rank,
        recipe,
        settings,
        image,
        role="ray",
        entrypoint=["ray"],
        command=["start", *where, f"--node-ip-address={rank.fabric_address}", *common],
        environment=rank.environment,
        ipc_mode="shareable",
        ports=[RAY_PORT] if first else [],
    )
    shared = ["gb10-tmp:/tmp", f"{RAY_TOKEN}:{RAY_TOKEN_INSIDE}:ro"]
    ray["volumes"] = [*shared, *ray["volumes"]]
    if not first:
        return [ray]
    server = _container(
        rank,
        recipe,
        settings,
        image,
        role="vllm",
        entrypoint=["vllm"],
        command=_serve(recipe, settings, host, ["--distributed-executor-backend", "ray"]),
        environment=server_environment(rank.environment, f"{head}:{RAY_PORT}"),
        ipc_mode="container:gb10-ray",
        ports=[settings.api_port],
    )
    # The server does no RDMA and has no shared memory of its own: its workers do that, in Ray's container.
    server |= {"pid_mode": "container:gb10-ray", "shm_size": None, "devices": [], "capabilities": [], "ulimits": []}
    server["volumes"] = [*shared, *server["volumes"]]
    return [ray, server]


def mp_containers(rank: Rank, head: str | None, count: int, recipe: Recipe, settings: Settings, image: str, host: str) -> list[dict[str, Any]]:
    """vLLM's own way over nodes: the same server on every rank, without an API on all but the head. ``head`` is None on a single node."""
    first = rank.node.rank == 0
    arguments: list[str] = []
    if head is not None:
        arguments = ["--distributed-executor-backend", "mp", "--nnodes", str(count), "--node-rank", str(rank.node.rank)]
        arguments += ["--master-addr", head, "--master-port", str(MASTER_PORT)]
    ports = [*([settings.api_port] if first else []), *([MASTER_PORT] if first and head is not None else [])]
    return [
        _container(
            rank,
            recipe,
            settings,
            image,
            role="vllm",
            entrypoint=["vllm"],
            command=_serve(recipe, settings, host if first else None, arguments),
            environment=rank.environment,
            ipc_mode=None,
            ports=ports,
        )
    ]


def listeners(head: str, fabric_address: str | None, host: str, backend: str, settings: Settings) -> tuple[Listener, ...]:
    """The TCP ports that the head needs."""
    needed = [Listener(head, host, settings.api_port, "the API", "gb10_api_port")]
    if fabric_address is not None:
        if backend == "ray":
            needed.append(Listener(head, fabric_address, RAY_PORT, "Ray", ""))
        else:
            needed.append(Listener(head, fabric_address, MASTER_PORT, "the meeting of the ranks", ""))
    return tuple(needed)


def _serve(recipe: Recipe, settings: Settings, host: str | None, backend: Sequence[str]) -> list[str]:
    """The arguments of ``vllm``. Engine arguments must be the same on every rank, or the ranks wait for each other for ever."""
    model = recipe["model"]
    command = ["serve", str(model["repo"]), "--revision", str(model["revision"]), "--served-model-name", str(model["served_name"])]
    command += ["--host", host, "--port", str(settings.api_port)] if host is not None else ["--headless"]
    command += ["--tensor-parallel-size", str(recipe["tensor_parallel"])]
    if recipe["pipeline_parallel"] != 1:
        command += ["--pipeline-parallel-size", str(recipe["pipeline_parallel"])]
    return [*command, *backend, *(str(argument) for argument in recipe["engine_arguments"])]


def _container(
    rank: Rank,
    recipe: Recipe,
    settings: Settings,
    image: str,
    *,
    role: str,
    entrypoint: list[str],
    command: list[str],
    environment: dict[str, str],
    ipc_mode: str | None,
    ports: Sequence[int],
) -> dict[str, Any]:
    """A spec with what all containers have in common. Not privileged: the RDMA devices by name, and the right to lock memory."""
    ulimits = settings.ulimits if settings.ulimits is not None else recipe["container"]["ulimits"]
    devices = _rdma_devices(rank.node) if rank.fabric_address is not None else []
    return {
        "name": f"gb10-{role}",
        "role": role,
        "image": image,
        "entrypoint": entrypoint,
        "command": command,
        "environment": environment,
        "labels": {
            DEPLOYMENT_LABEL: str(recipe["name"]),
            "gb10.role": role,
            "gb10.rank": str(rank.node.rank),
            PORTS_LABEL: ",".join(str(port) for port in ports),
        },
        "volumes": [f"{rank.cache}/hub:{HF_HOME}/hub:ro", "gb10-cache:/root/.cache/vllm"],
        "devices": [f"{device}:{device}" for device in devices],
        "capabilities": ["IPC_LOCK"] if devices else [],
        "ulimits": list(ulimits),
        "shm_size": str(recipe["container"]["shm_size"]),
        "ipc_mode": ipc_mode,
        "pid_mode": None,
        "network_mode": "host",
        "gpus": True,
    }


def _rdma_devices(node: Node) -> list[str]:
    """What RDMA needs of /dev/infiniband: the verbs devices and the connection manager. Links by name and management devices stay out."""
    return [str(device) for device in node.get("fabric.devices") or [] if _RDMA_DEVICE.fullmatch(str(device))]


def _gpus(node: Node) -> int:
    """GPUs of the node; every machine we know has one."""
    return len(node.rows("gpu.devices")) or 1


def spec_hash(container: Mapping[str, Any]) -> str:
    """SHA-256 of a spec, in hex: of everything but ``action`` and the hash itself, whatever the order of the keys."""
    rest = {key: value for key, value in container.items() if key != "action"}
    rest["labels"] = {key: value for key, value in container["labels"].items() if key != "gb10.spec"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def settle(planned: Mapping[str, list[dict[str, Any]]], nodes: Sequence[Node]) -> None:
    """Label every spec with its hash and decide create, replace or keep, in place.

    The ranks are one gang: a rank that joins a cluster which lived before it finds stale peers
    (https://github.com/aws-samples/aws-do-eks/pull/69). So either all containers are kept, or all that exist are replaced.
    """
    by_name = {node.name: node for node in nodes}
    actions = []
    for name, containers in planned.items():
        for container in containers:
            container["labels"]["gb10.spec"] = spec_hash(container)
            container["action"] = _action(by_name[name].container(container["name"]), container["labels"]["gb10.spec"])
            actions.append(container)
    if any(container["action"] != "keep" for container in actions):
        for container in actions:
            if container["action"] == "keep":
                container["action"] = "replace"


def _action(existing: Mapping[str, Any] | None, spec: str) -> str:
    """What becomes of the container that has the name now."""
    if existing is None:
        return "create"
    same = (existing.get("labels") or {}).get("gb10.spec") == spec
    return "keep" if same and existing.get("running") else "replace"


def obsolete(node: Node, planned: Sequence[Mapping[str, Any]]) -> list[str]:
    """Containers of ours on the node that the plan does not have, such as Ray's after a change to mp."""
    names = {container["name"] for container in planned}
    return sorted(str(row["name"]) for row in node.rows("docker.containers") if is_managed(row) and row.get("name") not in names)
