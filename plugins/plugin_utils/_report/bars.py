# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's memory as a stacked bar: who holds how much, what is cache, what is left. Widths in percent, so that it fits any screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import count, gib, listing

from .lines import dig
from .nodes import holder

_SHOWN = 6
# A segment of less than that, in percent, is too narrow for its letter.
_LETTER = 4.0
_LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Segment:
    """`kind`: holder, rest (in use, by whom is not known), cache, free. `tone` picks a holder's colour, `letter` names it without one."""

    kind: str
    label: str
    amount: float
    start: float
    width: float
    letter: str = ""
    tone: int = 0

    @property
    def words(self) -> str:
        return gib(self.amount)

    @property
    def lettered(self) -> bool:
        return bool(self.letter) and self.width >= _LETTER

    @property
    def middle(self) -> float:
        return self.start + self.width / 2


@dataclass
class Bar:
    host: str
    total: float
    segments: list[Segment] = field(default_factory=list)
    wanted: str = ""

    @property
    def words(self) -> str:
        """What the bar shows, for who cannot see it."""
        return f"{self.host}, {gib(self.total)}: " + listing([f"{segment.label} {segment.words}" for segment in self.segments])


def bars(document: Mapping[str, Any], hosts: Sequence[str]) -> list[Bar]:
    """Of the nodes whose memory is known."""
    found = []
    for host in hosts:
        node = document["nodes"].get(host)
        if dig(node, "memory.total"):
            bar = Bar(host, dig(node, "memory.total"), wanted=_wanted((dig(document, "plan.nodes", {}).get(host) or {}).get("memory")))
            bar.segments = list(_places(bar.total, _parts(node or {})))
            found.append(bar)
    return found


def _parts(node: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Kind, label and bytes, in the order of the bar."""
    memory, rows = node["memory"], [row for row in node.get("workloads") or [] if row.get("memory")]
    total, available = memory["total"], memory.get("available")
    for row in rows[:_SHOWN]:
        yield "holder", holder(row), row["memory"]
    rest = rows[_SHOWN:]
    if rest:
        yield "holder", count(len(rest), "smaller holder"), sum(row["memory"] for row in rest)
    held = sum(row["memory"] for row in rows)
    if available is None:
        yield "rest", "not known", max(0, total - held)
        return
    whom = "by whom is not known" if node.get("workloads") is None else "system and others"
    yield "rest", whom, max(0, total - available - held)
    cache = min(available, memory.get("cached", 0) + memory.get("buffers", 0))
    yield "cache", "page cache, which gives way", cache
    yield "free", "free", available - cache


def _places(total: float, parts: Iterator[tuple[str, str, float]]) -> Iterator[Segment]:
    """Side by side. Where the parts are more than the whole (pages that are shared count twice), they share the bar in proportion."""
    known = [part for part in parts if part[2] > 0]
    whole = max(total, sum(amount for _kind, _label, amount in known))
    start, tone = 0.0, 0
    for kind, label, amount in known:
        width = 100 * amount / whole
        letter = _LETTERS[tone] if kind == "holder" else ""
        yield Segment(kind, label, amount, round(start, 3), round(width, 3), letter, tone)
        tone += kind == "holder"
        start += width


def _wanted(memory: Mapping[str, Any] | None) -> str:
    if not memory or not memory.get("needed"):
        return ""
    fits = {True: "which fits", False: "which does not fit now"}.get(memory.get("fits"), "and whether it fits is not known")  # type: ignore[arg-type]
    return f"The plan needs {gib(memory['needed'])} here, {fits}."
