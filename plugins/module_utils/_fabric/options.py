# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module is asked for, and where things lie on a node."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MARGIN = 15  # seconds that a change and its confirmation need beside the watch
_NETDEV = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
_TOKEN = re.compile(r"[0-9a-f]{0,64}")

ARGUMENT_SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "rails": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "netdev": {"type": "str", "required": True},
            "address": {"type": "str", "required": True},
            "mtu": {"type": "int", "default": 9000},
        },
    },
    "management": {
        "type": "dict",
        "options": {"interface": {"type": "str"}, "address": {"type": "str", "required": True}, "peer": {"type": "str"}},
    },
    "revert_after": {"type": "int", "default": 60},
    "watch": {"type": "float", "default": 5.0},
    "phase": {"type": "str", "choices": ["apply", "confirm"], "default": "apply"},
    "token": {"type": "str", "no_log": False, "default": ""},
}


class Refused(Exception):
    """The change cannot be made, and nothing was changed. One sentence."""


class Busy(Refused):
    """Another run is at it just now."""


class Undone(Exception):
    """The change was begun and taken back. One sentence."""


@dataclass(frozen=True)
class Rail:
    netdev: str
    address: str  # with its prefix: 192.168.200.12/24
    mtu: int


@dataclass(frozen=True)
class Management:
    """The way our own session takes."""

    interface: str | None
    address: str


@dataclass(frozen=True)
class Paths:
    """Everything that a transaction writes. `base` is where the node's root is."""

    base: str = ""

    @property
    def etc(self) -> str:
        return f"{self.base}/etc/netplan"

    @property
    def file(self) -> str:
        return f"{self.etc}/60-gb10-fabric.yaml"

    # netplan reads *.yaml, so that the next two are nothing to it. They lie beside the file because a rename there needs no space.
    @property
    def old(self) -> str:
        return f"{self.etc}/.60-gb10-fabric.yaml.old"

    @property
    def new(self) -> str:
        return f"{self.etc}/.60-gb10-fabric.yaml.new"

    @property
    def state(self) -> str:
        return f"{self.base}/var/lib/gb10/fabric"

    @property
    def journal(self) -> str:
        return f"{self.state}/journal.json"

    @property
    def applied(self) -> str:
        return f"{self.state}/applied.json"

    @property
    def reverted(self) -> str:
        return f"{self.state}/reverted.json"

    @property
    def reason(self) -> str:
        return f"{self.state}/reason"

    @property
    def script(self) -> str:
        return f"{self.state}/revert.sh"

    @property
    def boot_unit(self) -> str:
        return f"{self.base}/etc/systemd/system/gb10-fabric-boot-revert.service"

    @property
    def boot_link(self) -> str:
        return f"{self.base}/etc/systemd/system/sysinit.target.wants/gb10-fabric-boot-revert.service"

    @property
    def run(self) -> str:
        return f"{self.base}/run"

    @property
    def lock(self) -> str:
        return f"{self.run}/gb10-fabric.lock"

    @property
    def kept(self) -> str:
        return f"{self.base}/run/gb10-fabric-kept"

    @property
    def networkd(self) -> str:
        return f"{self.base}/run/systemd/network"


# The transient timer that takes the change back, and the service that it starts.
TIMER = "gb10-fabric-revert"


def rails_of(params: Mapping[str, Any]) -> tuple[Rail, ...]:
    """The rails as given, sorted by interface."""
    rails = [Rail(rail["netdev"], str(ipaddress.IPv4Interface(rail["address"])), rail["mtu"]) for rail in params["rails"]]
    return tuple(sorted(rails, key=lambda rail: rail.netdev))


def management_of(params: Mapping[str, Any]) -> Management | None:
    given = params["management"]
    return Management(given.get("interface") or None, given["address"]) if given else None


def problems(params: Mapping[str, Any]) -> list[str]:
    """What is wrong with these options, one clause each."""
    return list(_problems(params))


def _problems(params: Mapping[str, Any]) -> Iterator[str]:
    if params["state"] == "present" and not params["rails"] and params["phase"] == "apply":
        yield "rails is empty, and to take the addresses away is state: absent"
    for rail in params["rails"]:
        if not _NETDEV.fullmatch(rail["netdev"]) or rail["netdev"] == "lo":
            yield f"rails: {rail['netdev']!r} is no name of a network interface"
        if not 1280 <= rail["mtu"] <= 65535:
            yield f"rails: mtu {rail['mtu']} of {rail['netdev']} is not between 1280 and 65535"
        yield from _address_problems(rail["netdev"], rail["address"])
    for what in ("netdev", "address"):
        seen = [rail[what] for rail in params["rails"]]
        for twice in sorted({value for value in seen if seen.count(value) > 1}):
            yield f"rails: {twice} is there twice"
    if params["management"]:
        try:
            ipaddress.ip_address(params["management"]["address"])
        except ValueError:
            yield f"management: {params['management']['address']!r} is no address"
    if params["watch"] < 0 or params["revert_after"] < params["watch"] + MARGIN:
        yield f"revert_after must be at least {MARGIN} s more than watch, which must not be negative"
    if not _TOKEN.fullmatch(params["token"]):
        yield "token is not made by the action plugin"


def _address_problems(netdev: str, address: str) -> Iterator[str]:
    try:
        interface = ipaddress.IPv4Interface(address)
    except ValueError:
        yield f"rails: {address!r} of {netdev} is no IPv4 address with a prefix, such as 192.168.200.12/24"
        return
    if "/" not in address:
        yield f"rails: {address} of {netdev} needs its prefix, such as {address}/24"
    elif interface.network.prefixlen < 31 and interface.ip in (interface.network.network_address, interface.network.broadcast_address):
        yield f"rails: {address} of {netdev} is the network's own or broadcast address"
