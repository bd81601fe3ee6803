# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two machines whose cages differ, with cables in both cages, and without any cable."""

from __future__ import annotations

from scheme_machine import printed, text_of
from schemes import Patch, Scheme, answers, brief, cable, cat, has, holds, ibdev2netdev, ip, netplan, speeds_and_mtus

HOTPLUG = "/sys/bus/platform/devices/MTKP0001:00/pcie_hotplug/hotplug_enabled"
HOTPLUG_SHOWN = "cat /sys/bus/platform/drivers/cx7-pcie-hotplug/MTKP0001:00/pcie_hotplug/hotplug_enabled"


def crossed(host: str, devinfo: str) -> tuple[Patch, ...]:
    links = ibdev2netdev(printed("crossed_cages.txt", "ibdev2netdev", host))
    return links, cat("crossed_cages.txt", host), answers("ibv_devinfo", text=text_of(f"rdma/{devinfo}.txt"))


#: What NCCL said of each rank (nccl/log_asymmetric_ports.txt): its HCAs, its interface and address. Link-local ones have a /16.
CROSSED_LINK_LOCAL = ((cable(1), has("enp1s0f1np1", "169.254.207.1/16")), (cable(0), has("enp1s0f0np0", "169.254.207.2/16")))

BARE = tuple(
    (brief(links=printed("two_cables.txt", "ip -br link", host)), speeds_and_mtus(printed("two_cables.txt", "probe", host)))
    for host in ("aitopatom-aa61", "edgexpert-aa62")
)
PROVENANCE = "two_cables: both machines; their owner redacted the addresses, so that they count as having none"

DELL = tuple((cable(0), cable(1), cat("dell_primary_only.txt", host)) for host in ("node1", "node2"))
DELL_PROVENANCE = "dell_primary_only: both machines, with the second cable that its file provides for"

BOTH_CAGES = netplan(printed("playbook_linklocal.txt", "cat /etc/netplan/40-cx7.yaml"))
LINK_LOCAL = tuple(
    (cable(0), cable(1), BOTH_CAGES, has("enp1s0f0np0", f"169.254.10.{end}/16"), has("enp1s0f1np1", f"169.254.20.{end}/16")) for end in (1, 2)
)
LINK_LOCAL_PROVENANCE = "playbook_linklocal: its netplan file, with a cable in each of the cages that it names; the addresses are made up"

