# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three and four machines: rings, switches, pairs."""

from __future__ import annotations

from scheme_machine import printed
from schemes import Scheme, cable, cat, has, ibdev2netdev, ip, netplan

RING = "a0-b1 b0-c1 c0-a1"
RING_UP = ibdev2netdev(printed("playbook_ring.txt", "ibdev2netdev"))
BARE_RING = ((RING_UP,),) * 3
BARE_RING_PROVENANCE = "playbook_ring: the links of all nodes, without its addresses"

SWITCH = "a1-b1-c1-d1"
SWITCH_UP = ibdev2netdev(printed("playbook_switch.txt", "ibdev2netdev"))
SWITCH_LINK_LOCAL = netplan(printed("playbook_switch.txt", "cat /etc/netplan/40-cx7-link-local.yaml"))
SWITCH_DHCP = netplan(printed("playbook_switch.txt", "cat /etc/netplan/40-cx7-dhcp.yaml"))

#: The twins have a link, by the cable. Of the first two the sample says so itself.
PAIRS = tuple((cable(0), ip(printed("four_in_pairs.txt", "ip a show enp1s0f0np0", f"spark-aa{number}"))) for number in (15, 16, 17, 18))
BARE_PAIRS = ((ibdev2netdev(printed("four_in_pairs.txt", "ibdev2netdev", "spark-aa15")),),) * 4
BARE_PAIRS_PROVENANCE = "four_in_pairs: the links of all four, without their addresses"

