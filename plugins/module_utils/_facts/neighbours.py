# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""neighbours: which hardware addresses answer on a port, whether or not it has an address of ours

A port that is up has an IPv6 link-local address unless somebody switched that off, and every machine on its wire answers to the group of
all nodes (RFC 4291, 2.7.1). Before it answers it asks for our hardware address, which is how the kernel comes to know its one (RFC 4861, 7.2.3).
So one ping tells which port the cable leads to, before anything is configured, and leaves nothing but an entry in the neighbour table.
"""

from __future__ import annotations

from threading import Thread

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.names import is_connectx_name
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Noted, Probe, Seen, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ip import Neighbour, parse_neighbours

ALL_NODES = "ff02::1"
#: One echo, to others only (-L), half a second for the first answer: on a cable it takes a fraction of a millisecond.
_PING = ("ping", "-6", "-L", "-n", "-q", "-c", "1", "-W", "0.5")


def probes() -> tuple[Probe, ...]:
    return (
        probe("ip_neigh", "fabric", lambda node: parse_neighbours(node.output("ip", "-4", "-j", "neigh"))),
        probe("ip_neigh_link", "fabric", _on_the_wire),
    )


def _on_the_wire(node: Node) -> tuple[Neighbour, ...] | Noted:
    """Ask on every port with a link at once, then read whom the kernel has heard of."""
    missing: list[str] = []

    def ask(port: str) -> None:
        try:
            # No answer, or no address to ask from, is an answer: the port then hears of nobody.
            node.run(*_PING, f"{ALL_NODES}%{port}", reduce=lambda _text: "")
        except (Failed, TimedOut, Unavailable) as error:
            missing.append(str(error))

    threads = [Thread(target=ask, args=(port,), daemon=True) for port in _with_link(node)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = parse_neighbours(node.output("ip", "-6", "-j", "neigh"))
    return Noted(found, missing[0]) if missing else found


def _with_link(node: Node) -> list[str]:
    names = [path.rpartition("/")[2] for path in node.glob("/sys/class/net/*")]
    return [name for name in names if is_connectx_name(name) and (node.read(f"/sys/class/net/{name}/carrier") or "").strip() == "1"]


def neighbours(seen: Seen, port: str) -> list[dict[str, str]] | None:
    """The port's neighbours: IPv4, then IPv6 link-local; None if neither table could be read."""
    tables: list[tuple[Neighbour, ...] | None] = [seen.get("ip_neigh"), seen.get("ip_neigh_link")]
    if all(table is None for table in tables):
        return None
    rows = [entry for table in tables for entry in table or () if entry.interface == port]
    return [known(address=entry.address, mac=entry.mac, state=entry.state) for entry in rows]
