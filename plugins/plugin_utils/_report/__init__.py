# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: one document (the truth, report.json), and what is drawn from it alone: lines for a terminal, Markdown, a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import plain

from .document import SCHEMA, build
from .lines import Line
from .markdown import markdown
from .page import page
from .recon import recon
from .site import site
from .status import status
from .verify import verify

KINDS = {"recon": recon, "site": site, "status": status, "verify": verify}

__all__ = ["KINDS", "SCHEMA", "Line", "build", "markdown", "page", "terminal"]


def terminal(document: Mapping[str, Any], diff: bool = False) -> list[Line]:
    """The lines for the screen, at most 100 columns wide. `diff`: what changed since the last report in full, else how much did.

    Names come from machines and from the web: no escape sequence of theirs reaches the terminal.
    """
    return [Line(plain(line.text), line.style) for line in KINDS[document["kind"]](document, diff)]
