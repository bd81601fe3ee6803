# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen of recon: what the machines are, what was found, what would run, and the next command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import count, listing, size

from .commands import what_would_run
from .findings import consent, finding_lines, verdict
from .lines import Line, dig, gap, paragraph, shell
from .nodes import node_block


def recon(document: Mapping[str, Any]) -> list[Line]:
    """All lines."""
    return list(_recon(document))


def _recon(document: Mapping[str, Any]) -> Iterator[Line]:
    plan, nodes = document.get("plan"), document["nodes"]
    for host in order(document):
        yield gap()
        yield from node_block(host, nodes.get(host), plan)
    if plan:
        yield gap()
        yield from wish(plan)
    yield from finding_lines(document["findings"])
    if plan and document.get("show_commands"):
        yield from what_would_run(plan)
    if plan:
        yield gap()
        yield verdict(document["findings"], document["ok"])
        yield from closing(document)


def order(document: Mapping[str, Any]) -> list[str]:
    """Ranks first, in their order, then what else there is."""
    ranks = [str(host) for host in dig(document, "plan.ranks", [])]
    return [*ranks, *(host for host in document["nodes"] if host not in ranks)]


def wish(plan: Mapping[str, Any]) -> Iterator[Line]:
    """What the plan is for, in a sentence."""
    model, nodes = plan.get("model") or {}, len(plan.get("ranks") or [])
    amount = f" ({size(model['size'])})" if model.get("size") else ""
    where = f", served at {dig(plan, 'endpoint.url')}" if dig(plan, "endpoint.url") else ""
    backend = "Ray" if plan.get("backend") == "ray" else "vLLM's own backend (mp)"
    how = f"with tensor parallelism over {count(nodes, 'node')} and {backend}" if nodes > 1 else "on one node"
    yield from paragraph(f"The plan: {model.get('repo', 'a model')}{amount} {how}{where}.")


def closing(document: Mapping[str, Any]) -> Iterator[Line]:
    """The single best next command."""
    commands = document.get("commands") or {}
    site, survey = shlex.split(commands.get("site", "")), shlex.split(commands.get("recon", ""))
    if not site or not survey:
        return
    yield gap()
    if document["ok"]:
        yield Line("Next: serve the model", "title")
        yield from shell(site, indent=4)
        return
    allowed = consent(document["findings"])
    if allowed:
        yield from paragraph(f"Next: if {_allowance(allowed)}, serve the model", style="title")
        yield from shell([*site, "-e", json.dumps(allowed)], indent=4)
    else:
        yield Line("Next: do what the arrows above say, then look again", "title")
        yield from shell([*survey, "--check"], indent=4)


def _allowance(allowed: Mapping[str, list[str]]) -> str:
    """What the user would allow with that command."""
    stops = allowed.get("gb10_reclaim", [])
    parts = [f"{listing(stops)} may be stopped"] if stops else []
    if "network" in allowed.get("gb10_consent", []):
        parts.append("the rails may be configured")
    return listing(parts)
