# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from rail to rail: routes, neighbours, RDMA addresses, who configures a port, and what stands in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

from .base import Case, case, node_rule, rule
from .context import Context, Node, Rail, listing
from .fabric import ends
from .variables import gid_index

#: The file that we write ourselves (role fabric).
OUR_FILE = "/etc/netplan/60-gb10-fabric.yaml"
#: States of a neighbour entry that say that nobody answered. Any other one is fine, and so is no entry.
_SILENT = ("FAILED", "INCOMPLETE")
#: The firewalls that role fabric opens by consent, and the words of it.
_BY_US = ("ufw", "iptables")
_CONSENT = '-e \'{"gb10_consent": ["firewall"]}\''
#: By kind the command that lets in what comes from a network, and what more it takes.
_COMMANDS = {
    "ufw": ("sudo ufw allow in on {netdev} from {source}", ""),
    "iptables": ("sudo iptables -I INPUT 1 -i {netdev} -s {source} -j ACCEPT", ", and the same in what loads your rules at boot"),
    "nftables": (
        "sudo nft insert rule inet filter input iifname {netdev} ip saddr {source} accept",
        ", with the table and the chain that refuse, since an accept in another one does not count (`sudo nft list ruleset` shows them; "
        "`inet filter input` is that of Debian's and Ubuntu's /etc/nftables.conf), and the same in the file that is loaded at boot",
    ),
}


def _adopted(context: Context, node: Node) -> list[Rail]:
    """The node's rails that are there already."""
    return [rail for rail in context.fabric.rails.get(node.name, ()) if rail.action == "adopt"]


def _peers(context: Context, node: Node) -> Iterator[tuple[Rail, Node, Rail]]:
    """For each adopted rail of the node its other ends."""
    for each in ends(context):
        own = next((rail for other, rail in each if other is node), None)
        for other, rail in each:
            if own is not None and other is not node and own.action == rail.action == "adopt":
                yield own, other, rail


def _networks(node: Node) -> Iterator[tuple[IPv4Network, str]]:
    """The node's routes, without the default one."""
    for row in node.rows("fabric.routes"):
        try:
            network = IPv4Network(str(row.get("destination")), strict=False)
        except ValueError:
            continue
        if network.prefixlen and row.get("interface"):
            yield network, str(row["interface"])


@node_rule(
    "fabric.route_elsewhere",
    "block",
    "The way to another rank leads over another interface than its rail.",
    source="https://github.com/NVIDIA/daqiri/issues/173",
    several=True,
)
def route_elsewhere(context: Context, node: Node) -> Case | None:
    """Each node with a route to a peer that is as narrow as the rail's, or narrower, and not the rail's: a network of Docker, another port."""
    rails = {rail.netdev for rail in context.fabric.rails.get(node.name, ())}
    for own, other, far in _peers(context, node):
        address = IPv4Address(far.address)
        if address.is_link_local:
            continue
        for network, interface in _networks(node):
            if address in network and network.prefixlen >= own.prefix and interface not in rails:
                return case(
                    node,
                    f"{node.name} reaches {far.address} of {other.name} over {interface} ({network}), not over its rail {own.netdev}.",
                    f"The subnet of a rail ({IPv4Interface(f'{own.address}/{own.prefix}').network}) overlaps no other network of the node.",
                    f"See `ip route get {far.address}` on {node.name}. If {interface} is a network of Docker, remove it (`docker network ls`); "
                    "else give the rail another subnet on every node.",
                    "fabric.routes",
                )
    return None


def _neighbours(node: Node, netdev: str, address: str) -> list[Mapping[str, Any]]:
    """The entries for an address in the neighbour table of a port."""
    rows = node.port(netdev).get("neighbours") or []
    return [row for row in rows if row.get("address") == address]


@node_rule(
    "fabric.neighbour_silent",
    "warn",
    "Another rank did not answer on its rail.",
    source="https://github.com/NVIDIA/NemoClaw/issues/8519",
    several=True,
)
def neighbour_silent(context: Context, node: Node) -> Case | None:
    """Each node that asked for a peer on a rail and got no answer. That it never asked is normal."""
    silent = [
        f"{far.address} of {other.name} over {own.netdev}"
        for own, other, far in _peers(context, node)
        if any(row.get("state") in _SILENT for row in _neighbours(node, own.netdev, far.address))
    ]
    if not silent:
        return None
    address = silent[0].partition(" ")[0]
    return case(
        node,
        f"{node.name} got no answer from {listing(silent)}.",
        "The ends of a rail answer each other.",
        f"Try `ping -c 3 {address}` on {node.name}. If it stays silent, the address is on a port that this cable does not reach: "
        "exchange the addresses of the two ends, or the cable.",
        "fabric.ports",
    )


