# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric between the nodes. None of this matters for a single node."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Interface

from .base import Case, rule
from .context import Context, Node, Port, Rail, listing

#: From about this netdev MTU on, RDMA uses its largest packets (active MTU 4096).
ENOUGH_MTU = 4200
_CONSENT = '-e \'{"gb10_consent": ["network"]}\''


def _several(context: Context) -> tuple[Node, ...]:
    """The reachable nodes whose fabric is known, none if the deployment has one node only."""
    return tuple(n for n in context.reachable if n.name not in context.fabric.unknown) if context.several else ()


def _names(ports: tuple[Port, ...]) -> str:
    """Ports as text."""
    return listing(port.netdev for port in ports)


@rule("fabric.no_rail", "block", "A node has no ConnectX-7 port with a link.", source="https://github.com/NVIDIA/NV-Kernels/pull/271")
def no_rail(context: Context) -> Iterator[Case]:
    """Each node without any port that is up. Without a cable the machine may hide the whole adapter, which is healthy."""
    for node in _several(context):
        ports = context.fabric.ports.get(node.name, ())
        if not any(port.up for port in ports):
            seen = f"{_names(ports)} are down" if ports else "no ConnectX-7 port is visible, as is normal without a cable"
            yield Case(
                (node.name,),
                f"{node.name} has no link to the other nodes: {seen}.",
                "A QSFP cable joins the nodes, and both functions of the cabled port are up.",
                f"Plug the cable at both ends. If the port stays away or slow, reboot {node.name} with the cable in.",
                ("fabric.ports",),
            )


@rule(
    "fabric.no_address",
    "block",
    "Ports are up, but no rail can be made because they have no address.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/blob/main/nvidia/connect-two-sparks/README.md",
)
def no_address(context: Context) -> Iterator[Case]:
    """Nodes whose ports are up and unaddressed, while there is no rail at all."""
    if context.fabric.count:
        return
    for node in _several(context):
        bare = context.fabric.unaddressed.get(node.name, ())
        if bare and not context.fabric.unmatched.get(node.name):
            yield Case(
                (node.name,),
                f"{_names(bare)} of {node.name} {'are' if len(bare) > 1 else 'is'} up and without an IPv4 address.",
                "Both functions of the cabled port have an address, each in a subnet that it shares with the other nodes.",
                _remedy(context, "Let it be configured (own netplan file, MTU 9000, nothing else touched)"),
                ("fabric.ports",),
            )


@rule(
    "fabric.rail_unmatched",
    "block",
    "Ports of the nodes are addressed, but in no subnet that all nodes share.",
    source="https://github.com/spark-arena/sparkrun/issues/176",
)
def rail_unmatched(context: Context) -> Iterator[Case]:
    """No common subnet at all, though every node has addresses: one finding that says who is where."""
    if context.fabric.count:
        return
    nodes = _several(context)
    seen = {node.name: context.fabric.unmatched.get(node.name, ()) for node in nodes}
    if seen and all(seen.values()):
        where = "; ".join(f"{name}: {_addresses(ports)}" for name, ports in seen.items())
        yield Case(
            tuple(seen),
            f"The nodes share no subnet on their ConnectX-7 ports ({where}).",
            "For each rail there is one subnet in which every node has an address.",
            "Give the ports on one cable addresses in one subnet (a ring of three or more nodes needs a switch), "
            f"or remove the wrong addresses and let it be configured: {_CONSENT}.",
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
)
def no_hca(context: Context) -> Iterator[Case]:
    """Rails without a single HCA pair. NCCL_NET=IB makes NCCL fail rather than be ten times slower, so say it before."""
    if context.fabric.count and _several(context):
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
)
def twin_without_address(context: Context) -> Iterator[Case]:
    """Each node with an unaddressed port beside a rail of the same cage."""
    if not context.fabric.count:
        return
    for node in _several(context):
        cages = {rail.cage for rail in context.fabric.rails[node.name]}
        bare = tuple(port for port in context.fabric.unaddressed.get(node.name, ()) if port.cage in cages)
        if bare:
            yield Case(
                (node.name,),
                f"{_names(bare)} of {node.name} {'are' if len(bare) > 1 else 'is'} up and without an address: "
                "the cable works at half its bandwidth (about 12 instead of 23 GB/s between the GPUs).",
                "Both functions of the cabled port have an address, in a subnet each.",
                _remedy(context, "Let it be configured"),
                ("fabric.ports",),
            )


