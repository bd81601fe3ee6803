# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Community knowledge: what others report about the findings and the model at hand (docs/contracts.md, section 6, `community`).

``community(plan, provider, …)`` asks the provider and falls back to the catalogue of our own sources, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from ansible_collections.gb10.cluster.plugins.plugin_utils._rules import RULES

from .base import Found, Provider, SearchError
from .catalogue import Catalogue
from .exa import ENDPOINT, ENDPOINT_VARIABLE, KEY_VARIABLE, Exa
from .ranking import rank
from .subject import read_subject
from .text import host_of

__all__ = ["ENDPOINT", "ENDPOINT_VARIABLE", "KEY_VARIABLE", "Catalogue", "Exa", "Provider", "SearchError", "community", "rank"]


def community(plan: Mapping[str, Any] | None, provider: Provider, limit: int, today: date) -> tuple[dict[str, Any], list[str]]:
    """The block `community` of the report, and a sentence for each thing that was not asked or not answered."""
    subject = read_subject(plan)
    known = frozenset(host_of(rule.source) for rule in RULES.values()) - {"", "github.com"}
    reason = f"{provider.name} knows no report about this"
    try:
        found = provider.find(subject)
    except SearchError as error:
        found, reason = Found(()), str(error)
    entries = rank(found.hits, today, limit, known)
    if entries:
        return {"provider": provider.name, "entries": entries}, list(found.omitted)
    catalogue = Catalogue()
    entries = rank(catalogue.find(subject).hits, today, limit, known)
    return {"provider": catalogue.name, "reason": reason, "entries": entries}, list(found.omitted)
