# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which port of which node leads to which port of the others, before any of them has an address.

What a port has heard on its wire decides: a hardware address there that is a port of another node. Names prove nothing, since a cable may
join the first cage of one machine with the second of another, and a switch joins them all.
Where a port has heard of nobody, physics may still tell: a cable carries both functions of a cage at both ends, so the twin of a port that
is joined is joined to its twin; and if each of two machines has just one cage with a link, they can only be joined to each other. The
addresses that come of it are tried with real packets before anything is built on them (role fabric).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .._rules.context import Port

#: A node's name and the name of its port.
End = tuple[str, str]
#: The ends of one rail to be: a port of each node that it joins, by the node's name.
Group = dict[str, Port]
Ports = Mapping[str, Sequence[Port]]


@dataclass
class Wiring:
    """``groups`` of ports that are joined; ``unseen``: by node, ports of which nobody can say where they lead."""

    groups: list[Group] = field(default_factory=list)
    unseen: dict[str, list[Port]] = field(default_factory=dict)


def read_wiring(spare: Ports, rails: Sequence[Group], heard: Heard) -> Wiring:
    """How the ``spare`` ports are joined; ``rails`` are joined already."""
    left = {node: list(of_node) for node, of_node in spare.items()}
    groups = list(_take(left, _by_hearing(left, heard)))
    blind = {node: [port for port in of_node if not port.heard] for node, of_node in left.items()}
    groups += _take(blind, _by_twin(blind, [*rails, *groups]))
    if not rails and not groups:
        groups += _take(blind, _by_lone_cage(blind))
    return Wiring(groups, blind)


def pair_up(ports: Ports, heard: Heard) -> list[Group]:
    """Ports that are known to belong together, as those of one subnet do: by what they heard, and else the k-th of each node."""
    left = {node: list(of_node) for node, of_node in ports.items()}
    groups = list(_take(left, _by_hearing(left, heard)))
    rest = {node: of_node for node, of_node in left.items() if of_node}
    if len(rest) > 1:
        groups += [dict(zip(rest, ends)) for ends in zip(*rest.values())]
    return groups


class Heard:
    """Who has heard of whom. ``ports`` are all ports of all nodes."""

    def __init__(self, ports: Ports) -> None:
        self._order = [(node, port.netdev) for node, of_node in ports.items() for port in of_node]
        owners: dict[str, list[End]] = {}
        for node, of_node in ports.items():
            for port in of_node:
                if port.mac:
                    owners.setdefault(port.mac, []).append((node, port.netdev))
        # Two ports with one hardware address (a bond) say nothing about where either leads.
        owner = {mac: ends[0] for mac, ends in owners.items() if len(ends) == 1}
        self._near: dict[End, set[End]] = {}
        for node, of_node in ports.items():
            for port in of_node:
                for other in filter(None, map(owner.get, port.heard)):
                    if other[0] != node:
                        self._near.setdefault((node, port.netdev), set()).add(other)
                        self._near.setdefault(other, set()).add((node, port.netdev))

    def of(self, end: End) -> set[End]:
        """The ports of other nodes on the same wire. Whoever hears is heard: it is enough that one of the two did."""
        return self._near.get(end, set())

    def at(self, end: End) -> list[End]:
        """The same, in the order of nodes and ports."""
        near = self.of(end)
        return [other for other in self._order if other in near]

    def wires(self, ends: Iterable[End]) -> Iterator[list[End]]:
        """The ends, wire by wire, in the order in which they came; an end that neither heard nor was heard of is left out."""
        order = list(ends)
        placed: set[End] = set()
        for first in order:
            if first in placed or not self.of(first):
                continue
            wire, ahead = {first}, [first]
            while ahead:
                for other in self.of(ahead.pop()) - wire:
                    wire.add(other)
                    ahead.append(other)
            placed |= wire
            yield [end for end in order if end in wire]


def _take(left: dict[str, list[Port]], groups: Iterable[Group]) -> Iterator[Group]:
    """The groups of more than one node, their ports taken away from what is left."""
    for group in list(groups):
        if len(group) > 1:
            for node, port in group.items():
                left[node].remove(port)
            yield group


def _by_hearing(spare: Ports, heard: Heard) -> Iterator[Group]:
    by_end = {(node, port.netdev): port for node, of_node in spare.items() for port in of_node}
    for wire in heard.wires(by_end):
        yield from _pair({node: [by_end[end] for end in wire if end[0] == node] for node in dict(wire)})


def _pair(on_wire: Mapping[str, Sequence[Port]]) -> Iterator[Group]:
    """Both functions of a cage are on one wire: twin goes with twin, and of several cages the first with the first."""
    for twin in sorted({port.twin or 0 for of_node in on_wire.values() for port in of_node}):
        rows = {node: [port for port in of_node if (port.twin or 0) == twin] for node, of_node in on_wire.items()}
        for i in range(max(map(len, rows.values()))):
            yield {node: of_node[i] for node, of_node in rows.items() if i < len(of_node)}


def _by_twin(blind: Ports, joined: Sequence[Group]) -> Iterator[Group]:
    """The other function of cages that are joined."""
    done: set[End] = set()
    for group in joined:
        beside = {
            node: [port for port in blind.get(node, ()) if port.cage == known.cage and port.twin != known.twin and (node, port.netdev) not in done]
            for node, known in group.items()
        }
        for found in _pair({node: of_node for node, of_node in beside.items() if of_node}):
            done |= {(node, port.netdev) for node, port in found.items()}
            yield found


def _by_lone_cage(blind: Ports) -> Iterator[Group]:
    """All of one cage on both nodes, if each has just one with a link. More nodes may be joined in pairs, or by a switch."""
    if len(blind) == 2 and all(len({port.cage for port in of_node}) == 1 for of_node in blind.values()):
        yield from _pair(blind)
