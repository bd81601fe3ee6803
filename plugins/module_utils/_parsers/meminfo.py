# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""/proc/meminfo, /proc/swaps"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_LINE = re.compile(r"^(?P<name>[\w()]+):\s+(?P<value>[0-9]{1,18})(?P<unit> kB)?\s*$")

_SWAP = re.compile(r"^(?P<path>/\S*)\s+\w+\s+(?P<size>[0-9]{1,18})\s+(?P<used>[0-9]{1,18})\s+-?[0-9]+\s*$")


@dataclass(frozen=True)
class Swap:
    path: str
    size: int  # bytes
    used: int  # bytes


def parse_meminfo(text: str) -> dict[str, int]:
    """Field to bytes (plain counts such as HugePages_Total as they are)."""
    fields: dict[str, int] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _LINE.match(line)
        if match is None:
            raise ParseError("/proc/meminfo", line)
        fields[match.group("name")] = int(match.group("value")) * (1024 if match.group("unit") else 1)
    if "MemTotal" not in fields:
        raise ParseError("/proc/meminfo", text.partition("\n")[0])
    return fields


def parse_swaps(text: str) -> tuple[Swap, ...]:
    """Swap files and partitions that are in use; blanks in a path are written as `\\040`."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or not lines[0].startswith("Filename"):
        raise ParseError("/proc/swaps", lines[0] if lines else "")
    swaps = []
    for line in lines[1:]:
        match = _SWAP.match(line)
        if match is None:
            raise ParseError("/proc/swaps", line)
        swaps.append(Swap(match.group("path").replace("\\040", " "), int(match.group("size")) * 1024, int(match.group("used")) * 1024))
    return tuple(swaps)
