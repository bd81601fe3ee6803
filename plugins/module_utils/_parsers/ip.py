# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ip -j: addresses with statistics, routes, neighbours."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_MAC = re.compile(r"^[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}$")


@dataclass(frozen=True)
class Address:
    family: str  # inet | inet6
    address: str
    prefix: int
    scope: str
    managed: bool = False  # has a lifetime or no route of its own, as DHCP and NetworkManager give it; `ip addr add` does not


@dataclass(frozen=True)
class Interface:
    name: str
    operstate: str
    mtu: int
    carrier: bool
    addresses: tuple[Address, ...]
    rx_bytes: int | None
    tx_bytes: int | None
    mac: str | None
    ethernet: bool  # by the kind of link: Ethernet in its widest sense, which veth and Wi-Fi are, too
    errors: dict[str, int]


@dataclass(frozen=True)
class Neighbour:
    address: str
    interface: str | None  # None: some versions leave it out
    mac: str | None
    state: str | None  # REACHABLE, STALE, FAILED, …


@dataclass(frozen=True)
class Route:
    destination: str
    gateway: str | None
    interface: str | None


def _rows(text: str, source: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text) if text.strip() else []
    except ValueError as error:
        raise ParseError(source, text.strip()) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ParseError(source, text.strip())
    return [row for row in rows if row]  # a filtered `ip -j` prints empty objects


def parse_interfaces(text: str) -> tuple[Interface, ...]:
    """`ip -j -s addr`"""
    source = "ip -j addr"
    return tuple(_interface(row, source) for row in _rows(text, source))


def _interface(row: dict[str, Any], source: str) -> Interface:
    try:
        statistics = row.get("stats64") or {}
        return Interface(
            name=str(row["ifname"]),
            operstate=str(row.get("operstate") or "unknown").lower(),
            mtu=int(row["mtu"]),
            carrier="LOWER_UP" in row.get("flags", ()),
            addresses=tuple(
                Address(
                    family=str(entry["family"]),
                    address=str(entry["local"]),
                    prefix=int(entry["prefixlen"]),
                    scope=str(entry.get("scope", "global")),
                    managed=bool(entry.get("dynamic") or entry.get("noprefixroute")),
                )
                for entry in row.get("addr_info") or ()
                if "local" in entry
            ),
            rx_bytes=_bytes(statistics, "rx"),
            tx_bytes=_bytes(statistics, "tx"),
            mac=_mac(row.get("address")),
            ethernet=row.get("link_type") == "ether",
            errors={f"{way}_errors": int(statistics[way]["errors"]) for way in ("rx", "tx") if "errors" in statistics.get(way, {})},
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ParseError(source, str(row)) from error


def _bytes(statistics: dict[str, Any], direction: str) -> int | None:
    counters = statistics.get(direction)
    return None if counters is None else int(counters["bytes"])


def _mac(value: Any) -> str | None:
    return value.lower() if isinstance(value, str) and _MAC.match(value) else None


def parse_neighbours(text: str) -> tuple[Neighbour, ...]:
    """`ip -4 -j neigh`. Asked without a filter: iproute2 6.1.0 leaves out what was asked for."""
    source = "ip -j neigh"
    neighbours = []
    for row in _rows(text, source):
        try:
            state = row.get("state") or [None]
            device, first = row.get("dev"), state[0] if isinstance(state, list) else state
            entry = Neighbour(
                address=str(row["dst"]),
                interface=None if device is None else str(device),
                mac=_mac(row.get("lladdr")),
                state=None if first is None else str(first),
            )
        except (KeyError, TypeError) as error:
            raise ParseError(source, str(row)) from error
        neighbours.append(entry)
    return tuple(neighbours)


def parse_routes(text: str) -> tuple[Route, ...]:
    """`ip -j route`: IPv4, main table. A multipath route gives one row a hop."""
    source = "ip -j route"
    routes: list[Route] = []
    for row in _rows(text, source):
        try:
            destination = str(row["dst"])
            for hop in row.get("nexthops") or [row]:
                gateway, device = hop.get("gateway"), hop.get("dev")
                routes.append(Route(destination, None if gateway is None else str(gateway), None if device is None else str(device)))
        except (AttributeError, KeyError, TypeError) as error:
            raise ParseError(source, str(row)) from error
    return tuple(routes)
