# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape that cables and switches give the fabric: who is joined to whom, and what a ring of cables asks for."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Interface

from .base import Case, case, node_rule, rule
from .context import Context, Node, listing
from .fabric import ends, joined, names

_NETWORKING = "https://github.com/eugr/spark-vllm-docker/blob/main/docs/NETWORKING.md"


@rule(
    "fabric.apart",
    "block",
    "Some nodes are joined, others are not.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/blob/main/nvidia/connect-three-sparks/README.md",
    several=True,
)
def apart(context: Context) -> Iterator[Case]:
    """Three and more nodes of which some pairs have a rail in common, and some have not. RDMA is not handed on from port to port.

    A node without any link has a finding of its own.
    """
    linked = {node.name for node in joined(context) if any(port.up for port in context.fabric.ports[node.name])}
    pairs = [pair for pair in context.fabric.apart if linked.issuperset(pair)]
    if pairs:
        nodes = tuple(node.name for node in joined(context) if any(node.name in pair for pair in pairs))
        yield Case(
            nodes,
            f"No cable or switch joins {listing(f'{one} with {other}' for one, other in pairs)}, though other nodes are joined.",
            "Every node reaches every other one over ports of its own: through a switch, or in a ring of three.",
            "Join all nodes by a switch, or three of them by three cables, each node to both others. If they are cabled so, compare the "
            "addresses: the ports at both ends of a cable belong into one subnet, and no other ports do.",
            ("fabric.ports",),
        )


@node_rule(
    "fabric.unseen",
    "block",
    "Ports have a link, and nobody can say where they lead.",
    source=_NETWORKING,
    several=True,
)
def unseen(context: Context, node: Node) -> Case | None:
    """Each node with ports that have neither an address nor heard of anybody, where more than one way to join them is possible."""
    ports = context.fabric.unseen.get(node.name, ())
    if context.fabric.count or not ports or not all(context.fabric.unseen.get(other.name) for other in joined(context)):
        return None
    return case(
        node,
        f"{names(ports)} of {node.name} {'have' if len(ports) > 1 else 'has'} a link and no address, and heard of no port of another node, "
        "so nobody can say which of them leads where.",
        "A port with a link has an IPv6 link-local address, by which its wire can be asked.",
        f"Let the ports have one (`sudo nmcli device modify {ports[0].netdev} ipv6.method link-local`, or `link-local: [ipv6]` in their netplan "
        "file), on every node; or leave one cable in; or give the two ends of each cable addresses in a subnet of their own.",
        "fabric.ports",
    )


@rule(
    "fabric.ring",
    "info",
    "The nodes form a ring of cables.",
    source=_NETWORKING,
    several=True,
)
def ring(context: Context) -> Iterator[Case]:
    """A ring works, if the image's NCCL can choose the port by the subnet of its peer."""
    if context.fabric.topology == "ring":
        nodes = joined(context)
        yield Case(
            tuple(node.name for node in nodes),
            f"The {len(nodes)} nodes form a ring: each is cabled to both others, and no wire joins them all.",
            "The NCCL in the image is 2.30 or newer, which chooses the port that leads to a peer (NCCL_IB_SUBNET_AWARE_ROUTING is set).",
            "See it in the image: `python3 -c 'import torch; print(torch.cuda.nccl.version())'`. An older one ends with `ibv_modify_qp failed "
            "with 110`; then take a newer image, or a switch, which needs none of this.",
            ("fabric.ports",),
        )


@rule(
    "fabric.ring_alone",
    "block",
    "The nodes of a ring have no network in common.",
    source=_NETWORKING,
    several=True,
)
def ring_alone(context: Context) -> Iterator[Case]:
    """A ring of cables has no subnet that all ranks reach, so they need another one to find each other."""
    if context.fabric.topology == "ring" and not context.fabric.meeting:
        nodes = tuple(node.name for node in joined(context))
        yield Case(
            nodes,
            f"{listing(nodes)} form a ring, in which each cable is a network of two, and have no other network in common.",
            "The nodes of a ring share a network beside it (10G Ethernet or Wi-Fi), on which the ranks find each other.",
            "Connect all nodes to one network by Ethernet or Wi-Fi, or join them by a switch instead of a ring.",
            ("fabric.interfaces",),
        )


@rule(
    "fabric.ring_straight",
    "warn",
    "A cable of the ring joins the same cage of two nodes.",
    source="https://github.com/luxingcom/aicad-nccl-optimization/issues/1",
    several=True,
)
def ring_straight(context: Context) -> Iterator[Case]:
    """Cables of a ring that join equal cages: NCCL pairs HCAs by position, and some builds then try ports that no cable joins."""
    if context.fabric.topology != "ring":
        return
    straight = [each for each in ends(context) if len({rail.cage for _, rail in each}) == 1 and not each[0][1].twin]
    if straight:
        seen = listing(" and ".join(f"{rail.netdev} of {node.name}" for node, rail in each) for each in straight)
        yield Case(
            tuple(dict.fromkeys(node.name for each in straight for node, _ in each)),
            f"A cable joins {seen}: the same cage at both ends.",
            "In a ring every cable joins the first cage of one node with the second of the next, all the way round.",
            "Connections may end with `ibv_modify_qp failed with 110`. Cable it as first to second cage, all the way round.",
            ("fabric.ports",),
        )


@node_rule(
    "fabric.ring_subnet",
    "block",
    "Cables of a ring that lead to different nodes are in one subnet.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/blob/main/nvidia/connect-three-sparks/README.md",
    several=True,
)
def ring_subnet(context: Context, node: Node) -> Case | None:
    """Each node of a ring that has one subnet on cables to different nodes, as link-local addresses always do: nothing tells the cables apart."""
    leading: dict[str, dict[str, set[str]]] = {}
    for rail in context.fabric.rails.get(node.name, ()):
        network = str(IPv4Interface(f"{rail.address}/{rail.prefix}").network)
        leading.setdefault(network, {}).setdefault(rail.netdev, set()).update(rail.peers)
    for network, ports in leading.items() if context.fabric.topology == "ring" else ():
        if len(set().union(*ports.values())) > 1:
            return case(
                node,
                f"{listing(ports)} of {node.name} are all in {network}, and lead to different nodes: nothing says which way a packet should take.",
                "In a ring every cable has a subnet of its own.",
                "Give the two ends of each cable fixed addresses in a subnet of their own; or remove the addresses and let it be "
                'configured: -e \'{"gb10_consent": ["network"]}\'.',
                "fabric.ports",
                "fabric.routes",
            )
    return None
