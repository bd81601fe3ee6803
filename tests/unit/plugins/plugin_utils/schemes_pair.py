# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two machines on one cable, as people have addressed them.

A row without evidence of who heard whom must be planned alike with it and without it.
"""

from __future__ import annotations

from scheme_machine import printed
from schemes import Scheme, another, brief, cable, cat, has, ibdev2netdev, ip, netplan, rate_and_state, rdma_link, show_gids


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """A sample's text for the machine at the other end: what is replaced must be there."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


CAPTURE = printed("linklocal_f1.txt", "ip -br addr")
CAPTURE_PEER = replaced(CAPTURE, ("169.254.127.30/", "169.254.127.31/"), ("192.168.1.163/", "192.168.1.164/"))
CAPTURE_LINKS = printed("linklocal_f1.txt", "ip -br link")
CAPTURED = ((brief(links=CAPTURE_LINKS, addresses=CAPTURE),), (brief(links=CAPTURE_LINKS, addresses=CAPTURE_PEER), another))

PLAYBOOK_F1 = ibdev2netdev(printed("playbook_two_sparks.txt", "ibdev2netdev"))
LINK_LOCAL = printed("playbook_linklocal.txt", "ip addr show enp1s0f1np1")
LINK_LOCAL_PLAN = netplan(printed("playbook_linklocal.txt", "cat /etc/netplan/40-cx7.yaml"))

STATIC = printed("playbook_two_sparks.txt", "ip addr show enp1s0f1np1")
STATIC_PEER = replaced(STATIC, ("192.168.100.10/", "192.168.100.11/"))

BENCHMARK = printed("playbook_benchmark.txt", "cat /etc/netplan/40-cx7.yaml")

PRIMARY = tuple((ip(printed("primary_10.0.1.txt", "ip a show enp1s0f0np0", host)), cable(0)) for host in ("spark-aa30", "spark-aa31"))

FLAT = printed("networkd_two_29s.txt", "ip -br addr")
FLAT_PLAN = printed("networkd_two_29s.txt", "cat /etc/netplan/40-cx7.yaml")
RAILS_PEER = ((".5.1/29", ".5.2/29"), (".5.9/29", ".5.10/29"))
ETHERNET = netplan(printed("networkd_two_29s.txt", "cat /etc/netplan/20-mediatek.yaml"), "/etc/netplan/20-mediatek.yaml")

JUMBO = printed("networkd_primary_9216.txt", "ip addr")
JUMBO_PEER = replaced(JUMBO, ("172.31.5.3/", "172.31.5.4/"), ("172.31.0.100/", "172.31.0.101/"))
JUMBO_PLAN = printed("networkd_primary_9216.txt", "cat /etc/netplan/40-cx7.yaml")
PRIMARY_9216 = ((ip(JUMBO), netplan(JUMBO_PLAN)), (ip(JUMBO_PEER), another, netplan(replaced(JUMBO_PLAN, ("172.31.5.3/", "172.31.5.4/")))))

TWO_SUBNETS = printed("two_subnets_9000.txt", "cat /etc/netplan/40-cx7.yaml")
TWO_SUBNETS_F0 = ibdev2netdev(printed("two_subnets_9000.txt", "ibdev2netdev"))

DELL = tuple((cable(0), cat("dell_primary_only.txt", host)) for host in ("node1", "node2"))

TWINS = rdma_link(printed("twins_one_subnet.txt", "rdma link"))
GIDS = show_gids(printed("twins_one_subnet.txt", "show_gids"))

#: The machines of nccl/log_asymmetric_ports, after the cable was moved. NetworkManager has given the twin of one an address, of its own accord.
ZEROCONF = (
    (cable(1), has("enp1s0f1np1", "169.254.207.1/16"), has("enP2p1s0f1np1", "169.254.88.9/16")),
    (cable(1), has("enp1s0f1np1", "169.254.207.2/16")),
)
ZEROCONF_PROVENANCE = "https://github.com/guardkit/dgx-spark RESULTS-two-spark-bring-up-2026-08-06.md, finding 4; the address of the twin is made up"

