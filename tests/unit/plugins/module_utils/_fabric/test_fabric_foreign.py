# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who claims a link, decided on files as people have them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.foreign import (
    NetplanFile,
    in_order,
    netplan_claims,
    networkd_claims,
    profile_claims,
    renderer_of,
)
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import Rail
from fabric_cases import F0, F1, LINKS, MAC, P2F0, P2F1, RAIL, ethernet, netplan, own_sample

EARLY, LATE = "/etc/netplan/40-cx7.yaml", "/etc/netplan/70-late.yaml"


def claims(*files: NetplanFile, rail: Rail = RAIL) -> list[str]:
    return [str(claim) for claim in netplan_claims(files, [rail], LINKS)]


def rail(name: str, address: str = "192.168.250.1/24") -> Rail:
    return Rail(name, address, 9000)


@pytest.mark.parametrize("name", [F0, F1])
def test_the_stock_file_is_no_conflict(sample: Any, name: str) -> None:
    assert claims(netplan(sample("netplan/playbook_linklocal.txt")), rail=rail(name)) == []


@pytest.mark.parametrize("name", [F1, P2F1])
def test_the_stock_file_for_a_switch_is_none_either(name: str) -> None:
    assert claims(netplan(own_sample("netplan_playbook_switch_linklocal.txt")), rail=rail(name)) == []


def test_addresses_on_one_twin_leave_the_other_free(sample: Any) -> None:
    file = netplan(sample("netplan/dell_primary_only.txt"))
    assert claims(file, rail=rail(F0)) == [f"{EARLY} gives {F0} the address 192.168.10.10/24"]
    assert claims(file, rail=rail(P2F0)) == []
    assert claims(file, rail=rail(P2F1)) == []


@pytest.mark.parametrize(
    ("name", "link", "address"),
    [
        ("netplan_oshlabs_40cx7.txt", P2F0, "172.31.5.9/29"),
        ("netplan_playbook_three_sparks_example.txt", P2F1, "192.168.1.2/24"),
        ("netplan_two_subnets_mtu9000_both_twins.txt", F0, "192.168.100.10/24"),
    ],
)
def test_addresses_of_others(name: str, link: str, address: str) -> None:
    assert claims(netplan(own_sample(name)), rail=rail(link)) == [f"{EARLY} gives {link} the address {address}"]
    assert claims(netplan(own_sample(name)), rail=rail(link, address)) == []


@pytest.mark.parametrize("path", [EARLY, LATE])
@pytest.mark.parametrize(
    "entry",
    ["{}", "null", "{optional: true}", "{dhcp4: false, dhcp6: no, link-local: []}", "{mtu: 9000}", "{match: {macaddress: '4C:BB:47:00:00:12'}}"],
)
def test_only_naming_the_link_is_no_claim(entry: str, path: str) -> None:
    assert claims(ethernet(entry, path=path)) == []


def test_an_mtu_counts_where_it_is_read_after_ours() -> None:
    assert claims(ethernet("{mtu: 1500}", path=EARLY)) == []
    assert claims(ethernet("{mtu: 1500}", path=LATE)) == [f"{LATE} is read after our file and gives {F0} the MTU 1500"]
    assert claims(ethernet("{mtu: 1500}", path=LATE), ethernet("{mtu: 9000}", path="/run/netplan/80.yaml")) == []


@pytest.mark.parametrize("path", [EARLY, LATE])
@pytest.mark.parametrize("key", ["dhcp4", "dhcp6"])
def test_dhcp_is_a_claim_wherever_it_stands(key: str, path: str) -> None:
    assert claims(ethernet(f"{{{key}: yes}}", path=path)) == [f"{path} turns on {key} for {F0}"]


def test_of_two_files_of_others_the_later_one_wins() -> None:
    assert claims(ethernet("{dhcp4: true}", path=EARLY), ethernet("{dhcp4: false}", path=LATE)) == []


def test_addresses_of_several_files_add_up() -> None:
    found = claims(ethernet("{addresses: [10.0.0.1/24]}", path=EARLY), ethernet("{addresses: ['10.0.0.2/24': {label: x}]}", path=LATE))
    assert found == [f"{EARLY} gives {F0} the address 10.0.0.1/24", f"{LATE} gives {F0} the address 10.0.0.2/24"]


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (f"bonds: {{bond0: {{interfaces: [{F0}, {P2F0}]}}}}", f"makes {F0} a port of the bond bond0"),
        (f"bridges: {{br0: {{interfaces: [{F0}]}}}}", f"makes {F0} a port of the bridge br0"),
        (f"vrfs: {{blue: {{table: 7, interfaces: [{F0}]}}}}", f"makes {F0} a port of the VRF blue"),
        (f"wifis: {{{F0}: {{}}}}", f"defines {F0} under wifis"),
        (f"ethernets: {{{F0}: {{activation-mode: manual}}}}", f"keeps {F0} down (activation-mode: manual)"),
        (f"ethernets: {{{F0}: {{match: {{name: eth0}}}}}}", f"uses the name {F0} for another interface"),
        (f"ethernets: {{{F0}: {{match: {{macaddress: '{MAC}'}}, set-name: fast0}}}}", f"renames {F0} to fast0"),
        ("ethernets: {fast: {match: {name: 'enp1s0f*'}, mtu: 1500}}", f"configures {F0} as well, under the name fast"),
        (f"ethernets: {{fast: {{match: {{macaddress: '{MAC}'}}}}}}", f"configures {F0} as well, under the name fast"),
        ("ethernets: {all: {match: {}, dhcp4: true}}", f"configures {F0} as well, under the name all"),
        (f"ethernets: {{NM-1: {{renderer: NetworkManager, match: {{name: {F0}}}}}}}", f"configures {F0} as well, under the name NM-1"),
    ],
)
def test_other_ways_to_claim_it(text: str, how: str) -> None:
    assert claims(netplan(f"network: {{version: 2, {text}}}")) == [f"{EARLY} {how}"]


