# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters whose networks people have shown: what their machines printed, taken together with what every GB10 has in common.

A patch is one thing that somebody printed, or that a cable does: it brings up both functions of its cage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Address
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import yaml
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.network_manager import CONNECTION_FIELDS, DEVICE_FIELDS, PROFILE_FIELDS
from builders import Facts, Plan, plan
from iproute2_text import read_brief_addresses, read_brief_links, read_ip, read_rdma_link
from scheme_machine import PORTS, Spark, on_cage, printed

NETPLAN = "/etc/netplan/40-cx7.yaml"
SYSFS = "/sys/class/infiniband"

Patch = Callable[[Spark], None]


def ip(text: str) -> Patch:
    """`ip addr` or `ip link`, of all interfaces or of some."""

    def patch(spark: Spark) -> None:
        for row in read_ip(text):
            spark.take(row)

    return patch


def brief(*, links: str = "", addresses: str = "", all_there: bool = False) -> Patch:
    """`ip -br link` and `ip -br addr`. ``all_there``: what is not listed does not exist."""

    def patch(spark: Spark) -> None:
        rows = [*read_brief_addresses(addresses), *read_brief_links(links)]
        if all_there:
            spark.rows = {name: row for name, row in spark.rows.items() if name in {"lo", *(each["ifname"] for each in rows)}}
        for row in rows:
            spark.take(row)

    return patch


def ibdev2netdev(text: str) -> Patch:
    """Which HCA belongs to which netdev, and which of those have a link."""

    def patch(spark: Spark) -> None:
        spark.commands[("ibdev2netdev",)] = text
        for name, state in re.findall(r"==> (\S+) \((\w+)\)", text):
            spark.link(name, state == "Up")

    return patch


def cable(cage: int) -> Patch:
    """A cable brings up both functions of its cage, where the sample shows only one of them, or says it in words."""

    def patch(spark: Spark) -> None:
        for name in on_cage(str(cage)):
            spark.link(name, True)

    return patch


def has(name: str, address: str) -> Patch:
    """An address that the sample does not print."""
    return lambda spark: spark.give(name, address, noprefixroute=True)


def answers(*argv: str, text: str) -> Patch:
    return lambda spark: spark.commands.update({argv: text})


def holds(path: str, text: str) -> Patch:
    return lambda spark: spark.files.update({path: text})


def rdma_link(text: str) -> Patch:
    """The same by `rdma link`, which knows the HCA's side of the link."""

    def patch(spark: Spark) -> None:
        rows = read_rdma_link(text)
        spark.commands[("rdma", "-j", "link")] = json.dumps(rows)
        for row in rows:
            spark.link(row["netdev"], row["state"] == "ACTIVE")

    return patch


def rate_and_state(text: str) -> Patch:
    """`rate` and `state` of sysfs beside each other, by HCA."""

    def patch(spark: Spark) -> None:
        for hca, rate, state in re.findall(r"^(\w+) +(\S.*?\)) +(\d: \w+)$", text, re.MULTILINE):
            spark.files.update({f"{SYSFS}/{hca}/ports/1/rate": f"{rate}\n", f"{SYSFS}/{hca}/ports/1/state": f"{state}\n"})
            spark.link(f"en{hca[4:]}np{hca[-1]}", state == "4: ACTIVE")

    return patch


def show_gids(text: str) -> Patch:
    """The table of GIDs, as it is in sysfs. Those that its owner masked are left out."""

    def patch(spark: Spark) -> None:
        for hca, index, gid, version in re.findall(r"^(\w+)\s+1\s+(\d+)\s+([0-9a-f:]{39})\s+\S+\s+(v[12])\s", text, re.MULTILINE):
            port = f"{SYSFS}/{hca}/ports/1"
            spark.files.update({f"{port}/gids/{index}": gid, f"{port}/gid_attrs/types/{index}": "RoCE v2" if version == "v2" else "IB/RoCE v1"})

    return patch


