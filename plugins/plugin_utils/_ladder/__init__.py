# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof ladder of the fabric: what to measure (make_steps), and what came of it (judge). Pure: plan, facts and results in, rungs out.

Each rung says what was observed, what was expected, and what it is worth. What could not be measured is skipped aloud; only what was measured
and is good has passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .base import FAIL, PASS, SKIPPED, WARN, Facts, Rung, listing, rail_ends, ready_rails, worst
from .collective import all_reduce_rung
from .link import link_rung
from .measured import Results, ping_rungs, slowest_twin, write_rung
from .steps import Ready, make_steps
from .thresholds import table

__all__ = ["judge", "make_steps", "table"]


def judge(plan: Mapping[str, Any], facts: Mapping[str, Facts | None], results: Results, ready: Ready | None = None) -> dict[str, Any]:
    """`{rungs, verdict, summary}`. `results`: what link_bench returned, by host and by the id of the step."""
    rails = rail_ends(plan, facts)
    if len(plan["ranks"]) < 2:
        return {"rungs": [], "verdict": SKIPPED, "summary": "One node has no fabric to prove."}
    if not rails:
        return {"rungs": [], "verdict": SKIPPED, "summary": "Nothing is proved: the nodes share no rail. recon.yml says what is in the way."}
    able = ready_rails(rails)
    steps = make_steps(plan, facts, ready)
    pings = [rung for step in steps if step.name == "ping" for rung in ping_rungs(step, results, plan, able)]
    links = [link_rung(next(iter(rail.values())).rail, rail) for rail in rails]
    writes = [write_rung(step, results, able) for step in steps if step.name in ("write_bandwidth", "write_latency")]
    twin = slowest_twin(steps, results)
    reduces = [all_reduce_rung(step, results, able, twin) for step in steps if step.name == "all_reduce"]
    rungs = merge([*pings, *links, *writes, *reduces])
    return {"rungs": [rung.to_dict() for rung in rungs], "verdict": worst(rung.verdict for rung in rungs), "summary": summary(rungs)}


def merge(rungs: Sequence[Rung]) -> list[Rung]:
    """Rungs of one name that were skipped for one reason as a single one: it is said once, not ten times."""
    merged: dict[tuple[str, ...], Rung] = {}
    for number, rung in enumerate(rungs):
        key = (rung.name, rung.observed) if rung.verdict == SKIPPED else (rung.name, str(number))
        same = merged.get(key)
        if same is None:
            merged[key] = rung
        else:
            nodes = tuple(dict.fromkeys([*same.nodes, *rung.nodes]))
            merged[key] = replace(same, nodes=nodes, rail=same.rail if same.rail == rung.rail else None)
    return list(merged.values())


def summary(rungs: Sequence[Rung]) -> str:
    """One sentence about the whole."""
    names = {verdict: list(dict.fromkeys(rung.name for rung in rungs if rung.verdict == verdict)) for verdict in (PASS, FAIL, WARN, SKIPPED)}
    parts = []
    for verdict, text in ((FAIL, "broken"), (WARN, "worse than it should be"), (PASS, "proved"), (SKIPPED, "not proved")):
        if names[verdict]:
            parts.append(f"{text}: {listing(names[verdict])}")
    return f"{'; '.join(parts).capitalize() if parts else 'Nothing was measured'}."
