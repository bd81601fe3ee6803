# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which report comes first: relevance times recency times quality of the source. Pure, and the same for the same day."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from .base import Hit
from .text import canonical, clean, clean_url, host_of, is_thread

TITLE_WIDTH = 120
EXCERPT_WIDTH = 300

#: Days after which a report has lost half of what it can lose, which is half of its worth.
HALF_LIFE = 180
UNDATED = 0.65

#: Those who make what runs here, and their forums, by the end of the host name.
MAKERS = ("nvidia.com", "vllm.ai", "ray.io")
HUB = "huggingface.co"


def rank(hits: Iterable[Hit], today: date, limit: int, known: Collection[str] = ()) -> list[dict[str, Any]]:
    """The entries of docs/contracts.md section 6, best first, each page once. ``known`` are hosts that our rules cite."""
    pages: dict[str, list[Hit]] = {}
    for hit in hits:
        url = clean_url(hit.url)
        if url:
            pages.setdefault(canonical(url), []).append(replace(hit, url=url, published=_believed(hit.published, today)))
    merged = ((key, _merged(group)) for key, group in pages.items())
    scored = sorted((-_score(hit, today, known), key, hit) for key, hit in merged)
    return [_entry(hit, -score) for score, _key, hit in scored[:limit]]


def _merged(hits: Sequence[Hit]) -> Hit:
    """One of several hits on a page: the most relevant one, about all that they are about."""
    best = max(hits, key=lambda hit: hit.relevance)
    about = tuple(dict.fromkeys(id_ for hit in hits for id_ in hit.about))
    return replace(best, about=about, published=best.published or next((hit.published for hit in hits if hit.published), None))


def _score(hit: Hit, today: date, known: Collection[str]) -> float:
    return round(min(max(hit.relevance, 0.0), 1.0) * recency(hit.published, today) * quality(hit.url, known), 3)


def recency(published: date | None, today: date) -> float:
    """From 1 for today to 0.5 for long ago."""
    if published is None:
        return UNDATED
    return 0.5 + 0.5 * 2 ** (-max((today - published).days, 0) / HALF_LIFE)


def quality(url: str, known: Collection[str] = ()) -> float:
    """What a source is worth: where the makers and the users of these machines talk to each other first."""
    host = host_of(url)
    if is_thread(url) or any(host == maker or host.endswith(f".{maker}") for maker in MAKERS):
        return 1.0
    if host == HUB or host in known:
        return 0.9
    return 0.85 if host == "github.com" else 0.6


def _believed(published: date | None, today: date) -> date | None:
    """A date of tomorrow may be one of another time zone; one after that is wrong, and so unknown."""
    return published if published is not None and (published - today).days <= 1 else None


def _entry(hit: Hit, score: float) -> dict[str, Any]:
    parts = urlsplit(hit.url)
    entry: dict[str, Any] = {"title": clean(hit.title, TITLE_WIDTH) or clean(f"{parts.hostname}{parts.path}", TITLE_WIDTH), "url": hit.url}
    if hit.published:
        entry["published"] = hit.published.isoformat()
    return {**entry, "excerpt": clean(hit.excerpt, EXCERPT_WIDTH), "about": list(hit.about), "score": score}