HP = (rate_and_state(printed("hp_f1_active.txt", "paste -d' ' /sys/class/infiniband/*/ports/1/{rate,state}")),)

PAIR = (
    Scheme(
        "link-local on one function",
        "linklocal_f1; b is the same machine with another address and other MACs",
        CAPTURED,
        wires="a1-b1",
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 169.254.127.30/16 1500 adopt
            a =rocep1s0f1 enp1s0f1np1 169.254.127.30
            b 0 enp1s0f1np1 rocep1s0f1 169.254.127.31/16 1500 adopt
            b =rocep1s0f1 enp1s0f1np1 169.254.127.31
            warn fabric.link_local a b
            warn fabric.mtu_small a b
            warn fabric.twin_without_address a b
        """,
    ),
    Scheme(
        "link-local on one function, with consent",
        "linklocal_f1, as above; the twin follows the MTU of the rail beside it",
        CAPTURED,
        wires="a1-b1",
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 169.254.127.30/16 1500 adopt
            a 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.200.11/24 1500 configure
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 169.254.127.30
            b 0 enp1s0f1np1 rocep1s0f1 169.254.127.31/16 1500 adopt
            b 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.200.12/24 1500 configure
            b =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 169.254.127.31
            warn fabric.link_local a b
            warn fabric.mtu_small a b
        """,
    ),
    Scheme(
        "link-local by the netplan file of the playbook",
        "playbook_linklocal, playbook_two_sparks for the links; b has the address that the switch playbook shows for its second Spark",
        (
            (PLAYBOOK_F1, ip(LINK_LOCAL), LINK_LOCAL_PLAN),
            (PLAYBOOK_F1, ip(replaced(LINK_LOCAL, ("35.62/", "35.63/"))), another, LINK_LOCAL_PLAN),
        ),
        wires="a1-b1",
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 169.254.35.62/16 1500 adopt
            a =rocep1s0f1 enp1s0f1np1 169.254.35.62
            b 0 enp1s0f1np1 rocep1s0f1 169.254.35.63/16 1500 adopt
            b =rocep1s0f1 enp1s0f1np1 169.254.35.63
            warn fabric.link_local a b
            warn fabric.mtu_small a b
            warn fabric.twin_without_address a b
        """,
    ),
    Scheme(
        "192.168.100 and 101 of the playbook",
        "playbook_two_sparks; b is in its netplan file, its MACs are others",
        ((PLAYBOOK_F1, ip(STATIC), cat("playbook_two_sparks.txt", "dgx-spark-1")), (PLAYBOOK_F1, cat("playbook_two_sparks.txt", "dgx-spark-2"))),
        wires="a1-b1",
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 192.168.100.10/24 1500 adopt
            a 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.101.10/24 1500 adopt
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.100.10
            b 0 enp1s0f1np1 rocep1s0f1 192.168.100.11/24 1500 adopt
            b 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.101.11/24 1500 adopt
            b =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.100.11
            warn fabric.mtu_small a b
        """,
    ),
    Scheme(
        "192.168.100 on one function, as the playbook had it first",
        "playbook_two_sparks without its netplan files; b is a with .11 and other MACs",
        ((PLAYBOOK_F1, ip(STATIC)), (PLAYBOOK_F1, ip(STATIC_PEER), another)),
        wires="a1-b1",
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 192.168.100.10/24 1500 adopt
            a =rocep1s0f1 enp1s0f1np1 192.168.100.10
            b 0 enp1s0f1np1 rocep1s0f1 192.168.100.11/24 1500 adopt
            b =rocep1s0f1 enp1s0f1np1 192.168.100.11
            warn fabric.mtu_small a b
            warn fabric.twin_without_address a b
        """,
    ),
    Scheme(
        "192.168.200 and 201 with NetworkManager",
        "playbook_benchmark; b ends in .13",
        (
            (ibdev2netdev(printed("playbook_benchmark.txt", "ibdev2netdev", "spark-aa21")), netplan(BENCHMARK)),
            (ibdev2netdev(printed("playbook_benchmark.txt", "ibdev2netdev", "spark-aa22")), netplan(replaced(BENCHMARK, (".12/", ".13/")))),
        ),
        wires="a0-b0",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 192.168.200.12/24 1500 adopt
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.201.12/24 1500 adopt
            a =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.200.12
            b 0 enp1s0f0np0 rocep1s0f0 192.168.200.13/24 1500 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.201.13/24 1500 adopt
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.200.13
            warn fabric.mtu_small a b
            info fabric.network_manager a b
        """,
    ),
    Scheme(
        "10.0.1 on one function, MTU 1500",
        "primary_10.0.1: both machines; that the twins have a link comes from the cable",
        PRIMARY,
        wires="a0-b0",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 10.0.1.1/24 1500 adopt
            a =rocep1s0f0 enp1s0f0np0 10.0.1.1
            b 0 enp1s0f0np0 rocep1s0f0 10.0.1.2/24 1500 adopt
            b =rocep1s0f0 enp1s0f0np0 10.0.1.2
            warn fabric.mtu_small a b
            warn fabric.twin_without_address a b
        """,
    ),
    Scheme(
        "10.0.1 on one function, MTU 1500, with consent",
        "primary_10.0.1, as above",
        PRIMARY,
        wires="a0-b0",
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 10.0.1.1/24 1500 adopt
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.11/24 1500 configure
            a =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 10.0.1.1
            b 0 enp1s0f0np0 rocep1s0f0 10.0.1.2/24 1500 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.12/24 1500 configure
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 10.0.1.2
            warn fabric.mtu_small a b
        """,
    ),
    Scheme(
        "two /29 with networkd, MTU 9000",
        "networkd_two_29s; b has .2 and .10 there, and .101 on Ethernet",
        (
            (brief(addresses=FLAT), netplan(FLAT_PLAN), ETHERNET),
            (brief(addresses=replaced(FLAT, *RAILS_PEER, (".0.100/", ".0.101/"))), netplan(replaced(FLAT_PLAN, *RAILS_PEER)), ETHERNET),
        ),
        wires="a0-b0",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 172.31.5.1/29 9000 adopt
            a 1 enP2p1s0f0np0 roceP2p1s0f0 172.31.5.9/29 9000 adopt
            a =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 172.31.5.1
            b 0 enp1s0f0np0 rocep1s0f0 172.31.5.2/29 9000 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 172.31.5.10/29 9000 adopt
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 172.31.5.2
        """,
    ),
    Scheme(
        "a /28 on one function with networkd, MTU 9216",
        "networkd_primary_9216; b is a with .4, .101 on Ethernet and other MACs",
        PRIMARY_9216,
        wires="a0-b0",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 172.31.5.3/28 9216 adopt
            a =rocep1s0f0 enp1s0f0np0 172.31.5.3
            b 0 enp1s0f0np0 rocep1s0f0 172.31.5.4/28 9216 adopt
            b =rocep1s0f0 enp1s0f0np0 172.31.5.4
            warn fabric.twin_without_address a b
        """,
    ),
    Scheme(
        "a /28 on one function with networkd, MTU 9216, with consent",
        "networkd_primary_9216, as above",
        PRIMARY_9216,
        wires="a0-b0",
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 172.31.5.3/28 9216 adopt
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.11/24 9216 configure
            a =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 172.31.5.3
            b 0 enp1s0f0np0 rocep1s0f0 172.31.5.4/28 9216 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.12/24 9216 configure
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 172.31.5.4
            warn fabric.netplan_overlap a b
        """,
    ),
    Scheme(
        "two subnets, MTU 9000",
        "two_subnets_9000; b ends in .11, as its source says",
        ((TWO_SUBNETS_F0, netplan(TWO_SUBNETS)), (TWO_SUBNETS_F0, netplan(replaced(TWO_SUBNETS, (".10/", ".11/"))))),
        wires="a0-b0",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 192.168.100.10/24 9000 adopt
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.101.10/24 9000 adopt
            a =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.100.10
            b 0 enp1s0f0np0 rocep1s0f0 192.168.100.11/24 9000 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.101.11/24 9000 adopt
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.100.11
        """,
    ),
    Scheme(
        "both functions in one subnet",
        "twins_one_subnet; its source says that it is a /24; b ends in .11 and .15",
        (
            (TWINS, GIDS, has("enp1s0f0np0", "192.168.100.10/24"), has("enP2p1s0f0np0", "192.168.100.14/24")),
            (TWINS, has("enp1s0f0np0", "192.168.100.11/24"), has("enP2p1s0f0np0", "192.168.100.15/24")),
        ),
        wires="a0-b0",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 192.168.100.10/24 1500 adopt
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.100.14/24 1500 adopt
            a =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.100.10
            b 0 enp1s0f0np0 rocep1s0f0 192.168.100.11/24 1500 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.100.15/24 1500 adopt
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.100.11
            warn fabric.mtu_small a b
            warn fabric.same_subnet a b
        """,
    ),
    Scheme(
        "Dell: addresses on the primary function only",
        "dell_primary_only: both machines; without a link a port does not get its address",
        DELL,
        wires="a0-b0",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 192.168.10.10/24 9000 adopt
            a =rocep1s0f0 enp1s0f0np0 192.168.10.10
            b 0 enp1s0f0np0 rocep1s0f0 192.168.10.11/24 9000 adopt
            b =rocep1s0f0 enp1s0f0np0 192.168.10.11
            warn fabric.twin_without_address a b
            info fabric.network_manager a b
        """,
    ),
    Scheme(
        "Dell: addresses on the primary function only, with consent",
        "dell_primary_only, as above",
        DELL,
        wires="a0-b0",
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 192.168.10.10/24 9000 adopt
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.11/24 9000 configure
            a =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.10.10
            b 0 enp1s0f0np0 rocep1s0f0 192.168.10.11/24 9000 adopt
            b 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.200.12/24 9000 configure
            b =rocep1s0f0,roceP2p1s0f0 enp1s0f0np0 192.168.10.11
            warn fabric.netplan_overlap a b
            info fabric.network_manager a b
        """,
    ),
    Scheme(
        "link-local, and the twin of one has an address by accident",
        ZEROCONF_PROVENANCE,
        ZEROCONF,
        wires="a1-b1",
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 169.254.207.1/16 1500 adopt
            a =rocep1s0f1 enp1s0f1np1 169.254.207.1
            b 0 enp1s0f1np1 rocep1s0f1 169.254.207.2/16 1500 adopt
            b =rocep1s0f1 enp1s0f1np1 169.254.207.2
            warn fabric.link_local a b
            warn fabric.mtu_small a b
            warn fabric.twin_without_address a b
        """,
    ),
    Scheme(
        "link-local, and the twin of one has an address by accident, with consent",
        ZEROCONF_PROVENANCE,
        ZEROCONF,
        wires="a1-b1",
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 169.254.207.1/16 1500 adopt
            a 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.200.11/24 1500 configure
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 169.254.207.1
            b 0 enp1s0f1np1 rocep1s0f1 169.254.207.2/16 1500 adopt
            b 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.200.12/24 1500 configure
            b =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 169.254.207.2
            warn fabric.link_local a b
            warn fabric.mtu_small a b
        """,
    ),
    Scheme(
        "HP: no address",
        "hp_f1_active: the article has two of these",
        (HP, HP),
        wires="a1-b1",
        plan="""
            topology None
            block fabric.no_address a b
        """,
    ),
    Scheme(
        "HP: no address, with consent",
        "hp_f1_active, as above",
        (HP, HP),
        wires="a1-b1",
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 192.168.200.11/24 9000 configure
            a 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.11/24 9000 configure
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.200.11
            b 0 enp1s0f1np1 rocep1s0f1 192.168.200.12/24 9000 configure
            b 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.12/24 9000 configure
            b =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.200.12
        """,
    ),
)
