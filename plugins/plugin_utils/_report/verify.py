# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen of verify: the ladder that proves the fabric, from the wire upwards, and what it is worth as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import listing

from .drift import drift_lines
from .lines import Line, gap, labelled, paragraph

SIGNS = {"pass": "✓", "warn": "!", "fail": "✗", "skipped": "-"}
STYLES = {"pass": "ok", "warn": "warn", "fail": "block", "skipped": "dim"}
_NAMES = {
    "ping": "full-size packets",
    "link": "link",
    "write_bandwidth": "RDMA bandwidth",
    "write_latency": "RDMA latency",
    "all_reduce": "NCCL all-reduce",
}


def verify(document: Mapping[str, Any], diff: bool = False) -> list[Line]:
    """All lines."""
    return list(_verify(document, diff))


def _verify(document: Mapping[str, Any], diff: bool) -> Iterator[Line]:
    ladder = document["results"].get("ladder") or {}
    yield gap()
    yield Line("The fabric, from the wire upwards", "title")
    for rung in ladder.get("rungs") or []:
        yield from _rung(rung)
    yield from drift_lines(document, diff)
    yield gap()
    yield summary(document)


def rungs(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The rungs of the document's ladder, none where nothing was measured."""
    found: Sequence[Mapping[str, Any]] = (document["results"].get("ladder") or {}).get("rungs") or []
    return found


def summary(document: Mapping[str, Any]) -> Line:
    """The whole in one sentence."""
    ladder = document["results"].get("ladder") or {}
    return Line(str(ladder.get("summary") or "Nothing was measured."), STYLES.get(str(ladder.get("verdict")), "warn"))


def heading(rung: Mapping[str, Any]) -> str:
    """What was to be proved, and between whom."""
    name = _NAMES.get(str(rung.get("name")), str(rung.get("name")))
    rail = f", rail {rung['rail']}" if rung.get("rail") is not None else ""
    return f"{name}{rail}, {listing([str(node) for node in rung.get('nodes') or []])}"


def _rung(rung: Mapping[str, Any]) -> Iterator[Line]:
    verdict = str(rung.get("verdict"))
    yield Line(f"  {SIGNS.get(verdict, '?')} {heading(rung)}: {verdict}", STYLES.get(verdict, ""))
    yield from labelled("observed", str(rung.get("observed") or "nothing"), indent=4)
    if verdict != "pass":
        yield from labelled("expected", str(rung.get("expected") or ""), indent=4)
        if rung.get("remedy"):
            yield from paragraph(str(rung["remedy"]), 6, "    →")
