# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen of site: the endpoint, its answer, its speed, and a command for each next wish."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import listing, shorten

from .findings import finding_lines
from .lines import Line, dig, gap, labelled, shell
from .recon import order
from .speed import speed_lines


def site(document: Mapping[str, Any]) -> list[Line]:
    """All lines."""
    return list(_site(document))


def _site(document: Mapping[str, Any]) -> Iterator[Line]:
    plan, results = document.get("plan") or {}, document["results"]
    yield from finding_lines([finding for finding in document["findings"] if finding.get("severity") != "info" and not finding.get("accepted")])
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
    plan, results, commands = document.get("plan") or {}, document["results"], document.get("commands") or {}
    model = dig(plan, "model.served_name") or next(iter(results.get("models") or []), "")
    keyed = bool(dig(plan, "endpoint.api_key", False))
    yield gap()
    yield Line("Next", "title")
    yield Line("  Ask it:")
    yield from shell(curl(url, model, keyed), indent=4)
    yield Line("  From Python:")
    for text in python(url, model, keyed):
        yield Line(f"    {text}", "command")
    for label, name in (("See how it is:", "status"), ("Stop it, and keep everything:", "stop"), ("Remove it, and keep the model:", "teardown")):
        if commands.get(name):
            yield Line(f"  {label}")
            yield from shell(shlex.split(commands[name]), indent=4)


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
