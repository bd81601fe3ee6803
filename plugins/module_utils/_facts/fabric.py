# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric: ports, interfaces, routes, the way this session takes"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.names import cage_of, is_connectx_name, pci_of, twin_of
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Noted, Probe, Seen, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import AddressFact, FabricFacts, Gid, Port, SshPath, known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.account import Session, parse_session
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ip import Interface, parse_interfaces, parse_routes
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.rdma import (
    NO_ADAPTERS,
    Adapter,
    Link,
    parse_gid,
    parse_gid_type,
    parse_ibdev2netdev,
    parse_ibstat,
    parse_ibv_devinfo,
    parse_rate,
    parse_rdma_link,
    parse_state,
)

_VIRTUAL = re.compile(r"^(?:lo|docker\d+|br-.*|veth.*|virbr\d+|cni.*|flannel.*|tailscale\d+|wg\d+|tun\d+)$")
_VIRTUAL_FUNCTION = re.compile(r"v\d+$")
_DRIVER = "mlx5_core"
_NETDEV = "ports/1/gid_attrs/ndevs/0"
_GID_GAP = 16  # empty slots in a row after which the table is taken to be over


@dataclass(frozen=True)
class Netdev:
    """What sysfs adds to `ip`."""

    name: str
    driver: str | None
    pci: str | None
    speed: int | None  # Mb/s


@dataclass(frozen=True)
class Hca:
    """An RDMA device as sysfs shows it (port 1)."""

    name: str
    netdev: str | None
    pci: str | None
    firmware: str | None
    state: str | None
    rate: float | None  # Gb/s
    gids: tuple[Gid, ...]
    rx_bytes: int | None
    tx_bytes: int | None


def probes() -> tuple[Probe, ...]:
    return (
        probe("ip_addr", "fabric", lambda node: parse_interfaces(node.output("ip", "-j", "-s", "addr"))),
        probe("ip_route", "fabric", lambda node: parse_routes(node.output("ip", "-4", "-j", "route"))),
        probe("sysfs_net", "fabric", _netdevs),
        probe("sysfs_infiniband", "fabric", _hcas),
        probe("rdma_link", "fabric", _links),
        probe("ibv_devinfo", "fabric", _adapters),
        probe("ssh_connection", "fabric", _session),
        probe("rdma_devices", "fabric", lambda node: node.glob("/dev/infiniband/*")),
    )


def _links(node: Node) -> tuple[Link, ...] | Noted:
    """Which netdev belongs to which HCA, asked only where the kernel's own table does not say it for all."""
    paths = node.glob("/sys/class/infiniband/*")
    if paths and all(node.read(f"{path}/{_NETDEV}") for path in paths):
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


def _netdevs(node: Node) -> list[Netdev]:
    netdevs = []
    for path in node.glob("/sys/class/net/*"):
        name = path.rpartition("/")[2]
        if _VIRTUAL.match(name):
            continue
        uevent = dict(line.partition("=")[::2] for line in (node.read(f"{path}/device/uevent") or "").splitlines())
        speed = _number(node.read(f"{path}/speed"))
        netdevs.append(Netdev(name, uevent.get("DRIVER"), uevent.get("PCI_SLOT_NAME"), speed if speed is not None and speed > 0 else None))
    return netdevs


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _hcas(node: Node) -> list[Hca]:
    return [_hca(node, path) for path in node.glob("/sys/class/infiniband/*")]


def _hca(node: Node, path: str) -> Hca:
    name = path.rpartition("/")[2]
    port = f"{path}/ports/1"
    uevent = dict(line.partition("=")[::2] for line in (node.read(f"{path}/device/uevent") or "").splitlines())
    state, rate, firmware = node.read(f"{port}/state"), node.read(f"{port}/rate"), node.read(f"{path}/fw_ver")
    received, sent = (_number(node.read(f"{port}/counters/port_{counter}_data")) for counter in ("rcv", "xmit"))
    netdev = node.read(f"{path}/{_NETDEV}")
    return Hca(
        name=name,
        netdev=netdev.strip() if netdev else None,
        pci=uevent.get("PCI_SLOT_NAME"),
        firmware=firmware.strip() if firmware else None,
        state=parse_state(state) if state else None,
        rate=parse_rate(rate) if rate else None,
        gids=tuple(_gids(node, port)),
        # The InfiniBand counters count words of 4 bytes.
        rx_bytes=None if received is None else received * 4,
        tx_bytes=None if sent is None else sent * 4,
    )


