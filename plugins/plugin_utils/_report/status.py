# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen of status: containers and units of each node, the endpoint, its last answer."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import count, duration

from .drift import drift_lines
from .following import status_steps, step_lines
from .lines import Line, dig, gap, labelled
from .nodes import heading, memory_lines
from .recon import order
from .site import no_answer, said
from .speed import measured


def status(document: Mapping[str, Any], diff: bool = False) -> list[Line]:
    """All lines."""
    return list(_status(document, diff))


def _status(document: Mapping[str, Any], diff: bool) -> Iterator[Line]:
    plan, results = document.get("plan") or {}, document["results"]
    for host in order(document):
        node = document["nodes"].get(host)
        yield gap()
        yield heading(host, node, plan)
        if node is None:
            yield Line("  did not answer", "block")
            continue
        yield from memory_lines(node)
        yield from _containers(node, (dig(plan, "nodes", {}).get(host) or {}).get("containers") or [])
        yield from _units(node)
    yield from drift_lines(document, diff)
    yield gap()
    completion = results.get("completion")
    if completion:
        url = dig(plan, "endpoint.url") or results.get("url", "")
        yield Line(f"{dig(plan, 'model.served_name', 'The model')} answers at {url}", "ok")
        yield from labelled("answer", said(completion))
        yield from labelled("speed", measured(completion))
    else:
        yield from no_answer(plan, results)
    yield from step_lines(status_steps(document))


def _containers(node: Mapping[str, Any], planned: list[Mapping[str, Any]]) -> Iterator[Line]:
    """Ours that are there, and those that should be."""
    docker = node.get("docker") or {}
    if "ours" not in docker:
        yield from labelled("docker", f"could not be read: {docker.get('reason', 'Docker was not asked')}", style="warn")
        return
    there = {str(container.get("name")): container for container in docker["ours"]}
    for name, container in there.items():
        text, style = container_state(container, node.get("epoch"))
        yield from labelled("docker", f"{name}: {text}", style=style)
    for wanted in planned:
        if wanted.get("name") not in there:
            yield from labelled("docker", f"{wanted.get('name')}: not there", style="warn")


def container_state(container: Mapping[str, Any], epoch: float | None) -> tuple[str, str]:
    """running for 2 h 5 min, restarted 3 times · exited with code 1"""
    restarts = int(container.get("restart_count") or 0)
    again = f", restarted {count(restarts, 'time')}" if restarts else ""
    if container.get("running"):
        started = parse_time(str(container.get("started") or ""))
        since = f" for {duration(epoch - started)}" if epoch and started and epoch >= started else ""
        return f"running{since}{again}", "warn" if restarts else "ok"
    code = container.get("exit_code")
    return f"{container.get('state', 'not running')}" + (f" with code {code}" if code is not None else "") + again, "block"


def parse_time(text: str) -> float | None:
    """Docker's 2026-11-30T14:03:21.123456789Z as seconds since the epoch; None for its "never" and what is no time."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)$", text)
    if not match or match[1].startswith("0001-"):
        return None
    zone = "+00:00" if match[2] == "Z" else match[2]
    return datetime.datetime.fromisoformat(match[1] + zone).timestamp()


def _units(node: Mapping[str, Any]) -> Iterator[Line]:
    ours = [unit for unit in node.get("units") or [] if str(unit.get("name", "")).startswith("gb10-")]
    for unit in ours:
        style = {"active": "ok", "failed": "block"}.get(str(unit.get("active")), "warn")
        yield from labelled("unit", unit_words(unit), style=style)
    if not ours:
        yield from labelled("unit", "none of ours")


def unit_words(unit: Mapping[str, Any]) -> str:
    """gb10-vllm.service: active (running), starts at boot"""
    enabled = "starts at boot" if str(unit.get("enabled", "")).startswith("enabled") else "does not start at boot"
    return f"{unit.get('name')}: {unit.get('active', 'unknown')} ({unit.get('sub', '?')}), {enabled}"
