# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node as a change needs to see it: links, who looks after them, and the files of others. Reads only."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._fabric import document
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.foreign import (
    NETPLAN_FOLDERS,
    NETWORKD_FOLDERS,
    OUR_NAME,
    PROFILE_FOLDERS,
    Claim,
    Link,
    NetplanFile,
    in_order,
    netplan_claims,
    networkd_claims,
    profile_claims,
)
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.journal import write
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import Paths, Rail, Refused
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.plan import NETWORK_MANAGER, NETWORKD, State
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ip import Interface, parse_interfaces
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.network_manager import (
    DEVICE_FIELDS,
    Device,
    parse_devices,
    parse_networkctl,
)
from ansible_collections.gb10.cluster.plugins.module_utils._runner import CommandResult, LiveRunner

COMMAND_SECONDS = 20.0
_UP = 0x1  # IFF_UP in a link's flags


def complaint(result: CommandResult) -> str:
    """What a command said before it failed: its last line that is not a warning about somebody's file mode."""
    lines = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    said = [line for line in lines if "WARNING" not in line and set(line) != {"^"}]
    error = next((line for line in said if "rror" in line), said[-1] if said else "no reason given")
    return error[:300]


@dataclass(frozen=True)
class Managers:
    """Who looks after links: the services that run, and what each says of its own."""

    active: frozenset[str]
    devices: dict[str, Device] = field(default_factory=dict)
    networkd: frozenset[str] = frozenset()  # links that it manages

    def of(self, name: str) -> str:
        if name in self.networkd:
            return NETWORKD
        device = self.devices.get(name)
        return NETWORK_MANAGER if device is not None and device.managed else "none"

    def profile(self, name: str) -> str | None:
        device = self.devices.get(name)
        return device.profile if device is not None and device.managed else None


