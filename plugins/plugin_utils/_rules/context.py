# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule looks at: the facts of each node, what the user asked for, and what the planner made of both.

Everything here is a value. Nothing in it was judged yet. Sizes are in bytes, MTUs in bytes, addresses are IPv4 text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from typing import Any

Facts = Mapping[str, Any]
Recipe = Mapping[str, Any]

#: The label that says a container is ours (docs/contracts.md, facts: ``workloads[].managed``).
DEPLOYMENT_LABEL = "gb10.deployment"
#: The label with the TCP ports that a container of ours listens on, comma separated.
PORTS_LABEL = "gb10.ports"


@dataclass(frozen=True)
class Node:
    """One host of the group. ``facts`` is ``ansible_facts.gb10`` of docs/contracts.md, or None if there are none."""

    name: str
    rank: int
    facts: Facts | None

    @property
    def reachable(self) -> bool:
        """Whether the node answered."""
        return self.facts is not None and "unreachable" not in self.facts

    def get(self, path: str) -> Any:
        """A fact by its dotted path, None where any part of it is absent. An absent fact is unknown: never 0, never fine."""
        value: Any = self.facts
        for key in path.split("."):
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        return value

    def number(self, path: str) -> int | None:
        """A fact that is a number, None if it is absent."""
        value = self.get(path)
        return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def rows(self, path: str) -> list[Mapping[str, Any]]:
        """A fact that is a list of mappings; empty if it is absent, so ask :meth:`get` where the difference matters."""
        value = self.get(path)
        if not isinstance(value, Sequence) or isinstance(value, str):
            return []
        return [row for row in value if isinstance(row, Mapping)]

    def workloads(self) -> list[Mapping[str, Any]]:
        """Who holds memory, largest first, whatever the order in the facts."""
        return sorted(self.rows("workloads"), key=lambda row: (-(held(row) or 0), str(row.get("name"))))

    def port(self, netdev: str) -> Mapping[str, Any]:
        """The facts of a ConnectX-7 function, empty if it is not there."""
        return next((row for row in self.rows("fabric.ports") if row.get("netdev") == netdev), {})

    def interfaces(self) -> dict[str, Mapping[str, Any]]:
        """Every netdev but the loopback, ConnectX-7 or not, by name; empty if they are not known."""
        rows = [*self.rows("fabric.interfaces"), *({**row, "name": row.get("netdev")} for row in self.rows("fabric.ports"))]
        return {str(row.get("name")): row for row in rows}

    def running(self) -> list[Mapping[str, Any]]:
        """Containers that run and are not ours."""
        return [row for row in self.rows("docker.containers") if row.get("running") and not is_managed(row)]

    def container(self, name: str) -> Mapping[str, Any] | None:
        """The container of that name, running or not."""
        return next((row for row in self.rows("docker.containers") if row.get("name") == name), None)


def is_managed(container: Mapping[str, Any]) -> bool:
    """Whether a container of the facts is ours: it carries our label."""
    labels = container.get("labels")
    return isinstance(labels, Mapping) and DEPLOYMENT_LABEL in labels


@dataclass(frozen=True)
class Port:
    """A ConnectX-7 function as the facts have it, with typed addresses (global scope first)."""

    netdev: str
    hca: str | None
    cage: int | None
    twin: int | None
    mtu: int | None
    up: bool
    addresses: tuple[IPv4Interface, ...]
    #: Its hardware address, and those that it has heard of on its wire. Not having heard of any says nothing.
    mac: str | None = None
    heard: frozenset[str] = frozenset()

    @property
    def order(self) -> tuple[int, int, str]:
        """Cage first, then twin: the order in which rails are counted on every node."""
        return (self.cage or 0, self.twin or 0, self.netdev)


@dataclass(frozen=True)
class Rail:
    """One rail at one rank. ``action`` is adopt (works as it is) or configure (gets this address).

    ``number`` is the same at all its ends; ``peers`` are the addresses of the other ends, by node, in the order of ranks.
    """

    netdev: str
    hca: str | None
    cage: int | None
    twin: int | None
    address: str
    prefix: int
    mtu: int | None
    action: str
    number: int = 0
    peers: Mapping[str, str] = field(default_factory=dict)

    def as_plan(self) -> dict[str, Any]:
        """The rail as the plan holds it."""
        return {
            "number": self.number,
            "netdev": self.netdev,
            "hca": self.hca,
            "cage": self.cage,
            "twin": self.twin,
            "address": self.address,
            "prefix": self.prefix,
            "mtu": self.mtu,
            "action": self.action,
            "peers": [{"node": node, "address": address} for node, address in self.peers.items()],
        }


