"""The cables: every ConnectX-7 port of a node is a veth whose far end lies in a namespace of its own, the tray.

A cable is a bridge in the tray with two far ends in it, and with more it is a switch. Pulling it takes its far ends down, so all nodes see
NO-CARRIER while their own ports stay UP, as with a real cable; a port without a cable is a far end that is down.
A jumbo frame that meets a port with a smaller MTU is dropped by the veth driver, as by a real NIC.
One namespace holds it all, so removing it removes every cable whatever state an aborted run left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .config import CABLES, NODES, PORTS, TRAY, Node, Port
from .profiles import Profile
from .shell import LabError, run

#: Larger than any MTU a node may set, so that only the nodes' own ports limit a frame.
TRAY_MTU = 9216


def far_end(node: Node, port: Port) -> str:
    """The name of a port's far end in the tray."""
    return f"{node.letter}-{port.short}"


def _tray_ip(*args: str, check: bool = True) -> str:
    return run(["ip", "-n", TRAY, *args], root=True, check=check).stdout


def _batch(namespace: list[str], lines: list[str]) -> None:
    """Several changes in one process: a cable is laid in milliseconds."""
    run([*namespace, "ip", "-batch", "-"], root=True, stdin="\n".join(lines) + "\n")


def in_node(pid: int) -> list[str]:
    """The prefix that runs a host program in the network namespace of a node."""
    return ["nsenter", "-t", str(pid), "-n"]


def tray_exists() -> bool:
    """Whether the namespace of the far ends is there and usable."""
    return run(["ip", "-n", TRAY, "link", "show", "lo"], root=True, check=False).returncode == 0


def _links() -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_tray_ip("-j", "link", "show") or "[]")
    return {link["ifname"]: link for link in found if link.get("ifname")}


def ensure(pids: dict[str, int], plugged: set[str], machines: dict[str, Profile]) -> list[str]:
    """Lay every cable that is missing at the ports that each node has, and plug exactly ``plugged``; returns what was done, in words."""
    done: list[str] = []
    if not tray_exists():
        # A half-made name from an aborted run would be in the way.
        run(["ip", "netns", "del", TRAY], root=True, check=False)
        run(["ip", "netns", "add", TRAY], root=True)
        # A cable has no address: it must not answer where a machine asks who is on it.
        run(["ip", "netns", "exec", TRAY, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"], root=True)
        done.append("the cable tray was made")
    links = _links()
    for bridge in CABLES.values():
        if bridge not in links:
            _batch(
                ["ip", "netns", "exec", TRAY],
                [
                    f"link add {bridge} type bridge stp_state 0 mcast_snooping 0 forward_delay 0",
                    f"link set {bridge} mtu {TRAY_MTU} up",
                ],
            )
    for node in (node for node in NODES if node.name in machines):
        missing = _missing(node, pids[node.name], machines[node.name].ports, links)
        if missing:
            _lay(node, pids[node.name], missing, machines[node.name].wiring)
            done.append(f"{len(missing)} ports of {node.name} were connected to the tray")
    links = _links()
    for cable in CABLES:
        want_up = cable in plugged
        if any(("UP" in end["flags"]) != want_up for end in _ends(cable, links)):
            set_plugged(cable, want_up)
            done.append(f"the cable {cable} was {'plugged' if want_up else 'pulled'}")
    return done


def _missing(node: Node, pid: int, ports: tuple[Port, ...], links: dict[str, dict[str, Any]]) -> list[Port]:
    """Those of its ports that the node itself does not have, their far ends cleared away.

    The far end alone proves nothing: the kernel takes a stopped node's namespace apart when it finds the time, and until then the far ends of
    the node that was hang on in the tray, under the names that the new one needs.
    """
    near = _names(pid)
    missing = [port for port in ports if port.netdev not in near or far_end(node, port) not in links]
    for port in missing:
        if far_end(node, port) in links:
            _tray_ip("link", "del", far_end(node, port), check=False)
        elif port.netdev in near:
            run([*in_node(pid), "ip", "link", "del", port.netdev], root=True, check=False)
    return missing


def _names(pid: int) -> set[str]:
    """The interfaces that a node has now."""
    listing = run([*in_node(pid), "ip", "-j", "link", "show"], root=True).stdout
    return {link["ifname"] for link in json.loads(listing or "[]") if link.get("ifname")}


def _ends(cable: str, links: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The far ends that a cable joins, or a switch where they are more than two: of equal ports, unless a node is wired otherwise."""
    return [link for link in links.values() if link.get("master") == CABLES[cable]]


def _lay(node: Node, pid: int, ports: list[Port], wiring: dict[str, str]) -> None:
    """Make the veth pairs of a node, the near end with the port's name and the MAC address a Spark would have."""
    far: list[str] = []
    near: list[str] = []
    create: list[str] = []
    first = _free_numbers(pid)
    for port in ports:
        end = far_end(node, port)
        number = first + PORTS.index(port)
        # The kernel looks a far end's number up in the node's own namespace: one that is free there keeps `DOWN` a `DOWN`.
        far_number = 1000 + 100 * NODES.index(node) + PORTS.index(port)
        create.append(
            f"link add {port.netdev} netns {pid} index {number} address {node.mac(port.mac_offset)} "
            f"type veth peer name {end} index {far_number} netns {TRAY} mtu {TRAY_MTU}"
        )
        far.append(f"link set {end} master {CABLES[wiring.get(port.netdev, port.netdev)]}")
        near.append(f"link set {port.netdev} up")
    _batch([], create)
    _batch(["ip", "netns", "exec", TRAY], far)
    # Docker switches IPv6 off in its namespaces; on a machine every port that is up has a link-local address.
    ipv6 = [f"net.ipv6.conf.{port.netdev}.disable_ipv6=0" for port in ports]
    run([*in_node(pid), "sysctl", "-qw", *ipv6], root=True)
    _batch(in_node(pid), near)


def _free_numbers(pid: int) -> int:
    """The first of four free interface numbers in a node: 3 as on a Spark, unless something else came up first."""
    listing = run([*in_node(pid), "ip", "-j", "link", "show"], root=True).stdout
    used = {link["ifindex"] for link in json.loads(listing or "[]")}
    return next(first for first in range(3, 1000, 10) if not used & set(range(first, first + len(PORTS))))


def set_plugged(cable: str, up: bool) -> None:
    """Plug or pull one cable: its far ends change in one batch, so all nodes see it in the same instant."""
    if cable not in CABLES:
        raise LabError(f"there is no cable {cable}: choose one of {', '.join(CABLES)}")
    word = "up" if up else "down"
    _batch(["ip", "netns", "exec", TRAY], [f"link set {end['ifname']} {word}" for end in _ends(cable, _links())])


@dataclass(frozen=True)
class CableState:
    """What a cable looks like from outside."""

    netdev: str
    plugged: bool


def states() -> list[CableState]:
    """All four cables, whether plugged or not; empty while the lab is down."""
    if not tray_exists():
        return []
    links = _links()

    def plugged(port: Port) -> bool:
        ends = _ends(port.netdev, links)
        return len(ends) > 1 and all("UP" in end["flags"] for end in ends)

    return [CableState(port.netdev, plugged(port)) for port in PORTS]


def remove() -> None:
    """Remove the tray and with it every cable, both ends."""
    run(["ip", "netns", "del", TRAY], root=True, check=False)
