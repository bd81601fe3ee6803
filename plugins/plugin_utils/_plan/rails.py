# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From ports to rails: what works is adopted as it is; what has no address gets one only by consent.

A rail is one subnet on one wire. Names and addresses differ from node to node (a cable may join the first cage of one machine with the second
of another), so the shared subnet decides which ports belong together, or else what the ports have heard on their wires.

Two shapes make a cluster: every rail has an end at every node (a cable between two, a switch between more), or every two nodes have rails of
their own (a ring of three). A ring has no network in common, so its ranks find each other on another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network
from itertools import combinations
from typing import Any

from .._rules.context import Fabric, Node, Port, Rail
from .addressing import common_network, host, networks, read_addresses, subnet_of
from .wiring import Group, Heard, Wiring, pair_up, read_wiring

#: MTU of rails that we configure and that have no rail beside them to follow, bytes. Costs nothing and gives RDMA its largest packets.
DEFAULT_MTU = 9000
#: States of a neighbour that never answered.
_SILENT = ("FAILED", "INCOMPLETE")

#: What one rail will be: by node its port, the address there, and whether that is new.
Plan = dict[str, tuple[Port, IPv4Interface, int | None, str]]


def plan_fabric(nodes: Sequence[Node], configure: bool) -> Fabric:
    """The rails of the nodes that answered. ``configure``: the user consented to addresses for ports that have none."""
    known = [node for node in nodes if node.reachable and node.get("fabric.ports") is not None]
    unknown = tuple(node.name for node in nodes if node.reachable and node not in known)
    ports = {node.name: read_ports(node) for node in known}
    heard = Heard(ports)
    adopted = _adopt(ports, heard)
    ports = _without_chance(ports, adopted)
    wiring = _wiring(known, ports, adopted, heard)
    shared, pairs = _shapes(adopted, [node.name for node in known])
    plans, topology = _choose(known, shared, pairs, wiring, configure)
    rails = _number(known, plans)
    taken = {name: {rail.netdev for rail in ends} for name, ends in rails.items()}
    left = {name: [port for port in of_node if port.up and port.netdev not in taken[name]] for name, of_node in ports.items()}
    ways = [*(set(plan) for plan in adopted), *(set(group) for group in wiring.groups)]
    apart = () if topology else _apart(known, ways)
    return Fabric(
        rails=rails,
        topology=topology,
        meeting=_meeting(known, rails, topology),
        wires={name: {port.netdev: ends for port in of_node if (ends := heard.at((name, port.netdev)))} for name, of_node in ports.items()},
        apart=apart,
        ports=ports,
        unaddressed={name: tuple(port for port in rest if not port.addresses) for name, rest in left.items()},
        unmatched={name: tuple(port for port in rest if port.addresses) for name, rest in left.items()},
        # Where all are joined it does not matter what else there is.
        unseen={} if ways and not apart else {name: tuple(port for port in rest if not port.addresses) for name, rest in wiring.unseen.items()},
        unknown=unknown,
    )


def read_ports(node: Node) -> tuple[Port, ...]:
    """The node's ConnectX-7 functions, by cage and twin. What is missing of a port stays None."""
    found = []
    own = {str(row.get("mac")).lower() for row in node.interfaces().values()}
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
                mac=str(row["mac"]).lower() if row.get("mac") else None,
                heard=frozenset(_heard(row)) - own,
            )
        )
    return tuple(sorted(found, key=lambda port: port.order))


def _heard(row: Mapping[str, Any]) -> Iterator[str]:
    for entry in row.get("neighbours") or []:
        if isinstance(entry, Mapping) and entry.get("mac") and entry.get("state") not in _SILENT:
            yield str(entry["mac"]).lower()