@dataclass(frozen=True)
class Fabric:
    """The rails of all reachable nodes, ``rails[node]`` in the order of their numbers.

    Where the nodes share a wire, be it a cable or a switch, every rail has an end at every node, and ``rails[node][i]`` is its end of rail i.
    In a ring of cables every two nodes have rails of their own.
    """

    rails: Mapping[str, tuple[Rail, ...]] = field(default_factory=dict)
    #: shared | ring, None without rails.
    topology: str | None = None
    #: Per node the interface and the address at which the ranks find each other; empty if there is none that all of them reach.
    meeting: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: Per node what its ports lead to, as far as anybody heard: by netdev the node and netdev of each end of its wire.
    wires: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]] = field(default_factory=dict)
    #: Pairs of nodes that nothing joins, though other nodes of the group are joined.
    apart: tuple[tuple[str, str], ...] = ()
    ports: Mapping[str, tuple[Port, ...]] = field(default_factory=dict)
    #: Per node: ports that are up and in no rail, because they have no address.
    unaddressed: Mapping[str, tuple[Port, ...]] = field(default_factory=dict)
    #: Per node: ports that are up and addressed, in a subnet that not every node has.
    unmatched: Mapping[str, tuple[Port, ...]] = field(default_factory=dict)
    #: Per node: ports that are up and unaddressed, and nobody can say where they lead.
    unseen: Mapping[str, tuple[Port, ...]] = field(default_factory=dict)
    #: Nodes whose ports are not known.
    unknown: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many rails there are."""
        return len({rail.number for rails in self.rails.values() for rail in rails})

    def ends(self, number: int) -> dict[str, Rail]:
        """The ends of a rail, by node."""
        return {node: rail for node, rails in self.rails.items() for rail in rails if rail.number == number}

    def hcas(self, node: str) -> tuple[str, ...]:
        """HCAs of the node's rails, in the order of the rails.

        NCCL pairs the HCAs of two ranks by their position, so a rail without an HCA on any node is left out on all.
        """
        return tuple(str(rail.hca) for rail in self.rails[node] if all(end.hca for end in self.ends(rail.number).values()))


@dataclass(frozen=True)
class Budget:
    """Unified memory of one node, bytes. ``available`` is None where the fact is absent."""

    total: int | None
    available: int | None
    #: Held by containers of ours, which are kept or replaced.
    managed: int
    #: What the stops that the user consented to free.
    reclaimed: int
    needed: int

    @property
    def usable(self) -> int | None:
        """What a rank of ours can have once the consented stops are made; None if unknown."""
        if self.available is None:
            return None
        usable = self.available + self.managed + self.reclaimed
        return usable if self.total is None else min(usable, self.total)

    @property
    def fits(self) -> bool | None:
        """Whether the rank fits; None if unknown."""
        return None if self.usable is None else self.usable >= self.needed

    def as_plan(self) -> dict[str, Any]:
        """The budget as the plan holds it."""
        return {
            "total": self.total,
            "available": self.available,
            "managed": self.managed,
            "reclaimed": self.reclaimed,
            "needed": self.needed,
            "fits": self.fits,
        }


@dataclass(frozen=True)
class Settings:
    """What the user asked for, validated (docs/contracts.md, section 7). The API key itself is not here, only whether there is one."""

    backend: str
    api_host: str | None = None
    api_port: int = 8000
    api_key: bool = False
    reclaim: tuple[str, ...] = ()
    consent: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    ulimits: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Listener:
    """A TCP port that the plan needs on a node."""

    node: str
    address: str
    port: int
    purpose: str
    variable: str


@dataclass(frozen=True)
class Context:
    """All that the rules may look at."""

    nodes: tuple[Node, ...]
    recipe: Recipe
    settings: Settings
    fabric: Fabric
    budgets: Mapping[str, Budget]
    #: ``image`` and ``model`` of the plan, and per node ``{image: {...}, model: {...}, reclaim: [...], containers: [...]}``.
    image: Mapping[str, Any]
    model: Mapping[str, Any]
    work: Mapping[str, Mapping[str, Any]]
    listeners: tuple[Listener, ...]

    @property
    def reachable(self) -> tuple[Node, ...]:
        """The nodes that answered."""
        return tuple(node for node in self.nodes if node.reachable)

    @property
    def several(self) -> bool:
        """Whether the deployment spans more than one node, so that the fabric matters."""
        return len(self.nodes) > 1

    @property
    def world_size(self) -> int:
        """Ranks that the recipe makes."""
        return int(self.recipe["tensor_parallel"]) * int(self.recipe["pipeline_parallel"])


def held(workload: Mapping[str, Any]) -> int | None:
    """Bytes that a workload holds: as the facts have it, else at least what is known of it; None if nothing is."""
    for key in ("memory", "gpu_memory", "rss"):
        if isinstance(workload.get(key), int):
            return int(workload[key])
    return None


def sized(size: float) -> str:
    """Bytes as text for people, in GiB, or MiB where that would say 0.0."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 or size == 0 else f"{size / 2**20:.1f} MiB"


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 file``, ``2 files``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def listing(words: Iterable[str]) -> str:
    """Words as text for people: ``a, b and c``."""
    items = list(words)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