CAGES = (
    Scheme(
        "different cages, two subnets, MTU 9000",
        "crossed_cages with ibv_devinfo_spark_f1 and ibv_devinfo_oem_f0: both machines",
        (crossed("spark", "ibv_devinfo_spark_f1"), crossed("oem", "ibv_devinfo_oem_f0")),
        wires="a1-b0",
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 192.168.100.11/24 9000 adopt
            a 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.200.17/24 9000 adopt
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.100.11
            b 0 enp1s0f0np0 rocep1s0f0 192.168.100.12/24 9000 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.18/24 9000 adopt
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.100.12
            info fabric.crossed_cages a b
        """,
    ),
    Scheme(
        "different cages, link-local on one function",
        "nccl/log_asymmetric_ports: both machines; the twins have no IPv4 address, as the report beside the log says",
        CROSSED_LINK_LOCAL,
        wires="a1-b0",
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 169.254.207.1/16 1500 adopt
            a =rocep1s0f1 enp1s0f1np1 169.254.207.1
            b 0 enp1s0f0np0 rocep1s0f0 169.254.207.2/16 1500 adopt
            b =rocep1s0f0 enp1s0f0np0 169.254.207.2
            warn fabric.link_local a b
            warn fabric.mtu_small a b
            warn fabric.twin_without_address a b
            info fabric.crossed_cages a b
        """,
    ),
    Scheme(
        "different cages, link-local on one function, with consent",
        "nccl/log_asymmetric_ports, as above",
        CROSSED_LINK_LOCAL,
        wires="a1-b0",
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 169.254.207.1/16 1500 adopt
            a 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.200.11/24 1500 configure
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 169.254.207.1
            b 0 enp1s0f0np0 rocep1s0f0 169.254.207.2/16 1500 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.12/24 1500 configure
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 169.254.207.2
            warn fabric.link_local a b
            warn fabric.mtu_small a b
            info fabric.crossed_cages a b
        """,
    ),
    Scheme(
        "two cables laid straight, no address, heard, with consent",
        f"{PROVENANCE}; heard: by the wires of this row. One cable carries all that the adapter can",
        BARE,
        wires="a0-b0 a1-b1",
        heard=True,
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 192.168.200.11/24 9000 configure
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.201.11/24 9000 configure
            a =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.200.11
            b 0 enp1s0f0np0 rocep1s0f0 192.168.200.12/24 9000 configure
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.201.12/24 9000 configure
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.200.12
        """,
    ),
    Scheme(
        "two cables laid crosswise, no address, heard, with consent",
        f"{PROVENANCE}; heard: by the wires of this row",
        BARE,
        wires="a0-b1 a1-b0",
        heard=True,
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 192.168.200.11/24 9000 configure
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.201.11/24 9000 configure
            a =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.200.11
            b 0 enp1s0f1np1 rocep1s0f1 192.168.200.12/24 9000 configure
            b 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.12/24 9000 configure
            b =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.200.12
            info fabric.crossed_cages a b
        """,
    ),
    Scheme(
        "two cables, no address, heard",
        PROVENANCE,
        BARE,
        wires="a0-b1 a1-b0",
        heard=True,
        plan="""
            topology None
            block fabric.no_address a b
        """,
    ),
    Scheme(
        "two cables, no address, unheard, with consent",
        PROVENANCE,
        BARE,
        heard=False,
        consent=True,
        plan="""
            topology None
            block fabric.unseen a b
        """,
    ),
    Scheme(
        "two cables, no address, unheard",
        PROVENANCE,
        BARE,
        heard=False,
        plan="""
            topology None
            block fabric.unseen a b
        """,
    ),
    Scheme(
        "two cables, addresses on the primary functions only",
        DELL_PROVENANCE,
        DELL,
        wires="a0-b0 a1-b1",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 192.168.10.10/24 9000 adopt
            a 1 enp1s0f1np1 rocep1s0f1 192.168.20.10/24 9000 adopt
            a =rocep1s0f0,rocep1s0f1 enp1s0f0np0 192.168.10.10
            b 0 enp1s0f0np0 rocep1s0f0 192.168.10.11/24 9000 adopt
            b 1 enp1s0f1np1 rocep1s0f1 192.168.20.11/24 9000 adopt
            b =rocep1s0f0,rocep1s0f1 enp1s0f0np0 192.168.10.11
            warn fabric.twin_without_address a b
            info fabric.network_manager a b
        """,
    ),
    Scheme(
        "two cables, addresses on the primary functions only, with consent",
        DELL_PROVENANCE,
        DELL,
        wires="a0-b0 a1-b1",
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 192.168.10.10/24 9000 adopt
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.11/24 9000 configure
            a 2 enp1s0f1np1 rocep1s0f1 192.168.20.10/24 9000 adopt
            a 3 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.11/24 9000 configure
            a =rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1 enp1s0f0np0 192.168.10.10
            b 0 enp1s0f0np0 rocep1s0f0 192.168.10.11/24 9000 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.12/24 9000 configure
            b 2 enp1s0f1np1 rocep1s0f1 192.168.20.11/24 9000 adopt
            b 3 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.12/24 9000 configure
            b =rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1 enp1s0f0np0 192.168.10.11
            warn fabric.netplan_overlap a b
            info fabric.network_manager a b
        """,
    ),
    Scheme(
        "two cables laid straight, link-local in both cages",
        LINK_LOCAL_PROVENANCE,
        LINK_LOCAL,
        wires="a0-b0 a1-b1",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 169.254.10.1/16 1500 adopt
            a 1 enp1s0f1np1 rocep1s0f1 169.254.20.1/16 1500 adopt
            a =rocep1s0f0,rocep1s0f1 enp1s0f0np0 169.254.10.1
            b 0 enp1s0f0np0 rocep1s0f0 169.254.10.2/16 1500 adopt
            b 1 enp1s0f1np1 rocep1s0f1 169.254.20.2/16 1500 adopt
            b =rocep1s0f0,rocep1s0f1 enp1s0f0np0 169.254.10.2
            warn fabric.link_local a b
            warn fabric.mtu_small a b
            warn fabric.same_subnet a b
            warn fabric.twin_without_address a b
        """,
    ),
    Scheme(
        "two cables laid crosswise, link-local in both cages, heard",
        LINK_LOCAL_PROVENANCE,
        LINK_LOCAL,
        wires="a0-b1 a1-b0",
        heard=True,
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 169.254.10.1/16 1500 adopt
            a 1 enp1s0f1np1 rocep1s0f1 169.254.20.1/16 1500 adopt
            a =rocep1s0f0,rocep1s0f1 enp1s0f0np0 169.254.10.1
            b 0 enp1s0f1np1 rocep1s0f1 169.254.20.2/16 1500 adopt
            b 1 enp1s0f0np0 rocep1s0f0 169.254.10.2/16 1500 adopt
            b =rocep1s0f1,rocep1s0f0 enp1s0f1np1 169.254.20.2
            warn fabric.link_local a b
            warn fabric.mtu_small a b
            warn fabric.same_subnet a b
            warn fabric.twin_without_address a b
            info fabric.crossed_cages a b
        """,
    ),
    Scheme(
        "no cable",
        "uncabled; uncabled_gx10, whose addresses are not shown: Wi-Fi has .88",
        ((), (ip(printed("uncabled_gx10.txt", "ip -s link show")), has("wlP9s9", "192.168.111.88/24"))),
        plan="""
            topology None
            block fabric.no_rail a b
        """,
    ),
    Scheme(
        "no cable, and one machine without an adapter",
        "no_adapter: both machines",
        (
            (
                brief(links=printed("no_adapter.txt", "ip -br link show", "spark-aa40"), all_there=True),
                holds(HOTPLUG, printed("no_adapter.txt", HOTPLUG_SHOWN, "spark-aa40")),
            ),
            (
                brief(links=printed("no_adapter.txt", "ip -br link show", "spark-aa41")),
                holds(HOTPLUG, printed("no_adapter.txt", HOTPLUG_SHOWN, "spark-aa41")),
            ),
        ),
        plan="""
            topology None
            block fabric.no_rail a b
        """,
    ),
)
