# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a plan to what is asked.

A query is made of nothing but our own words: the id and the summary of rules, which are the same on every machine, names of products, and
the repository of a public model. What was observed on a node is never part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.plugin_utils._rules import RULES

from .base import MODEL, Concern, Subject

MAX_QUERIES = 4
MAX_LENGTH = 400  # characters of a query
HARDWARE = "NVIDIA DGX Spark GB10"

_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 8: "eight"}
_SEVERITIES = ("block", "warn")
# Organisations of the Hub have no dots, so neither an address nor a host's full name can pass for one.
_REPOSITORY = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*/[A-Za-z0-9][A-Za-z0-9._-]{0,95}", re.ASCII)
# First parts of relative paths.
_DIRECTORIES = frozenset(("checkpoints", "data", "home", "local", "localhost", "mnt", "model", "models", "opt", "root", "srv", "tmp", "weights"))


@dataclass(frozen=True)
class Query:
    """What is asked, and what its results are about."""

    text: str
    about: tuple[str, ...]


def read_subject(plan: Mapping[str, Any] | None) -> Subject:
    """What the plan (docs/contracts.md, section 4) is concerned with; empty without one."""
    if not plan:
        return Subject()
    recipe = plan.get("recipe") or {}
    concerns: dict[str, Concern] = {}
    for finding in plan.get("findings") or []:
        id_ = str(finding.get("id") or "")
        rule = RULES.get(id_)
        summary = rule.summary if rule else ""
        # One rule finds the same on several nodes.
        concerns.setdefault(id_, Concern(id_, str(finding.get("severity")), bool(finding.get("accepted")), summary, str(finding.get("source") or "")))
    return Subject(
        concerns=tuple(concerns[id_] for id_ in sorted(concerns) if id_),
        repo=str((plan.get("model") or {}).get("repo") or ""),
        nodes=int(recipe.get("nodes") or 0),
        recipe=str(recipe.get("name") or ""),
        sources=tuple(str(source) for source in recipe.get("sources") or []),
        hosts=frozenset(str(host).lower() for host in plan.get("ranks") or []),
    )


def is_public(subject: Subject) -> bool:
    """Whether the model's name looks like one of the public Hub: no path, no address, and no host of ours in it."""
    parts = subject.repo.lower().split("/")
    return bool(_REPOSITORY.fullmatch(subject.repo)) and ".." not in subject.repo and parts[0] not in _DIRECTORIES and not subject.hosts & set(parts)


def worries(subject: Subject) -> list[Concern]:
    """The findings that are asked about: those that block or warn and were not accepted, what blocks first."""
    chosen = [each for each in subject.concerns if each.summary and each.severity in _SEVERITIES and not each.accepted]
    return sorted(chosen, key=lambda each: (_SEVERITIES.index(each.severity), each.id))


def queries(subject: Subject, model: bool) -> tuple[Query, ...]:
    """At most MAX_QUERIES: one about the model if it may be named, one for each topic of findings that block or warn; the rest share the last."""
    asked = []
    if model:
        count = _NUMBERS.get(subject.nodes, "")
        asked.append(Query(" ".join(f"{subject.repo} {count} DGX Spark vLLM tensor parallel".split()), (MODEL,)))
    topics: dict[str, list[Concern]] = {}
    for concern in worries(subject):
        topics.setdefault(concern.id.partition(".")[0], []).append(concern)
    groups = list(topics.values())
    room = MAX_QUERIES - len(asked)
    if len(groups) > room:
        groups[room - 1 :] = [[concern for group in groups[room - 1 :] for concern in group]]
    return (*asked, *(_query(group) for group in groups))


def _query(concerns: list[Concern]) -> Query:
    """One query about all of these, as far as they fit."""
    text = HARDWARE
    about: list[str] = []
    for concern in concerns:
        longer = f"{text} {re.sub(r'[._]', ' ', concern.id)}: {concern.summary}"
        if about and len(longer) > MAX_LENGTH:
            break
        text = longer
        about.append(concern.id)
    return Query(text, tuple(about))
