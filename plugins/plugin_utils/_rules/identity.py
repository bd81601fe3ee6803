# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the nodes are the machines that the inventory takes them for: each one once, with names, keys and clocks of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address

from .base import Case, case, node_rule, rule
from .context import Context, Node, listing

#: Beyond the time that the nodes took to answer: connections, a queue of forks, a slow interpreter, seconds.
_SLACK = 30.0


def _sharing(context: Context, read: Callable[[Node], frozenset[str]]) -> Iterator[tuple[str, ...]]:
    """Groups of nodes that have something of what is read in common, each node in one group."""
    groups: list[tuple[set[str], list[str]]] = []
    for node in context.reachable:
        own = read(node)
        group = next((each for each in groups if each[0] & own), None)
        if group is None:
            groups.append((set(own), [node.name]))
        else:
            group[0].update(own)
            group[1].append(node.name)
    return (tuple(names) for _, names in groups if len(names) > 1)


def _macs(node: Node) -> frozenset[str]:
    """The hardware addresses of the ports and wired interfaces of a node. Those of bridges are made up, and may be the same."""
    rows = [*node.rows("fabric.ports"), *(row for row in node.rows("fabric.interfaces") if row.get("kind") == "ethernet")]
    return frozenset(str(row["mac"]).lower() for row in rows if row.get("mac"))


def _keys(node: Node) -> frozenset[str]:
    """The SSH host keys of a node."""
    return frozenset(str(row["key"]) for row in node.rows("ssh.host_keys") if row.get("key"))


@rule(
    "node.same_machine",
    "block",
    "Two hosts of the group are one machine.",
    source="https://github.com/spark-arena/sparkrun/issues/84",
    several=True,
)
def same_machine(context: Context) -> Iterator[Case]:
    """Hosts whose network ports have the same hardware addresses: the inventory names one machine twice."""
    for names in _sharing(context, _macs):
        yield Case(
            names,
            f"{listing(names)} are one machine: their network ports have the same hardware addresses.",
            "Every host of the group is a machine of its own.",
            f"Look at ansible_host and gb10_jump of {listing(names)} in the inventory: a jump that is not used ends at the first machine.",
            ("fabric.ports", "fabric.interfaces"),
        )


@rule(
    "ssh.same_host_key",
    "warn",
    "Two machines have the same SSH host key.",
    source="https://github.com/spark-arena/sparkrun",
    several=True,
    explained_by=("node.same_machine",),
)
def same_host_key(context: Context) -> Iterator[Case]:
    """Units of one batch, or clones of one image: who has the key of one can pass for the other, and a known key proves nothing."""
    for names in _sharing(context, _keys):
        yield Case(
            names,
            f"{listing(names)} have the same SSH host key, as units of one image do.",
            "Every machine has host keys of its own.",
            f"On {names[-1]}: `sudo rm /etc/ssh/ssh_host_*_key* && sudo dpkg-reconfigure openssh-server`, then forget its old key on every machine "
            "that knows it (`ssh-keygen -R ADDRESS`).",
            ("ssh.host_keys",),
        )


@rule(
    "node.same_hostname",
    "warn",
    "Two machines have the same host name.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/issues/56",
    several=True,
    explained_by=("node.same_machine",),
)
def same_hostname(context: Context) -> Iterator[Case]:
    """Machines of one name: they rename each other in mDNS, and `name.local` is now this one and now that one."""
    for names in _sharing(context, lambda node: frozenset({str(node.get("identity.hostname"))} if node.get("identity.hostname") else ())):
        yield Case(
            names,
            f"{listing(names)} call themselves {_hostname(context, names[0])}.",
            "Every machine has a name of its own.",
            f"On {names[-1]}: `sudo hostnamectl set-hostname NAME`; use addresses in the inventory, not names that end with .local.",
            ("identity.hostname",),
        )


def _hostname(context: Context, name: str) -> str:
    """What a node calls itself."""
    return str(next(node.get("identity.hostname") for node in context.nodes if node.name == name))


