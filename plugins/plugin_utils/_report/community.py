# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others wrote about the findings and the model. None of it is verified by us, and that is said with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import count, listing, shorten

from .lines import Line, dig, gap, paragraph

_SHOWN = 3
_EXCERPT = 180


def community_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    """The best three; the report file has all."""
    record = document.get("community")
    if not record:
        return
    entries = dig(record, "entries", [])
    yield gap()
    yield Line("Reports by others, not verified", "title")
    yield from paragraph(provider(record), 2, "  ", style="dim")
    for entry in entries[:_SHOWN]:
        yield from paragraph(f"{entry.get('title') or 'Untitled'} ({dated(entry)})", 4, "  ·")
        if about(entry):
            yield from paragraph(about(entry), 4, style="dim")
        yield Line(f"    {entry.get('url', '')}", "dim")
    if len(entries) > _SHOWN:
        yield Line(f"  {count(len(entries) - _SHOWN, 'more entry', 'more entries')} in the report's files.", "dim")


def provider(record: Mapping[str, Any]) -> str:
    """Where these are from, or that there are none."""
    name = "the catalogue that comes with this collection" if record.get("provider") == "catalogue" else str(record.get("provider") or "a search")
    reason = f", because {record['reason']}" if record.get("reason") else ""
    what = "" if dig(record, "entries", []) else "Nothing was found. "
    return f"{what}Source: {name}{reason}."


def dated(entry: Mapping[str, Any]) -> str:
    return str(entry["published"]) if entry.get("published") else "date unknown"


def about(entry: Mapping[str, Any]) -> str:
    topics = [str(topic) for topic in entry.get("about") or []]
    return f"about {listing(topics)}" if topics else ""


def excerpt(entry: Mapping[str, Any]) -> str:
    return shorten(" ".join(str(entry.get("excerpt") or "").split()), _EXCERPT)