@pytest.mark.parametrize(
    "text",
    [
        "ethernets: {other: {match: {name: 'wl*'}, dhcp4: true}}",
        "ethernets: {other: {match: {macaddress: '00:00:00:00:00:01'}, dhcp4: true}}",
        f"ethernets: {{both: {{match: {{name: {F0}, macaddress: '00:00:00:00:00:01'}}}}}}",
        "ethernets: {NM-2: {renderer: NetworkManager, match: {}, dhcp4: true}}",
        f"vlans: {{rail.7: {{id: 7, link: {F0}, addresses: [10.0.0.1/24]}}}}",
        "bonds: {bond0: {interfaces: [eth0, eth1]}}",
        "ethernets: 3",
    ],
)
def test_what_is_about_somebody_else(text: str) -> None:
    assert claims(netplan(f"network: {{version: 2, {text}}}")) == []


def test_the_order_is_that_of_the_names_and_run_hides_etc() -> None:
    paths = ["/etc/netplan/90-b.yaml", "/usr/lib/netplan/95-c.yaml", "/run/netplan/10-a.yaml", "/etc/netplan/10-a.yaml", "/usr/lib/netplan/90-b.yaml"]
    assert in_order(paths) == ["/run/netplan/10-a.yaml", "/etc/netplan/90-b.yaml", "/usr/lib/netplan/95-c.yaml"]


def test_who_gets_the_link_from_netplan(sample: Any) -> None:
    dell = netplan(sample("netplan/dell_primary_only.txt"))
    assert renderer_of([], F0) == "networkd"
    assert renderer_of([dell], F0) == "NetworkManager"
    assert renderer_of([dell, netplan(own_sample("netplan_oshlabs_40cx7.txt"), LATE)], F0) == "networkd"
    assert renderer_of([dell, ethernet("{renderer: networkd}")], F0) == "networkd"
    assert renderer_of([dell, ethernet("{renderer: networkd}")], F1) == "NetworkManager"


PROFILE = """[connection]
id=有線接続 1
uuid=28f5cd64-0a07-ca54-6d32-f473c2b61e24
type=ethernet
{connection}
[ethernet]
{ethernet}
[ipv4]
method=manual
address1=192.168.100.10/24
"""
KEYFILE = "/etc/NetworkManager/system-connections/rail.nmconnection"


@pytest.mark.parametrize(
    ("connection", "ethernet_", "how"),
    [
        (f"interface-name={F0}", "", f"brings {F0} up as well (ipv4 manual)"),
        ("", f"mac-address={MAC.upper()}", f"brings {F0} up as well (ipv4 manual)"),
        (f"interface-name={F0}\nmaster=bond0\nslave-type=bond", "", f"makes {F0} a port of bond0"),
        (f"[match]\ninterface-name={F0[:6]}*;", "", f"brings {F0} up as well (ipv4 manual)"),
        (f"interface-name={F0}\nautoconnect=false", "", ""),
        ("interface-name=enP7s7", "", ""),
        ("", "", ""),
    ],
)
def test_profiles_of_networkmanager(connection: str, ethernet_: str, how: str) -> None:
    found = profile_claims(KEYFILE, PROFILE.format(connection=connection, ethernet=ethernet_), [LINKS[F0]])
    assert [str(claim) for claim in found] == ([f"{KEYFILE} {how}"] if how else [])


def test_what_is_no_profile_claims_nothing() -> None:
    assert profile_claims(KEYFILE, "no section = at all", [LINKS[F0]]) == []


@pytest.mark.parametrize(
    ("name", "match", "rest", "how"),
    [
        ("05-rail.network", f"Name={F0}", "", "read before the file that netplan makes"),
        ("05-rail.network", "Name=en*", "DHCP=yes", "DHCP=yes"),
        ("05-rail.network", "Type=ether", "DHCP=yes", "DHCP=yes"),
        ("50-rail.network", f"Name={F0}", "Address=10.0.0.1/24", "Address=10.0.0.1/24"),
        ("50-rail.network", f"PermanentMACAddress={MAC}", "Bond=bond0", "Bond=bond0"),
        ("50-rail.network", "Name=en*", "DHCP=yes", ""),
        ("50-rail.network", f"Name={F0}", "DHCP=no", ""),
        ("05-rail.network", f"Name=!{F0} *", "DHCP=yes", ""),
        ("05-rail.network", "Name=host0\nVirtualization=container", "DHCP=yes", ""),
        ("05-rail.network", "Virtualization=container", "DHCP=yes", ""),
        ("05-rail.network", "MACAddress=00:00:00:00:00:01", "DHCP=yes", ""),
    ],
)
def test_files_of_networkd(name: str, match: str, rest: str, how: str) -> None:
    path = f"/etc/systemd/network/{name}"
    found = networkd_claims(path, f"# a comment\n[Match]\n{match}\n\n[Network]\n{rest}\n", [LINKS[F0]])
    assert [str(claim) for claim in found] == ([f"{path} configures {F0} as well ({how})"] if how else [])
