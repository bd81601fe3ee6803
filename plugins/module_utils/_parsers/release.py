# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""/etc/os-release and /etc/dgx-release: NAME=value, quoted or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_LINE = re.compile(r"^(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)$")


@dataclass(frozen=True)
class OsRelease:
    id: str
    version: str | None
    name: str | None


@dataclass(frozen=True)
class Update:
    """One over-the-air update."""

    version: str
    date: str | None  # as date(1) printed it, in whatever language


@dataclass(frozen=True)
class DgxRelease:
    name: str | None
    release: str | None  # factory image
    ota_version: str | None  # last update; None on a factory-fresh machine
    platform: str | None
    ota_history: tuple[Update, ...]  # oldest first


def _pairs(text: str, source: str) -> list[tuple[str, str]]:
    pairs = []
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            raise ParseError(source, line)
        value = match.group("value").strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        pairs.append((match.group("name"), value))
    return pairs


def parse_os_release(text: str) -> OsRelease:
    fields = dict(_pairs(text, "/etc/os-release"))
    if not fields.get("ID"):
        raise ParseError("/etc/os-release", text.partition("\n")[0])
    return OsRelease(fields["ID"], fields.get("VERSION_ID") or None, fields.get("PRETTY_NAME") or None)


def parse_dgx_release(text: str) -> DgxRelease:
    """Each over-the-air update appends its own DGX_OTA_* lines; the last ones count."""
    pairs = [(name, value) for name, value in _pairs(text, "/etc/dgx-release") if value]
    fields = dict(pairs)
    if not any(name.startswith("DGX_") for name in fields):
        raise ParseError("/etc/dgx-release", text.partition("\n")[0])
    return DgxRelease(
        name=fields.get("DGX_NAME"),
        release=fields.get("DGX_SWBUILD_VERSION"),
        ota_version=fields.get("DGX_OTA_VERSION"),
        platform=fields.get("DGX_PLATFORM"),
        ota_history=tuple(_updates(pairs)),
    )


def _updates(pairs: list[tuple[str, str]]) -> Iterator[Update]:
    """A block's date follows its version; a block may lack one."""
    version = None
    for name, value in pairs:
        if name == "DGX_OTA_VERSION":
            if version is not None:
                yield Update(version, None)
            version = value
        elif name == "DGX_OTA_DATE" and version is not None:
            yield Update(version, value)
            version = None
    if version is not None:
        yield Update(version, None)
