# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd's and rdma-core's names say about a PCI function.

`enP2p1s0f1np1` and `roceP2p1s0f1` are domain 2, bus 1, slot 0, function 1: 0002:01:00.1. The numbers are decimal.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"^(?:en|roce)(?:P(?P<domain>\d{1,5}))?p(?P<bus>\d{1,3})s(?P<slot>\d{1,2})(?:f(?P<function>[0-7]))?(?:np(?P<port>\d))?$")
_PCI = re.compile(r"^(?P<domain>[0-9a-f]{4}):[0-9a-f]{2}:[0-9a-f]{2}\.(?P<function>[0-7])$")
_PORT = re.compile(r"np(?P<port>\d)$")
_TWINS = {"0000": 0, "0002": 1}


def pci_of(name: str) -> str | None:
    match = _NAME.match(name)
    if match is None:
        return None
    domain, bus, slot, function = (int(match.group(group) or 0) for group in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def is_connectx_name(netdev: str) -> bool:
    """A name with function and port number, as only multi-function adapters get it."""
    match = _NAME.match(netdev)
    return match is not None and netdev.startswith("en") and match.group("function") is not None and match.group("port") is not None


def cage_of(netdev: str, pci: str | None) -> int | None:
    """The QSFP cage: the name's port number, which both twins share; else the PCI function."""
    match = _PORT.search(netdev)
    if match is not None:
        return int(match.group("port"))
    match = _PCI.match(pci or "")
    return int(match.group("function")) if match else None


def twin_of(pci: str | None) -> int | None:
    """A GB10 reaches each cage by two PCI domains."""
    match = _PCI.match(pci or "")
    return _TWINS.get(match.group("domain")) if match else None
