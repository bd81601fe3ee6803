# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric: ports, interfaces and who configures them, routes, the way this session takes"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts import firewall, neighbours, network_config
from ansible_collections.gb10.cluster.plugins.module_utils._facts.names import cage_of, is_connectx_name, pci_of, twin_of
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Noted, Probe, Seen, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import (
    AddressFact,
    FabricFacts,
    InterfaceFact,
    Port,
    SshPath,
    known,
)
from ansible_collections.gb10.cluster.plugins.module_utils._facts.sysfs import NETDEV, VIRTUAL, Hca, Netdev, Pcie, hcas, netdevs
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.account import Session, parse_session
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ip import (
    Interface,
    parse_interfaces,
    parse_routes,
)
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.rdma import (
    NO_ADAPTERS,
    Adapter,
    Link,
    parse_ibdev2netdev,
    parse_ibstat,
    parse_ibv_devinfo,
    parse_rdma_link,
)

_VIRTUAL_FUNCTION = re.compile(r"v\d+$")
_BRIDGE = re.compile(r"^(?:docker\d+|br-.*|virbr\d+)$")
_DRIVER = "mlx5_core"


def probes() -> tuple[Probe, ...]:
    return (
        probe("ip_addr", "fabric", lambda node: parse_interfaces(node.output("ip", "-j", "-s", "addr"))),
        probe("ip_route", "fabric", lambda node: parse_routes(node.output("ip", "-4", "-j", "route"))),
        probe("sysfs_net", "fabric", netdevs),
        probe("sysfs_infiniband", "fabric", hcas),
        probe("rdma_link", "fabric", _links),
        probe("ibv_devinfo", "fabric", _adapters),
        probe("ssh_connection", "fabric", _session),
        probe("rdma_devices", "fabric", lambda node: node.glob("/dev/infiniband/*")),
        *neighbours.probes(),
        *network_config.probes(),
        *firewall.probes(),
    )


def _links(node: Node) -> tuple[Link, ...] | Noted:
    """Which netdev belongs to which HCA, asked only where the kernel's own table does not say it for all."""
    paths = node.glob("/sys/class/infiniband/*")
    if paths and all(node.read(f"{path}/{NETDEV}") for path in paths):
        return ()
    try:
        return parse_rdma_link(node.output("rdma", "-j", "link"))
    except (Failed, Unavailable) as error:
        return Noted(parse_ibdev2netdev(node.output("ibdev2netdev")), f"{error}; asked ibdev2netdev instead")


def _adapters(node: Node) -> tuple[Adapter, ...] | Noted:
    """ibv_devinfo alone knows the active MTU. Without a device it exits with an error code, which is an answer all the same."""
    try:
        result = node.run("ibv_devinfo")
    except Unavailable as error:
        return Noted(parse_ibstat(node.output("ibstat")), f"{error}; asked ibstat instead")
    if result.rc != 0 and NO_ADAPTERS not in result.stdout + result.stderr:
        raise Failed(complaint(result))
    return parse_ibv_devinfo(result.stdout)


def _session(node: Node) -> Session:
    connection = node.environment().get("SSH_CONNECTION")
    if not connection:
        raise Unavailable("SSH_CONNECTION is not set: this is not an SSH session")
    return parse_session(connection)


def fabric_facts(seen: Seen) -> FabricFacts:
    interfaces: tuple[Interface, ...] | None = seen.get("ip_addr")
    routes = seen.get("ip_route")
    facts: FabricFacts = known(
        ports=None if interfaces is None else list(_ports(seen, interfaces)),
        interfaces=None if interfaces is None else [_interface(seen, entry) for entry in interfaces if entry.name != "lo"],
        netplan=network_config.netplan_facts(seen, interfaces or ()),
        hotplug=seen.get("hotplug"),
        firewall=seen.get("firewall"),
        routes=None
        if routes is None
        else [known(destination=entry.destination, gateway=entry.gateway, interface=entry.interface) for entry in routes],
        ssh=_ssh(seen.get("ssh_connection"), interfaces),
        devices=seen.get("rdma_devices"),
    )
    return facts


def _interface(seen: Seen, interface: Interface) -> InterfaceFact:
    kind = _kind(seen, interface)
    fact: InterfaceFact = known(
        name=interface.name,
        operstate=interface.operstate,
        mtu=interface.mtu,
        addresses=_addresses(interface),
        mac=interface.mac,
        kind=kind,
        **_configuration(seen, interface, kind),
    )
    return fact