def speeds_and_mtus(text: str) -> Patch:
    """A probe's own list."""

    def patch(spark: Spark) -> None:
        for name, speed in re.findall(r"^(\S+) speed_mbps=(\d+) ", text, re.MULTILINE):
            spark.files[f"/sys/class/net/{name}/speed"] = f"{speed}\n"
        for name, mtu in re.findall(r"^(\S+) mtu=(\d+) ", text, re.MULTILINE):
            spark.rows[name]["mtu"] = int(mtu)

    return patch


def another(spark: Spark) -> None:
    """A second machine of the same sample: other hardware addresses. Its own IPv4 ones stand in the row."""
    spark.another()


def netplan(text: str, path: str = NETPLAN) -> Patch:
    """A netplan file, and what it makes of ports with a link. ``link-local: []`` takes IPv6 away, too."""

    def patch(spark: Spark) -> None:
        spark.files[path] = text
        network = yaml.safe_load(text)["network"]
        for name, entry in network["ethernets"].items():
            if entry.get("link-local") == []:
                spark.mute.add(name)
            if spark.up(name):
                spark.rows[name]["mtu"] = entry.get("mtu", spark.rows[name]["mtu"])
                for address in entry.get("addresses", []):
                    if IPv4Interface(address) not in spark.ipv4(name):
                        spark.give(name, address, **({} if network.get("renderer") == "networkd" else {"noprefixroute": True}))
        if network.get("renderer") == "NetworkManager":
            spark.commands.update(_by_network_manager(spark, network["ethernets"]))

    return patch


def cat(fixture: str, host: str | None = None) -> Patch:
    """The netplan file that a session shows."""
    return netplan(printed(fixture, f"cat {NETPLAN}", host))


def nmcli(text: str) -> Patch:
    """`nmcli con show`, as the collector asks for it: what has a device is active; `lo` and docker's bridge are only watched."""

    def patch(spark: Spark) -> None:
        rows = re.findall(r"^(\S.*?) +([0-9a-f-]{36}) +(\w+) +(\S+) *$", text, re.MULTILINE)
        devices = {device: uuid for _name, uuid, _kind, device in rows if device != "--"}
        own = {uuid for _name, uuid, kind, _device in rows if kind in ("ethernet", "wifi")}
        files = {uuid: f"/run/NetworkManager/system-connections/{name}.nmconnection" for name, uuid, _kind, _device in rows}
        profiles: dict[str, tuple[str, list[str]]] = {uuid: ("auto", []) for uuid in own.intersection(devices.values())}
        states = {name: "connected" if uuid in own else "connected (externally)" for name, uuid in devices.items()}
        spark.commands.update(_nmcli({name: (states[name], uuid) for name, uuid in devices.items()}, files, profiles))

    return patch


