# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else uses the unified memory, what was left behind in it, and what the consented stops mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Case, case, node_rule, rule
from .context import Context, Node, held, is_managed, listing, sized

#: More than a desktop, the kernel and the driver take together, bytes.
_UNEXPLAINED = 12 * 2**30
#: Less than this is no tenant, bytes.
_TENANT = 2**30
#: Two classes of GB10 differ by 2 GiB; less than this is noise, bytes.
_CLASS = 2**30
_SHOWN = 5


@node_rule(
    "memory.oom_kill",
    "warn",
    "The kernel ended processes for want of memory since the machine was started.",
    source="https://github.com/LMCache/LMCache/issues/4759",
)
def oom_kill(context: Context, node: Node) -> Case | None:
    """Each node with oom-kills in this boot's kernel log: whoever was killed may be missed by an engine that still runs."""
    count = node.number("kernel.events.oom_kill")
    if not count:
        return None
    return case(
        node,
        f"The kernel of {node.name} ended {count} process{'es' * (count != 1)} for want of memory since the machine was started.",
        "Memory does not run out.",
        f"`sudo journalctl -k -b | grep -i 'killed process'` on {node.name} says whom. Lower --gpu-memory-utilization of what ran, "
        "and restart what depended on it.",
        "kernel.events",
    )


def is_engine_process(row: Mapping[str, Any]) -> bool:
    """Whether a workload is a part of vLLM that runs in no container."""
    name = str(row.get("name"))
    return row.get("kind") == "process" and (name.startswith("VLLM::") or "EngineCore" in name)


@node_rule(
    "memory.orphan_engine",
    "warn",
    "An engine's process holds memory outside of any container, as one does whose server was killed.",
    source="https://github.com/Blackwellboy/model-serving-minefield",
)
def orphan_engine(context: Context, node: Node) -> Case | None:
    """Each node with processes of vLLM in no container. They are named, and never ended by us."""
    rows = [row for row in node.workloads() if is_engine_process(row)]
    if not rows:
        return None
    pids = [str(pid) for row in rows for pid in row.get("pids") or []]
    shown = listing(f"{row.get('name')} (pid {(row.get('pids') or ['unknown'])[0]}, {sized(held(row) or 0)})" for row in rows[:_SHOWN])
    return case(
        node,
        f"{shown} of {node.name} run{'s' * (len(rows) == 1)} in no container.",
        "The parts of an engine end with their server; a server that was killed leaves them behind with all its memory.",
        f"On {node.name}: `ps -o pid,ppid,etime,args -p {','.join(pids)}`. If the parent is 1 and nobody uses it: `kill {' '.join(pids)}`.",
        "workloads",
        "gpu.processes",
    )


@node_rule(
    "memory.unowned",
    "warn",
    "Much memory is in use, and no process that could be seen holds it.",
    source="https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/issues/193",
)
def unowned(context: Context, node: Node) -> Case | None:
    """Each node where far more is in use than the workloads hold. Only judged where all that they hold is known."""
    total, available = node.number("memory.total"), node.number("memory.available")
    rows = [row.get("memory") for row in node.rows("workloads")]
    unknown = node.get("workloads") is None or node.get("gpu.processes") is None or None in rows
    if total is None or available is None or unknown:
        return None
    lost = total - available - sum(size or 0 for size in rows)
    if lost < _UNEXPLAINED:
        return None
    in_files = node.number("memory.shm_used") or 0
    locked = max(node.number("memory.shmem") or 0, node.number("memory.mlocked") or 0)
    hints = [f"{sized(in_files)} are files in /dev/shm"] if in_files > 2**30 else []
    hints += [f"{sized(locked)} are shared or locked memory"] if locked - in_files > 2**30 else []
    remedy = f"`ls -l /dev/shm` on {node.name} shows files that a dead process left, which may be removed. " if in_files > 2**30 else ""
    return case(
        node,
        f"{sized(lost)} of {node.name} are in use by nobody that could be seen{f' ({listing(hints)})' if hints else ''}.",
        "What is in use belongs to a container or a process; the driver gives memory back within a minute after an engine has ended.",
        f"{remedy}Wait a minute and run recon again; what stays after that comes back only by a reboot of {node.name}.",
        "memory.available",
        "memory.shmem",
        "memory.mlocked",
        "workloads",
    )


