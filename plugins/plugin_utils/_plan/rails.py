# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From ports to rails: what works is adopted as it is; what has no address gets one only by consent.

A rail is one subnet in which every node has a port that is up. Names and addresses differ from node to node (a cable may join the first
cage of one machine with the second of another), so nothing but the shared subnet decides which ports belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Interface, IPv4Network
from typing import Any

from .._rules.context import Fabric, Node, Port, Rail

#: MTU of rails that we configure and that have no rail beside them to follow, bytes. Costs nothing and gives RDMA its largest packets.
DEFAULT_MTU = 9000
#: Rank 0 gets this host number in a subnet that we choose, rank 1 the next one.
FIRST_HOST = 11

_CANDIDATES = [*(f"192.168.{i}.0/24" for i in range(200, 255)), *(f"10.210.{i}.0/24" for i in range(256)), *(f"172.29.{i}.0/24" for i in range(256))]


def plan_fabric(nodes: Sequence[Node], configure: bool) -> Fabric:
    """The rails of the nodes that answered. ``configure``: the user consented to addresses for ports that have none."""
    known = [node for node in nodes if node.reachable and node.get("fabric.ports") is not None]
    unknown = tuple(node.name for node in nodes if node.reachable and node not in known)
    ports = {node.name: read_ports(node) for node in known}
    adopted = _adopt(ports)
    rails: dict[str, list[Rail]] = {name: list(ends) for name, ends in adopted.items()}
    if configure and known:
        _configure(known, ports, rails)
    _sort(ports, rails)
    taken = {name: {rail.netdev for rail in ends} for name, ends in rails.items()}
    left = {name: [port for port in of_node if port.up and port.netdev not in taken[name]] for name, of_node in ports.items()}
    return Fabric(
        rails={name: tuple(ends) for name, ends in rails.items()},
        ports=ports,
        unaddressed={name: tuple(port for port in rest if not port.addresses) for name, rest in left.items()},
        unmatched={name: tuple(port for port in rest if port.addresses) for name, rest in left.items()},
        unknown=unknown,
    )


def read_ports(node: Node) -> tuple[Port, ...]:
    """The node's ConnectX-7 functions, by cage and twin. What is missing of a port stays None."""
    found = []
    for row in node.rows("fabric.ports"):
        carrier = row.get("carrier")
        up = bool(carrier) if carrier is not None else row.get("operstate") == "up" or row.get("state") == "ACTIVE"
        found.append(
            Port(
                netdev=str(row["netdev"]),
                hca=str(row["hca"]) if row.get("hca") else None,
                cage=_integer(row.get("cage")),
                twin=_integer(row.get("twin")),
                mtu=_integer(row.get("mtu")),
                up=up,
                addresses=tuple(read_addresses(row)),
            )
        )
    return tuple(sorted(found, key=lambda port: port.order))


def read_addresses(row: Mapping[str, Any]) -> Iterator[IPv4Interface]:
    """The IPv4 addresses of a port or interface of the facts, those of global scope first. What is not IPv4 is passed over."""
    rows = [entry for entry in row.get("addresses") or [] if isinstance(entry, Mapping)]
    for entry in sorted(rows, key=lambda entry: entry.get("scope") != "global"):
        try:
            yield IPv4Interface(f"{entry['address']}/{entry['prefix']}")
        except (KeyError, ValueError):
            continue


