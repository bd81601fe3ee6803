# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who looks after an interface, and whether its addresses come back after a reboot: netplan, NetworkManager, networkd"""

from __future__ import annotations

import fnmatch
import ipaddress
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Noted, Probe, Seen, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import NetplanFact, known
from ansible_collections.gb10.cluster.plugins.module_utils._facts.sysfs import VIRTUAL
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ip import Address, Interface
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.netplan import Definition, Netplan, can_read, parse_netplan, reduce_netplan
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.network_manager import (
    CONNECTION_FIELDS,
    DEVICE_FIELDS,
    PROFILE_FIELDS,
    Device,
    Networkd,
    Profile,
    parse_connections,
    parse_devices,
    parse_networkctl,
    parse_profiles,
    reduce_networkctl,
)
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NOT_RECORDED

_FOLDERS = ("/etc/netplan", "/usr/lib/netplan", "/run/netplan")
_NO_YAML = "this Python has no PyYAML (package python3-yaml), so that netplan files cannot be read"
_NOT_RUNNING = 8  # nmcli's exit code


@dataclass(frozen=True)
class NetplanFile:
    path: str
    readable: bool
    plan: Netplan | None  # None: not readable, or not understood


@dataclass(frozen=True)
class Manager:
    """NetworkManager; without devices where it does not run."""

    devices: dict[str, Device] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # UUID to the profile's file
    profiles: dict[str, Profile] = field(default_factory=dict)


def probes() -> tuple[Probe, ...]:
    return (
        probe("netplan", "fabric", _netplan),
        probe("network_manager", "fabric", _network_manager),
        probe("networkd", "fabric", _networkd),
    )


def _netplan(node: Node) -> list[NetplanFile] | Noted:
    """netplan's files are often for root only: they may hold Wi-Fi passwords."""
    if node.exists(_FOLDERS[0]) is None:
        raise Unavailable(f"{_FOLDERS[0]}: {NOT_RECORDED}")
    files, notes = [], []
    for folder in _FOLDERS:
        for path in node.glob(f"{folder}/*.yaml"):
            result = node.file(path, reduce_netplan)
            plan = None
            if result.content is None:
                notes.append(f"{path}: {result.error}; only root may read it")
            else:
                try:
                    plan = parse_netplan(result.content)
                except ParseError as error:
                    notes.append(f"{path}: {error}" if can_read() else _NO_YAML)
            files.append(NetplanFile(path, result.content is not None, plan))
    return Noted(files, "; ".join(dict.fromkeys(notes))) if notes else files


def _network_manager(node: Node) -> Manager:
    try:
        result = node.run("nmcli", "-t", "-f", DEVICE_FIELDS, "device")
    except Unavailable as error:
        if NOT_RECORDED in str(error):
            raise
        return Manager()
    if result.rc == _NOT_RUNNING:
        return Manager()
    if result.rc != 0:
        raise Failed(f"nmcli: {complaint(result)}")
    devices = {device.name: device for device in parse_devices(result.stdout)}
    active = sorted({device.profile for device in devices.values() if device.managed and device.profile})
    if not active:
        return Manager(devices)
    files = parse_connections(node.output("nmcli", "-t", "-f", CONNECTION_FIELDS, "connection", "show"))
    profiles = parse_profiles(node.output("nmcli", "-t", "-f", PROFILE_FIELDS, "connection", "show", *active))
    return Manager(devices, files, profiles)


def _networkd(node: Node) -> dict[str, Networkd]:
    """Asked only while it runs: the question itself could start it."""
    try:
        state = node.run("systemctl", "is-active", "systemd-networkd.service").stdout.strip()
    except Unavailable as error:
        if NOT_RECORDED in str(error):
            raise
        return {}
    if state != "active":
        return {}
    interfaces = parse_networkctl(node.output("networkctl", "--json=short", "list", reduce=reduce_networkctl))
    return {interface.name: interface for interface in interfaces}


def netplan_facts(seen: Seen, interfaces: Iterable[Interface]) -> list[NetplanFact] | None:
    files: list[NetplanFile] | None = seen.get("netplan")
    if files is None:
        return None
    interfaces = tuple(interfaces)
    return [
        known(
            file=file.path,
            renderer=file.plan and file.plan.renderer,
            interfaces=None if file.plan is None else sorted({name for one in file.plan.definitions for name in _names(one, interfaces)}),
            readable=file.readable,
        )
        for file in files
    ]


