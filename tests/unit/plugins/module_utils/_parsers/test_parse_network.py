# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""netplan, nmcli, networkctl, and what filters."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.firewall import (
    parse_iptables,
    parse_nft,
    parse_ufw_conf,
    parse_ufw_status,
    reduce_nft,
)
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.netplan import Definition, Netplan, parse_netplan, reduce_netplan
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.network_manager import (
    Device,
    Networkd,
    Profile,
    parse_connections,
    parse_devices,
    parse_networkctl,
    parse_profiles,
    reduce_networkctl,
)

FIRST, SECOND = "31fdeeec-dd12-4b95-7b73-abb2428ed2e7", "74cacb3f-d1cc-9241-9690-8c59b9d2d894"
WIFI = """
network:
  version: 2
  wifis:
    wlP9s9:
      dhcp4: true
      access-points:
        "my net": {password: swordfish, auth: {key-management: psk, password: swordfish}}
"""
INPUT = "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t}\n}\n"


def static(name: str, *addresses: str) -> Definition:
    return Definition(name, None, None, None, addresses, dhcp=False, link_local=False, renderer=None)


def test_a_playbook_with_static_addresses(sample: Callable[[str], str]) -> None:
    expected = (static("enp1s0f0np0", "192.168.200.12"), static("enP2p1s0f0np0", "192.168.201.12"))
    assert parse_netplan(sample("netplan/playbook_40cx7.txt")) == Netplan("NetworkManager", expected)


def test_link_local(sample: Callable[[str], str]) -> None:
    plan = parse_netplan(sample("netplan/playbook_linklocal.txt"))
    assert [(entry.id, entry.link_local, entry.dhcp) for entry in plan.definitions] == [("enp1s0f0np0", True, False), ("enp1s0f1np1", True, False)]
    assert plan.renderer is None


def test_twins_without_addresses(sample: Callable[[str], str]) -> None:
    plan = parse_netplan(sample("netplan/dell_primary_only.txt"))
    assert {entry.id: entry.addresses for entry in plan.definitions} == {
        "enp1s0f0np0": ("192.168.10.10",),
        "enp1s0f1np1": ("192.168.20.10",),
        "enP2p1s0f0np0": (),
        "enP2p1s0f1np1": (),
    }


def test_matches_labels_and_other_kinds() -> None:
    text = """
network:
  bridges:
    br0: {addresses: ["10.0.0.1/24": {label: "br0:x"}, "fd00::1/64"], dhcp4: yes, renderer: networkd}
  ethernets:
    rails: {match: {name: "enp1s0f*", macaddress: "4C:BB:47:00:00:01"}, set-name: rail0}
    digits: {match: {macaddress: 10:22:33:44:55:06}}
"""
    rails, digits, bridge = parse_netplan(text).definitions
    assert (rails.match_name, rails.match_mac, rails.set_name, rails.matches) == ("enp1s0f*", "4c:bb:47:00:00:01", "rail0", True)
    assert digits.match_mac == "10:22:33:44:55:06"  # a number of base 60 to YAML 1.1
    assert (bridge.addresses, bridge.dhcp, bridge.renderer, bridge.matches) == (("10.0.0.1",), True, "networkd", False)


@pytest.mark.parametrize("text", ["", "network:\n", "# nothing\n", "network: {version: 2}\n", "{}"])
def test_files_without_an_interface(text: str) -> None:
    assert parse_netplan(text) == Netplan(None, ())


@pytest.mark.parametrize("text", ["network: [\n", "just words", "network: words", "- a list", "\t", "a: !!python/object:x {}", "[" * 2000])
def test_no_netplan_file(text: str) -> None:
    with pytest.raises(ParseError):
        parse_netplan(text)
    with pytest.raises(ParseError):
        parse_netplan(reduce_netplan(text))


@pytest.mark.parametrize("name", ["playbook_40cx7", "playbook_linklocal", "dell_primary_only"])
def test_a_reduced_file_says_the_same(sample: Callable[[str], str], name: str) -> None:
    text = sample(f"netplan/{name}.txt")
    reduced = reduce_netplan(text)
    assert parse_netplan(reduced) == parse_netplan(text)
    assert reduce_netplan(reduced) == reduced


def test_passwords_are_not_even_recorded() -> None:
    reduced = reduce_netplan(WIFI)
    assert "swordfish" not in reduced and "my net" not in reduced
    assert parse_netplan(reduced) == parse_netplan(WIFI)
    assert parse_netplan(WIFI).definitions[0].dhcp is True


