# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as Markdown: the screen's content, with the findings in full and the commands whether shown on screen or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import listing

from .commands import what_would_run
from .community import about, dated, excerpt, provider
from .drift import moment, sign, told
from .equality import brief
from .findings import SIGNS
from .following import verdict
from .lines import Line, dig
from .nodes import node_block
from .recon import order, wish
from .site import said
from .speed import measured, roofline
from .verify import heading, rungs, summary

_TITLES = {"recon": "What was found", "site": "Deployment", "status": "Status", "verify": "Proof"}


def markdown(document: Mapping[str, Any]) -> str:
    """The whole file."""
    return "\n".join(_document(document)).rstrip() + "\n"


def _document(document: Mapping[str, Any]) -> Iterator[str]:
    plan = document.get("plan")
    yield f"# {_TITLES[document['kind']]}: {dig(plan, 'model.repo', 'GB10 nodes')}"
    yield ""
    yield f"Made by gb10.cluster at {moment(document.get('generated') or '')}."
    if plan:
        yield ""
        yield from _texts(wish(plan))
        yield ""
        yield verdict(document).text.replace(" Nothing was changed.", "")
    yield from _ladder(document)
    yield from _results(document)
    yield from _nodes(document)
    yield from _findings(document["findings"])
    yield from _equality(document)
    yield from _drift(document)
    yield from _community(document)
    if plan:
        yield from ["", "## What runs", "", "```text"]
        yield from _texts(list(what_would_run(plan))[2:])
        yield "```"


def _ladder(document: Mapping[str, Any]) -> Iterator[str]:
    found = rungs(document)
    if not found:
        return
    yield from ["", "## The fabric, from the wire upwards", "", summary(document).text, ""]
    yield from ["| what | verdict | observed | expected | remedy |", "| --- | --- | --- | --- | --- |"]
    for rung in found:
        told = (_cell(" ".join(str(rung.get(key) or "").split())) for key in ("verdict", "observed", "expected", "remedy"))
        yield f"| {_cell(heading(rung))} | {' | '.join(told)} |"


def _results(document: Mapping[str, Any]) -> Iterator[str]:
    results, plan = document["results"], document.get("plan") or {}
    if not results or "ladder" in results:
        return
    yield from ["", "## Endpoint", "", f"- URL: {dig(plan, 'endpoint.url') or results.get('url', 'unknown')}"]
    if results.get("models"):
        yield f"- models: {listing([str(name) for name in results['models']])}"
    completion = results.get("completion")
    if completion:
        yield f"- answer: {said(completion)}"
        yield f"- measured: {measured(completion)}"
        for number in dig(plan, "recipe.measured", []):
            source = f" ([source]({number['source']}))" if number.get("source") else ""
            yield f"- others: {number.get('value')} {number.get('unit', '')}, {number.get('what', '')}{source}"
        limit = roofline(plan)
        if limit:
            yield f"- limit by memory bandwidth: about {limit:.0f} tok/s for a single stream"
    elif results.get("msg"):
        yield from ["", "```text", str(results["msg"]), "```"]
    for change in results.get("changes") or []:
        yield f"- changed: {change}"


def _nodes(document: Mapping[str, Any]) -> Iterator[str]:
    yield from ["", "## Nodes", "", "```text"]
    for host in order(document):
        node = document["nodes"].get(host)
        yield from _texts(node_block(host, node, document.get("plan")))
        absent = [name for name, entry in ((node or {}).get("unread") or {}).items() if entry.get("status") == "unavailable"]
        if absent:
            yield f"  not on this node: {listing(sorted(absent))}"
        yield ""
    yield "```"


def _findings(findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not findings:
        return
    yield from ["", "## Findings"]
    for finding in findings:
        accepted = " (accepted)" if finding.get("accepted") else ""
        severity = str(finding.get("severity"))
        yield from ["", f"### {SIGNS.get(severity, '')} `{finding.get('id')}`, {severity}{accepted}", ""]
        yield f"- nodes: {listing([str(node) for node in finding.get('nodes') or []])}"
        for name in ("observed", "expected", "remedy", "source"):
            if finding.get(name):
                yield f"- {name}: {finding[name]}"
        if finding.get("evidence"):
            yield f"- evidence: {listing([f'`{key}`' for key in finding['evidence']])}"


def _equality(document: Mapping[str, Any]) -> Iterator[str]:
    rows = document.get("equality") or []
    if not rows:
        return
    hosts = list(rows[0]["values"])
    words = {True: "equal", False: "**different**", None: "not known"}
    yield from ["", "## The same on all nodes", ""]
    yield f"| what | {' | '.join(_cell(host) for host in hosts)} | compared |"
    yield "| --- |" + " --- |" * (len(hosts) + 1)
    for row in rows:
        values = [_cell(brief(value)) if (value := row["values"].get(host)) is not None else "not known" for host in hosts]
        yield f"| {row['what']} | {' | '.join(values)} | {words[row['equal']]} |"


def _drift(document: Mapping[str, Any]) -> Iterator[str]:
    record = document.get("drift")
    if not record:
        return
    yield from ["", f"## Since {moment(record['since'])}", ""]
    for change in record["changes"]:
        where = f"{change['node']}: " if change["node"] else ""
        yield f"- `{sign(change)}` {where}{change['what']}{told(change)}"
    if not record["changes"]:
        yield "No change worth telling."


def _community(document: Mapping[str, Any]) -> Iterator[str]:
    record = document.get("community")
    if not record:
        return
    yield from ["", "## Reports by others, not verified", "", provider(record)]
    for entry in record.get("entries") or []:
        yield from ["", f"- {entry.get('title') or 'Untitled'} ({dated(entry)}): {entry.get('url', '')}"]
        notes = [note for note in (about(entry), excerpt(entry)) if note]
        yield from (f"  {note}" for note in notes)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _texts(lines: Iterator[Line] | Sequence[Line]) -> Iterator[str]:
    for line in lines:
        yield line.text
