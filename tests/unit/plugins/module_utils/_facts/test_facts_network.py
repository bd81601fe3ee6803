# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who looks after an interface, what comes back after a reboot, what filters, what hotplug does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded_node import Answer, answer, facts_from

PORT = "enp1s0f1np1"
MAC = "4c:bb:47:00:00:01"
UUID = "31fdeeec-dd12-4b95-7b73-abb2428ed2e7"
IP, NEIGH = ("ip", "-j", "-s", "addr"), ("ip", "-4", "-j", "neigh")
DEVICES = ("nmcli", "-t", "-f", "DEVICE,STATE,CON-UUID", "device")
CONNECTIONS = ("nmcli", "-t", "-f", "UUID,FILENAME", "connection", "show")
PROFILES = ("nmcli", "-t", "-f", "connection.uuid,ipv4.method,ipv4.addresses", "connection", "show", UUID)
NETWORKD_STATE = ("systemctl", "is-active", "systemd-networkd.service")
NETWORKCTL = ("networkctl", "--json=short", "list")
NO_MANAGER: dict[tuple[str, ...], Answer] = {
    DEVICES: answer(rc=8, stderr="Error: NetworkManager is not running.\n"),
    NETWORKD_STATE: answer("inactive\n", 3),
}
STATIC = f"network: {{renderer: networkd, ethernets: {{{PORT}: {{addresses: [192.168.200.12/24]}}}}}}"


def addresses(*entries: str, **flags: bool) -> Answer:
    row = {
        "ifname": PORT,
        "mtu": 9000,
        "flags": ["UP", "LOWER_UP"],
        "operstate": "UP",
        "link_type": "ether",
        "address": MAC,
        "addr_info": [{"family": "inet", "local": entry, "prefixlen": 24, "scope": "global", **flags} for entry in entries],
    }
    return answer(json.dumps([row]))


def port(commands: dict[tuple[str, ...], Answer], files: dict[str, str | None], address: str = "192.168.200.12", **errors: str) -> dict[str, Any]:
    """What is said of the one port; the address has the flag that managers set unless it ends in /hand."""
    address, _slash, by_hand = address.partition("/")
    facts = facts_from(
        "fabric", {IP: addresses(address, noprefixroute=not by_hand), **commands}, files, **{"__etc__netplan": "Is a directory", **errors}
    )
    (found,) = facts["fabric"]["ports"]
    (interface,) = facts["fabric"]["interfaces"]
    assert {name: found.get(name) for name in ("manager", "persistent", "files")} == {
        name: interface.get(name) for name in ("manager", "persistent", "files")
    }
    return {**found, "netplan": facts["fabric"].get("netplan"), "probes": facts["probes"]}


def networkd(source: str, file: str, state: str = "configured") -> dict[tuple[str, ...], Answer]:
    row = {
        "Name": PORT,
        "AdministrativeState": state,
        "NetworkFile": file,
        "Addresses": [{"Family": 2, "Address": [192, 168, 200, 12], "ConfigSource": source}],
    }
    return {**NO_MANAGER, NETWORKD_STATE: answer("active\n"), NETWORKCTL: answer(json.dumps({"Interfaces": [row]}))}


def network_manager(method: str, file: str, own: str = "", state: str = "connected") -> dict[tuple[str, ...], Answer]:
    return {
        **NO_MANAGER,
        DEVICES: answer(f"{PORT}:{state}:{UUID}\n"),
        CONNECTIONS: answer(f"{UUID}:{file}\n"),
        PROFILES: answer(f"connection.uuid:{UUID}\nipv4.method:{method}\nipv4.addresses:{own}\n"),
    }


def test_an_address_in_a_netplan_file() -> None:
    found = port(NO_MANAGER, {"/etc/netplan/40-cx7.yaml": STATIC})
    assert (found["manager"], found["persistent"], found["files"]) == ("none", True, ["/etc/netplan/40-cx7.yaml"])
    assert found["netplan"] == [{"file": "/etc/netplan/40-cx7.yaml", "renderer": "networkd", "interfaces": [PORT], "readable": True}]


def test_an_address_that_only_lives() -> None:
    found = port(NO_MANAGER, {"/etc/netplan/40-cx7.yaml": STATIC}, address="10.0.0.1")
    assert (found["manager"], found["persistent"]) == ("none", False)


