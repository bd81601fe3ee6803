# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How we say numbers, and what we never say: sizes, rates, durations, the last lines of a log, secrets blacked out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ansible_collections.gb10.cluster.plugins.module_utils._redact import REDACTED, redact_text

GIB = 1024**3

# CSI sequences (colours, cursor movement), OSC titles, and what else follows a lone ESC.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def gib(value: float) -> str:
    """Memory, in binary units: 98.0 GiB."""
    return f"{value / GIB:.1f} GiB"


def size(value: float) -> str:
    """Files and transfers, in decimal units as disks and Hubs count them: 119.0 GB."""
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit * 0.9995:
            return f"{value / limit:.1f} {unit}"
    return f"{value:.0f} B"


def rate(value: float) -> str:
    """Bytes per second: 512 MB/s, 1.2 GB/s."""
    for limit, unit, digits in ((1e9, "GB/s", 1), (1e6, "MB/s", 0), (1e3, "kB/s", 0)):
        if value >= limit * 0.9995:
            return f"{value / limit:.{digits}f} {unit}"
    return f"{value:.0f} B/s"


def duration(seconds: float) -> str:
    """45 s, 3 min, 1 h 12 min: as exact as one would say it."""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def count(number: int, noun: str, plural: str = "") -> str:
    """1 node, 2 nodes."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def listing(words: Sequence[str], last: str = "and") -> str:
    """a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def plain(text: str) -> str:
    """The text without colours, cursor movements and other control characters (newlines, tabs and carriage returns stay)."""
    return _CONTROL.sub("", _ANSI.sub("", text))


def screen_lines(text: str) -> list[str]:
    """The lines as a terminal would show them: of each line what was written after the last carriage return, blank lines left out."""
    shown = []
    for line in plain(text).split("\n"):
        parts = [part.rstrip() for part in line.split("\r") if part.strip()]
        if parts:
            shown.append(parts[-1])
    return shown


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the given secrets and without what looks like one."""
    for secret in sorted(secrets, key=len, reverse=True):
        if secret:
            text = text.replace(secret, REDACTED)
    return redact_text(text)


def shorten(text: str, width: int) -> str:
    """At most this many characters, cut at the end with an ellipsis."""
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"
