# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider of reports is, what it is asked about, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Protocol

#: What stands in `about` for the model, beside the ids of findings.
MODEL = "model"


class SearchError(Exception):
    """No answer. The text says why, in a clause without a full stop that can be shown to the user, and holds no secret."""


@dataclass(frozen=True)
class Concern:
    """A finding at hand. ``summary`` is the rule's own sentence, the same on every machine, and empty if no rule has this id."""

    id: str
    severity: str
    accepted: bool
    summary: str
    source: str


@dataclass(frozen=True)
class Subject:
    """What reports are wanted about. ``hosts`` are names that must not be said."""

    concerns: tuple[Concern, ...] = ()
    repo: str = ""
    nodes: int = 0
    recipe: str = ""
    sources: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Hit:
    """One report as the provider gave it, not cleaned yet. ``relevance`` is between 0 and 1."""

    url: str
    title: str
    excerpt: str
    about: tuple[str, ...]
    relevance: float
    published: date | None = None


@dataclass(frozen=True)
class Found:
    """Reports, and one sentence for each thing that was not asked or not answered."""

    hits: tuple[Hit, ...]
    omitted: tuple[str, ...] = ()


class Provider(Protocol):
    """Where reports come from."""

    @property
    def name(self) -> str:
        """What the report calls it."""

    def find(self, subject: Subject) -> Found:
        """Reports about the subject. Raises SearchError if there was no answer at all."""