class Node:
    def __init__(self, runner: LiveRunner, paths: Paths, scratch: str) -> None:
        self.runner = runner
        self.paths = paths
        self.scratch = scratch  # a directory for root alone that goes away with the module

    def run(self, argv: Sequence[str], timeout: float = COMMAND_SECONDS) -> CommandResult:
        """A command that must be there and answer, whatever it says."""
        try:
            return self.runner.command(argv, timeout)
        except (Unavailable, TimedOut, Failed) as error:
            raise Refused(f"{error}, and without {argv[0]} the rails cannot be looked after.") from error

    def output(self, argv: Sequence[str]) -> str:
        result = self.run(argv)
        if result.rc != 0:
            raise Refused(f"{' '.join(argv)} failed: {complaint(result)}.")
        return result.stdout

    def interfaces(self) -> dict[str, Interface]:
        try:
            return {interface.name: interface for interface in parse_interfaces(self.output(["ip", "-j", "address"]))}
        except ParseError as error:
            raise Refused(f"{error}.") from error

    def managers(self) -> Managers:
        lines = self.run(["systemctl", "is-active", "systemd-networkd.service", "NetworkManager.service"]).stdout.split()
        if len(lines) != 2:
            raise Refused("systemctl does not answer, and without systemd there would be no way back: nothing was changed.")
        active = frozenset(name for name, line in zip((NETWORKD, NETWORK_MANAGER), lines) if line == "active")
        try:
            devices = parse_devices(self.output(["nmcli", "-t", "-f", DEVICE_FIELDS, "device"])) if NETWORK_MANAGER in active else ()
            links = parse_networkctl(self.output(["networkctl", "--json=short", "list"])) if NETWORKD in active else ()
        except ParseError as error:
            raise Refused(f"{error}.") from error
        return Managers(active, {device.name: device for device in devices}, frozenset(link.name for link in links if link.managed))

    def states(self, names: Iterable[str], managers: Managers | None = None, interfaces: Mapping[str, Interface] | None = None) -> dict[str, State]:
        """Those of the links that are there."""
        interfaces = self.interfaces() if interfaces is None else interfaces
        return {name: self._state(interfaces[name], managers) for name in names if name in interfaces}

    def _state(self, interface: Interface, managers: Managers | None) -> State:
        flags = self.runner.file(f"{self.paths.base}/sys/class/net/{interface.name}/flags").content or "0"
        mode = (self.runner.file(f"{self.paths.base}/proc/sys/net/ipv6/conf/{interface.name}/addr_gen_mode").content or "").strip()
        globals_ = [entry for entry in interface.addresses if entry.scope == "global"]
        return State(
            name=interface.name,
            up=bool(int(flags, 16) & _UP),
            mtu=interface.mtu,
            addresses=tuple(f"{entry.address}/{entry.prefix}" for entry in globals_),
            by_hand=tuple(f"{entry.address}/{entry.prefix}" for entry in globals_ if not entry.managed),
            carrier=interface.carrier,
            manager=managers.of(interface.name) if managers else "none",
            profile=managers.profile(interface.name) if managers else None,
            addr_gen_mode=int(mode) if mode.isdecimal() else None,
        )

    def above(self, name: str) -> list[str]:
        """The interfaces that are made of this one: bonds, bridges, VLANs."""
        return [posixpath.basename(path)[len("upper_") :] for path in self.runner.glob(f"{self.paths.base}/sys/class/net/{name}/upper_*")]

    def netplan_files(self) -> list[NetplanFile]:
        """The files of others, in netplan's order."""
        ours = f"/etc/netplan/{OUR_NAME}"
        base = len(self.paths.base)
        found = [path[base:] for folder in NETPLAN_FOLDERS for path in self.runner.glob(f"{self.paths.base}{folder}/*.yaml")]
        if f"/run/netplan/{OUR_NAME}" in found:
            raise Refused(f"/run/netplan/{OUR_NAME} would hide our own file of the same name: remove it and run again.")
        return [self._netplan_file(path) for path in in_order(found) if path != ours and posixpath.basename(path) != OUR_NAME]

    def _netplan_file(self, path: str) -> NetplanFile:
        text = self._text(path)
        try:
            if document.yaml is not None:
                return NetplanFile(path, document.parse_netplan(text))
            return NetplanFile(path, document.network_of(document.parse_blocks(self._printed(path, text))))
        except (ParseError, ValueError, AttributeError) as error:
            raise Refused(f"{path} cannot be read ({error}), so nobody knows whose links it claims: mend it and run again.") from error

    def _printed(self, path: str, text: str) -> str:
        """A file as netplan itself prints it: this Python has no PyYAML, the one that netplan runs with does."""
        folder = os.path.join(self.scratch, "one", "etc", "netplan")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        copy = os.path.join(folder, "one.yaml")
        write(copy, text, 0o600)
        result = self.run(["netplan", "get", "--root-dir", os.path.join(self.scratch, "one"), "all"])
        if result.rc != 0:
            said = complaint(result).replace(copy, path)
            raise Refused(f"{path} cannot be read: Ansible's Python here has no PyYAML, and netplan says {said}. Install python3-yaml.")
        return result.stdout

    def _text(self, path: str) -> str:
        result = self.runner.file(f"{self.paths.base}{path}")
        if result.content is None:
            raise Refused(f"{path}: {result.error}, so nobody knows whose links it claims.")
        return result.content

    def claims(self, files: Sequence[NetplanFile], rails: Sequence[Rail], managers: Managers) -> list[Claim]:
        """Everything of others that speaks against these rails."""
        interfaces = self.interfaces()
        links = {rail.netdev: Link(rail.netdev, interfaces[rail.netdev].mac if rail.netdev in interfaces else None) for rail in rails}
        found = netplan_claims(files, rails, links)
        if NETWORK_MANAGER in managers.active:
            for path in self._paths(PROFILE_FOLDERS, "*"):
                found += profile_claims(path, self._text(path), links.values())
        if NETWORKD in managers.active:
            for path in self._paths(NETWORKD_FOLDERS, "*.network"):
                if not posixpath.basename(path).startswith("10-netplan-"):
                    found += networkd_claims(path, self._text(path), links.values())
        return found

    def _paths(self, folders: Sequence[str], pattern: str) -> list[str]:
        base = len(self.paths.base)
        return [path[base:] for folder in folders for path in self.runner.glob(f"{self.paths.base}{folder}/{pattern}") if os.path.isfile(path)]

    def rehearse(self, new: str | None) -> str:
        """What netplan says against the files as they would be; empty if nothing. Done in a copy."""
        root = os.path.join(self.scratch, "all")
        for folder in NETPLAN_FOLDERS:
            os.makedirs(f"{root}{folder}", mode=0o700, exist_ok=True)
        base = len(self.paths.base)
        for path in [path[base:] for folder in NETPLAN_FOLDERS for path in self.runner.glob(f"{self.paths.base}{folder}/*.yaml")]:
            write(f"{root}{path}", self._text(path), 0o600)
        ours = f"{root}/etc/netplan/{OUR_NAME}"
        if new is not None:
            write(ours, new, 0o600)
        elif os.path.exists(ours):
            os.unlink(ours)
        result = self.run(["netplan", "generate", "--root-dir", root])
        return "" if result.rc == 0 else complaint(result).replace(root, "")