def test_devices_of_network_manager() -> None:
    text = f"wlP9s9:connected:{FIRST}\ndocker0:connected (externally):{SECOND}\nenP7s7:unavailable:\nenp1s0f1np1:unmanaged:\nbr\\:0:unmanaged:\n"
    assert parse_devices(text) == (
        Device("wlP9s9", True, FIRST),
        Device("docker0", False, SECOND),
        Device("enP7s7", True, None),
        Device("enp1s0f1np1", False, None),
        Device("br:0", False, None),
    )


def test_connections_and_profiles() -> None:
    file = "/etc/NetworkManager/system-connections/有線接続 3.nmconnection"
    assert parse_connections(f"{FIRST}:{file}\n{SECOND}:\n") == {FIRST: file, SECOND: ""}
    text = (
        f"connection.uuid:{FIRST}\nipv4.method:manual\nipv4.addresses:192.168.200.12/24, 10.0.0.1/8\n\n"
        f"connection.uuid:{SECOND}\nipv4.method:auto\nipv4.addresses:\n"
    )
    assert parse_profiles(text) == {FIRST: Profile("manual", ("192.168.200.12", "10.0.0.1")), SECOND: Profile("auto", ())}


def test_networkd(sample: Callable[[str], str]) -> None:
    text = sample("network_manager/networkctl_lxd.txt")
    expected = (Networkd("eth0", True, "/run/systemd/network/10-netplan-eth0.network", {"10.196.177.163": "DHCPv4"}),)
    assert parse_networkctl(text) == expected
    reduced = reduce_networkctl(text)
    assert parse_networkctl(reduced) == expected
    assert reduce_networkctl(reduced) == reduced
    assert "HardwareAddress" not in reduced


@pytest.mark.parametrize("parse", [parse_devices, parse_connections, parse_profiles, parse_networkctl])
def test_nonsense(parse: Callable[[str], object]) -> None:
    with pytest.raises(ParseError):
        parse("Error: Could not create NMClient object\n")


@pytest.mark.parametrize(
    "interface", [{}, {"Name": "a"}, {"Name": "a", "AdministrativeState": "x", "Addresses": [{"Family": 2, "Address": [1, 2, 3]}]}]
)
def test_networkd_in_other_words(interface: object) -> None:
    with pytest.raises(ParseError):
        parse_networkctl(json.dumps({"Interfaces": [interface]}))


@pytest.mark.parametrize(("text", "expected"), [("# x\nENABLED=yes\nLOGLEVEL=low\n", True), ("ENABLED=no\n", False), ('ENABLED="YES"', True)])
def test_the_switch_of_ufw(text: str, expected: bool) -> None:
    assert parse_ufw_conf(text) is expected


def test_the_word_of_ufw() -> None:
    assert parse_ufw_status("Status: active\n\nTo  Action  From\n") is True
    assert parse_ufw_status("Status: inactive\n") is False


def test_dockers_own_rules_filter_nothing_that_comes_in(sample: Callable[[str], str]) -> None:
    text = sample("firewall/nft_docker_only.txt")
    assert parse_nft(text) == ()
    assert parse_nft(reduce_nft(text)) == ()
    assert "172.30" not in reduce_nft(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (INPUT, ("input",)),
        (INPUT.replace("policy drop", "policy accept"), ()),
        (INPUT.replace("policy drop;", "policy accept;\n\t\tip saddr 10.0.0.0/8 tcp dport 22 reject"), ("input",)),
        (
            "table ip f {\n\tchain IN {\n\t\ttype filter hook input priority 0; policy accept;\n\t\tjump deep\n\t}\n"
            "\tchain deep {\n\t\tdrop\n\t}\n}\n",
            ("IN",),
        ),
        ("table ip f {\n\tchain IN {\n\t\ttype filter hook input priority 0;\n\t\tjump IN\n\t}\n}\n", ()),
    ],
)
def test_nftables(text: str, expected: tuple[str, ...]) -> None:
    assert parse_nft(text) == expected
    assert parse_nft(reduce_nft(text)) == expected
    assert reduce_nft(reduce_nft(text)) == reduce_nft(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("-P INPUT ACCEPT\n", False), ("-P INPUT DROP\n", True), ("-P INPUT ACCEPT\n-A INPUT -s 1.2.3.4/32 -j DROP\n", True)],
)
def test_iptables(text: str, expected: bool) -> None:
    assert parse_iptables(text) is expected


@pytest.mark.parametrize("parse", [parse_ufw_conf, parse_ufw_status, parse_nft, parse_iptables])
def test_no_firewall(parse: Callable[[str], object]) -> None:
    with pytest.raises(ParseError):
        parse("Operation not permitted (you must be root)\n")
