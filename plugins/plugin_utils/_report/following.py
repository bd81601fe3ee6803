# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict, and what to do next: a title and a command that can be pasted, for the screen as for the page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gb10.cluster.plugins.module_utils._words import count, listing

from .findings import blocking, consent
from .lines import Line, dig, gap, paragraph, shell
from .verify import summary


class Step(NamedTuple):
    """`lines` is one command, broken where it may be, or a few lines of a program."""

    title: str
    lines: tuple[str, ...]


def _step(title: str, argv: Sequence[str]) -> Step:
    return Step(title, tuple(line.text for line in shell(argv)))


def step_lines(steps: Sequence[Step]) -> Iterator[Line]:
    """The first is the one to take; others are beside it."""
    for number, step in enumerate(steps):
        yield gap()
        yield from paragraph(f"{'Or' if number else 'Next'}: {step.title}", style="title")
        for text in step.lines:
            yield Line(f"    {text}", "command")


def serves(document: Mapping[str, Any]) -> bool:
    """All that the plan wants runs already, unchanged, and systemd looks after it."""
    plan, nodes = document.get("plan") or {}, document["nodes"]
    planned = dig(plan, "nodes", {})
    if not document["ok"] or not planned:
        return False
    return all(_kept(entry, nodes.get(host)) for host, entry in planned.items())


def _kept(entry: Mapping[str, Any], node: Mapping[str, Any] | None) -> bool:
    containers = entry.get("containers") or []
    active = {unit.get("name") for unit in dig(node, "units", []) if unit.get("active") == "active"}
    return bool(containers) and all(row.get("action") == "keep" and f"{row.get('name')}.service" in active for row in containers)


def verdict(document: Mapping[str, Any]) -> Line:
    """One sentence over all that was found."""
    findings, ok = document["findings"], document["ok"]
    blocks = len(blocking(findings))
    warnings = sum(1 for finding in findings if finding.get("severity") == "warn" and not finding.get("accepted"))
    if not ok:
        return Line(f"Not yet: {count(blocks, 'point')} {'blocks' if blocks == 1 else 'block'} a deployment. Nothing was changed.", "block")
    extra = f", {count(warnings, 'point')} to know" if warnings else ""
    if serves(document):
        return Line(f"Deployed as planned: its containers run unchanged and its units are active{extra}. Nothing was changed.", "ok")
    return Line(f"Ready: nothing blocks a deployment{extra}. Nothing was changed.", "ok")


def headline(document: Mapping[str, Any]) -> Line:
    """The verdict of any kind of report."""
    plan, results = document.get("plan") or {}, document["results"]
    if document["kind"] == "recon":
        if not plan:
            return Line("No plan could be made: this is what the nodes are.", "warn")
        line = verdict(document)
        return Line(line.text.replace(" Nothing was changed.", ""), line.style)
    if document["kind"] == "verify":
        return summary(document)
    url = dig(plan, "endpoint.url") or results.get("url", "")
    if results.get("completion"):
        return Line(f"{dig(plan, 'model.repo', 'The model')} answers at {url}", "ok")
    return Line(f"No answer from {url}" if url else "No answer", "block")


def steps(document: Mapping[str, Any]) -> list[Step]:
    """What to do next, of any kind of report."""
    plan, results = document.get("plan") or {}, document["results"]
    if document["kind"] == "verify":
        return []
    if document["kind"] == "status":
        return status_steps(document)
    if document["kind"] == "site":
        return site_steps(document, dig(plan, "endpoint.url") or results.get("url", "")) if results.get("completion") else []
    return recon_steps(document) if plan else []


def recon_steps(document: Mapping[str, Any]) -> list[Step]:
    """The single best next command; where all runs already, how to ask it and how to measure it."""
    commands = document.get("commands") or {}
    site, survey = shlex.split(commands.get("site", "")), shlex.split(commands.get("recon", ""))
    if not site or not survey:
        return []
    if serves(document):
        titles = {"status": "it is deployed; ask it, and see how it is", "bench": "measure how fast it is"}
        return [_step(title, shlex.split(commands[name])) for name, title in titles.items() if commands.get(name)]
    if document["ok"]:
        return [_step("serve the model", site)]
    allowed = consent(document["findings"])
    if allowed:
        return [_step(f"if {_allowance(allowed)}, serve the model", [*site, "-e", json.dumps(allowed)])]
    return [_step("do what the remedies of these points say, then look again", [*survey, "--check"])]


def _allowance(allowed: Mapping[str, list[str]]) -> str:
    """What the user would allow with that command."""
    stops = allowed.get("gb10_reclaim", [])
    parts = [f"{listing(stops)} may be stopped"] if stops else []
    if "network" in allowed.get("gb10_consent", []):
        parts.append("the rails may be configured")
    return listing(parts)


def status_steps(document: Mapping[str, Any]) -> list[Step]:
    commands = document.get("commands") or {}
    if document["results"].get("completion"):
        name, title = "stop", "stop it, and keep everything"
    elif any(container.get("running") for node in document["nodes"].values() for container in dig(node, "docker.ours", [])):
        name, title = "status", "it may still be starting (docker logs -f gb10-vllm tells); ask again in a minute"
    elif blocking(document["findings"]):
        name, title = "recon", "see what stands in the way"
    else:
        name, title = "site", "bring it up again"
    return [_step(title, shlex.split(commands[name]))] if commands.get(name) else []


def site_steps(document: Mapping[str, Any], url: str) -> list[Step]:
    """A command for each wish."""
    plan, results, commands = document.get("plan") or {}, document["results"], document.get("commands") or {}
    model = dig(plan, "model.served_name") or next(iter(results.get("models") or []), "")
    keyed = bool(dig(plan, "endpoint.api_key", False))
    wishes = [_step("Ask it", curl(url, model, keyed)), Step("From Python", tuple(python(url, model, keyed)))]
    titles = {
        "status": "See how it is",
        "bench": "Measure how fast it is",
        "stop": "Stop it, and keep everything",
        "teardown": "Remove it, and keep the model",
    }
    return wishes + [_step(title, shlex.split(commands[name])) for name, title in titles.items() if commands.get(name)]


def curl(url: str, model: str, keyed: bool) -> Sequence[str]:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello!"}]}, separators=(",", ":"))
    key = ["-H", "Authorization: Bearer YOUR_KEY"] if keyed else []
    return ["curl", f"{url}/chat/completions", "-H", "Content-Type: application/json", *key, "-d", body]


def python(url: str, model: str, keyed: bool) -> list[str]:
    key = "YOUR_KEY" if keyed else "none"
    return [
        "from openai import OpenAI",
        f'client = OpenAI(base_url="{url}", api_key="{key}")',
        'question = [{"role": "user", "content": "Hello!"}]',
        f'answer = client.chat.completions.create(model="{model}", messages=question)',
        "print(answer.choices[0].message.content)",
    ]
