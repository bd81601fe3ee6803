# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who looks after an interface: nmcli -t, networkctl --json."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

DEVICE_FIELDS = "DEVICE,STATE,CON-UUID"
CONNECTION_FIELDS = "UUID,FILENAME"
PROFILE_FIELDS = "connection.uuid,ipv4.method,ipv4.addresses"
_NOT_ITS_OWN = ("unmanaged", "connected (externally)")  # the latter: somebody else's addresses, which it only watches
_UUID = re.compile(r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_BETWEEN = re.compile(r"(?<!\\):")  # a colon without a backslash before it
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Device:
    """NetworkManager's view of an interface."""

    name: str
    managed: bool
    profile: str | None  # UUID of the active one


@dataclass(frozen=True)
class Profile:
    method: str  # auto | manual | link-local | disabled | shared
    addresses: tuple[str, ...]  # IPv4, without prefix


@dataclass(frozen=True)
class Networkd:
    """networkd's view of an interface."""

    name: str
    managed: bool
    file: str | None
    sources: dict[str, str]  # IPv4 address to where it is from: static, DHCPv4, IPv4LL, foreign


def _rows(text: str, width: int, source: str) -> Iterator[list[str]]:
    """Lines of `nmcli -t`: cells between colons; a colon or backslash inside of one has a backslash before it."""
    for line in text.splitlines():
        if not line.strip():
            continue
        cells = [_ESCAPED.sub(r"\1", cell) for cell in _BETWEEN.split(line)]
        if len(cells) != width:
            raise ParseError(source, line)
        yield cells


def parse_devices(text: str) -> tuple[Device, ...]:
    """`nmcli -t -f DEVICE,STATE,CON-UUID device`"""
    devices = []
    for name, state, uuid in _rows(text, 3, "nmcli device"):
        if uuid and not _UUID.match(uuid):
            raise ParseError("nmcli device", uuid)
        devices.append(Device(name, state not in _NOT_ITS_OWN, uuid or None))
    return tuple(devices)


def parse_connections(text: str) -> dict[str, str]:
    """`nmcli -t -f UUID,FILENAME connection show`: UUID to file"""
    source = "nmcli connection"
    files = {cells[0]: cells[1] for cells in _rows(text, 2, source)}
    for uuid in files:
        if not _UUID.match(uuid):
            raise ParseError(source, uuid)
    return files


def parse_profiles(text: str) -> dict[str, Profile]:
    """`nmcli -t -f … connection show UUID…`: blocks of `name:value`, one a profile, by UUID"""
    profiles: dict[str, Profile] = {}
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        fields: dict[str, str] = {}
        for line in block.splitlines():
            name, separator, value = line.strip().partition(":")
            if not line.strip():
                continue
            if not separator or not re.match(r"^[\w.-]+$", name):
                raise ParseError("nmcli connection show", line)
            fields[name] = value.replace("\\:", ":")
        if not fields:
            continue
        if not _UUID.match(fields.get("connection.uuid", "")):
            raise ParseError("nmcli connection show", block)
        profiles[fields["connection.uuid"]] = Profile(fields.get("ipv4.method", ""), tuple(_addresses(fields.get("ipv4.addresses", ""))))
    return profiles


def _addresses(text: str) -> Iterator[str]:
    for entry in text.split(","):
        try:
            yield str(ipaddress.IPv4Interface(entry.strip()).ip)
        except ValueError:
            continue


def parse_networkctl(text: str) -> tuple[Networkd, ...]:
    """`networkctl --json=short list`"""
    source = "networkctl"
    try:
        rows = json.loads(text)["Interfaces"]
        return tuple(_interface(row) for row in rows)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ParseError(source, text) from error


def _interface(row: dict[str, Any]) -> Networkd:
    sources = {}
    for entry in row.get("Addresses") or ():
        if entry.get("Family") == 2:
            sources[str(ipaddress.IPv4Address(bytes(entry["Address"])))] = str(entry.get("ConfigSource") or "")
    file = row.get("NetworkFile")
    managed = row["AdministrativeState"] not in ("unmanaged", "pending", "linger")
    return Networkd(str(row["Name"]), managed, file if isinstance(file, str) and file else None, sources)


def reduce_networkctl(text: str) -> str:
    """Without leases, DNS, routes and neighbours."""
    try:
        rows = json.loads(text)["Interfaces"]
        kept = [
            {
                **{name: row[name] for name in ("Name", "AdministrativeState", "NetworkFile") if name in row},
                "Addresses": [
                    {name: entry[name] for name in ("Family", "Address", "ConfigSource") if name in entry}
                    for entry in row.get("Addresses") or ()
                    if entry.get("Family") == 2
                ],
            }
            for row in rows
        ]
    except (AttributeError, KeyError, TypeError, ValueError):
        return text[:1000]
    return json.dumps({"Interfaces": kept}) + "\n"