@node_rule(
    "node.loopback",
    "warn",
    "The inventory reaches a node by a loopback address.",
    source="https://github.com/spark-arena/sparkrun/issues/84",
    several=True,
)
def loopback(context: Context, node: Node) -> Case | None:
    """Each node at which our session arrives on 127.0.0.0/8: others would be told an address that is their own."""
    address = context.work[node.name]["management_address"]
    if address is None or not ip_address(address).is_loopback:
        return None
    return case(
        node,
        f"Our session arrives at {address} of {node.name}, which means another machine on every other machine.",
        "ansible_host is an address at which others reach the node, or the connection is local.",
        f"In the inventory, set ansible_host of {node.name} to its address, or `ansible_connection: local`"
        f"{'; set gb10_api_host to where clients reach the API' if node.rank == 0 else ''}.",
        "fabric.ssh",
    )


@rule(
    "user.differs",
    "info",
    "The nodes are used with different accounts.",
    source="https://github.com/spark-arena/sparkrun/issues/52",
    several=True,
)
def user_differs(context: Context) -> Iterator[Case]:
    """The account on each node, where they differ: each has a home and a cache of its own, and the head must know the name."""
    users = {node.name: str(node.get("user.name")) for node in context.reachable if node.get("user.name")}
    if len(set(users.values())) > 1:
        yield Case(
            tuple(users),
            f"The accounts differ: {listing(f'{user} on {name}' for name, user in users.items())}.",
            "One account on all nodes is easier; each node's own is used, for its cache as well.",
            "Nothing has to be done.",
            ("user.name",),
        )


@rule(
    "time.skew",
    "warn",
    "The clocks of the nodes differ.",
    source="https://docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html",
    several=True,
)
def skew(context: Context) -> Iterator[Case]:
    """Clocks that differ by more than gathering can explain. The nodes are asked at the same time, but not at the same moment.

    A recording was made at another time than the others, so it says nothing here.
    """
    times = {node.name: float(node.get("time.epoch")) for node in context.reachable if node.get("source") == "live" and node.get("time.epoch")}
    took = sum(float(node.get("seconds") or 0) for node in context.reachable)
    if times and max(times.values()) - min(times.values()) > _SLACK + took:
        ahead, behind = max(times, key=times.__getitem__), min(times, key=times.__getitem__)
        yield Case(
            (behind, ahead),
            f"The clock of {ahead} is about {times[ahead] - times[behind]:.0f} s ahead of that of {behind}.",
            "Clocks agree: certificates, logs and time limits depend on it.",
            "On both: `timedatectl`; `sudo timedatectl set-ntp true` if a time server can be reached, "
            "else set the clock that is wrong: `sudo timedatectl set-time 'YYYY-MM-DD hh:mm:ss'`.",
            ("time.epoch",),
        )


@node_rule(
    "time.unsynchronized",
    "info",
    "The clock of a node is not synchronized.",
    source="https://docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html",
    explained_by=("time.skew",),
)
def unsynchronized(context: Context, node: Node) -> Case | None:
    """Each node whose kernel says that nobody keeps its clock: normal without a network, and a fault only once it is wrong."""
    if node.get("time.synchronized") is not False:
        return None
    return case(
        node,
        f"Nobody synchronizes the clock of {node.name}.",
        "A time server keeps the clock.",
        f"Nothing has to be done while it is right; else `sudo timedatectl set-ntp true` on {node.name}.",
        "time.synchronized",
    )


@node_rule(
    "deployment.others",
    "info",
    "Another tool for deployments is on a node.",
    source="https://github.com/Blackwellboy/model-serving-minefield",
)
def others(context: Context, node: Node) -> Case | None:
    """Each node with checkouts of other tools: two that start engines at boot fight for one memory."""
    rows = [f"{row.get('kind')} ({row.get('path')})" for row in node.rows("deployments")]
    if not rows:
        return None
    return case(
        node,
        f"{node.name} has {listing(rows)}.",
        "One tool starts engines on a machine.",
        "Nothing has to be done while it is not used at the same time, or at boot.",
        "deployments",
    )
