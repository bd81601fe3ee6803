"""The controller's side of the fabric: this host must not look for the nodes' rail addresses anywhere else.

The rails are private addresses. Without a route of its own for them the host would send a mistaken connection to its
default gateway, that is to a stranger. So each gets an ``unreachable`` route while the lab is up: the worker answers
through the head or not at all. A host that has such an address on a network of its own is left as it is.
"""

from __future__ import annotations

import json

from .config import TWIN
from .shell import run

#: The routing protocol number that marks these routes as the lab's (any free one).
PROTOCOL = "210"


def _present() -> set[str]:
    listing = run(["ip", "-4", "-j", "route", "show", "type", "unreachable", "proto", PROTOCOL], check=False).stdout
    return {route["dst"] for route in json.loads(listing or "[]")}


def ensure() -> list[str]:
    """Add the routes that are missing; returns what was done, in words."""
    present = _present()
    done = []
    for node in TWIN:
        address = node.rail_address
        if address in present:
            continue
        way = run(["ip", "-4", "-j", "route", "get", address], check=False)
        found = json.loads(way.stdout or "[]") if way.returncode == 0 else []
        if found and "gateway" not in found[0]:
            continue
        run(["ip", "-4", "route", "add", "unreachable", f"{address}/32", "proto", PROTOCOL], root=True)
        done.append(f"{address} is unreachable from this host except through the head")
    return done


def remove() -> None:
    """Take the routes away."""
    for address in _present():
        run(["ip", "-4", "route", "del", "unreachable", f"{address}/32", "proto", PROTOCOL], root=True, check=False)