@node_rule(
    "fabric.neighbour_crossed",
    "warn",
    "Another port of a rank answers for the address of its rail.",
    source="https://github.com/luxingcom/aicad-nccl-optimization/issues/1",
    several=True,
    explained_by=("fabric.same_subnet",),
)
def neighbour_crossed(context: Context, node: Node) -> Case | None:
    """Each node that reaches a peer's rail at the hardware address of another port of that peer."""
    for own, other, far in _peers(context, node):
        macs = _macs(other)
        for row in _neighbours(node, own.netdev, far.address):
            answering = macs.get(str(row.get("mac")).lower())
            if answering is not None and answering != far.netdev:
                return case(
                    node,
                    f"{node.name} reaches {far.address} at {answering} of {other.name}, though {far.netdev} has that address.",
                    "The port that has the address answers for it, at the other end of the same cable.",
                    f"Look at the cabling of the two cages: {own.netdev} of {node.name} should lead to {far.netdev} of {other.name}. "
                    f"If it does: `sudo sysctl -w net.ipv4.conf.all.arp_ignore=1` on {other.name}.",
                    "fabric.ports",
                )
    return None


@node_rule(
    "fabric.neighbour_stranger",
    "block",
    "A machine that is no node answers for the address of a rank.",
    source="https://github.com/NVIDIA/daqiri/issues/173",
    several=True,
)
def neighbour_stranger(context: Context, node: Node) -> Case | None:
    """Each node that reaches a peer's rail at a hardware address that the peer does not have. Only judged if all of the peer's are known."""
    for own, other, far in _peers(context, node):
        macs = _macs(other)
        if not macs or not all(row.get("mac") for row in other.rows("fabric.ports")):
            continue
        for row in _neighbours(node, own.netdev, far.address):
            if row.get("mac") and row.get("state") not in _SILENT and str(row["mac"]).lower() not in macs:
                return case(
                    node,
                    f"On {own.netdev} of {node.name} a machine that is not {other.name} answers for {far.address}.",
                    "An address is used once in its network.",
                    f"See `ip neigh show dev {own.netdev}` on {node.name}, find the other machine, and give one of the two another address.",
                    "fabric.ports",
                )
    return None


def _macs(node: Node) -> dict[str, str]:
    """The hardware addresses of a node's ports and interfaces, and whose they are."""
    return {str(row.get("mac")).lower(): name for name, row in node.interfaces().items() if row.get("mac")}


@node_rule(
    "fabric.no_gid",
    "block",
    "A rail's RDMA device has no RoCE v2 address for the rail's IPv4 address.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/pull/125",
    several=True,
)
def no_gid(context: Context, node: Node) -> Case | None:
    """Each node with an adopted rail whose GID table is known and lacks the rail's address: connections end with `Network unreachable`."""
    lacking = []
    for rail in _adopted(context, node):
        gids = node.port(rail.netdev).get("gids")
        usable = [row for row in gids or [] if row.get("address") == rail.address and row.get("type", "RoCE v2") == "RoCE v2"]
        if rail.hca and gids and not usable:
            lacking.append(rail)
    if not lacking:
        return None
    return case(
        node,
        f"{listing(f'{rail.hca} ({rail.address})' for rail in lacking)} of {node.name} has no RoCE v2 GID for its address.",
        "The GID table of a rail's HCA has the rail's IPv4 address.",
        f"On {node.name}: `sudo ip link set {lacking[0].netdev} down && sudo ip link set {lacking[0].netdev} up`, unless your session runs over it; "
        "then a reboot.",
        "fabric.ports",
    )


def _index(node: Node, rail: Rail) -> int | None:
    """Where the rail's address is in the GID table of its HCA, as RoCE v2; None if that is unknown."""
    rows = [row for row in node.port(rail.netdev).get("gids") or [] if row.get("address") == rail.address and row.get("type") == "RoCE v2"]
    return min((int(row["index"]) for row in rows if isinstance(row.get("index"), int)), default=None)


@rule(
    "fabric.gid_differs",
    "info",
    "The RoCE v2 address of a rail is at another index on each HCA, so no one number fits all.",
    source="https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/pull/26",
    several=True,
)
def gid_differs(context: Context) -> Iterator[Case]:
    """Indexes that differ, while nothing is pinned. Where the recipe pins one, that is checked on every HCA."""
    if gid_index(context.recipe["environment"]) is not None:
        return
    found = [(node, rail, index) for node in context.reachable for rail in _adopted(context, node) if (index := _index(node, rail)) is not None]
    if len({index for _, _, index in found}) > 1:
        seen = listing(f"{index} on {rail.hca} of {node.name}" for node, rail, index in found)
        yield Case(
            tuple(dict.fromkeys(node.name for node, _, _ in found)),
            f"The GID index of the rails' addresses differs: {seen}.",
            "NCCL finds the index of each HCA by itself; it moves with every address that is added.",
            "Nothing has to be done: NCCL_IB_GID_INDEX is left out. Do not set it in a recipe.",
            ("fabric.ports",),
        )