@node_rule(
    "memory.tenant",
    "info",
    "Others use the unified memory of a node; a rank of ours still fits.",
    source="https://al-engr.com/spark-config-rethink.html",
    explained_by=("memory.occupied",),
)
def tenant(context: Context, node: Node) -> Case | None:
    """Each node with foreign workloads that stay: they share memory and its bandwidth with the model."""
    stops = set(context.work[node.name]["reclaim"])
    rows = [row for row in node.workloads() if not row.get("managed") and (held(row) or 0) >= _TENANT and row.get("name") not in stops]
    if not rows or (len(rows) == 1 and is_engine_process(rows[0])):
        return None
    names = [f"{row.get('name')}{f' ({engine})' if (engine := row.get('engine')) else ''} {sized(held(row) or 0)}" for row in rows[:_SHOWN]]
    more = [f"{len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    return case(
        node,
        f"{node.name} is shared with {listing([*names, *more])}.",
        "A model that has the machine to itself is faster: others take memory bandwidth, and may ask for more memory later.",
        "Nothing has to be done.",
        "workloads",
    )


@rule(
    "memory.class_differs",
    "info",
    "The nodes have different amounts of memory, so one share of it is not one size.",
    source="https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/issues/47",
    several=True,
)
def class_differs(context: Context) -> Iterator[Case]:
    """Two classes of GB10 have 119.6 and 121.6 GiB: the smaller one decides."""
    totals = {node.name: total for node in context.reachable if (total := node.number("memory.total"))}
    if totals and max(totals.values()) - min(totals.values()) >= _CLASS:
        seen = listing(f"{name} {sized(total)}" for name, total in totals.items())
        yield Case(
            tuple(totals),
            f"The nodes have different amounts of memory: {seen}.",
            "--gpu-memory-utilization is a share of each node's own memory; the KV cache is as large as the smaller node allows.",
            "Nothing has to be done.",
            ("memory.total",),
        )


def _stopped(context: Context, node: Node) -> list[Mapping[str, Any]]:
    """The containers whose stop the user consented to."""
    names = set(context.work[node.name]["reclaim"])
    return [row for row in node.rows("docker.containers") if row.get("name") in names and not is_managed(row)]


@node_rule(
    "memory.reclaim_lost",
    "warn",
    "A container that may be stopped is removed by its stop, so it cannot be started again.",
    source="https://github.com/eugr/spark-vllm-docker/issues/173",
)
def reclaim_lost(context: Context, node: Node) -> Case | None:
    """Each node with a container in gb10_reclaim that was started with --rm."""
    names = [str(row.get("name")) for row in _stopped(context, node) if (row.get("host") or {}).get("auto_remove") is True]
    if not names:
        return None
    return case(
        node,
        f"{listing(names)} of {node.name} was started with --rm: its stop removes it, and it cannot be restored from what was recorded.",
        "What is stopped to free memory can be started again.",
        f"Note how it is started: `docker inspect {names[0]}` on {node.name}; if that is known, accept this: "
        """-e '{"gb10_accept": ["memory.reclaim_lost"]}'.""",
        "docker.containers",
    )


@node_rule(
    "memory.reclaim_returns",
    "info",
    "A container that may be stopped comes back by itself after a reboot.",
    source="https://github.com/eugr/spark-vllm-docker/issues/257",
)
def reclaim_returns(context: Context, node: Node) -> Case | None:
    """Each node with a container in gb10_reclaim that Docker starts again whenever it starts itself."""
    names = [str(row.get("name")) for row in _stopped(context, node) if row.get("restart_policy") == "always"]
    if not names:
        return None
    return case(
        node,
        f"{listing(names)} of {node.name} has the restart policy always: it is stopped now, and comes back at the next start of Docker.",
        "What is stopped stays stopped; two engines do not fit into the memory at the next boot.",
        f"On {node.name}: `docker update --restart=unless-stopped {' '.join(names)}`.",
        "docker.containers",
    )