def _names(definition: Definition, interfaces: Iterable[Interface]) -> set[str]:
    """The interfaces that a definition is for: the one of its name, or those that it matches."""
    if not definition.matches:
        return {definition.id}
    names = {entry.name for entry in interfaces if _matches(definition, entry)}
    return names | ({definition.set_name} if definition.set_name else set())


def _matches(definition: Definition, interface: Interface) -> bool:
    patterns = (definition.match_name or "*").split()
    return any(fnmatch.fnmatchcase(interface.name, pattern) for pattern in patterns) and definition.match_mac in (None, interface.mac)


def manager_of(seen: Seen, name: str) -> str | None:
    """networkd, NetworkManager or none; None where one of them could not be asked."""
    manager: Manager | None = seen.get("network_manager")
    networkd: dict[str, Networkd] | None = seen.get("networkd")
    if networkd is not None and name in networkd and networkd[name].managed:
        return "networkd"
    if manager is not None and name in manager.devices and manager.devices[name].managed:
        return "NetworkManager"
    return None if manager is None or networkd is None else "none"


def files_of(seen: Seen, interface: Interface) -> list[str] | None:
    """netplan's files that name it; None where there are files that could not be read."""
    files: list[NetplanFile] | None = seen.get("netplan")
    if files is None:
        return None
    naming = [file.path for file in files if file.plan and any(interface.name in _names(one, (interface,)) for one in file.plan.definitions)]
    return naming if naming or all(file.plan is not None for file in files) else None


def is_persistent(seen: Seen, interface: Interface, kind: str) -> bool | None:
    """Whether all its IPv4 addresses come back after a reboot. None: nobody could say, or there is none."""
    addresses = [entry for entry in interface.addresses if entry.family == "inet"]
    if not addresses or VIRTUAL.match(interface.name):
        return None
    verdicts = [_comes_back(seen, interface, address) for address in addresses]
    if False in verdicts:
        # Docker and others make their bridges anew, which no configuration tells.
        return False if kind in ("ethernet", "wireless") else None
    return None if None in verdicts else True


def _comes_back(seen: Seen, interface: Interface, address: Address) -> bool | None:
    files: list[NetplanFile] = seen.get("netplan") or []
    local = ipaddress.ip_address(address.address).is_link_local
    definitions = [
        definition
        for file in files
        if file.plan and not file.path.startswith("/run/")
        for definition in file.plan.definitions
        if interface.name in _names(definition, (interface,))
    ]
    if any(address.address in definition.addresses for definition in definitions):
        return True
    said = _manager_says(seen, interface.name, address, local)
    if said is not None:
        return said
    if address.managed and any(definition.link_local if local else definition.dhcp for definition in definitions):
        return True
    # Nobody knows the address. That is a verdict only if everybody could be asked.
    asked = seen.get("network_manager") is not None and seen.get("networkd") is not None and seen.get("netplan") is not None
    return False if asked and manager_of(seen, interface.name) == "none" and all(file.plan is not None for file in files) else None


def _manager_says(seen: Seen, name: str, address: Address, local: bool) -> bool | None:
    """A manager knows which addresses of an interface of its own it has set itself, and from which file."""
    networkd: Networkd | None = (seen.get("networkd") or {}).get(name)
    if networkd is not None and networkd.managed and networkd.file:
        ours = networkd.sources.get(address.address, "foreign").lower() not in ("foreign", "runtime")
        return ours and (not networkd.file.startswith("/run/") or "-netplan-" in posixpath.basename(networkd.file))
    manager: Manager = seen.get("network_manager") or Manager()
    device = manager.devices.get(name)
    if device is None or not device.managed or device.profile not in manager.profiles or device.profile not in manager.files:
        return None
    profile, file = manager.profiles[device.profile], manager.files[device.profile]
    if address.address in profile.addresses:
        return not file.startswith("/run/") or posixpath.basename(file).startswith("netplan-")
    # A profile of its own making (`Wired connection 1`) lies in /run, too, and is made anew at each boot. An address beside it, by hand, is not.
    return address.managed and (profile.method == "auto" or (local and profile.method == "link-local"))
