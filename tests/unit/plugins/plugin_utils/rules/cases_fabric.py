# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails and the links that they are made of."""

from __future__ import annotations

from healthy import HCAS, RAILS, RDMA, active_mtu, address, gids, link, routes
from replay import Patch, all_of, answers, holds, lacks, rows, unrecorded
from stories import fires, quiet

OTHER = ("enp1s0f0np0", "enP2p1s0f0np0")
OTHER_HCAS = ("rocep1s0f0", "roceP2p1s0f0")
HOTPLUG = "/sys/bus/platform/devices/MTKP0001:00"
CONSENT = {"consent": ["network"]}
PCI = "/sys/bus/pci/devices/0000:01:00.1"


def port(i: int, *addresses: str, up: bool = True, mtu: int = 9000, cage: int = 1) -> Patch:
    """One twin of a cage: its addresses, link and GIDs."""
    netdev, hca = (RAILS[i], HCAS[i]) if cage else (OTHER[i], OTHER_HCAS[i])
    prefix = 16 if any(each.startswith("169.254.") for each in addresses) else 24
    return all_of(address(netdev, *addresses, mtu=mtu, up=up, prefix=prefix), link(netdev, hca, up), gids(hca, *addresses))


def no_adapter(cable: str | None = "0") -> Patch:
    """No ConnectX-7 function is there; ``cable`` is what hotplug says of one, None on a machine without it."""
    state = lacks(HOTPLUG) if cable is None else holds(f"{HOTPLUG}/pcie_hotplug/debug_state", f"{cable}\n")
    gone = rows(lambda links: [links.remove(each) for each in list(links) if each["ifname"] in (*RAILS, *OTHER)], "ip", "-j", "-s", "addr")
    sysfs = (unrecorded(f"/sys/class/net/{name}") for name in (*RAILS, *OTHER))
    return all_of(state, gone, *sysfs, unrecorded(RDMA), answers("rdma", "-j", "link", out="[]"))


def moved(*ends: str) -> Patch:
    """The cable is in the other cage, with these addresses."""
    return all_of(port(0, up=False), port(1, up=False), port(0, *ends[:1], cage=0), port(1, *ends[1:], cage=0), routes())


NO_ADDRESS = all_of(port(0), port(1), routes())
NO_HCA = all_of(unrecorded(RDMA), answers("rdma", "-j", "link", out="[]"))
ONE_TWIN = all_of(port(1), routes("192.168.200.12"))

