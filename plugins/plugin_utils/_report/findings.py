# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings by severity, and the one command that would lift what blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import count, listing

from .lines import Line, gap, paragraph

SIGNS = {"block": "✗", "warn": "!", "info": "·"}
_TITLES = {"block": "What blocks a deployment", "warn": "What to know before", "info": "For information"}
_SNIPPET = re.compile(r"-e '(\{.*?\})'(?=[\s.,;)]|$)")
# What a user can allow in one word; other variables that a remedy may name need thought.
_CONSENTS = ("gb10_reclaim", "gb10_consent")


def blocking(findings: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [finding for finding in findings if finding.get("severity") == "block" and not finding.get("accepted")]


def finding_lines(findings: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """Grouped, what blocks first. What is for information is a sentence a kind, its remedy left to the files; accepted ones are only named."""
    for severity, title in _TITLES.items():
        group = [finding for finding in findings if finding.get("severity") == severity and not finding.get("accepted")]
        if not group:
            continue
        yield gap()
        if severity == "info":
            yield Line(f"{title} (remedies are in the report's files)", "title")
            yield from _kinds(group)
            continue
        yield Line(f"{title} ({len(group)})", "title")
        for finding in group:
            yield from _finding(finding, severity)
    accepted = [finding for finding in findings if finding.get("accepted")]
    if accepted:
        yield gap()
        names = sorted({str(finding["id"]) for finding in accepted})
        yield from paragraph(f"Accepted by you ({count(len(accepted), 'finding')}): {listing(names)}.", style="dim")


def _kinds(group: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """The first finding of each id, and where else there is one."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for finding in group:
        kinds.setdefault(str(finding["id"]), []).append(finding)
    for id_, findings in kinds.items():
        elsewhere = listing(list(dict.fromkeys(str(node) for finding in findings[1:] for node in finding.get("nodes") or [])))
        yield from paragraph(f"{findings[0].get('observed', '')} ({id_}{f', also {elsewhere}' if elsewhere else ''})", 4, f"  {SIGNS['info']}")


def _finding(finding: Mapping[str, Any], severity: str) -> Iterator[Line]:
    style = {"block": "block", "warn": "warn"}.get(severity, "")
    where = listing([str(node) for node in finding.get("nodes") or []])
    yield Line(f"  {SIGNS[severity]} {finding['id']}" + (f" on {where}" if where else ""), style)
    yield from paragraph(str(finding.get("observed", "")), 4)
    remedy = str(finding.get("remedy") or "")
    if remedy and not remedy.startswith("Nothing has to be done"):
        yield from paragraph(remedy, 6, "    →")


def consent(findings: Sequence[Mapping[str, Any]]) -> dict[str, list[str]] | None:
    """What the user would have to allow so that nothing blocks any more; None where that does not suffice."""
    allowed: dict[str, list[str]] = {}
    for finding in blocking(findings):
        asked = _consents(str(finding.get("remedy") or ""))
        if not asked:
            return None
        for name, values in asked.items():
            known = allowed.setdefault(name, [])
            known += [value for value in values if value not in known]
    return allowed or None


def _consents(remedy: str) -> dict[str, list[str]]:
    asked: dict[str, list[str]] = {}
    for snippet in _SNIPPET.findall(remedy):
        try:
            record = json.loads(snippet)
        except ValueError:
            return {}
        if set(record) - set(_CONSENTS) or not all(isinstance(values, list) for values in record.values()):
            return {}
        asked.update(record)
    return asked
