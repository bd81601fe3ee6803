# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from rail to rail, and the interfaces that software would choose by itself."""

from __future__ import annotations

from healthy import HCAS, NETPLAN, RAILS, address, gids, neighbours, netplan, routes
from replay import Patch, absent, all_of, answers, holds, lacks, rewritten, rows, unrecorded
from stories import fires, quiet

OURS = "/etc/netplan/60-gb10-fabric.yaml"
PEER = "192.168.200.13"
FAR = "4c:bb:47:ec:95:13"
UUID = "0b7a6f5e-1c2d-3e4f-8a9b-0c1d2e3f4a5b"
CONSENT = {"consent": ["network"]}
RAIL_ROUTES = ("192.168.200.12", "192.168.201.12")
NO_TWIN = all_of(address(RAILS[1]), gids(HCAS[1]), routes("192.168.200.12"))


def network_manager(profile: str, *addresses: str, path: str = "/run/NetworkManager/system-connections/netplan-enp1s0f1np1.nmconnection") -> Patch:
    """NetworkManager has the first rail, by a profile with these addresses."""
    return all_of(
        answers("nmcli", "-t", "-f", "DEVICE,STATE,CON-UUID", out=f"{RAILS[0]}:connected:{UUID}\nlo:unmanaged:\n"),
        answers("nmcli", "-t", "-f", "UUID,FILENAME", out=f"{UUID}:{path}\n"),
        answers(
            "nmcli", "-t", "-f", "connection.uuid", out=f"connection.uuid:{UUID}\nipv4.method:{profile}\nipv4.addresses:{', '.join(addresses)}\n"
        ),
    )


def default_route(netdev: str) -> Patch:
    """The default route, and the rails."""
    return routes(*RAIL_ROUTES, default=netdev)


UFW = rewritten("/etc/ufw/ufw.conf", "ENABLED=no", "ENABLED=yes")
NFTABLES = answers(
    "nft", "list", "ruleset", out="table inet filter {\n\tchain input {\n\t\ttype filter hook input priority 0; policy drop;\n\t}\n}\n"
)
IPTABLES = all_of(
    absent("nft", "list", "ruleset"), answers("iptables", "-S", "INPUT", out="-P INPUT DROP\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n")
)
GIDS_MOVED = (gids(HCAS[0], "192.168.200.13", first=4), gids(HCAS[1], "192.168.201.13", first=4))

