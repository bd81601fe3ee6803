# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's one source: plan, findings, what the facts say in short, and results. No secrets, no serial numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._redact import redact_text

from .drift import compare
from .equality import equality
from .lines import dig

SCHEMA = "gb10-report/1"
_OURS = "gb10.deployment"
# What Ansible adds to the result of a task.
_NOISE = ("invocation", "exception", "warnings", "deprecations")


def build(
    kind: str,
    facts: Mapping[str, Mapping[str, Any] | None],
    plan: Mapping[str, Any] | None,
    results: Mapping[str, Any] | None = None,
    generated: str = "",
    commands: Mapping[str, str] | None = None,
    show_commands: bool = False,
    community: Mapping[str, Any] | None = None,
    previous: Mapping[str, Any] | None = None,
    version: str = "",
) -> dict[str, Any]:
    """The document.

    `facts`: per host `ansible_facts.gb10` or None where there are none; `plan`: `gb10_plan`; `results`: what a role measured or changed;
    `generated`: the time, as text; `commands`: the command line of each playbook by its short name, as this user would type it;
    `community`: reports by others, unverified; `previous`: the document that this one is compared with; `version`: of this collection.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": version,
        "kind": kind,
        "generated": generated,
        "ok": bool(dig(plan, "ok", False)),
        "nodes": {host: _node(host, entry, plan) for host, entry in facts.items()},
        "plan": dict(plan) if plan else None,
        "findings": list(dig(plan, "findings", [])),
        "results": {name: value for name, value in (results or {}).items() if name not in _NOISE},
        "commands": dict(commands or {}),
        "show_commands": show_commands,
    }
    if len(facts) > 1:
        document["equality"] = equality(facts, plan)
    if community:
        document["community"] = dict(community)
    clean: dict[str, Any] = json.loads(redact_text(json.dumps(document, default=str)))
    drift = compare(previous, clean) if previous else None
    if drift:
        clean["drift"] = drift
    return clean


def _node(host: str, facts: Mapping[str, Any] | None, plan: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A node's record, with where its ports lead, which only the plan of all nodes knows; None if the node did not answer."""
    if not facts or "unreachable" in facts:
        return None
    record = summary(facts)
    wires = {wire["netdev"]: wire["ends"] for wire in (dig(plan, "nodes", {}).get(host) or {}).get("wires") or []}
    for port in record.get("ports") or []:
        if port.get("netdev") in wires:
            port["leads_to"] = [f"{end['node']} {end['netdev']}" for end in wires[port["netdev"]]]
    return record


def summary(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader of the report needs of a node's facts; what is unknown stays absent."""
    record = {
        "source": facts.get("source"),
        "seconds": facts.get("seconds"),
        "product": _some(dig(facts, "identity", {}), "vendor", "product", "family", "dgx_release", "ota_version", "bios_version", "gb10"),
        "os": dig(facts, "os.name"),
        "kernel": dig(facts, "kernel.release"),
        "machine": dig(facts, "kernel.machine"),
        "uptime": dig(facts, "kernel.uptime"),
        "python": dig(facts, "python.version"),
        "gpu": _gpu(facts.get("gpu")),
        "memory": _some(dig(facts, "memory", {}), "total", "available", "free", "cached", "buffers", "swap_total", "swap_free"),
        "workloads": _workloads(facts.get("workloads")),
        "ports": _ports(dig(facts, "fabric.ports")),
        "docker": _docker(facts.get("docker")),
        "models": _models(facts.get("models")),
        "disk": [_some(entry, "path", "mount", "total", "free") for entry in facts.get("disk") or []],
        "units": [_some(entry, "name", "active", "sub", "enabled") for entry in dig(facts, "services.units", [])],
        "deployments": [_some(entry, "kind", "path") for entry in facts.get("deployments") or []],
        "epoch": dig(facts, "time.epoch"),
        "synchronized": dig(facts, "time.synchronized"),
        "unread": {name: _some(entry, "status", "reason") for name, entry in (facts.get("probes") or {}).items() if entry.get("status") != "ok"},
    }
    return {name: value for name, value in record.items() if value is not None}


def _some(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: record[name] for name in names if record.get(name) is not None}


def _gpu(gpu: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if gpu is None:
        return None
    devices = [_some(device, "index", "name", "temperature", "utilization", "power") for device in gpu.get("devices") or []]
    return {**_some(gpu, "present", "driver", "cuda"), "devices": devices}


def _workloads(rows: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    return None if rows is None else [_some(row, "name", "kind", "memory", "pids", "image", "engine", "managed") for row in rows]


def _ports(ports: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    if ports is None:
        return None
    shown = []
    for port in ports:
        entry = _some(port, "netdev", "hca", "cage", "twin", "carrier", "operstate", "speed", "mtu", "state", "rate", "active_mtu", "firmware")
        entry["addresses"] = [f"{address['address']}/{address['prefix']}" for address in port.get("addresses") or []]
        shown.append(entry)
    return shown


def _docker(docker: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if docker is None:
        return None
    record = _some(docker, "available", "reason", "version", "store", "storage_driver", "toolkit", "runtimes")
    containers = docker.get("containers")
    if containers is not None:
        record["running"] = sum(1 for container in containers if container.get("running"))
        record["ours"] = [
            _some(container, "name", "state", "running", "exit_code", "restart_count", "started", "image")
            for container in containers
            if (container.get("labels") or {}).get(_OURS) or str(container.get("name", "")).startswith("gb10-")
        ]
    if docker.get("images") is not None:
        record["images"] = len(docker["images"])
        record["image_list"] = _images(docker["images"])
    return record


def _images(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What has a name. Its content is a digest or the hash of its layers, never the id, which differs between Docker's stores."""
    named = {}
    for row in rows:
        digests = sorted(str(digest).partition("@")[2] for digest in row.get("digests") or [])
        content = row.get("layers") or (digests[0] if digests else None)
        for tag in row.get("tags") or []:
            named[str(tag)] = {"name": str(tag), "content": content} if content else {"name": str(tag)}
    return [named[name] for name in sorted(named)]


def _models(models: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if models is None:
        return None
    repositories = []
    for row in models.get("repositories") or []:
        revisions = [_some(revision, "revision", "complete", "files", "size", "missing") for revision in row.get("revisions") or []]
        entry = {**_some(row, "repo", "size"), "revisions": revisions, "incomplete": len(row.get("incomplete") or [])}
        repositories.append(entry)
    return {**_some(models, "cache", "exists", "owner"), "repositories": repositories}
