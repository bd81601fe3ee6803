# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails: whether there are any, and whether their addresses make sense. None of this matters for a single node."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Interface, ip_address

from .base import Case, case, node_rule, rule
from .context import Context, Node, Port, Rail, listing

_CONSENT = '-e \'{"gb10_consent": ["network"]}\''


def joined(context: Context) -> tuple[Node, ...]:
    """The reachable nodes whose fabric is known."""
    return tuple(node for node in context.reachable if node.name in context.fabric.ports)


def ends(context: Context) -> Iterator[list[tuple[Node, Rail]]]:
    """For each rail its ends."""
    for i in range(context.fabric.count):
        by_node = context.fabric.ends(i)
        yield [(node, by_node[node.name]) for node in joined(context) if node.name in by_node]


def names(ports: tuple[Port, ...]) -> str:
    """Ports as text."""
    return listing(port.netdev for port in ports)


@rule(
    "fabric.no_rail",
    "block",
    "A node has no ConnectX-7 port with a link.",
    source="https://github.com/NVIDIA/NV-Kernels/pull/271",
    several=True,
)
def no_rail(context: Context) -> Iterator[Case]:
    """Each node without any port that is up. Without a cable the machine may hide the whole adapter, which is healthy."""
    for node in joined(context):
        ports = context.fabric.ports.get(node.name, ())
        if not any(port.up for port in ports):
            seen, remedy = _absence(node, ports)
            yield Case(
                (node.name,),
                f"{node.name} has no link to the other nodes: {seen}.",
                "A QSFP cable joins the nodes, and both functions of the cabled port are up.",
                remedy,
                ("fabric.ports", "fabric.hotplug"),
            )


def _absence(node: Node, ports: tuple[Port, ...]) -> tuple[str, str]:
    """What is seen instead of a link, and the remedy. The adapter is switched off without a cable, and is as healthy as before."""
    if ports:
        return f"{names(ports)} are down", f"Plug the cable at both ends. If the link stays away, reboot {node.name} with the cable in."
    if node.get("fabric.hotplug.cable") is True:
        return (
            "a cable is in, but the ConnectX-7 adapter did not come back from its power saving",
            f"Reboot {node.name} with the cable in: an adapter that comes back while the machine runs may also be slow.",
        )
    if node.get("fabric.hotplug.platform") is True or node.get("fabric.hotplug.enabled") is True:
        return (
            "the ConnectX-7 adapter is switched off to save power, as it is without a cable",
            f"Plug the cable at both ends and reboot {node.name} with the cable in: one that is plugged into a running machine may stay slow.",
        )
    return (
        "no ConnectX-7 port is visible, as is normal without a cable",
        f"Plug the cable at both ends. If the port stays away or slow, reboot {node.name} with the cable in.",
    )


@rule(
    "fabric.no_address",
    "block",
    "Ports are up, but no rail can be made because they have no address.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/blob/main/nvidia/connect-two-sparks/README.md",
    several=True,
    explained_by=("fabric.wrong_cage", "fabric.unseen"),
)
def no_address(context: Context) -> Iterator[Case]:
    """Nodes whose ports are up and unaddressed, while there is no rail at all. Addresses help only where all nodes are joined."""
    if context.fabric.count or context.fabric.apart:
        return
    for node in joined(context):
        bare = context.fabric.unaddressed.get(node.name, ())
        if bare and not context.fabric.unmatched.get(node.name):
            yield Case(
                (node.name,),
                f"{names(bare)} of {node.name} {'are' if len(bare) > 1 else 'is'} up and without an IPv4 address.",
                "Both functions of the cabled port have an address, each in a subnet that it shares with the other nodes.",
                _remedy(context, "Let it be configured (own netplan file, MTU 9000, nothing else touched)"),
                ("fabric.ports",),
            )


@rule(
    "fabric.rail_unmatched",
    "block",
    "Ports of the nodes are addressed, but in no subnet that all nodes share.",
    source="https://github.com/spark-arena/sparkrun/issues/176",
    several=True,
)
def rail_unmatched(context: Context) -> Iterator[Case]:
    """No common subnet at all, though every node has addresses: one finding that says who is where."""
    if context.fabric.count or context.fabric.apart:
        return
    nodes = joined(context)
    seen = {node.name: context.fabric.unmatched.get(node.name, ()) for node in nodes}
    if seen and all(seen.values()):
        where = "; ".join(f"{name}: {_addresses(ports)}" for name, ports in seen.items())
        yield Case(
            tuple(seen),
            f"The nodes share no subnet on their ConnectX-7 ports ({where}).",
            "For each rail there is one subnet in which every node has an address.",
            f"Give the ports on one cable or switch addresses in one subnet, or remove the wrong addresses and let it be configured: {_CONSENT}.",
            ("fabric.ports",),
        )


