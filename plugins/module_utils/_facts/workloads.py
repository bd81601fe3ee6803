# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""workloads: who holds memory, containers and processes alike"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ansible_collections.gb10.cluster.plugins.module_utils._facts.docker import Held
from ansible_collections.gb10.cluster.plugins.module_utils._facts.gpu import GpuUser, is_present
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Probe, Seen, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import Workload, known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.docker import Container
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nvidia_smi import GpuProcess
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.process import PS_FORMAT, Process, parse_ps

LABEL = "gb10.deployment"
# A process outside of containers and off the GPU counts as a workload from here on.
_LARGE = 1024**3  # bytes

# In this order: an SGLang or TensorRT-LLM image may mention vLLM, and a vLLM image Ray.
_ENGINES = (
    ("sglang", re.compile(r"sglang")),
    ("trtllm", re.compile(r"tensorrt[-_]?llm|trt[-_]?llm")),
    ("ollama", re.compile(r"ollama")),
    ("llama.cpp", re.compile(r"llama[-_.]?(?:server|cpp|swap)")),
    ("vllm", re.compile(r"vllm")),
    ("ray", re.compile(r"\bray(?:::|\b)|raylet")),
)


def probes() -> tuple[Probe, ...]:
    return (probe("ps", "workloads", _ps),)


def _ps(node: Node) -> tuple[Process, ...]:
    return parse_ps(node.output("ps", "-ww", "-e", "-o", PS_FORMAT))


@dataclass
class _Users:
    """Processes of one container, or of none."""

    gpu: list[GpuProcess] = field(default_factory=list)
    rss: int = 0


def workload_facts(seen: Seen) -> list[Workload] | None:
    gpu_users: list[GpuUser] | None = seen.get("nvidia_smi_processes")
    held: list[Held] | None = seen.get("docker_containers")
    processes: dict[int, Process] = {process.pid: process for process in seen.get("ps") or ()}
    # Without a GPU nobody uses one; a tool that failed leaves the question open.
    gpu_known = gpu_users is not None or is_present(seen) is False
    if held is None and not gpu_known:
        return None
    running = {entry.container.id: entry for entry in held or () if entry.container.running}
    users = _by_container(gpu_users or [], processes, running)
    workloads = [_container(entry, users.get(entry.container.id, _Users()), bool(processes), gpu_known) for entry in running.values()]
    workloads += _processes(gpu_users or [], processes, running, gpu_known)
    return sorted(workloads, key=lambda entry: (-entry.get("memory", entry.get("gpu_memory", entry.get("rss", 0))), entry["name"]))


def _by_container(gpu_users: list[GpuUser], processes: dict[int, Process], running: dict[str, Held]) -> dict[str, _Users]:
    users: dict[str, _Users] = {}
    for process in processes.values():
        owner = _owner(process.pid, process.containers, processes, running)
        if owner is not None:
            users.setdefault(owner, _Users()).rss += process.rss
    for user in gpu_users:
        owner = _owner(user.process.pid, user.containers, processes, running)
        if owner is not None:
            users.setdefault(owner, _Users()).gpu.append(user.process)
    return users


def _owner(pid: int, named: Iterable[str], processes: dict[int, Process], running: dict[str, Held]) -> str | None:
    """The container by the cgroup's word, else by descent from a container's first process."""
    for identifier in named:
        if identifier in running:
            return identifier
    first = {held.container.pid: identifier for identifier, held in running.items() if held.container.pid}
    generations = set()
    while pid not in generations:
        if pid in first:
            return first[pid]
        generations.add(pid)
        if pid not in processes:
            return None
        pid = processes[pid].ppid
    return None


def _container(held: Held, users: _Users, listed: bool, gpu_known: bool) -> Workload:
    container = held.container
    gpu_memory = _total(users.gpu) if gpu_known else None
    rss = held.memory if held.memory is not None else (users.rss if listed else None)
    pids = sorted({process.pid for process in users.gpu}) or ([container.pid] if container.pid else [])
    workload: Workload = known(
        name=container.name,
        kind="container",
        memory=_sum(gpu_memory, rss),
        gpu_memory=gpu_memory,
        rss=rss,
        pids=pids,
        container_id=container.id,
        image=container.image,
        engine=_engine(_evidence(container, users.gpu)),
        managed=LABEL in container.labels,
    )
    return workload


def _total(processes: list[GpuProcess]) -> int | None:
    memories = [process.memory for process in processes]
    return None if None in memories else sum(memory for memory in memories if memory is not None)


def _sum(gpu_memory: int | None, rss: int | None) -> int | None:
    return None if gpu_memory is None or rss is None else gpu_memory + rss


def _evidence(container: Container, gpu: list[GpuProcess]) -> Iterator[str]:
    """Most telling first: what runs, how it was started, from which image, under which name."""
    yield from (process.name for process in gpu)
    yield " ".join(container.command[:3])
    yield container.image
    yield container.name


def _engine(evidence: Iterable[str]) -> str | None:
    for text in evidence:
        for engine, pattern in _ENGINES:
            if pattern.search(text.lower()):
                return engine
    return None


def _processes(gpu_users: list[GpuUser], processes: dict[int, Process], running: dict[str, Held], gpu_known: bool) -> list[Workload]:
    gpu = {user.process.pid: user for user in gpu_users}
    pids = sorted({*gpu, *(process.pid for process in processes.values() if process.rss >= _LARGE)})
    workloads: list[Workload] = []
    for pid in pids:
        process, user = processes.get(pid), gpu.get(pid)
        named = user.containers if user else (process.containers if process else ())
        if _owner(pid, named, processes, running) is not None:
            continue
        gpu_memory = user.process.memory if user else (0 if gpu_known else None)
        rss = process.rss if process else None
        name = user.process.name if user else (process.name if process else str(pid))
        workload: Workload = known(
            name=name.rpartition("/")[2] or name,
            kind="process",
            memory=_sum(gpu_memory, rss),
            gpu_memory=gpu_memory,
            rss=rss,
            pids=[pid],
            engine=_engine([name]),
            managed=False,
        )
        workloads.append(workload)
    return workloads
