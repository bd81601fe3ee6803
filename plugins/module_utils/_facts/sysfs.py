# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network devices and RDMA devices as sysfs shows them"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import Gid, known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.rdma import parse_gid, parse_gid_type, parse_link_speed, parse_rate, parse_state

VIRTUAL = re.compile(r"^(?:lo|docker\d+|br-.*|veth.*|virbr\d+|cni.*|flannel.*|tailscale\d+|wg\d+|tun\d+)$")
NETDEV = "ports/1/gid_attrs/ndevs/0"
_DRIVER = "mlx5_core"
_GID_GAP = 16  # empty slots in a row after which the table is taken to be over
# Counters that stand still on a healthy link; those of mere congestion are not among them.
_ERRORS = (
    "counters/symbol_error", "counters/link_error_recovery", "counters/link_downed", "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors", "counters/local_link_integrity_errors", "counters/excessive_buffer_overrun_errors",
    "hw_counters/local_ack_timeout_err", "hw_counters/packet_seq_err", "hw_counters/rnr_nak_retry_err",
    "hw_counters/out_of_sequence", "hw_counters/implied_nak_seq_err", "hw_counters/rx_icrc_encapsulated",
)  # fmt: skip


@dataclass(frozen=True)
class Pcie:
    width: int | None  # lanes
    width_max: int | None
    speed: float | None  # GT/s


@dataclass(frozen=True)
class Netdev:
    """What sysfs adds to `ip`."""

    name: str
    driver: str | None
    pci: str | None
    speed: int | None  # Mb/s
    kind: str | None = None  # wlan, bridge, vlan, …: what the kernel calls it; None for a plain one
    pcie: Pcie | None = None


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
    errors: dict[str, int]
    pcie: Pcie


def netdevs(node: Node) -> list[Netdev]:
    found = []
    for path in node.glob("/sys/class/net/*"):
        name = path.rpartition("/")[2]
        if VIRTUAL.match(name):
            continue
        device, uevent = _uevent(node, f"{path}/device"), _uevent(node, path)
        driver, pci = device.get("DRIVER"), device.get("PCI_SLOT_NAME")
        speed = _number(node.read(f"{path}/speed"))
        pcie = _pcie(node, f"/sys/bus/pci/devices/{pci}") if pci and driver == _DRIVER else None
        found.append(Netdev(name, driver, pci, speed if speed is not None and speed > 0 else None, uevent.get("DEVTYPE"), pcie))
    return found


def _uevent(node: Node, path: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in (node.read(f"{path}/uevent") or "").splitlines())


def _pcie(node: Node, path: str) -> Pcie:
    """A cage's twin that came up with fewer lanes than it has is slow, whatever the link says."""
    speed = node.read(f"{path}/current_link_speed")
    width, width_max = (_number(node.read(f"{path}/{name}_link_width")) for name in ("current", "max"))
    return Pcie(width, width_max, parse_link_speed(speed) if speed else None)


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def hcas(node: Node) -> list[Hca]:
    return [_hca(node, path) for path in node.glob("/sys/class/infiniband/*")]


def _hca(node: Node, path: str) -> Hca:
    name = path.rpartition("/")[2]
    port = f"{path}/ports/1"
    uevent = _uevent(node, f"{path}/device")
    state, rate, firmware = node.read(f"{port}/state"), node.read(f"{port}/rate"), node.read(f"{path}/fw_ver")
    received, sent = (_number(node.read(f"{port}/counters/port_{counter}_data")) for counter in ("rcv", "xmit"))
    netdev = node.read(f"{path}/{NETDEV}")
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
        errors={file.rpartition("/")[2]: count for file in _ERRORS if (count := _number(node.read(f"{port}/{file}"))) is not None},
        pcie=_pcie(node, f"{path}/device"),
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
