# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemctl show: blocks of Name=value."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

PROPERTIES = ("Id", "LoadState", "ActiveState", "SubState", "UnitFileState")
_LINE = re.compile(r"^(?P<name>[A-Z][A-Za-z0-9]*)=(?P<value>.*)$")


@dataclass(frozen=True)
class Unit:
    name: str
    active: str
    sub: str
    enabled: str | None  # None: there is no unit file


def parse_units(text: str) -> tuple[Unit, ...]:
    """`systemctl show --property=… UNIT…`: each unit once, whatever aliases were asked for, and none that does not exist."""
    units = {}
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        fields = _fields(block, "systemctl show")
        if not fields or fields.get("LoadState") == "not-found":
            continue
        try:
            units[fields["Id"]] = Unit(fields["Id"], fields["ActiveState"], fields["SubState"], fields.get("UnitFileState") or None)
        except KeyError as error:
            raise ParseError("systemctl show", block) from error
    return tuple(units.values())


def _fields(text: str, source: str) -> dict[str, str]:
    fields = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _LINE.match(line)
        if match is None:
            raise ParseError(source, line)
        fields[match.group("name")] = match.group("value")
    return fields
