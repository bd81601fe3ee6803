# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices as ibdev2netdev, rdma link, ibstat, ibv_devinfo and sysfs show them."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

NO_ADAPTERS = "No IB devices found"

_IBDEV2NETDEV = re.compile(r"^(?P<hca>[\w-]+) port (?P<port>\d+) ==> (?P<netdev>[\w.@-]+) \((?P<state>\w+)\)$")
_RDMA_LINK = re.compile(r"^link (?P<hca>[\w-]+)/(?P<port>\d+) (?:\S+ \S+ )*?state (?P<state>\w+)(?P<rest>.*)$")
_RATE = re.compile(r"^(?P<rate>[0-9]{1,9}(?:\.[0-9]+)?) Gb/sec(?: .*)?$")
_STATE = re.compile(r"^[0-9]+: (?P<state>[A-Z_]+)$")
_LINK_SPEED = re.compile(r"^(?P<speed>[0-9]{1,4}(?:\.[0-9]+)?) GT/s(?: PCIe)?$")
_PAIR = re.compile(r"^\s*(?P<name>[A-Za-z_][\w ]*?):\s*(?P<value>.*?)\s*$")


@dataclass(frozen=True)
class Link:
    """One port of an HCA and the netdev it belongs to."""

    hca: str
    netdev: str | None
    state: str | None  # ACTIVE, DOWN, …


@dataclass(frozen=True)
class Adapter:
    """What ibstat or ibv_devinfo says of one HCA (port 1)."""

    hca: str
    firmware: str | None
    state: str | None
    rate: float | None  # Gb/s
    active_mtu: int | None  # bytes


def parse_ibdev2netdev(text: str) -> tuple[Link, ...]:
    """The order differs from machine to machine: go by name. "Up" is the netdev's state, not the port's."""
    links = []
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _IBDEV2NETDEV.match(line.strip())
        if match is None:
            raise ParseError("ibdev2netdev", line)
        links.append(Link(match.group("hca"), match.group("netdev"), None))
    return tuple(links)


def parse_rdma_link(text: str) -> tuple[Link, ...]:
    """`rdma -j link` or `rdma link`"""
    if text.lstrip().startswith(("[", "{")):
        return _rdma_link_json(text)
    links = []
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _RDMA_LINK.match(line.strip())
        if match is None:
            raise ParseError("rdma link", line)
        netdev = re.search(r" netdev (\S+)", match.group("rest"))
        links.append(Link(match.group("hca"), netdev.group(1) if netdev else None, match.group("state")))
    return tuple(links)


def _rdma_link_json(text: str) -> tuple[Link, ...]:
    try:
        return tuple(
            Link(str(row["ifname"]), None if row.get("netdev") is None else str(row["netdev"]), _upper(row.get("state"))) for row in json.loads(text)
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ParseError("rdma -j link", text.strip()) from error


def _upper(state: object) -> str | None:
    return state.upper() if isinstance(state, str) else None


def parse_ibstat(text: str) -> tuple[Adapter, ...]:
    return _blocks(text, "ibstat", re.compile(r"^CA '(?P<hca>[^']+)'$"), {"firmware version": "firmware", "state": "state", "rate": "rate"})


def parse_ibv_devinfo(text: str) -> tuple[Adapter, ...]:
    if text.strip().startswith(NO_ADAPTERS) or not text.strip():
        return ()
    head = re.compile(r"^hca_id:\s*(?P<hca>\S+)$")
    return _blocks(text, "ibv_devinfo", head, {"fw_ver": "firmware", "state": "state", "active_mtu": "active_mtu"})


def _blocks(text: str, source: str, head: re.Pattern[str], names: dict[str, str]) -> tuple[Adapter, ...]:
    """Blocks of `name: value` lines, each under a line that names the HCA. The first port's values count."""
    blocks: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        match = head.match(line.strip())
        if match is not None:
            blocks.append((match.group("hca"), {}))
            continue
        pair = _PAIR.match(line)
        if pair is None or not blocks:
            raise ParseError(source, line)
        name = names.get(pair.group("name").lower())
        if name is not None:
            blocks[-1][1].setdefault(name, pair.group("value"))
    return tuple(_adapter(hca, values, source) for hca, values in blocks)


def _adapter(hca: str, values: dict[str, str], source: str) -> Adapter:
    """`State: Active` (ibstat), `state: PORT_ACTIVE (4)`, `active_mtu: 4096 (5)` (ibv_devinfo)."""
    state = values.get("state", "").partition(" ")[0].upper()
    if state.startswith("PORT_"):
        state = state[len("PORT_") :]
    mtu = values.get("active_mtu", "").partition(" ")[0]
    try:
        return Adapter(
            hca=hca,
            firmware=values.get("firmware") or None,
            state=state or None,
            rate=float(values["rate"]) if values.get("rate") else None,
            active_mtu=int(mtu) if mtu else None,
        )
    except ValueError as error:
        raise ParseError(source, f"{hca}: {values}") from error


def parse_rate(text: str) -> float:
    """sysfs `rate`, Gb/s: `200 Gb/sec (4X HDR)`"""
    match = _RATE.match(text.strip())
    if match is None:
        raise ParseError("infiniband rate", text)
    return float(match.group("rate"))


def parse_state(text: str) -> str:
    """sysfs `state`: `4: ACTIVE`"""
    match = _STATE.match(text.strip())
    if match is None:
        raise ParseError("infiniband state", text)
    return match.group("state")


def parse_gid(text: str) -> tuple[str, str | None] | None:
    """sysfs `gids/N`: the GID, and the IPv4 address it maps. None for an empty slot."""
    try:
        gid = ipaddress.IPv6Address(text.strip())
    except ValueError as error:
        raise ParseError("infiniband gid", text) from error
    if int(gid) == 0 or (gid.is_link_local and int(gid) & ((1 << 64) - 1) == 0):
        return None
    mapped = gid.ipv4_mapped
    return gid.exploded, None if mapped is None else str(mapped)


def parse_gid_type(text: str) -> str:
    """sysfs `gid_attrs/types/N`: `IB/RoCE v1` or `RoCE v2`"""
    kind = text.strip()
    if kind not in ("IB/RoCE v1", "RoCE v2", "RoCE v1"):
        raise ParseError("infiniband gid type", text)
    return "RoCE v2" if kind == "RoCE v2" else "RoCE v1"


def parse_link_speed(text: str) -> float | None:
    """A PCI device's `current_link_speed`, GT/s: `32.0 GT/s PCIe`, or `Unknown`"""
    if text.strip() in ("Unknown", "Unknown speed"):
        return None
    match = _LINK_SPEED.match(text.strip())
    if match is None:
        raise ParseError("current_link_speed", text)
    return float(match.group("speed"))
