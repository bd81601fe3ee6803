# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen of site: the endpoint, its answer, its speed, and a command for each next wish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import listing, shorten

from .drift import drift_lines
from .findings import finding_lines
from .following import site_steps
from .lines import Line, dig, gap, labelled
from .recon import order
from .speed import speed_lines


def site(document: Mapping[str, Any], diff: bool = False) -> list[Line]:
    """All lines."""
    return list(_site(document, diff))


def _site(document: Mapping[str, Any], diff: bool) -> Iterator[Line]:
    plan, results = document.get("plan") or {}, document["results"]
    yield from finding_lines([finding for finding in document["findings"] if finding.get("severity") != "info" and not finding.get("accepted")])
    yield from drift_lines(document, diff)
    yield gap()
    completion = results.get("completion")
    if not completion:
        yield from no_answer(plan, results)
        return
    url = dig(plan, "endpoint.url") or results.get("url", "")
    yield Line(f"{dig(plan, 'model.repo', 'The model')} answers at {url}", "ok")
    yield from labelled("models", listing([str(name) for name in results.get("models") or []]) or "none listed")
    yield from labelled("ranks", listing([f"{host} ({rank})" for rank, host in enumerate(order(document))]))
    yield from labelled("answer", said(completion))
    yield from speed_lines(plan, completion)
    for change in results.get("changes") or []:
        yield from labelled("changed", str(change))
    yield from wishes(document, url)


def said(completion: Mapping[str, Any]) -> str:
    """What the model said, in quotes; or that it only thought."""
    text, thought = (" ".join(str(completion.get(key) or "").split()) for key in ("text", "reasoning"))
    if text:
        return f'"{shorten(text, 160)}"'
    if thought:
        return f'it thought: "{shorten(thought, 140)}" (no answer within so few tokens)'
    return "tokens without visible text"


def no_answer(plan: Mapping[str, Any], results: Mapping[str, Any]) -> Iterator[Line]:
    url = dig(plan, "endpoint.url") or results.get("url", "")
    yield Line(f"No answer from {url}" if url else "No answer", "block")
    for part in str(results.get("msg") or "The endpoint was not asked.").split("\n"):
        yield from labelled("", part, width=0)


def wishes(document: Mapping[str, Any], url: str) -> Iterator[Line]:
    """One command for each."""
    yield gap()
    yield Line("Next", "title")
    for step in site_steps(document, url):
        yield Line(f"  {step.title}:")
        for text in step.lines:
            yield Line(f"    {text}", "command")
