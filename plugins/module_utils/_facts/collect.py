# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All facts of a node: which probes to ask, and the answers put together."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ansible_collections.gb10.cluster.plugins.module_utils._facts import docker, fabric, gpu, host, kernel, models, system, workloads
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Probe, Seen, ask_all
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import SCHEMA, SUBSETS, Gb10
from ansible_collections.gb10.cluster.plugins.module_utils._runner import Runner

_TOPICS = {
    "identity": system.identity_facts,
    "os": system.os_facts,
    "kernel": kernel.kernel_facts,
    "cpu": system.cpu_facts,
    "memory": system.memory_facts,
    "gpu": gpu.gpu_facts,
    "fabric": fabric.fabric_facts,
    "docker": docker.docker_facts,
    "workloads": workloads.workload_facts,
    "deployments": lambda seen: seen.get("deployments"),
    "models": models.model_facts,
    "disk": host.disk_facts,
    "services": host.service_facts,
    "python": system.python_facts,
    "user": lambda seen: seen.get("id"),
    "ssh": system.ssh_facts,
    "limits": system.limits_facts,
    "time": system.time_facts,
}


def select(names: Iterable[str]) -> frozenset[str]:
    """`gather_subset` as `setup` reads it: names, `all`, `!name`. ValueError for an unknown name."""
    names = list(names)
    chosen: set[str] = set()
    excluded: set[str] = set()
    for entry in names:
        target, name = (excluded, entry[1:]) if entry.startswith("!") else (chosen, entry)
        if name == "all":
            target.update(SUBSETS)
        elif name in SUBSETS:
            target.add(name)
        else:
            raise ValueError(f"gather_subset: {entry!r} is none of all, {', '.join(SUBSETS)}")
    only_exclusions = not any(not entry.startswith("!") for entry in names)
    return frozenset((set(SUBSETS) if only_exclusions else chosen) - excluded)


def probes(subsets: frozenset[str], hf_home: str | None) -> list[Probe]:
    every = (
        *system.probes(),
        *kernel.probes(),
        *gpu.probes(),
        *fabric.probes(),
        *docker.probes(),
        *workloads.probes(),
        *models.probes(hf_home),
        *host.probes(hf_home),
    )
    return [probe for probe in every if "*" in probe.subsets or probe.subsets & subsets]


def gather(runner: Runner, subsets: frozenset[str], timeout: float, hf_home: str | None = None) -> Gb10:
    started = time.monotonic()
    seen = ask_all(runner, probes(subsets, hf_home), timeout)
    facts = assemble(seen, subsets)
    facts["source"] = runner.source
    facts["seconds"] = round(time.monotonic() - started, 3)
    return facts


def assemble(seen: Seen, subsets: frozenset[str]) -> Gb10:
    facts: Gb10 = {"schema": SCHEMA}
    account = seen.get("id")
    if account is not None:
        facts["root"] = account["uid"] == 0
    for name, build in _TOPICS.items():
        if name in subsets:
            topic = build(seen)
            if topic is not None and topic != {}:
                facts[name] = topic  # type: ignore[literal-required]
    facts["probes"] = {name: outcome.fact() for name, outcome in sorted(seen.outcomes.items())}
    return facts