CLUSTER = (
    Scheme(
        "ring of three, a subnet a cable",
        "playbook_ring: all three machines",
        tuple((RING_UP, cat("playbook_ring.txt", f"dgx-spark-{number}")) for number in (1, 2, 3)),
        wires=RING,
        plan="""
            topology ring
            a 0 enp1s0f0np0 rocep1s0f0 192.168.0.1/24 1500 adopt
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.0.2/24 1500 adopt
            a 2 enp1s0f1np1 rocep1s0f1 192.168.1.1/24 1500 adopt
            a 3 enP2p1s0f1np1 roceP2p1s0f1 192.168.1.2/24 1500 adopt
            a =rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1 wlP9s9 192.168.111.87
            b 0 enp1s0f1np1 rocep1s0f1 192.168.0.3/24 1500 adopt
            b 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.0.4/24 1500 adopt
            b 4 enp1s0f0np0 rocep1s0f0 192.168.2.1/24 1500 adopt
            b 5 enP2p1s0f0np0 roceP2p1s0f0 192.168.2.2/24 1500 adopt
            b =rocep1s0f1,roceP2p1s0f1,rocep1s0f0,roceP2p1s0f0 wlP9s9 192.168.111.88
            c 2 enp1s0f0np0 rocep1s0f0 192.168.1.3/24 1500 adopt
            c 3 enP2p1s0f0np0 roceP2p1s0f0 192.168.1.4/24 1500 adopt
            c 4 enp1s0f1np1 rocep1s0f1 192.168.2.3/24 1500 adopt
            c 5 enP2p1s0f1np1 roceP2p1s0f1 192.168.2.4/24 1500 adopt
            c =rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1 wlP9s9 192.168.111.89
            warn fabric.mtu_small a b c
            warn fabric.same_subnet a b c
            info fabric.ring a b c
        """,
    ),
    Scheme(
        "ring of three, no address, heard, with consent",
        BARE_RING_PROVENANCE,
        BARE_RING,
        wires=RING,
        heard=True,
        consent=True,
        plan="""
            topology ring
            a 0 enp1s0f0np0 rocep1s0f0 192.168.200.11/24 9000 configure
            a 1 enP2p1s0f0np0 roceP2p1s0f0 192.168.201.11/24 9000 configure
            a 2 enp1s0f1np1 rocep1s0f1 192.168.202.11/24 9000 configure
            a 3 enP2p1s0f1np1 roceP2p1s0f1 192.168.203.11/24 9000 configure
            a =rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1 wlP9s9 192.168.111.87
            b 0 enp1s0f1np1 rocep1s0f1 192.168.200.12/24 9000 configure
            b 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.12/24 9000 configure
            b 4 enp1s0f0np0 rocep1s0f0 192.168.204.12/24 9000 configure
            b 5 enP2p1s0f0np0 roceP2p1s0f0 192.168.205.12/24 9000 configure
            b =rocep1s0f1,roceP2p1s0f1,rocep1s0f0,roceP2p1s0f0 wlP9s9 192.168.111.88
            c 2 enp1s0f0np0 rocep1s0f0 192.168.202.13/24 9000 configure
            c 3 enP2p1s0f0np0 roceP2p1s0f0 192.168.203.13/24 9000 configure
            c 4 enp1s0f1np1 rocep1s0f1 192.168.204.13/24 9000 configure
            c 5 enP2p1s0f1np1 roceP2p1s0f1 192.168.205.13/24 9000 configure
            c =rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1 wlP9s9 192.168.111.89
            info fabric.ring a b c
        """,
    ),
    Scheme(
        "ring of three, no address, heard",
        BARE_RING_PROVENANCE,
        BARE_RING,
        wires=RING,
        heard=True,
        plan="""
            topology None
            block fabric.no_address a b c
        """,
    ),
    Scheme(
        "ring of three, no address, unheard, with consent",
        BARE_RING_PROVENANCE,
        BARE_RING,
        heard=False,
        consent=True,
        plan="""
            topology None
            block fabric.unseen a b c
        """,
    ),
    Scheme(
        "four in pairs, as one cluster",
        "four_in_pairs: all four machines",
        PAIRS,
        wires="a0-b0 c0-d0",
        plan="""
            topology None
            block fabric.apart a b c d
        """,
    ),
    Scheme(
        "four in pairs, as one cluster, with consent",
        "four_in_pairs: all four machines",
        PAIRS,
        wires="a0-b0 c0-d0",
        consent=True,
        plan="""
            topology None
            block fabric.apart a b c d
        """,
    ),
    Scheme(
        "the second pair of the four",
        "four_in_pairs: spark-aa17 and spark-aa18",
        PAIRS[2:],
        wires="a0-b0",
        plan="""
            topology shared
            a 0 enp1s0f0np0 rocep1s0f0 10.0.2.1/24 1500 adopt
            a =rocep1s0f0 enp1s0f0np0 10.0.2.1
            b 0 enp1s0f0np0 rocep1s0f0 10.0.2.2/24 1500 adopt
            b =rocep1s0f0 enp1s0f0np0 10.0.2.2
            warn fabric.mtu_small a b
            warn fabric.twin_without_address a b
        """,
    ),
    Scheme(
        "four in pairs, no address, heard, with consent",
        BARE_PAIRS_PROVENANCE,
        BARE_PAIRS,
        wires="a0-b0 c0-d0",
        heard=True,
        consent=True,
        plan="""
            topology None
            block fabric.apart a b c d
        """,
    ),
    Scheme(
        "four in pairs, no address, unheard, with consent",
        BARE_PAIRS_PROVENANCE,
        BARE_PAIRS,
        heard=False,
        consent=True,
        plan="""
            topology None
            block fabric.unseen a b c d
        """,
    ),
    Scheme(
        "switch, link-local",
        "playbook_switch: all four machines; the addresses of enp1s0f1np1 are those that it shows, those of the twins are made up",
        tuple(
            (SWITCH_UP, SWITCH_LINK_LOCAL, has("enp1s0f1np1", f"169.254.35.{end}/16"), has("enP2p1s0f1np1", f"169.254.135.{end}/16"))
            for end in (62, 63, 64, 65)
        ),
        wires=SWITCH,
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 169.254.35.62/16 1500 adopt
            a 1 enP2p1s0f1np1 roceP2p1s0f1 169.254.135.62/16 1500 adopt
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 169.254.35.62
            b 0 enp1s0f1np1 rocep1s0f1 169.254.35.63/16 1500 adopt
            b 1 enP2p1s0f1np1 roceP2p1s0f1 169.254.135.63/16 1500 adopt
            b =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 169.254.35.63
            c 0 enp1s0f1np1 rocep1s0f1 169.254.35.64/16 1500 adopt
            c 1 enP2p1s0f1np1 roceP2p1s0f1 169.254.135.64/16 1500 adopt
            c =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 169.254.35.64
            d 0 enp1s0f1np1 rocep1s0f1 169.254.35.65/16 1500 adopt
            d 1 enP2p1s0f1np1 roceP2p1s0f1 169.254.135.65/16 1500 adopt
            d =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 169.254.35.65
            warn fabric.link_local a b c d
            warn fabric.mtu_small a b c d
            warn fabric.same_subnet a b c d
        """,
    ),
    Scheme(
        "switch, one subnet",
        "playbook_switch: all four machines",
        tuple((SWITCH_UP, cat("playbook_switch.txt", f"dgx-spark-{number}")) for number in (1, 2, 3, 4)),
        wires=SWITCH,
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 192.168.100.10/24 1500 adopt
            a 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.100.11/24 1500 adopt
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.100.10
            b 0 enp1s0f1np1 rocep1s0f1 192.168.100.12/24 1500 adopt
            b 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.100.13/24 1500 adopt
            b =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.100.12
            c 0 enp1s0f1np1 rocep1s0f1 192.168.100.14/24 1500 adopt
            c 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.100.15/24 1500 adopt
            c =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.100.14
            d 0 enp1s0f1np1 rocep1s0f1 192.168.100.16/24 1500 adopt
            d 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.100.17/24 1500 adopt
            d =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.100.16
            warn fabric.mtu_small a b c d
            warn fabric.same_subnet a b c d
        """,
    ),
    Scheme(
        "switch with a DHCP server",
        "playbook_switch: the first machine's address on enp1s0f1np1, the others are the next ones",
        tuple(
            (SWITCH_UP, SWITCH_DHCP, has("enp1s0f1np1", f"100.100.100.{end}/24"), has("enP2p1s0f1np1", f"100.100.100.{end + 1}/24"))
            for end in (4, 6, 8, 10)
        ),
        wires=SWITCH,
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 100.100.100.4/24 1500 adopt
            a 1 enP2p1s0f1np1 roceP2p1s0f1 100.100.100.5/24 1500 adopt
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 100.100.100.4
            b 0 enp1s0f1np1 rocep1s0f1 100.100.100.6/24 1500 adopt
            b 1 enP2p1s0f1np1 roceP2p1s0f1 100.100.100.7/24 1500 adopt
            b =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 100.100.100.6
            c 0 enp1s0f1np1 rocep1s0f1 100.100.100.8/24 1500 adopt
            c 1 enP2p1s0f1np1 roceP2p1s0f1 100.100.100.9/24 1500 adopt
            c =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 100.100.100.8
            d 0 enp1s0f1np1 rocep1s0f1 100.100.100.10/24 1500 adopt
            d 1 enP2p1s0f1np1 roceP2p1s0f1 100.100.100.11/24 1500 adopt
            d =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 100.100.100.10
            warn fabric.mtu_small a b c d
            warn fabric.same_subnet a b c d
        """,
    ),
    Scheme(
        "switch, no address, heard, with consent",
        "playbook_switch: the links of all four machines, without addresses",
        ((SWITCH_UP,),) * 4,
        wires=SWITCH,
        heard=True,
        consent=True,
        plan="""
            topology shared
            a 0 enp1s0f1np1 rocep1s0f1 192.168.200.11/24 9000 configure
            a 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.11/24 9000 configure
            a =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.200.11
            b 0 enp1s0f1np1 rocep1s0f1 192.168.200.12/24 9000 configure
            b 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.12/24 9000 configure
            b =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.200.12
            c 0 enp1s0f1np1 rocep1s0f1 192.168.200.13/24 9000 configure
            c 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.13/24 9000 configure
            c =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.200.13
            d 0 enp1s0f1np1 rocep1s0f1 192.168.200.14/24 9000 configure
            d 1 enP2p1s0f1np1 roceP2p1s0f1 192.168.201.14/24 9000 configure
            d =rocep1s0f1,roceP2p1s0f1 enp1s0f1np1 192.168.200.14
        """,
    ),
)
