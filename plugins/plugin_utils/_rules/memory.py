# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unified memory: who holds it, and whose stop would free enough."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .base import Case, rule
from .context import Budget, Context, Node, held, is_managed, listing, sized


@rule(
    "memory.occupied",
    "block",
    "The unified memory that a rank needs is held by others.",
    source="https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/issues/118",
)
def occupied(context: Context) -> Iterator[Case]:
    """Each node on which a rank does not fit, with the smallest set of stops that would make it fit."""
    for node in context.reachable:
        budget = context.budgets[node.name]
        if budget.fits is not False or budget.usable is None:
            continue
        consented = set(context.work[node.name]["reclaim"])
        free = sized(budget.usable) + (f" (with {listing(sorted(consented))} stopped)" if consented else "")
        yield Case(
            (node.name,),
            f"{node.name} has {free} of {sized(budget.total or 0)} for a rank of ours. {_holders(node, consented)}",
            f"{sized(budget.needed)} of unified memory are free for a rank of {context.recipe['name']}.",
            _remedy(context, node, budget, consented),
            ("memory.available", "memory.total", "workloads"),
        )


def _holders(node: Node, consented: set[str]) -> str:
    """A sentence that says who holds how much, largest first."""
    rows = [row for row in node.workloads() if not row.get("managed") and row.get("name") not in consented]
    if not rows:
        return "No workload that could be named holds the rest."
    shown = [f"{_name(row)} {_amount(row)}" for row in rows[:6]]
    if len(rows) > 6:
        shown.append(f"{len(rows) - 6} more {sized(sum(held(row) or 0 for row in rows[6:]))}")
    return f"It is held by {listing(shown)}."


def _name(row: Mapping[str, Any]) -> str:
    """What a workload is called: a container by its name, a process with its pid."""
    pids = row.get("pids") or []
    return str(row.get("name")) if row.get("kind") == "container" or not pids else f"{row.get('name')} (pid {pids[0]})"


def _amount(row: Mapping[str, Any]) -> str:
    """How much a workload holds, as far as it is known."""
    size = held(row)
    if size is None:
        return "an unknown amount"
    return sized(size) if isinstance(row.get("memory"), int) else f"at least {sized(size)}"


def _remedy(context: Context, node: Node, budget: Budget, consented: set[str]) -> str:
    """The consent that suffices, or why none does."""
    stops = sufficient_stops(node, budget, consented)
    if stops is not None:
        names = list(dict.fromkeys([*context.settings.reclaim, *stops]))
        value = json.dumps({"gb10_reclaim": names})
        return f"If they may be stopped (they are recorded and can be started again): -e '{value}'."
    if not _stoppable(node, consented):
        return (
            f"No container can be stopped to free it. See on {node.name} what holds it (`ps -eo pid,rss,args --sort=-rss | head`), "
            f"or choose a recipe that needs less than {sized(budget.needed)} per rank."
        )
    lacking = budget.needed - (budget.usable or 0) - sum(held(row) or 0 for row in _stoppable(node, consented))
    return (
        f"Stopping every container would still leave {sized(max(lacking, 0))} too little: end processes that hold memory, "
        f"or choose a recipe that needs less than {sized(budget.needed)} per rank."
    )


def _stoppable(node: Node, consented: set[str]) -> list[Mapping[str, Any]]:
    """Containers of others that run and were not consented to yet, largest first."""
    return [
        row
        for row in node.workloads()
        if row.get("kind") == "container" and not row.get("managed") and row.get("name") not in consented and (held(row) or 0) > 0
    ]


def sufficient_stops(node: Node, budget: Budget, consented: set[str] | None = None) -> list[str] | None:
    """Names of the fewest further containers whose stop makes the rank fit, largest first; None if not even all of them do."""
    usable = budget.usable
    if usable is None:
        return None
    names: list[str] = []
    for row in _stoppable(node, consented or set()):
        if usable >= budget.needed:
            break
        usable += held(row) or 0
        names.append(str(row["name"]))
    return names if usable >= budget.needed else None


@rule(
    "memory.page_cache",
    "info",
    "The memory is available, but much of it holds cached files.",
    source="https://github.com/vllm-project/vllm/issues/48140",
)
def page_cache(context: Context) -> Iterator[Case]:
    """Each node on which a rank fits only once the kernel gives cached files up, which it does, and which some engines do not expect."""
    for node in context.reachable:
        budget, free = context.budgets[node.name], node.number("memory.free")
        if free is not None and budget.available is not None and budget.fits and free + budget.managed + budget.reclaimed < budget.needed:
            yield Case(
                (node.name,),
                f"{sized(budget.available - free)} of the {sized(budget.available)} available on {node.name} are page cache.",
                "Cached files are given up as soon as memory is needed. CUDA, and engines that ask it, count them as used.",
                "Nothing has to be done, unless the engine says that free memory is less than desired: then "
                f"`sync; echo 3 | sudo tee /proc/sys/vm/drop_caches` on {node.name} right before it starts.",
                ("memory.free", "memory.available"),
            )


@rule(
    "memory.swap",
    "info",
    "Swap is on. It is reported, never changed: reports disagree on whether it helps.",
    source="https://github.com/sgl-project/sglang/issues/37931",
)
def swap(context: Context) -> Iterator[Case]:
    """Each node with swap."""
    for node in context.reachable:
        total, free = node.number("memory.swap_total"), node.number("memory.swap_free")
        if total:
            used = "" if free is None else f", {sized(total - free)} of it in use"
            yield Case(
                (node.name,),
                f"{node.name} has {sized(total)} of swap{used}.",
                "Swap is known. An engine that swaps is slow, one that cannot may take the machine with it.",
                "Nothing has to be done.",
                ("memory.swap_total", "memory.swap_free"),
            )


@rule(
    "memory.reclaim_absent",
    "info",
    "A container named in gb10_reclaim runs nowhere, or is ours.",
    source="docs/contracts.md",
)
def reclaim_absent(context: Context) -> Iterator[Case]:
    """Each name in gb10_reclaim that no node has running, or that belongs to a deployment of ours and is therefore left alone."""
    known = [node for node in context.reachable if node.get("docker.containers") is not None]
    for name in context.settings.reclaim:
        found = [(node, container) for node in known if (container := node.container(name)) is not None]
        if any(container.get("running") and not is_managed(container) for _, container in found):
            continue
        if any(is_managed(container) for _, container in found):
            observed = f"{name} in gb10_reclaim is a container of this collection, so it is not stopped to free memory."
        elif found:
            observed = f"{name} in gb10_reclaim does not run, so there is nothing to stop."
        else:
            observed = f"{name} in gb10_reclaim is on none of the nodes."
        yield Case(
            tuple(node.name for node, _ in found) or tuple(node.name for node in known),
            observed,
            "gb10_reclaim names running containers of others.",
            "Nothing has to be done if it was stopped before; otherwise look at the name.",
            ("docker.containers",),
        )