def _addresses(ports: tuple[Port, ...]) -> str:
    """Ports with their addresses as text."""
    return ", ".join(f"{port.netdev} {address}" for port in ports for address in port.addresses)


@rule(
    "fabric.no_hca",
    "block",
    "A rail has no RDMA device, so NCCL would fall to TCP.",
    source="https://corti.com/serving-nemotron-super-120b-with-a-1m-token-context-on-a-2-node-dgx-spark-cluster/",
    several=True,
)
def no_hca(context: Context) -> Iterator[Case]:
    """Rails without a single HCA pair. NCCL_NET=IB makes NCCL fail rather than be ten times slower, so say it before."""
    if context.fabric.count and joined(context):
        lacking = [name for name, rails in context.fabric.rails.items() if not any(rail.hca for rail in rails)]
        if lacking or not context.fabric.hcas(next(iter(context.fabric.rails))):
            nodes = tuple(lacking or context.fabric.rails)
            yield Case(
                nodes,
                f"The rails of {listing(nodes)} have no RDMA device, so NCCL could only use TCP, at a tenth of the bandwidth.",
                "Each rail has an HCA (rocep1s0f1 and the like) on every node.",
                "Look at `ls /sys/class/infiniband` and `lsmod | grep mlx5_ib` there; "
                "`sudo modprobe mlx5_ib` brings them back if the module is not loaded.",
                ("fabric.ports",),
            )


@rule(
    "fabric.twin_without_address",
    "warn",
    "Only one of the two functions of the cabled port is used: half the bandwidth.",
    source="https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/pull/35",
    several=True,
)
def twin_without_address(context: Context) -> Iterator[Case]:
    """Each node with an unaddressed port beside a rail of the same cage."""
    if not context.fabric.count:
        return
    for node in joined(context):
        cages = {rail.cage for rail in context.fabric.rails[node.name]}
        bare = tuple(port for port in context.fabric.unaddressed.get(node.name, ()) if port.cage in cages)
        if bare:
            yield Case(
                (node.name,),
                f"{names(bare)} of {node.name} {'are' if len(bare) > 1 else 'is'} up and without an address: "
                "the cable works at half its bandwidth (about 12 instead of 23 GB/s between the GPUs).",
                "Both functions of the cabled port have an address, in a subnet each.",
                _remedy(context, "Let it be configured"),
                ("fabric.ports",),
            )


def _remedy(context: Context, sentence: str) -> str:
    """Ask for consent; where it was given and did not help, say why it could not."""
    if "network" not in context.settings.consent:
        return f"{sentence}: {_CONSENT}."
    return "It was not configured although you consent, because not every node has such a port with a link: look at the cable at both ends."


@rule(
    "fabric.same_subnet",
    "warn",
    "Two rails of a node are in one subnet.",
    source="https://github.com/openucx/ucx/issues/5598",
    several=True,
)
def same_subnet(context: Context) -> Iterator[Case]:
    """Each node with two rails in one subnet: the kernel answers for both on either, and one of them carries everything."""
    for node in joined(context):
        rails = context.fabric.rails.get(node.name, ())
        networks = [IPv4Interface(f"{rail.address}/{rail.prefix}").network for rail in rails]
        shared = {network for i, network in enumerate(networks) if network in networks[:i]}
        for network in sorted(shared):
            members = [rail.netdev for rail, other in zip(rails, networks) if other == network]
            yield Case(
                (node.name,),
                f"{listing(members)} of {node.name} are all in {network}, so traffic may use only one of them.",
                "Each rail has a subnet of its own.",
                "Give the second function of the port a subnet of its own, on every node.",
                ("fabric.ports", "fabric.routes"),
            )


@rule(
    "fabric.link_local",
    "warn",
    "The rails have link-local addresses.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/issues/63",
    several=True,
)
def link_local(context: Context) -> Iterator[Case]:
    """Each node whose fabric address is in 169.254.0.0/16: it may be another one after a reboot."""
    for node in joined(context):
        rails = context.fabric.rails.get(node.name, ())
        local = [rail for rail in rails if IPv4Interface(rail.address).is_link_local]
        if local:
            yield Case(
                (node.name,),
                f"{listing(f'{rail.netdev} ({rail.address})' for rail in local)} of {node.name} may have another address after the next reboot.",
                "Rails have fixed addresses.",
                "Replace `link-local: [ipv4]` in the netplan file by an address of your own, on every node.",
                ("fabric.ports",),
            )


