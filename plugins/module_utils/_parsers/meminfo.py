# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""/proc/meminfo"""

from __future__ import annotations

import re

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_LINE = re.compile(r"^(?P<name>[\w()]+):\s+(?P<value>[0-9]{1,18})(?P<unit> kB)?\s*$")


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