CASES = [
    fires(
        "fabric.route_elsewhere",
        r"reaches 192.168.200.13 of spark-worker over br-1f2e3d \(192.168.200.0/24\)",
        routes(*RAIL_ROUTES, more=(("192.168.200.0/24", "br-1f2e3d"),)),
    ),
    fires("fabric.route_elsewhere", r"over enP7s7 \(192.168.200.12/30\)", routes(*RAIL_ROUTES, more=(("192.168.200.12/30", "enP7s7"),))),
    # A wider network is no rival, nor is another one.
    quiet("fabric.route_elsewhere", routes(*RAIL_ROUTES, more=(("192.168.0.0/16", "enP7s7"), ("172.18.0.0/16", "br-1f2e3d")))),
    fires(
        "fabric.neighbour_silent",
        "spark-head got no answer from 192.168.200.13 of spark-worker over enp1s0f1np1",
        neighbours((PEER, RAILS[0], None, "FAILED")),
    ),
    quiet("fabric.neighbour_silent", neighbours((PEER, RAILS[0], FAR, "DELAY"))),
    # Nobody asked yet; somebody else did not answer.
    quiet("fabric.neighbour_silent", neighbours()),
    quiet("fabric.neighbour_silent", neighbours(("192.168.200.77", RAILS[0], None, "FAILED"))),
    fires(
        "fabric.neighbour_crossed",
        "reaches 192.168.200.13 at enp1s0f0np0 of spark-worker",
        neighbours((PEER, RAILS[0], "4c:bb:47:ec:95:12", "REACHABLE")),
    ),
    quiet("fabric.neighbour_crossed", neighbours((PEER, RAILS[0], FAR, "PERMANENT"))),
    fires(
        "fabric.neighbour_stranger",
        "a machine that is not spark-worker answers for 192.168.200.13",
        neighbours((PEER, RAILS[0], "aa:bb:cc:00:11:22", "STALE")),
    ),
    quiet("fabric.neighbour_stranger", neighbours((PEER, RAILS[0], FAR.upper(), "STALE"))),
    # The peer's hardware addresses are not known, so nobody is a stranger.
    quiet(
        "fabric.neighbour_stranger",
        neighbours((PEER, RAILS[0], "aa:bb:cc:00:11:22", "STALE")),
        worker=(rows(lambda links: [each.pop("address") for each in links], "ip", "-j", "-s", "addr"),),
    ),
    fires("fabric.no_gid", r"rocep1s0f1 \(192.168.200.12\) of spark-head has no RoCE v2 GID", gids(HCAS[0])),
    fires("fabric.no_gid", "has no RoCE v2 GID", gids(HCAS[0], "10.0.0.9")),
    # Another index is as good.
    quiet("fabric.no_gid", gids(HCAS[0], "192.168.200.12", first=4)),
    quiet("fabric.no_gid", unrecorded(f"/sys/class/infiniband/{HCAS[0]}/ports/1/gids")),
    fires("fabric.not_persistent", "192.168.200.12 on enp1s0f1np1 of spark-head is set on the running system only", netplan("", "192.168.201.12")),
    fires(
        "fabric.gid_differs",
        "5 on rocep1s0f1 of spark-head, 3 on roceP2p1s0f1 of spark-head, 3 on rocep1s0f1 of spark-worker",
        gids(HCAS[0], "192.168.200.12", first=4),
    ),
    # A pinned index is judged by itself.
    quiet("fabric.gid_differs", gids(HCAS[0], "192.168.200.12", first=4), overrides={"environment": {"NCCL_IB_GID_INDEX": "3"}}),
    quiet("fabric.gid_differs", gids(HCAS[0], "192.168.200.12", first=4), gids(HCAS[1], "192.168.201.12", first=4), worker=GIDS_MOVED),
    fires(
        "fabric.not_persistent",
        "gone after a reboot",
        lacks(NETPLAN),
        network_manager("manual", "192.168.200.12/24", path="/run/NetworkManager/system-connections/x.nmconnection"),
    ),
    quiet("fabric.not_persistent", network_manager("manual", "192.168.200.12/24")),
    # A file that only root may read: nobody knows.
    quiet("fabric.not_persistent", lambda machine: machine.files.update({NETPLAN: {"kind": "file", "path": NETPLAN, "error": "Permission denied"}})),
    fires("fabric.netplan_overlap", f"configured by {NETPLAN} and {OURS}", netplan(*RAIL_ROUTES, path=OURS)),
    fires("fabric.netplan_overlap", f"enP2p1s0f1np1 of spark-head is configured by {NETPLAN} and {OURS}", NO_TWIN, **CONSENT),
    quiet("fabric.netplan_overlap", lacks(NETPLAN), netplan(*RAIL_ROUTES, path=OURS)),
    quiet("fabric.netplan_overlap", holds("/etc/netplan/01-lan.yaml", "network:\n  ethernets:\n    enP7s7:\n      dhcp4: true\n")),
    fires("fabric.network_manager", "NetworkManager looks after enp1s0f1np1 of spark-head", network_manager("manual", "192.168.200.12/24")),
    quiet("fabric.network_manager", answers("nmcli", "-t", "-f", "DEVICE,STATE,CON-UUID", out=f"{RAILS[0]}:unmanaged:\n")),
    fires(
        "fabric.firewall",
        r"""ufw is active on spark-head\. Let the rails be opened: -e '\{"gb10_consent": \["firewall"\]\}'\. Or by hand on spark-head: """
        r"`sudo ufw allow in on enp1s0f1np1 from 192\.168\.200\.0/24`; `sudo ufw allow in on enP2p1s0f1np1 from 192\.168\.201\.0/24`\.$",
        UFW,
    ),
    # The consent of another thing.
    fires("fabric.firewall", "ufw is active on spark-head", UFW, **CONSENT),
    fires(
        "fabric.firewall",
        r"iptables is active on spark-head\. Let the rails be opened.*`sudo iptables -I INPUT 1 -i enp1s0f1np1 -s 192\.168\.200\.0/24 -j ACCEPT`; ",
        IPTABLES,
    ),
    # Nobody can open it from outside, so it is said with consent and without, and the consent is not asked for.
    *(
        fires(
            "fabric.firewall",
            r"nftables is active on spark-head\. On spark-head: `sudo nft insert rule inet filter input iifname enp1s0f1np1 ip saddr 192\.168\.200\.",
            NFTABLES,
            consent=consent,
        )
        for consent in ([], ["firewall"])
    ),
    *(quiet("fabric.firewall", patch, consent=["firewall"]) for patch in (UFW, IPTABLES)),
    quiet("fabric.firewall", UFW, alone=True),
    quiet("fabric.firewall", lacks("/etc/ufw")),
    fires("interface.default_wireless", r"default route of spark-head is over Wi-Fi \(wlP9s9\)", default_route("wlP9s9")),
    quiet("interface.default_wireless", default_route("wlP9s9"), alone=True),
    quiet("interface.default_wireless", default_route("enP7s7")),
    fires("interface.no_default_route", "spark-head has no default route, and has to fetch", routes(*RAIL_ROUTES, default=None)),
    # The worker gets both from the head.
    quiet("interface.no_default_route", worker=(routes("192.168.200.13", "192.168.201.13", default=None),)),
    fires(
        "interface.hostname_loopback",
        "spark-aa10 is 127.0.1.1 on spark-head.*GLOO_SOCKET_IFNAME is set",
        answers("getent", "ahostsv4", out="127.0.1.1   STREAM spark-aa10\n"),
    ),
    quiet("interface.hostname_loopback", answers("getent", "ahostsv4", out="127.0.1.1   STREAM spark-aa10\n192.168.1.163 STREAM\n")),
    quiet("interface.hostname_loopback", answers("getent", "ahostsv4", rc=2)),
]