def _by_network_manager(spark: Spark, entries: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What NetworkManager says of ports that netplan hands to it: a profile `netplan-<name>` each, active on those with a link."""
    active = {name: str(uuid5(NAMESPACE_DNS, name)) for name in entries if spark.up(name)}
    files = {uuid: f"/run/NetworkManager/system-connections/netplan-{name}.nmconnection" for name, uuid in active.items()}
    addresses = {uuid: entries[name].get("addresses", []) for name, uuid in active.items()}
    devices = {name: ("connected", active[name]) if name in active else ("unavailable", "") for name in PORTS}
    yield from _nmcli(devices, files, {uuid: ("manual" if found else "disabled", found) for uuid, found in addresses.items()})
    yield ("systemctl", "is-active", "systemd-networkd.service"), "inactive\n"


def _nmcli(
    devices: Mapping[str, tuple[str, str]], files: Mapping[str, str], profiles: Mapping[str, tuple[str, list[str]]]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The three questions to NetworkManager: states and profiles of devices, files, and methods and addresses of active profiles."""
    ask = ("nmcli", "-t", "-f")
    yield (*ask, DEVICE_FIELDS, "device"), "".join(f"{name}:{state}:{uuid}\n" for name, (state, uuid) in devices.items())
    yield (*ask, CONNECTION_FIELDS, "connection", "show"), "".join(f"{uuid}:{file}\n" for uuid, file in files.items())
    blocks = [
        f"connection.uuid:{uuid}\nipv4.method:{method}\nipv4.addresses:{', '.join(addresses)}\n"
        for uuid, (method, addresses) in sorted(profiles.items())
    ]
    yield (*ask, PROFILE_FIELDS, "connection", "show", *sorted(profiles)), "\n".join(blocks)


@dataclass(frozen=True)
class Scheme:
    """A cluster as somebody has built it, and the plan that it must get, as :func:`shown` writes it.

    ``provenance``: the fixtures, and what is not theirs. ``wires``: which cages are joined, as ``a0-b1``. ``heard``: whether the ports have heard
    of each other; None where the plan must be the same with it and without.
    """

    name: str
    provenance: str
    nodes: tuple[tuple[Patch, ...], ...]
    plan: str
    wires: str = ""
    heard: bool | None = None
    consent: bool = False

    def machines(self, heard: bool) -> dict[str, Spark]:
        """The machines ``a``, ``b``, …"""
        machines = {name: Spark(rank) for rank, name in zip(range(len(self.nodes)), "abcd")}
        for spark, patches in zip(machines.values(), self.nodes):
            for patch in patches:
                patch(spark)
            spark.macs()
        for wire in self.wires.split() if heard else ():
            _hear([(machines[end[0]], end[1]) for end in wire.split("-")])
        return machines

    def planned(self, machines: Mapping[str, Spark], consent: bool) -> Plan:
        nodes = {"nodes": len(machines), "tensor_parallel": 1, "pipeline_parallel": len(machines)}
        facts: dict[str, Facts | None] = {name: spark.facts() for name, spark in machines.items()}
        return plan(facts, nodes, consent=["network"] if consent else [])


def _link_local(mac: str) -> str:
    """The IPv6 address that the kernel makes of a hardware address (EUI-64)."""
    first, *rest = bytes.fromhex(mac.replace(":", ""))
    return str(IPv6Address(bytes([0xFE, 0x80, *[0] * 6, first ^ 2, *rest[:2], 0xFF, 0xFE, *rest[2:]])))


def _hear(ends: list[tuple[Spark, str]]) -> None:
    """What an echo to all nodes leaves in the tables: both functions of a cage are on its wire. Without an IPv6 address nobody asks or answers."""
    on_wire = [(spark, name) for spark, cage in ends for name in on_cage(cage) if name not in spark.mute]
    for here, name in on_wire:
        macs = [spark.rows[other]["address"] for spark, other in on_wire if spark is not here]
        here.near[name] = [{"dst": _link_local(mac), "lladdr": mac, "state": ["REACHABLE"]} for mac in macs]


def shown(planned: Plan) -> str:
    """What a plan says about the fabric, for people: topology, rails and variables of each rank, findings."""
    lines = [f"topology {planned['topology']}"]
    for name, node in planned["nodes"].items():
        for rail in node["rails"]:
            lines.append("{name} {number} {netdev} {hca} {address}/{prefix} {mtu} {action}".format(name=name, **rail))
        environment = node["environment"]
        if "NCCL_SOCKET_IFNAME" in environment:
            lines.append(f"{name} {environment['NCCL_IB_HCA']} {environment['NCCL_SOCKET_IFNAME']} {environment['VLLM_HOST_IP']}")
    nodes: dict[str, set[str]] = {}
    for finding in planned["findings"]:
        if finding["id"].startswith("fabric."):
            nodes.setdefault(f"{finding['severity']} {finding['id']}", set()).update(finding["nodes"])
    return "\n".join([*lines, *(" ".join([what, *sorted(who)]) for what, who in nodes.items())])
