# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider that is always there: the reports that our rules and the recipe rest on."""

from __future__ import annotations

from .base import MODEL, Concern, Found, Hit, Subject

_RELEVANCE = {"block": 1.0, "warn": 0.8}
_INFORMATION = 0.5
_RECIPE = 0.7


class Catalogue:
    """Asks nobody."""

    name = "catalogue"

    def find(self, subject: Subject) -> Found:
        """The source of each finding that has a public one, and the sources of the recipe."""
        findings = [
            Hit(concern.source, concern.summary or concern.id, f"The public report behind the finding {concern.id}.", (concern.id,), _weight(concern))
            for concern in subject.concerns
        ]
        recipe = [Hit(source, "", f"A source of the recipe {subject.recipe}.", (MODEL,), _RECIPE) for source in subject.sources]
        return Found((*findings, *recipe))


def _weight(concern: Concern) -> float:
    return _INFORMATION if concern.accepted else _RELEVANCE.get(concern.severity, _INFORMATION)