def _integer(value: Any) -> int | None:
    """A whole number, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _adopt(ports: Mapping[str, tuple[Port, ...]], heard: Heard) -> list[Plan]:
    """The rails that exist: for each subnet that several nodes have on ports that are up, these ports by pairs, or by more at a switch."""
    in_subnet = {name: _by_subnet(of_node) for name, of_node in ports.items()}
    plans: list[Plan] = []
    for subnet in dict.fromkeys(subnet for of_node in in_subnet.values() for subnet in of_node):
        ends = {name: of_node[subnet] for name, of_node in in_subnet.items() if subnet in of_node}
        groups = [{name: port} for name, of_node in ends.items() for port in of_node] if len(ports) == 1 else pair_up(ends, heard)
        plans += [{name: (port, port.addresses[0], port.mtu, "adopt") for name, port in group.items()} for group in groups]
    return plans


def _without_chance(ports: Mapping[str, tuple[Port, ...]], adopted: Sequence[Plan]) -> dict[str, tuple[Port, ...]]:
    """The ports, without the link-local addresses that make no rail: a machine gives itself one by chance where nobody gave it any."""
    taken = {(name, end[0].netdev) for plan in adopted for name, end in plan.items()}
    return {
        name: tuple(
            port if (name, port.netdev) in taken else replace(port, addresses=tuple(each for each in port.addresses if not each.is_link_local))
            for port in of_node
        )
        for name, of_node in ports.items()
    }


def _by_subnet(ports: Iterable[Port]) -> dict[IPv4Network, list[Port]]:
    """Ports that are up, by the subnets of their addresses, each port once: by its best address."""
    found: dict[IPv4Network, list[Port]] = {}
    for port in ports:
        if port.up and port.addresses:
            found.setdefault(port.addresses[0].network, []).append(port)
    return found


def _wiring(nodes: Sequence[Node], ports: Mapping[str, tuple[Port, ...]], adopted: Sequence[Plan], heard: Heard) -> Wiring:
    """How the ports that are up and in no rail are joined.

    The interface that carries our own session is never among them, so that it cannot be configured away under us.
    """
    spare = {}
    for node in nodes:
        taken = {plan[node.name][0].netdev for plan in adopted if node.name in plan}
        carrying = node.get("fabric.ssh.interface")
        free = [port for port in ports[node.name] if port.up and port.netdev not in taken]
        spare[node.name] = [port for port in free if port.addresses or port.netdev != carrying]
    return read_wiring(spare, [{name: end[0] for name, end in plan.items()} for plan in adopted], heard)


def _shapes(adopted: Sequence[Plan], names: Sequence[str]) -> tuple[list[Plan], list[Plan]]:
    """Rails that have an end at every node, and those that have not."""
    return [plan for plan in adopted if len(plan) == len(names)], [plan for plan in adopted if len(plan) < len(names)]


def _choose(nodes: Sequence[Node], shared: list[Plan], pairs: list[Plan], wiring: Wiring, configure: bool) -> tuple[list[Plan], str | None]:
    """The rails, and the shape that they make. One wire for all comes first; a ring is what is left where there is none."""
    whole = [group for group in wiring.groups if len(group) == len(nodes)] if configure else []
    if shared or whole:
        return [*shared, *_configure(nodes, _of_used_cages(nodes[0].name, shared, whole), shared)], "shared"
    parts = [*pairs, *(_configure(nodes, wiring.groups, pairs) if configure else [])]
    if len(nodes) > 2 and parts and not _apart(nodes, [set(plan) for plan in parts]):
        return parts, "ring"
    return [], None


def _of_used_cages(head: str, shared: Sequence[Plan], groups: Sequence[Group]) -> list[Group]:
    """The groups in the cages of the head that are in use, or else in its first: a second cable brings no more than one adapter can carry."""
    cages = {plan[head][0].cage for plan in shared} or {min((group[head].cage for group in groups), key=lambda cage: cage or 0)}
    return [group for group in groups if group[head].cage in cages]


def _configure(nodes: Sequence[Node], groups: Sequence[Group], beside: Sequence[Plan]) -> list[Plan]:
    """What the groups need to become rails. A port that has an address keeps it: where one end is addressed, the others join its subnet."""
    used, plans = list(networks(nodes)), []
    for group in groups:
        subnet = subnet_of(group.values(), used)
        if subnet is None or all(port.addresses for port in group.values()):
            continue
        used.append(subnet)
        mtu = _mtu(group, beside)
        held = {port.addresses[0].ip for port in group.values() if port.addresses}
        plan: Plan = {}
        for node in nodes:
            port = group.get(node.name)
            if port is not None and port.addresses:
                plan[node.name] = (port, port.addresses[0], port.mtu, "adopt")
            elif port is not None:
                address = host(subnet, node.rank, held)
                held.add(address.ip)
                plan[node.name] = (port, address, mtu, "configure")
        plans.append(plan)
    return plans


def _mtu(group: Group, beside: Sequence[Plan]) -> int:
    """The MTU for a rail that we configure: that of its addressed end, of the first rail, or the default."""
    found = [port.mtu for port in group.values() if port.addresses and port.mtu]
    found += [mtu for plan in beside[:1] for _port, _address, mtu, _action in plan.values() if mtu]
    return found[0] if found else DEFAULT_MTU


def _apart(nodes: Sequence[Node], joined: Sequence[set[str]]) -> tuple[tuple[str, str], ...]:
    """Pairs of nodes that nothing joins; none if nothing joins any."""
    pairs = [(one.name, other.name) for one, other in combinations(nodes, 2)]
    missing = tuple(pair for pair in pairs if not any(set(pair) <= names for names in joined))
    return () if len(missing) == len(pairs) and not joined else missing


def _number(nodes: Sequence[Node], plans: Sequence[Plan]) -> dict[str, tuple[Rail, ...]]:
    """The rails of each node. Their order is that of the ranks they join, then of the first one's ports.

    A rail that is configured now is adopted by the next run: it must have the same place in both, or the second run would change things.
    """
    ranks = {node.name: node.rank for node in nodes}

    def place(plan: Plan) -> tuple[list[int], tuple[int, int, str]]:
        return sorted(ranks[name] for name in plan), plan[min(plan, key=ranks.__getitem__)][0].order

    rails: dict[str, list[Rail]] = {node.name: [] for node in nodes}
    for number, plan in enumerate(sorted(plans, key=place)):
        for name, (port, address, mtu, action) in plan.items():
            peers = {node.name: str(plan[node.name][1].ip) for node in nodes if node.name in plan and node.name != name}
            prefix = address.network.prefixlen
            rails[name].append(Rail(port.netdev, port.hca, port.cage, port.twin, str(address.ip), prefix, mtu, action, number, peers))
    return {name: tuple(ends) for name, ends in rails.items()}


def _meeting(nodes: Sequence[Node], rails: Mapping[str, tuple[Rail, ...]], topology: str | None) -> dict[str, tuple[str, str]]:
    """Where the ranks find each other: on the first rail, which all have in common; in a ring on the network beside it."""
    if topology == "ring":
        return common_network(nodes)
    return {name: (ends[0].netdev, ends[0].address) for name, ends in rails.items() if ends}