def test_an_address_in_a_file_that_a_reboot_takes_away() -> None:
    assert port(NO_MANAGER, {"/run/netplan/40-cx7.yaml": STATIC})["persistent"] is False


def test_a_netplan_file_for_root_only_leaves_it_open() -> None:
    found = port(NO_MANAGER, {}, **{"__etc__netplan__40-cx7.yaml": "Permission denied"})
    assert "persistent" not in found and "files" not in found
    assert found["netplan"] == [{"file": "/etc/netplan/40-cx7.yaml", "readable": False}]
    assert "only root may read it" in found["probes"]["netplan"]["reason"]


@pytest.mark.parametrize("missing", [DEVICES, NETWORKD_STATE])
def test_a_manager_that_was_not_asked_leaves_it_open(missing: tuple[str, ...]) -> None:
    found = port({argv: entry for argv, entry in NO_MANAGER.items() if argv != missing}, {})
    assert "persistent" not in found and "manager" not in found


@pytest.mark.parametrize(
    ("source", "file", "expected"),
    [
        ("static", "/run/systemd/network/10-netplan-enp1s0f1np1.network", True),
        ("DHCPv4", "/etc/systemd/network/10-rail.network", True),
        ("IPv4LL", "/usr/lib/systemd/network/80-ethernet.network", True),
        ("foreign", "/run/systemd/network/10-netplan-enp1s0f1np1.network", False),
        ("static", "/run/systemd/network/99-by-hand.network", False),
    ],
)
def test_networkd_knows_its_own_addresses(source: str, file: str, expected: bool) -> None:
    """Also where a plain user cannot read netplan's files."""
    found = port(networkd(source, file), {}, **{"__etc__netplan__40-cx7.yaml": "Permission denied"})
    assert (found["manager"], found["persistent"]) == ("networkd", expected)


def test_an_address_by_hand_that_netplan_will_give_too() -> None:
    assert port(networkd("foreign", "/run/systemd/network/10-netplan-x.network"), {"/etc/netplan/1.yaml": STATIC})["persistent"] is True


@pytest.mark.parametrize(
    ("method", "file", "own", "address", "expected"),
    [
        ("manual", "/etc/NetworkManager/system-connections/有線接続 3.nmconnection", "192.168.200.12/24", "192.168.200.12", True),
        ("manual", "/run/NetworkManager/system-connections/netplan-enp1s0f1np1.nmconnection", "192.168.200.12/24", "192.168.200.12", True),
        ("manual", "/run/NetworkManager/system-connections/rail.nmconnection", "192.168.200.12/24", "192.168.200.12", False),
        ("manual", "/etc/NetworkManager/system-connections/rail.nmconnection", "10.0.0.1/24", "192.168.200.12", False),
        ("auto", "/run/NetworkManager/system-connections/Wired connection 1.nmconnection", "", "192.168.1.10", True),
        # The profile waits for DHCP, and somebody has given the address with `ip addr add`.
        ("auto", "/run/NetworkManager/system-connections/Wired connection 2.nmconnection", "", "192.168.100.10/hand", False),
        ("link-local", "/run/NetworkManager/system-connections/netplan-x.nmconnection", "", "169.254.207.1", True),
        ("link-local", "/etc/NetworkManager/system-connections/x.nmconnection", "", "192.168.200.12", False),
    ],
)
def test_profiles_of_network_manager(method: str, file: str, own: str, address: str, expected: bool) -> None:
    found = port(network_manager(method, file, own), {}, address=address)
    assert (found["manager"], found["persistent"]) == ("NetworkManager", expected)