@rule(
    "fabric.twin_down",
    "warn",
    "One function of the cabled port has no link.",
    source="https://github.com/NVIDIA/NemoClaw/issues/8520",
)
def twin_down(context: Context) -> Iterator[Case]:
    """Each node with a rail whose cage has a function that is down. One cable always brings up two."""
    for node in _several(context):
        cages = {rail.cage for rail in context.fabric.rails.get(node.name, ())}
        down = tuple(port for port in context.fabric.ports[node.name] if port.cage in cages and not port.up)
        if down:
            yield Case(
                (node.name,),
                f"{_names(down)} of {node.name} {'are' if len(down) > 1 else 'is'} down, though the other function of the same cage has a link.",
                "One cable brings up both functions of its cage.",
                f"On {node.name}: `sudo ip link set {down[0].netdev} up`; if it stays down, reboot the machine with the cable in.",
                ("fabric.ports",),
            )


def _remedy(context: Context, sentence: str) -> str:
    """Ask for consent; where it was given and did not help, say why it could not."""
    if "network" not in context.settings.consent:
        return f"{sentence}: {_CONSENT}."
    return "It was not configured although you consent, because not every node has such a port with a link: look at the cable at both ends."


def _ends(context: Context) -> Iterator[list[tuple[Node, Rail]]]:
    """For each rail its ends on all nodes."""
    nodes = [node for node in _several(context) if node.name in context.fabric.rails]
    for i in range(context.fabric.count):
        yield [(node, context.fabric.rails[node.name][i]) for node in nodes]


@rule("fabric.mtu_mismatch", "block", "The two ends of a rail have different MTUs.", source="https://github.com/NVIDIA/nccl/pull/2135")
def mtu_mismatch(context: Context) -> Iterator[Case]:
    """Each rail whose ends differ: packets vanish without an error, the engine hangs."""
    for ends in _ends(context):
        known = [(node, rail) for node, rail in ends if rail.mtu is not None]
        if len({rail.mtu for _, rail in known}) > 1:
            largest = max(rail.mtu or 0 for _, rail in known)
            seen = listing(f"{rail.netdev} of {node.name} {rail.mtu}" for node, rail in known)
            small = [(node, rail) for node, rail in known if rail.mtu != largest]
            commands = "; ".join(f"`sudo ip link set {rail.netdev} mtu {largest}` on {node.name}" for node, rail in small)
            yield Case(
                tuple(node.name for node, _ in known),
                f"The MTUs on one rail differ: {seen}.",
                "Both ends of a rail have the same MTU.",
                f"{commands} (and in its netplan file, or it is lost at the next boot).",
                ("fabric.ports",),
            )


@rule("fabric.mtu_small", "warn", "A rail has a small MTU.", source="https://github.com/NVIDIA/dgx-spark-playbooks/issues/25")
def mtu_small(context: Context) -> Iterator[Case]:
    """Each rail on which RDMA cannot use its largest packets."""
    for ends in _ends(context):
        small = [(node, rail) for node, rail in ends if rail.mtu is not None and rail.mtu < ENOUGH_MTU]
        if small and len({rail.mtu for _, rail in ends}) == 1:
            yield Case(
                tuple(node.name for node, _ in small),
                f"{listing(f'{rail.netdev} of {node.name}' for node, rail in small)} {'have' if len(small) > 1 else 'has'} "
                f"an MTU of {small[0][1].mtu}.",
                "Rails have an MTU of 9000; a small one costs 5 to 10 % of the bandwidth.",
                "Set `mtu: 9000` for it in the netplan file of every node, at the same time.",
                ("fabric.ports",),
            )


@rule("fabric.same_subnet", "warn", "Two rails of a node are in one subnet.", source="https://github.com/openucx/ucx/issues/5598")
def same_subnet(context: Context) -> Iterator[Case]:
    """Each node with two rails in one subnet: the kernel answers for both on either, and one of them carries everything."""
    for node in _several(context):
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
)
def link_local(context: Context) -> Iterator[Case]:
    """Each node whose fabric address is in 169.254.0.0/16: it may be another one after a reboot."""
    for node in _several(context):
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
