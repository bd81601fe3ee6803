# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as one HTML file that needs nothing else: what the template shows, made here; how it looks is in templates/."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2
from ansible_collections.gb10.cluster.plugins.module_utils._words import count, listing

from . import community, drift, following, links, nodes, verify
from .bars import bars
from .commands import rank_lines
from .equality import brief
from .lines import WHOLE, Line, dig
from .recon import order, wish
from .site import said
from .speed import measured, roofline
from .status import container_state, unit_words
from .topology import topology

TITLES = {"recon": "What was found", "site": "Deployment", "status": "Status", "verify": "Proof"}
_SEVERITIES = {"block": "What blocks a deployment", "warn": "What to know before", "info": "For information"}
_WORDS = {"block": "Blocks", "warn": "To know", "info": "Information"}
_EQUAL = {True: "equal", False: "different", None: "not known"}
# Relative to this file: a collection is installed wherever the user likes.
_TEMPLATES = Path(__file__).parent / "templates"

Document = Mapping[str, Any]


def page(document: Document) -> str:
    """The whole file."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["link"] = link
    return environment.get_template("page.html.j2").render(view(document)) + "\n"


def link(source: Any) -> str:
    """The URL if it may be followed, else nothing: what is no plain web address stays text."""
    text = str(source or "")
    try:
        parts = urlsplit(text)
    except ValueError:
        return ""
    return text if parts.scheme in ("http", "https") and parts.netloc and text.isprintable() else ""


def view(document: Document) -> dict[str, Any]:
    """Everything the template shows."""
    plan = document.get("plan") or {}
    hosts = order(document)
    headline = following.headline(document)
    return {
        "title": TITLES[document["kind"]],
        "subject": dig(plan, "model.repo") or "GB10 nodes",
        "headline": headline.text,
        "state": headline.style or "ok",
        "wish": " ".join(line.text.strip() for line in wish(plan)) if plan else "",
        "steps": following.steps(document),
        "drawings": [drawing for drawing in (topology(document), topology(document, narrow=True)) if drawing],
        "links": links.rows(document) if len(hosts) > 1 else [],
        "bars": (known := bars(document, hosts)),
        "unmeasured": listing([host for host in hosts if host not in [bar.host for bar in known]]),
        "groups": list(_groups(document["findings"])),
        "accepted": [_finding(finding) for finding in document["findings"] if finding.get("accepted")],
        "equality": _equality(document),
        "drift": _drift(document),
        "ladder": list(_ladder(document)),
        "results": list(_results(document)),
        "nodes": [{"heading": host, "facts": list(_facts(host, document["nodes"].get(host), plan))} for host in hosts],
        "ranks": list(_ranks(plan)),
        "community": _community(document),
        "generated": drift.moment(document.get("generated") or ""),
        "schema": document["schema"],
        "version": document.get("version") or "unknown",
        "kind": document["kind"],
    }


def _groups(findings: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for severity, title in _SEVERITIES.items():
        group = [_finding(finding) for finding in findings if finding.get("severity") == severity and not finding.get("accepted")]
        if group:
            yield {"severity": severity, "title": title, "findings": group}


def _finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    remedy = "" if (remedy := str(finding.get("remedy") or "")).startswith("Nothing has to be done") else remedy
    return {
        "id": finding.get("id", ""),
        "severity": finding.get("severity", "info"),
        "word": _WORDS.get(str(finding.get("severity")), "Information"),
        "where": listing([str(node) for node in finding.get("nodes") or []]),
        "observed": finding.get("observed", ""),
        "expected": finding.get("expected", ""),
        "remedy": list(_pieces(remedy)),
        "evidence": [str(key) for key in finding.get("evidence") or []],
        "source": finding.get("source") or "",
    }


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """The text in parts, each with whether it is something to type."""
    start = 0
    for match in WHOLE.finditer(text):
        yield False, text[start : match.start()]
        yield True, match[0].strip("`")
        start = match.end()
    yield False, text[start:]


def _equality(document: Document) -> dict[str, Any] | None:
    """Differences first; what is not known anywhere is only named."""
    rows = document.get("equality") or []
    if not rows:
        return None
    shown = [row for row in rows if any(value is not None for value in row["values"].values())]
    ranked = sorted(shown, key=lambda row: {False: 0, True: 1, None: 2}[row["equal"]])
    hosts = list(rows[0]["values"])
    return {
        "hosts": hosts,
        "rows": [
            {
                "what": row["what"],
                "state": {True: "ok", False: "warn", None: "unknown"}[row["equal"]],
                "word": _EQUAL[row["equal"]],
                "values": [None if row["values"].get(host) is None else brief(row["values"][host]) for host in hosts],
            }
            for row in ranked
        ],
        "unknown": listing([row["what"] for row in rows if row not in shown]),
        "summary": listing(
            [
                f"{count(number, 'point')} {_EQUAL[state]}"
                for state in (False, True, None)
                if (number := sum(1 for row in rows if row["equal"] is state))
            ]
        ),
    }


def _drift(document: Document) -> dict[str, Any] | None:
    record = document.get("drift")
    if not record:
        return None
    words = {"+": "new", "-": "gone", "~": "changed"}
    changes = [{**change, "word": words[drift.sign(change)], "node": change["node"] or "the cluster"} for change in record["changes"]]
    return {"since": drift.moment(record["since"]), "changes": changes}


def _ladder(document: Document) -> Iterator[dict[str, Any]]:
    """Rung by rung; what was not measured looks like what is not known."""
    states = {"pass": "ok", "warn": "warn", "fail": "block", "skipped": "unknown"}
    for rung in verify.rungs(document):
        words = {key: str(rung.get(key) or "") for key in ("verdict", "observed", "expected", "remedy", "source")}
        yield {**words, "what": verify.heading(rung), "state": states.get(words["verdict"], "unknown")}


def _results(document: Document) -> Iterator[tuple[str, str]]:
    """What the endpoint said, in pairs of name and words."""
    results, plan = document["results"], document.get("plan") or {}
    if results.get("models"):
        yield "models", listing([str(name) for name in results["models"]])
    completion = results.get("completion")
    if completion:
        yield "answer", said(completion)
        yield "speed", measured(completion)
        for number in dig(plan, "recipe.measured", []):
            yield "others", f"{number.get('value')} {number.get('unit', '')}: {number.get('what', '')}"
        limit = roofline(plan)
        if limit:
            yield "limit", f"about {limit:.0f} tok/s for a single stream, by memory bandwidth"
    elif results.get("msg"):
        yield "reason", str(results["msg"])
    for change in results.get("changes") or []:
        yield "changed", str(change)


def _facts(host: str, node: Mapping[str, Any] | None, plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A node in pairs of name and words."""
    if node is None:
        yield "state", "did not answer"
        return
    yield "product", nodes.product(node.get("product") or {}) or "not known"
    yield "system", nodes.system(node)
    yield "GPU", nodes.gpu(node.get("gpu"))
    yield "docker", nodes.docker_words(node.get("docker"))
    yield "model", nodes.model_words(node.get("models"), plan)
    yield "disk", nodes.disk_words(node)
    for container in dig(node, "docker.ours", []):
        yield "container", f"{container.get('name')}: {container_state(container, node.get('epoch'))[0]}"
    for unit in node.get("units") or []:
        if str(unit.get("name", "")).startswith("gb10-"):
            yield "unit", unit_words(unit)
    for entry in node.get("deployments") or []:
        yield "found", f"{entry.get('kind', 'a deployment')} in {entry.get('path', '?')}"
    unread = [f"{name} ({entry.get('reason') or entry.get('status')})" for name, entry in (node.get("unread") or {}).items()]
    if unread:
        yield "not read", "; ".join(unread)


def _ranks(plan: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for host in plan.get("ranks") or []:
        node = dig(plan, "nodes", {}).get(host) or {}
        yield {"heading": f"{host}, rank {node.get('rank', '?')}", "text": _block(rank_lines(node))}


def _block(lines: Iterator[Line]) -> str:
    return textwrap.dedent("\n".join(line.text for line in lines)).strip("\n")


def _community(document: Document) -> dict[str, Any] | None:
    record = document.get("community")
    if not record:
        return None
    entries = [
        {
            "title": entry.get("title") or "Untitled",
            "url": str(entry.get("url") or ""),
            "published": community.dated(entry),
            "about": community.about(entry),
            "excerpt": community.excerpt(entry),
        }
        for entry in record.get("entries") or []
    ]
    return {"provider": community.provider(record), "entries": entries}
