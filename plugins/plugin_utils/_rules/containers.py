# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers that are there: how they were started, and what that means for the machine. Those of others are never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .base import Case, case, node_rule
from .context import Context, Node, listing, sized

#: From here on a restart policy is a loop.
LOOP = 3
#: /dev/shm of a container is unified memory, and a rank needs a few GiB of it at most, bytes.
LARGE_SHM = 16 * 2**30


def _host(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a container was started, empty if that is unknown."""
    host = row.get("host")
    return host if isinstance(host, Mapping) else {}


def _names(rows: Iterable[Mapping[str, Any]]) -> str:
    """Containers by name, as text."""
    return listing(str(row.get("name")) for row in rows)


def _shown(rows: Iterable[Mapping[str, Any]], details: Iterable[str]) -> str:
    """Containers by name, each with a detail in brackets."""
    return listing(f"{row.get('name')} ({detail})" for row, detail in zip(rows, details))


@node_rule(
    "docker.restart_loop",
    "warn",
    "A container is started again and again.",
    source="https://github.com/eugr/spark-vllm-docker/issues/257",
)
def restart_loop(context: Context, node: Node) -> Case | None:
    """Each node with containers of others that their policy restarted three times or more: each round may leave memory behind."""
    rows = [row for row in node.rows("docker.containers") if isinstance(row.get("restart_count"), int) and row["restart_count"] >= LOOP]
    rows = [row for row in rows if "gb10.deployment" not in (row.get("labels") or {}) and row.get("state") in ("running", "restarting")]
    if not rows:
        return None
    names = [str(row.get("name")) for row in rows]
    counts = [f"{row['restart_count']} times" for row in rows]
    return case(
        node,
        f"{_shown(rows, counts)} of {node.name} was restarted by Docker.",
        "A container that fails stays down after a few attempts; an engine that restarts for ever has taken whole machines with it.",
        f"`docker logs --tail 50 {names[0]}` on {node.name} says why; `docker update --restart=on-failure:3 {' '.join(names)}` bounds it.",
        "docker.containers",
    )


@node_rule(
    "docker.privileged",
    "info",
    "A container runs with all rights on the machine.",
    source="https://docs.docker.com/engine/containers/run/#runtime-privilege-and-linux-capabilities",
)
def privileged(context: Context, node: Node) -> Case | None:
    """Each node with running privileged containers. RDMA and the GPU need devices and one capability, not this."""
    rows = [row for row in node.rows("docker.containers") if row.get("running") and _host(row).get("privileged") is True]
    if not rows:
        return None
    return case(
        node,
        f"{_names(rows)} of {node.name} run{'s' * (len(rows) == 1)} privileged.",
        "An engine needs the GPU, /dev/infiniband and the capability IPC_LOCK.",
        "Nothing has to be done; containers of this collection are never privileged.",
        "docker.containers",
    )


@node_rule(
    "docker.shm_large",
    "info",
    "A container may fill much unified memory with shared memory.",
    source="https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/issues/31",
)
def shm_large(context: Context, node: Node) -> Case | None:
    """Each node with running containers whose own /dev/shm may grow beyond 16 GiB. With ``--ipc host`` they have none of their own."""
    rows = [row for row in node.rows("docker.containers") if row.get("running") and _host(row).get("ipc_mode") != "host"]
    rows = [row for row in rows if isinstance(_host(row).get("shm_size"), int) and _host(row)["shm_size"] > LARGE_SHM]
    if not rows:
        return None
    return case(
        node,
        f"{_shown(rows, [sized(_host(row)['shm_size']) for row in rows])} of {node.name} may use that much shared memory.",
        f"Shared memory is unified memory too: at most {sized(LARGE_SHM)} a container.",
        "Nothing has to be done as long as it is not filled; lower --shm-size when the container is made again.",
        "docker.containers",
    )


@node_rule(
    "docker.memory_limit",
    "info",
    "A container's memory limit does not hold for what the GPU takes.",
    source="https://lab-stack.com/blog/dgx-spark-memory-hard-wall",
)
def memory_limit(context: Context, node: Node) -> Case | None:
    """Each node with running containers that have a limit: the driver allocates outside of it."""
    rows = [row for row in node.running() if (_host(row).get("memory_limit") or 0) > 0]
    if not rows:
        return None
    return case(
        node,
        f"{_shown(rows, [sized(_host(row)['memory_limit']) for row in rows])} of {node.name} has a memory limit.",
        "A limit of Docker bounds what processes take, not what the GPU takes of the same memory.",
        "Do not count on it: bound the engine by its own arguments.",
        "docker.containers",
    )


@node_rule(
    "docker.auto_remove",
    "info",
    "A server was started with --rm: it is gone after a stop or a reboot.",
    source="https://github.com/NVIDIA/NemoClaw/issues/4886",
    explained_by=("memory.reclaim_lost",),
)
def auto_remove(context: Context, node: Node) -> Case | None:
    """Each node with running containers of others that remove themselves, and hold the GPU or listen."""
    serving = {row.get("name") for row in node.rows("workloads") if row.get("kind") == "container"}
    rows = [row for row in node.running() if _host(row).get("auto_remove") is True and (row.get("name") in serving or row.get("ports"))]
    if not rows:
        return None
    return case(
        node,
        f"{_names(rows)} of {node.name} was started with --rm, so nothing brings it back after a stop.",
        "A service has a container that stays, and a unit or a restart policy.",
        "Nothing has to be done if somebody starts it by hand each time.",
        "docker.containers",
    )


@node_rule(
    "docker.no_rdma",
    "info",
    "A container is set up for NCCL and has no RDMA device, so it uses TCP at a tenth of the bandwidth.",
    source="https://corti.com/serving-nemotron-super-120b-with-a-1m-token-context-on-a-2-node-dgx-spark-cluster/",
    several=True,
)
def no_rdma(context: Context, node: Node) -> Case | None:
    """Each node with running containers that have variables of NCCL and none of /dev/infiniband."""
    rows = [
        row
        for row in node.running()
        if isinstance(_host(row).get("devices"), list)
        and not _host(row).get("privileged")
        and not any("/dev/infiniband" in str(device) for device in _host(row)["devices"])
        and any(str(name).startswith("NCCL_") for name in row.get("environment") or {})
    ]
    if not rows:
        return None
    return case(
        node,
        f"{_names(rows)} of {node.name} has variables of NCCL and no /dev/infiniband.",
        "A rank has the RDMA devices of the machine: 186.9 Gb/s were measured with them, 16 without.",
        f"When it is made again: `--device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1` on {node.name}.",
        "docker.containers",
    )