def _integer(value: Any) -> int | None:
    """A whole number, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _adopt(ports: Mapping[str, tuple[Port, ...]]) -> dict[str, list[Rail]]:
    """The rails that exist: for each subnet that every node has on a port that is up, the k-th such port of each node."""
    rails: dict[str, list[Rail]] = {name: [] for name in ports}
    if not ports:
        return rails
    in_subnet = {name: _by_subnet(of_node) for name, of_node in ports.items()}
    first = next(iter(in_subnet.values()))
    for subnet in first:
        ends = [of_node.get(subnet, []) for of_node in in_subnet.values()]
        for i in range(min(len(of_node) for of_node in ends)):
            for name, of_node in zip(in_subnet, ends):
                port, address = of_node[i]
                rails[name].append(_rail(port, address, port.mtu, "adopt"))
    return rails


def _sort(ports: Mapping[str, tuple[Port, ...]], rails: dict[str, list[Rail]]) -> None:
    """Order the rails by the first node's ports, in place, on all nodes alike.

    A rail that is configured now is adopted by the next run: it must have the same place in both, or the second run would change things.
    """
    if ports:
        first = next(iter(ports))
        place = {port.netdev: i for i, port in enumerate(ports[first])}
        order = sorted(range(len(rails[first])), key=lambda i: place[rails[first][i].netdev])
        for name, ends in rails.items():
            rails[name] = [ends[i] for i in order]


def _by_subnet(ports: Iterable[Port]) -> dict[IPv4Network, list[tuple[Port, IPv4Interface]]]:
    """Ports that are up, by the subnets of their addresses, each port once: by its best address."""
    found: dict[IPv4Network, list[tuple[Port, IPv4Interface]]] = {}
    for port in ports:
        if port.up and port.addresses:
            address = port.addresses[0]
            found.setdefault(address.network, []).append((port, address))
    return found


def _rail(port: Port, address: IPv4Interface, mtu: int | None, action: str) -> Rail:
    """One end of a rail."""
    return Rail(port.netdev, port.hca, port.cage, port.twin, str(address.ip), address.network.prefixlen, mtu, action)


def _configure(nodes: Sequence[Node], ports: Mapping[str, tuple[Port, ...]], rails: dict[str, list[Rail]]) -> None:
    """Add rails from ports that have no address, on every node at once, beside what was adopted.

    A port that already has an address keeps it: where one end is addressed, the other ends join its subnet.
    """
    used = list(_networks(nodes))
    groups = [_spare(node, ports[node.name], rails[node.name]) for node in nodes]
    for ends in zip(*groups):
        if all(port.addresses for port in ends):
            continue
        subnet = _subnet_of(ends, used)
        if subnet is None:
            continue
        used.append(subnet)
        mtu = _mtu(nodes, ends, rails)
        held = {port.addresses[0].ip for port in ends if port.addresses}
        for rank, (node, port) in enumerate(zip(nodes, ends)):
            if port.addresses:
                rails[node.name].append(_rail(port, port.addresses[0], port.mtu, "adopt"))
            else:
                address = _host(subnet, rank, held)
                held.add(address.ip)
                rails[node.name].append(_rail(port, address, mtu, "configure"))


def _spare(node: Node, ports: Sequence[Port], rails: Sequence[Rail]) -> list[Port]:
    """The node's ports that could make further rails: up, in no rail, of the cage in use (or else of the first that has a link).

    The interface that carries our own session is never among them, so that it cannot be configured away under us.
    """
    taken = {rail.netdev for rail in rails}
    carrying = node.get("fabric.ssh.interface")
    free = [port for port in ports if port.up and port.netdev not in taken and (port.addresses or port.netdev != carrying)]
    cages = [rail.cage for rail in rails] or [port.cage for port in free]
    return [port for port in free if port.cage in cages[:1]]


def _subnet_of(ends: Sequence[Port], used: Sequence[IPv4Network]) -> IPv4Network | None:
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


def _networks(nodes: Iterable[Node]) -> Iterator[IPv4Network]:
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


def _host(subnet: IPv4Network, rank: int, held: set[Any]) -> IPv4Interface:
    """The address of a rank in a subnet: by its number, or the next one that nobody has."""
    first = FIRST_HOST if subnet.prefixlen <= 24 else 1
    hosts = [subnet[i] for i in range(first + rank, subnet.num_addresses - 1)] + list(subnet.hosts())
    return IPv4Interface(f"{next(host for host in hosts if host not in held)}/{subnet.prefixlen}")


def _mtu(nodes: Sequence[Node], ends: Sequence[Port], rails: Mapping[str, list[Rail]]) -> int:
    """The MTU for a rail that we configure: that of its addressed end, of the first rail, or the default."""
    beside = [port.mtu for port in ends if port.addresses and port.mtu]
    beside += [rail.mtu for node in nodes for rail in rails[node.name][:1] if rail.mtu]
    return beside[0] if beside else DEFAULT_MTU