def _kind(seen: Seen, interface: Interface) -> str:
    """The kernel's word, else what systemd's and Docker's names say."""
    devices: list[Netdev] = seen.get("sysfs_net") or []
    kind = next((entry.kind for entry in devices if entry.name == interface.name), None)
    if kind == "wlan" or (kind is None and interface.name.startswith("wl")):
        return "wireless"
    if kind == "bridge" or (kind is None and _BRIDGE.match(interface.name)):
        return "bridge"
    return "ethernet" if kind is None and interface.ethernet and not VIRTUAL.match(interface.name) else "other"


def _configuration(seen: Seen, interface: Interface, kind: str) -> dict[str, Any]:
    return {
        "manager": network_config.manager_of(seen, interface.name),
        "persistent": network_config.is_persistent(seen, interface, kind),
        "files": network_config.files_of(seen, interface),
    }


def _addresses(interface: Interface) -> list[AddressFact]:
    return [{"address": entry.address, "prefix": entry.prefix, "scope": entry.scope} for entry in interface.addresses if entry.family == "inet"]


def _ssh(session: Session | None, interfaces: tuple[Interface, ...] | None) -> SshPath | None:
    if session is None:
        return None
    names = [entry.name for entry in interfaces or () if any(own.address == session.address for own in entry.addresses)]
    path: SshPath = known(interface=names[0] if names else None, address=session.address, peer=session.peer)
    return path


def _ports(seen: Seen, interfaces: tuple[Interface, ...]) -> Iterator[Port]:
    devices: dict[str, Netdev] = {entry.name: entry for entry in seen.get("sysfs_net") or ()}
    adapters: dict[str, Hca] = {entry.name: entry for entry in seen.get("sysfs_infiniband") or ()}
    for interface in sorted(interfaces, key=lambda entry: entry.name):
        netdev = devices.get(interface.name, Netdev(interface.name, None, None, None))
        if _is_port(netdev):
            pci = netdev.pci or pci_of(netdev.name)
            name = _hca_name(seen, netdev.name, pci, adapters)
            yield _port(seen, interface, netdev, pci, name, adapters.get(name or ""))


def _is_port(netdev: Netdev) -> bool:
    if _VIRTUAL_FUNCTION.search(netdev.name):
        return False
    return netdev.driver == _DRIVER if netdev.driver else is_connectx_name(netdev.name)


def _hca_name(seen: Seen, netdev: str, pci: str | None, adapters: dict[str, Hca]) -> str | None:
    """What the tools map, else what the kernel maps, else the same PCI function: never a matter of order."""
    links: tuple[Link, ...] = seen.get("rdma_link") or ()
    mapped = [link.hca for link in links if link.netdev == netdev]
    mapped += [hca.name for hca in adapters.values() if hca.netdev == netdev]
    mapped += [hca.name for hca in adapters.values() if pci is not None and (hca.pci or pci_of(hca.name)) == pci]
    return mapped[0] if mapped else None


def _port(seen: Seen, interface: Interface, netdev: Netdev, pci: str | None, name: str | None, hca: Hca | None) -> Port:
    links: tuple[Link, ...] = seen.get("rdma_link") or ()
    adapters: tuple[Adapter, ...] = seen.get("ibv_devinfo") or ()
    adapter = next((entry for entry in adapters if entry.hca == name), Adapter(name or "", None, None, None, None))
    states = [hca and hca.state, *(link.state for link in links if link.hca == name), adapter.state]
    rates = [source.rate for source in (hca, adapter) if source and source.rate is not None]
    port: Port = known(
        netdev=interface.name,
        hca=name,
        pci=pci,
        cage=cage_of(interface.name, pci),
        twin=twin_of(pci),
        carrier=interface.carrier,
        operstate=interface.operstate,
        speed=netdev.speed if interface.carrier else None,
        mtu=interface.mtu,
        addresses=_addresses(interface),
        state=next(filter(None, states), None),
        rate=_short(rates[0]) if rates else None,
        active_mtu=adapter.active_mtu,
        gids=list(hca.gids) if hca else None,
        firmware=(hca and hca.firmware) or adapter.firmware,
        rx_bytes=interface.rx_bytes,
        tx_bytes=interface.tx_bytes,
        rdma_rx_bytes=hca and hca.rx_bytes,
        rdma_tx_bytes=hca and hca.tx_bytes,
        mac=interface.mac,
        pcie=_pcie(netdev.pcie) or (hca and _pcie(hca.pcie)),
        errors={**interface.errors, **(hca.errors if hca else {})} or None,
        neighbours=neighbours.neighbours(seen, interface.name),
        **_configuration(seen, interface, "ethernet"),
    )
    return port


def _pcie(pcie: Pcie | None) -> dict[str, Any] | None:
    return (pcie and known(**asdict(pcie))) or None


def _short(rate: float) -> float:
    """200, not 200.0"""
    return int(rate) if rate.is_integer() else rate
