# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subnets and addresses for rails that have none: free of everything that any node knows, and of what its neighbours there hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

from .._rules.context import Node, Port

#: Rank 0 gets this host number in a subnet that we choose, rank 1 the next one.
FIRST_HOST = 11

_CANDIDATES = [*(f"192.168.{i}.0/24" for i in range(200, 255)), *(f"10.210.{i}.0/24" for i in range(256)), *(f"172.29.{i}.0/24" for i in range(256))]


def read_addresses(row: Mapping[str, Any]) -> Iterator[IPv4Interface]:
    """The IPv4 addresses of a port or interface of the facts, those of global scope first. What is not IPv4 is passed over."""
    rows = [entry for entry in row.get("addresses") or [] if isinstance(entry, Mapping)]
    for entry in sorted(rows, key=lambda entry: entry.get("scope") != "global"):
        try:
            yield IPv4Interface(f"{entry['address']}/{entry['prefix']}")
        except (KeyError, ValueError):
            continue


def subnet_of(ends: Iterable[Port], used: Iterable[IPv4Network]) -> IPv4Network | None:
    """The subnet of the ends that are addressed, a free one if none is, None if they disagree."""
    present = {port.addresses[0].network for port in ends if port.addresses}
    if len(present) == 1:
        return present.pop()
    return None if present else free_subnet(used)


def free_subnet(used: Iterable[IPv4Network]) -> IPv4Network | None:
    """The first /24 of our candidates that overlaps none of the networks in use; None if all do."""
    taken = list(used)
    for text in _CANDIDATES:
        candidate = IPv4Network(text)
        if not any(candidate.overlaps(network) for network in taken):
            return candidate
    return None


def networks(nodes: Iterable[Node]) -> Iterator[IPv4Network]:
    """Every network that any node knows, by an address or a route. The default route claims nothing."""
    for node in nodes:
        for row in [*node.rows("fabric.interfaces"), *node.rows("fabric.ports")]:
            for address in read_addresses(row):
                yield address.network
        for row in node.rows("fabric.routes"):
            try:
                network = IPv4Network(str(row.get("destination")), strict=False)
            except ValueError:
                continue
            if network.prefixlen:
                yield network


def host(subnet: IPv4Network, rank: int, held: Collection[IPv4Address]) -> IPv4Interface:
    """The address of a rank in a subnet: by its number, or the next one that nobody has."""
    first = FIRST_HOST if subnet.prefixlen <= 24 else 1
    hosts = [subnet[i] for i in range(first + rank, subnet.num_addresses - 1)] + list(subnet.hosts())
    return IPv4Interface(f"{next(host for host in hosts if host not in held)}/{subnet.prefixlen}")


def common_network(nodes: Sequence[Node]) -> dict[str, tuple[str, str]]:
    """By node the interface and the address in a network that all nodes share beside the fabric: the one our session takes, else the first.

    Empty if there is none. Bridges and tunnels are not taken: other machines' containers are not on ours.
    """
    found: dict[str, dict[IPv4Network, tuple[str, str]]] = {node.name: {} for node in nodes}
    for node in nodes:
        carrying = node.get("fabric.ssh.interface")
        rows = [row for row in node.rows("fabric.interfaces") if row.get("kind") in ("ethernet", "wireless")]
        for row in sorted(rows, key=lambda row: row.get("name") != carrying):
            for address in read_addresses(row):
                if not address.is_loopback and not address.is_link_local:
                    found[node.name].setdefault(address.network, (str(row.get("name")), str(address.ip)))
    first, *others = found.values()
    shared = next((network for network in first if all(network in of_node for of_node in others)), None)
    return {} if shared is None else {name: of_node[shared] for name, of_node in found.items()}