@node_rule(
    "fabric.wrong_cage",
    "block",
    "The addresses are on the ports of one cage, the cable is in the other.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/4",
    several=True,
)
def wrong_cage(context: Context, node: Node) -> Case | None:
    """Each node without a rail whose ports with a link have no address, while ports without one have."""
    ports, bare = context.fabric.ports.get(node.name, ()), context.fabric.unaddressed.get(node.name, ())
    addressed = tuple(port for port in ports if port.addresses and not port.up)
    if context.fabric.count or not bare or not addressed or context.fabric.unmatched.get(node.name):
        return None
    return case(
        node,
        f"The cable of {node.name} is in the cage of {names(bare)}, and the addresses are on {names(addressed)}, which has no link.",
        "The ports with a link have the addresses.",
        f"Move the cable of {node.name} to its other cage, change the names in its netplan file, "
        f"or remove the addresses there and let it be configured: {_CONSENT}.",
        "fabric.ports",
    )


@rule(
    "fabric.crossed_cages",
    "info",
    "The cable joins different cages of the nodes, which works.",
    source="https://github.com/vllm-project/vllm/pull/40991",
    several=True,
)
def crossed_cages(context: Context) -> Iterator[Case]:
    """Rails whose ends are in different cages: names differ from node to node, so they are never assumed."""
    crossed = [each for each in ends(context) if len({rail.cage for _, rail in each} - {None}) > 1]
    if crossed and context.fabric.topology != "ring":
        seen = listing(f"{rail.netdev} of {node.name}" for node, rail in crossed[0])
        yield Case(
            tuple(node.name for node, _ in crossed[0]),
            f"A cable joins different cages: {seen}.",
            "Either cage works; names of ports are taken from each node.",
            "Nothing has to be done.",
            ("fabric.ports",),
        )


@node_rule(
    "fabric.port_elsewhere",
    "info",
    "A port leads to something that is not a node of the group.",
    source="https://github.com/eugr/spark-vllm-docker/issues/40",
    several=True,
)
def port_elsewhere(context: Context, node: Node) -> Case | None:
    """Each node with a port that is up and addressed, beside its rails, in a subnet that the other nodes do not have."""
    other = context.fabric.unmatched.get(node.name, ())
    if not context.fabric.count or not other:
        return None
    return case(
        node,
        f"{_addresses(other)} of {node.name} is in a subnet that the other nodes do not have, so it is left out.",
        "NCCL is told the HCAs that reach the other ranks, and no others.",
        "Nothing has to be done, if it leads to another machine.",
        "fabric.ports",
    )


@node_rule(
    "fabric.not_persistent",
    "warn",
    "A rail's address does not come back after a reboot.",
    source="https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/issues/38",
    several=True,
)
def not_persistent(context: Context, node: Node) -> Case | None:
    """Each node with adopted rails whose address is live only. Link-local ones have a finding of their own."""
    rails = [rail for rail in context.fabric.rails.get(node.name, ()) if rail.action == "adopt" and not IPv4Interface(rail.address).is_link_local]
    lost = [rail for rail in rails if node.port(rail.netdev).get("persistent") is False]
    if not lost:
        return None
    lines = " ".join(f"{rail.netdev}: {{addresses: [{rail.address}/{rail.prefix}], mtu: {rail.mtu or 9000}}}" for rail in lost[:1])
    return case(
        node,
        f"{listing(f'{rail.address} on {rail.netdev}' for rail in lost)} of {node.name} is set on the running system only, and gone after a reboot.",
        "The address of a rail is in a netplan file.",
        f"Write it into a file of your own in /etc/netplan on {node.name} (under `network: {{version: 2, ethernets: ...}}`: `{lines}`), "
        "then `sudo netplan generate` and `sudo netplan apply`.",
        "fabric.ports",
    )


@rule(
    "fabric.duplicate_address",
    "block",
    "Two nodes have the same address.",
    source="https://github.com/vllm-project/vllm/pull/43095",
    several=True,
    explained_by=("node.same_machine",),
)
def duplicate_address(context: Context) -> Iterator[Case]:
    """Addresses that more than one node has on a port of the fabric, or at which more than one answers us."""
    owners: dict[str, list[str]] = {}
    for node in context.reachable:
        own = {str(address.ip) for port in context.fabric.ports.get(node.name, ()) for address in port.addresses}
        management = context.work[node.name]["management_address"]
        if management and not ip_address(management).is_loopback:
            own.add(management)
        for address in own:
            owners.setdefault(address, []).append(node.name)
    for address, nodes in sorted(owners.items()):
        if len(nodes) > 1:
            yield Case(
                tuple(nodes),
                f"{address} is an address of {listing(nodes)}.",
                "Every address belongs to one node.",
                f"Give {nodes[-1]} another one: look for {address} in /etc/netplan there.",
                ("fabric.ports", "fabric.interfaces", "fabric.ssh"),
            )
