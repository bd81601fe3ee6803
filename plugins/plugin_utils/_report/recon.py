# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen of recon: what the machines are, what was found, what would run, and the next command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import count, listing, size

from .commands import what_would_run
from .community import community_lines
from .drift import drift_lines
from .equality import equality_lines
from .findings import finding_lines
from .following import recon_steps, step_lines, verdict
from .lines import Line, dig, gap, paragraph
from .nodes import node_block


def recon(document: Mapping[str, Any], diff: bool = False) -> list[Line]:
    """All lines."""
    return list(_recon(document, diff))


def _recon(document: Mapping[str, Any], diff: bool) -> Iterator[Line]:
    plan, nodes = document.get("plan"), document["nodes"]
    for host in order(document):
        yield gap()
        yield from node_block(host, nodes.get(host), plan)
    if document.get("equality"):
        yield gap()
        yield from equality_lines(document)
    yield from drift_lines(document, diff)
    if plan:
        yield gap()
        yield from wish(plan)
    yield from finding_lines(document["findings"])
    yield from community_lines(document)
    if plan and document.get("show_commands"):
        yield from what_would_run(plan)
    if plan:
        yield gap()
        yield verdict(document)
        yield from step_lines(recon_steps(document))


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
    how = f"with {_parallelism(plan.get('recipe') or {})} parallelism over {count(nodes, 'node')} and {backend}" if nodes > 1 else "on one node"
    yield from paragraph(f"The plan: {model.get('repo', 'a model')}{amount} {how}{where}.")


def _parallelism(recipe: Mapping[str, Any]) -> str:
    """tensor · pipeline · tensor and pipeline"""
    kinds = [kind for kind in ("tensor", "pipeline") if (recipe.get(f"{kind}_parallel") or 1) > 1]
    return listing(kinds) or "tensor"