CASES = [
    fires("fabric.no_rail", "enp1s0f1np1 and enP2p1s0f1np1 are down", port(0, up=False), port(1, up=False)),
    fires("fabric.no_rail", "switched off to save power, as it is without a cable", no_adapter()),
    fires("fabric.no_rail", "a cable is in, but the ConnectX-7 adapter did not come back.*Reboot spark-head", no_adapter("1")),
    fires("fabric.no_rail", "no ConnectX-7 port is visible, as is normal without a cable", no_adapter(None)),
    quiet("fabric.no_rail", no_adapter(), alone=True),
    # Two ports without a cable are as they should be.
    quiet("fabric.no_rail", port(0, up=False, cage=0)),
    fires("fabric.no_address", "enp1s0f1np1 and enP2p1s0f1np1 of spark-head are up and without an IPv4 address.*gb10_consent", NO_ADDRESS),
    quiet("fabric.no_address", NO_ADDRESS, **CONSENT),
    quiet("fabric.no_address", NO_ADDRESS, alone=True),
    quiet("fabric.no_address", NO_ADDRESS, port(0, "192.168.200.12", up=False, cage=0)),
    fires(
        "fabric.wrong_cage",
        "cage of enp1s0f1np1 and enP2p1s0f1np1, and the addresses are on enp1s0f0np0",
        NO_ADDRESS,
        port(0, "192.168.200.12", up=False, cage=0),
    ),
    quiet("fabric.wrong_cage", NO_ADDRESS),
    quiet("fabric.wrong_cage", port(0, "10.9.9.9", up=False, cage=0)),
    fires("fabric.rail_unmatched", r"share no subnet.*spark-head: enp1s0f1np1 10.0.0.1/24", port(0, "10.0.0.1"), port(1, "10.0.1.1")),
    quiet("fabric.rail_unmatched", port(1, "10.0.1.1")),
    quiet("fabric.rail_unmatched", NO_ADDRESS),
    fires("fabric.no_hca", "rails of spark-head and spark-worker have no RDMA device", both=(NO_HCA,)),
    fires("fabric.no_hca", "The rails of spark-head have no RDMA device.*modprobe mlx5_ib", NO_HCA),
    quiet("fabric.no_hca", NO_HCA, alone=True),
    quiet("fabric.no_hca", unrecorded(f"{RDMA}/{OTHER_HCAS[0]}")),
    fires("fabric.twin_without_address", "enP2p1s0f1np1 of spark-head is up and without an address.*half its bandwidth", ONE_TWIN),
    fires("fabric.twin_without_address", "although you consent", ONE_TWIN, worker=(port(1, up=False),), **CONSENT),
    quiet("fabric.twin_without_address", ONE_TWIN, **CONSENT),
    quiet("fabric.twin_without_address", NO_ADDRESS),
    fires("fabric.twin_down", "enP2p1s0f1np1 of spark-head is down, though the other function.*ip link set enP2p1s0f1np1 up", port(1, up=False)),
    # One or three ports with a link are a fault whether they are rails or not.
    fires("fabric.twin_down", "enP2p1s0f0np0 of spark-head is down", port(0, cage=0)),
    quiet("fabric.twin_down", port(0, "10.9.8.7", cage=0), port(1, "10.9.9.7", cage=0)),
    quiet("fabric.twin_down", port(1, up=False), alone=True),
    fires(
        "fabric.mtu_mismatch",
        "enp1s0f1np1 of spark-head 1500 and enp1s0f1np1 of spark-worker 9000.*mtu 9000` on spark-head",
        port(0, "192.168.200.12", mtu=1500),
    ),
    fires(
        "fabric.mtu_mismatch",
        "MTUs on 2 rails differ.*enp1s0f1np1 mtu 9000.*enP2p1s0f1np1 mtu 9000",
        port(0, "192.168.200.12", mtu=1500),
        port(1, "192.168.201.12", mtu=1500),
    ),
    quiet("fabric.mtu_mismatch", both=(address(OTHER[0], mtu=4200, up=False),)),
    quiet("fabric.mtu_mismatch", port(0, "192.168.200.12", mtu=1500), worker=(port(0, "192.168.200.13", mtu=1500),)),
    fires("fabric.mtu_small", "have an MTU of 1500", port(0, "192.168.200.12", mtu=1500), worker=(port(0, "192.168.200.13", mtu=1500),)),
    quiet("fabric.mtu_small", port(0, "192.168.200.12", mtu=4200), worker=(port(0, "192.168.200.13", mtu=4200),)),
    quiet("fabric.mtu_small", port(0, "192.168.200.12", mtu=1500)),
    fires("fabric.active_mtu", r"enp1s0f1np1 \(1024 at 9000\)", active_mtu("1024 (3)", HCAS[:1])),
    fires("fabric.active_mtu", r"enp1s0f1np1 \(4096 at 1500\)", port(0, "192.168.200.12", mtu=1500)),
    quiet("fabric.active_mtu", port(0, "192.168.200.12", mtu=1500), active_mtu("1024 (3)", HCAS[:1])),
    # A port without a cable says 1024 whatever its MTU.
    quiet("fabric.active_mtu", address(OTHER[0], mtu=9000, up=False)),
    fires(
        "fabric.same_subnet",
        "enp1s0f1np1 and enP2p1s0f1np1 of spark-head are all in 192.168.200.0/24",
        port(1, "192.168.200.112"),
        worker=(port(1, "192.168.200.113"),),
    ),
    quiet("fabric.same_subnet", port(1, "192.168.200.112")),
    fires(
        "fabric.link_local",
        r"enp1s0f1np1 \(169.254.1.12\) of spark-head may have another address",
        port(0, "169.254.1.12"),
        worker=(port(0, "169.254.1.13"),),
    ),
    quiet("fabric.link_local", port(0, "169.254.1.12", up=False, cage=0)),
    fires("fabric.crossed_cages", "enp1s0f0np0 of spark-head and enp1s0f1np1 of spark-worker", moved("192.168.200.12", "192.168.201.12")),
    quiet("fabric.crossed_cages", moved("192.168.200.12", "192.168.201.12"), worker=(moved("192.168.200.13", "192.168.201.13"),)),
    fires("fabric.port_elsewhere", "enp1s0f0np0 10.9.9.9/24 of spark-head is in a subnet", port(0, "10.9.9.9", cage=0), port(1, cage=0)),
    quiet("fabric.port_elsewhere", port(0, "10.9.9.9", cage=0, up=False)),
    fires("fabric.duplicate_address", "192.168.200.12 is an address of spark-head and spark-worker", worker=(port(0, "192.168.200.12"),)),
    fires(
        "fabric.duplicate_address",
        "192.168.1.163 is an address of",
        worker=(holds("/proc/self/environ", "SSH_CONNECTION=192.168.1.20 1 192.168.1.163 22\0HOME=/home/user\0"),),
    ),
    # Every machine has a docker0 with the same address.
    quiet("fabric.duplicate_address", both=(address("docker0", "172.17.0.1", mtu=1500),)),
    fires("fabric.pcie_slow", r"enp1s0f1np1 \(2 lanes, 32.0 GT/s\)", holds(f"{PCI}/current_link_width", "2\n")),
    fires("fabric.pcie_slow", r"\(4 lanes, 8.0 GT/s\)", holds(f"{PCI}/current_link_speed", "8.0 GT/s PCIe\n")),
    quiet("fabric.pcie_slow", unrecorded(PCI)),
    quiet("fabric.pcie_slow", holds("/sys/bus/pci/devices/0000:01:00.0/current_link_width", "1\n")),
    fires(
        "fabric.rate_low", r"enp1s0f1np1 \(100 Gb/s\) of spark-head has a slow link", holds(f"{RDMA}/{HCAS[0]}/ports/1/rate", "100 Gb/sec (2X HDR)\n")
    ),
    # 40 is what a port without a cable says.
    quiet("fabric.rate_low", holds(f"{RDMA}/{OTHER_HCAS[0]}/ports/1/rate", "40 Gb/sec (4X QDR)\n")),
    fires("fabric.errors", r"enp1s0f1np1 \(symbol_error 7\)", holds(f"{RDMA}/{HCAS[0]}/ports/1/counters/symbol_error", "7\n")),
    quiet("fabric.errors", holds(f"{RDMA}/{HCAS[0]}/ports/1/counters/symbol_error", "0\n")),
    fires(
        "fabric.firmware_differs",
        "spark-head 28.45.4028 and spark-worker 28.46.1006",
        worker=tuple(holds(f"{RDMA}/{hca}/fw_ver", "28.46.1006\n") for hca in (*HCAS, *OTHER_HCAS)),
    ),
    quiet("fabric.firmware_differs", worker=(unrecorded(RDMA),)),
]