@node_rule(
    "fabric.netplan_overlap",
    "warn",
    "More than one netplan file configures a rail.",
    source="https://github.com/spark-arena/sparkrun/issues/208",
    several=True,
)
def netplan_overlap(context: Context, node: Node) -> Case | None:
    """Each node with a rail that several files name, or that is to be configured although a file of somebody else names it.

    Files are merged, so the address of one and the MTU of another may win, or both addresses.
    """
    for rail in context.fabric.rails.get(node.name, ()):
        files = [str(name) for name in node.port(rail.netdev).get("files") or []]
        foreign = [name for name in files if name != OUR_FILE]
        if len(files) > 1 or (foreign and rail.action == "configure"):
            shown = listing(dict.fromkeys([*files, *([OUR_FILE] if rail.action == "configure" else [])]))
            return case(
                node,
                f"{rail.netdev} of {node.name} is configured by {shown}, which netplan merges.",
                "One netplan file configures a port.",
                f"Look at `sudo netplan get ethernets.{rail.netdev}` on {node.name} and take the port out of the files that should not have it. "
                "A file of yours is never edited.",
                "fabric.ports",
                "fabric.netplan",
            )
    return None


@node_rule(
    "fabric.network_manager",
    "info",
    "NetworkManager looks after a rail.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/issues/56",
    several=True,
)
def network_manager(context: Context, node: Node) -> Case | None:
    """Each node whose rails are NetworkManager's: its default profile asks for DHCP for ever, and an MTU may wait for the next activation."""
    rails = [rail for rail in _adopted(context, node) if node.port(rail.netdev).get("manager") == "NetworkManager"]
    if not rails:
        return None
    return case(
        node,
        f"NetworkManager looks after {listing(rail.netdev for rail in rails)} of {node.name}.",
        "Either manager works. A profile of NetworkManager that was changed takes effect when it is activated again, and is not always kept.",
        "Nothing has to be done while the addresses are there after a reboot.",
        "fabric.ports",
    )


@node_rule(
    "fabric.firewall",
    "warn",
    "A firewall is active on a node, and may stop the ranks from talking to each other.",
    source="https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations",
    several=True,
)
def firewall(context: Context, node: Node) -> Case | None:
    """Each node with an active firewall, unless its rails are opened by consent: ranks use ports that are chosen as they start.

    Where the ranks find each other on a network that is no rail, as in a ring, that one has to be open between them too. It is never opened by us.
    """
    if node.get("fabric.firewall.active") is not True:
        return None
    kind = str(node.get("fabric.firewall.kind") or "a firewall")
    opened = kind in _BY_US and "firewall" in context.settings.consent
    rails = [(rail.netdev, str(IPv4Interface(f"{rail.address}/{rail.prefix}").network)) for rail in context.fabric.rails.get(node.name, ())]
    beside = _beside(context, node)
    remedy = []
    if not opened:
        where = f"Let the rails be opened: {_CONSENT}. Or by hand on" if kind in _BY_US else "On"
        remedy.append(f"{where} {node.name}: {_by_hand(kind, rails)}.")
    if beside:
        remedy.append(f"The ranks find each other at {beside[0][0]} of {node.name}, which is yours to open: {_by_hand(kind, beside)}.")
    if not remedy:
        return None
    return case(
        node,
        f"{kind} is active on {node.name}.",
        "The rails are open between the ranks: Ray, NCCL and the ranks' store choose ports as they start.",
        " ".join(remedy),
        "fabric.firewall",
    )


def _beside(context: Context, node: Node) -> list[tuple[str, str]]:
    """Where the ranks reach this one if that is no rail: the interface, and the address of each of them."""
    interface, _address = context.fabric.meeting.get(node.name, ("", ""))
    if not interface or interface in {rail.netdev for rail in context.fabric.rails.get(node.name, ())}:
        return []
    return [(interface, address) for name, (_interface, address) in context.fabric.meeting.items() if name != node.name]


def _by_hand(kind: str, ways: Sequence[tuple[str, str]]) -> str:
    """The commands that let in what comes so; words where the firewall is none that we know, or where there is no rail yet."""
    if kind not in _COMMANDS or not ways:
        return f"let everything in on {listing(f'{netdev} from {source}' for netdev, source in ways) or 'the rails'}"
    command, lasting = _COMMANDS[kind]
    return "; ".join(f"`{command.format(netdev=netdev, source=source)}`" for netdev, source in ways) + lasting


@rule(
    "fabric.firmware_differs",
    "warn",
    "The adapters have different firmware.",
    source="https://github.com/eugr/spark-vllm-docker/issues/392",
    several=True,
)
def firmware_differs(context: Context) -> Iterator[Case]:
    """The firmware of the ConnectX-7 of each node, where they differ."""
    found: dict[str, str] = {}
    for node in context.reachable:
        versions = sorted({str(row["firmware"]) for row in node.rows("fabric.ports") if row.get("firmware")})
        if versions:
            found[node.name] = " and ".join(versions)
    if len(set(found.values())) > 1:
        seen = listing(f"{name} {firmware}" for name, firmware in found.items())
        yield Case(
            tuple(found),
            f"The ConnectX-7 adapters have different firmware: {seen}.",
            "Both ends of a cable have the same firmware.",
            "Bring both nodes to the same DGX OS update; never flash the adapter by hand.",
            ("fabric.ports",),
        )