def test_an_interface_that_network_manager_only_watches() -> None:
    commands = network_manager("manual", "/run/NetworkManager/system-connections/x.nmconnection", "192.168.200.12/24", "connected (externally)")
    found = port(commands, {})
    assert (found["manager"], found["persistent"]) == ("none", False)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (f"network: {{ethernets: {{{PORT}: {{dhcp4: true}}}}}}", "192.168.1.10"),
        (f"network: {{ethernets: {{{PORT}: {{link-local: [ipv4]}}}}}}", "169.254.1.2"),
        ("network: {ethernets: {rails: {match: {name: 'enp1s0f*'}, addresses: [10.0.0.1/24]}}}", "10.0.0.1"),
        (f"network: {{ethernets: {{rails: {{match: {{macaddress: '{MAC.upper()}'}}, addresses: [10.0.0.1/24]}}}}}}", "10.0.0.1"),
    ],
)
def test_other_ways_to_say_it_in_netplan(text: str, address: str) -> None:
    found = port(NO_MANAGER, {"/etc/netplan/1.yaml": text}, address=address)
    assert (found["persistent"], found["files"], found["netplan"][0]["interfaces"]) == (True, ["/etc/netplan/1.yaml"], [PORT])


def test_a_match_for_another_interface() -> None:
    text = "network: {ethernets: {rails: {match: {name: 'enP2*'}, addresses: [192.168.200.12/24]}}}"
    found = port(NO_MANAGER, {"/etc/netplan/1.yaml": text})
    assert (found["persistent"], found["files"], found["netplan"][0]["interfaces"]) == (False, [], [])


def test_a_file_that_is_no_yaml() -> None:
    found = port(NO_MANAGER, {"/etc/netplan/1.yaml": "network: [\n"})
    assert "persistent" not in found and "files" not in found
    assert found["netplan"] == [{"file": "/etc/netplan/1.yaml", "readable": True}]
    assert "cannot read" in found["probes"]["netplan"]["reason"]


def test_neighbours_errors_and_lanes() -> None:
    rows = [
        {"dst": "192.168.200.13", "dev": PORT, "lladdr": "4c:bb:47:00:00:02", "state": ["REACHABLE"]},
        {"dst": "192.168.1.1", "dev": "enP7s7", "lladdr": "4c:bb:47:00:00:09", "state": ["STALE"]},
        {"dst": "192.168.200.14", "dev": PORT, "state": ["FAILED"]},
    ]
    net, hca, pci = f"/sys/class/net/{PORT}", "/sys/class/infiniband/rocep1s0f1", "/sys/bus/pci/devices/0000:01:00.1"
    files: dict[str, str | None] = {
        f"{net}/device/uevent": "DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:01:00.1\n",
        f"{net}/uevent": f"INTERFACE={PORT}\nIFINDEX=4\n",
        f"{pci}/current_link_width": "2\n",
        f"{pci}/max_link_width": "4\n",
        f"{pci}/current_link_speed": "32.0 GT/s PCIe\n",
        f"{hca}/device/uevent": "PCI_SLOT_NAME=0000:01:00.1\n",
        f"{hca}/ports/1/counters/symbol_error": "7\n",
        f"{hca}/ports/1/hw_counters/local_ack_timeout_err": "0\n",
    }
    found = port({NEIGH: answer(json.dumps(rows))}, files)
    assert found["neighbours"] == [
        {"address": "192.168.200.13", "mac": "4c:bb:47:00:00:02", "state": "REACHABLE"},
        {"address": "192.168.200.14", "state": "FAILED"},
    ]
    assert found["errors"] == {"symbol_error": 7, "local_ack_timeout_err": 0}
    assert found["pcie"] == {"width": 2, "width_max": 4, "speed": 32.0}
    assert found["mac"] == MAC


@pytest.mark.parametrize(
    ("name", "uevent", "expected"),
    [
        ("wlP9s9", "DEVTYPE=wlan\n", "wireless"),
        ("wlP9s9", None, "wireless"),
        ("br0", "DEVTYPE=bridge\n", "bridge"),
        ("docker0", None, "bridge"),
        ("enP7s7", "INTERFACE=enP7s7\n", "ethernet"),
        ("eth0.5", "DEVTYPE=vlan\n", "other"),
        ("veth12", None, "other"),
    ],
)
def test_kinds_of_interfaces(name: str, uevent: str | None, expected: str) -> None:
    row = json.dumps([{"ifname": name, "mtu": 1500, "link_type": "ether"}])
    files: dict[str, str | None] = {f"/sys/class/net/{name}/uevent": uevent} if uevent else {}
    facts = facts_from("fabric", {IP: answer(row)}, files)
    assert facts["fabric"]["interfaces"][0]["kind"] == expected


