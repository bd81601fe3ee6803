# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong between a node's output and a fact."""

from __future__ import annotations


class ParseError(Exception):
    """The text is not what the tool is known to print. `line` is the offending line, shortened."""

    def __init__(self, source: str, line: str) -> None:
        self.source = source
        self.line = line.strip()[:200]
        super().__init__(f"{source}: cannot read {self.line!r}" if self.line else f"{source}: no output")


class Unavailable(Exception):
    """The tool or file is not on this node, or not in this recording."""


class Failed(Exception):
    """The tool ran and said that it could not do it."""


class TimedOut(Exception):
    """The tool did not answer in time; it may be stuck in the kernel."""


class RecordingError(Exception):
    """The file is not a recording."""