def _gids(node: Node, port: str) -> Iterator[Gid]:
    """The table has 256 slots, nearly all empty, and each would be a file to read and to record."""
    index = empty = 0
    while empty < _GID_GAP:
        text = node.read(f"{port}/gids/{index}")
        gid = parse_gid(text) if text else None
        kind = node.read(f"{port}/gid_attrs/types/{index}") if gid else None
        if gid is None or not kind:
            empty += 1
        else:
            empty = 0
            entry: Gid = known(index=index, type=parse_gid_type(kind), gid=gid[0], address=gid[1])
            yield entry
        index += 1


def fabric_facts(seen: Seen) -> FabricFacts:
    interfaces: tuple[Interface, ...] | None = seen.get("ip_addr")
    routes = seen.get("ip_route")
    facts: FabricFacts = known(
        ports=None if interfaces is None else list(_ports(seen, interfaces)),
        interfaces=None
        if interfaces is None
        else [
            {"name": entry.name, "operstate": entry.operstate, "mtu": entry.mtu, "addresses": _addresses(entry)}
            for entry in interfaces
            if entry.name != "lo"
        ],
        routes=None
        if routes is None
        else [known(destination=entry.destination, gateway=entry.gateway, interface=entry.interface) for entry in routes],
        ssh=_ssh(seen.get("ssh_connection"), interfaces),
        devices=seen.get("rdma_devices"),
    )
    return facts


def _addresses(interface: Interface) -> list[AddressFact]:
    return [{"address": entry.address, "prefix": entry.prefix, "scope": entry.scope} for entry in interface.addresses if entry.family == "inet"]


def _ssh(session: Session | None, interfaces: tuple[Interface, ...] | None) -> SshPath | None:
    if session is None:
        return None
    names = [entry.name for entry in interfaces or () if any(own.address == session.address for own in entry.addresses)]
    path: SshPath = known(interface=names[0] if names else None, address=session.address, peer=session.peer)
    return path


def _ports(seen: Seen, interfaces: tuple[Interface, ...]) -> Iterator[Port]:
    netdevs: dict[str, Netdev] = {entry.name: entry for entry in seen.get("sysfs_net") or ()}
    hcas: dict[str, Hca] = {entry.name: entry for entry in seen.get("sysfs_infiniband") or ()}
    for interface in sorted(interfaces, key=lambda entry: entry.name):
        netdev = netdevs.get(interface.name, Netdev(interface.name, None, None, None))
        if _is_port(netdev):
            pci = netdev.pci or pci_of(netdev.name)
            name = _hca_name(seen, netdev.name, pci, hcas)
            yield _port(seen, interface, netdev, pci, name, hcas.get(name or ""))


def _is_port(netdev: Netdev) -> bool:
    if _VIRTUAL_FUNCTION.search(netdev.name):
        return False
    return netdev.driver == _DRIVER if netdev.driver else is_connectx_name(netdev.name)


def _hca_name(seen: Seen, netdev: str, pci: str | None, hcas: dict[str, Hca]) -> str | None:
    """What the tools map, else what the kernel maps, else the same PCI function: never a matter of order."""
    links: tuple[Link, ...] = seen.get("rdma_link") or ()
    mapped = [link.hca for link in links if link.netdev == netdev]
    mapped += [hca.name for hca in hcas.values() if hca.netdev == netdev]
    mapped += [hca.name for hca in hcas.values() if pci is not None and (hca.pci or pci_of(hca.name)) == pci]
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
    )
    return port


def _short(rate: float) -> float:
    """200, not 200.0"""
    return int(rate) if rate.is_integer() else rate