UFW, NFT, IPTABLES = "/etc/ufw/ufw.conf", ("nft", "list", "ruleset"), ("iptables", "-S", "INPUT")
ROOT_ONLY = answer(rc=1, stderr="Operation not permitted (you must be root)\nnetlink: Error: cache initialization failed: Operation not permitted\n")
ABSENT = answer(rc=127)
UFW_REFUSES = answer(rc=1, stderr="ERROR: You need to be root to run this script\n")
DROP = "table inet f {\n\tchain input {\n\t\ttype filter hook input priority 0; policy drop;\n\t}\n}\n"


@pytest.mark.parametrize(
    ("commands", "conf", "expected", "reason"),
    [
        (
            {("ufw", "status"): UFW_REFUSES},
            "ENABLED=yes\n",
            {"kind": "ufw", "active": True},
            "",
        ),
        ({("ufw", "status"): answer("Status: inactive\n")}, "ENABLED=yes\n", {"kind": "ufw", "active": False}, ""),
        ({NFT: ROOT_ONLY}, "ENABLED=no\n", {"kind": "ufw", "active": False}, "only root may list the rules"),
        ({NFT: answer(DROP)}, "ENABLED=no\n", {"kind": "nftables", "active": True}, ""),
        # Rules of iptables as nft lists them: a table by its names, which iptables can add to.
        ({NFT: answer(DROP.replace("chain input", "chain INPUT"))}, None, {"kind": "iptables", "active": True}, ""),
        ({NFT: answer(DROP.replace("chain input", "chain INPUT") + DROP)}, None, {"kind": "nftables", "active": True}, ""),
        ({NFT: ROOT_ONLY}, None, {"kind": "nftables"}, "only root may list the rules"),
        ({NFT: answer("")}, None, {"kind": "nftables", "active": False}, ""),
        ({NFT: ABSENT, IPTABLES: answer("-P INPUT DROP\n")}, None, {"kind": "iptables", "active": True}, ""),
        ({NFT: ABSENT, IPTABLES: ABSENT}, None, None, "not found"),
        ({}, None, None, "not in the recording"),
    ],
)
def test_firewalls(commands: dict[tuple[str, ...], Answer], conf: str | None, expected: dict[str, Any] | None, reason: str) -> None:
    facts = facts_from("fabric", {IP: answer("[]"), **commands}, {UFW: conf})
    assert facts["fabric"].get("firewall") == expected
    assert reason in facts["probes"]["firewall"].get("reason", "")


HOTPLUG = "/sys/bus/platform/devices/MTKP0001:00"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {f"{HOTPLUG}/uevent": "DRIVER=x\n", f"{HOTPLUG}/pcie_hotplug/hotplug_enabled": "1\n", f"{HOTPLUG}/pcie_hotplug/debug_state": "0\n"},
            {"platform": True, "enabled": True, "cable": False},
        ),
        ({f"{HOTPLUG}/uevent": "DRIVER=x\n", "/etc/nvidia/cx7-hotplug-enabled": ""}, {"platform": True, "enabled": True}),
        ({f"{HOTPLUG}/uevent": "DRIVER=x\n", "/etc/nvidia/cx7-hotplug-enabled": None}, {"platform": True, "enabled": False}),
        # Without the file the handler leaves the adapter alone, whatever the driver is ready for.
        (
            {f"{HOTPLUG}/uevent": "DRIVER=x\n", f"{HOTPLUG}/pcie_hotplug/hotplug_enabled": "1\n", "/etc/nvidia/cx7-hotplug-enabled": None},
            {"platform": True, "enabled": False},
        ),
        ({f"{HOTPLUG}/uevent": "DRIVER=x\n", f"{HOTPLUG}/pcie_hotplug/hotplug_enabled": "0\n"}, {"platform": True, "enabled": False}),
        ({f"{HOTPLUG}/uevent": "DRIVER=x\n"}, {"platform": True}),
        ({f"{HOTPLUG}/uevent": None}, {"platform": False, "enabled": False}),
        ({}, None),
    ],
)
def test_hotplug(files: dict[str, str | None], expected: dict[str, bool] | None) -> None:
    assert facts_from("fabric", {IP: answer("[]")}, files)["fabric"].get("hotplug") == expected
