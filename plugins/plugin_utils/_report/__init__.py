# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: one document (the truth, report.json), and what is drawn from it alone: lines for a terminal, and Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .document import build
from .lines import Line
from .markdown import markdown
from .recon import recon
from .site import site
from .status import status

KINDS = {"recon": recon, "site": site, "status": status}

__all__ = ["KINDS", "Line", "build", "markdown", "terminal"]


def terminal(document: Mapping[str, Any]) -> list[Line]:
    """The lines for the screen, at most 100 columns wide."""
    return KINDS[document["kind"]](document)
