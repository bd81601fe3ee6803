# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others configure: whether a file that is not ours claims one of our links. Pure.

netplan reads all files in the order of their names and merges them: of one link a later file's value replaces an earlier one, lists grow.
So a file that only names the link is no conflict, one before ours whose MTU differs neither, but an address is, wherever it stands.
"""

from __future__ import annotations

import configparser
import fnmatch
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import Rail

OUR_NAME = "60-gb10-fabric.yaml"
NETPLAN_FOLDERS = ("/usr/lib/netplan", "/lib/netplan", "/etc/netplan", "/run/netplan")  # a later one's file hides its namesake
PROFILE_FOLDERS = ("/etc/NetworkManager/system-connections", "/usr/lib/NetworkManager/system-connections")
NETWORKD_FOLDERS = ("/etc/systemd/network", "/run/systemd/network", "/usr/local/lib/systemd/network", "/usr/lib/systemd/network")
_PORTS_OF = {"bonds": "bond", "bridges": "bridge", "vrfs": "VRF"}
_KINDS = ("ethernets", "wifis", "modems", "vlans", "tunnels", "dummy-devices", "virtual-ethernets", "nm-devices", *_PORTS_OF)
_TRUE = ("true", "yes", "on", "y", "1")


@dataclass(frozen=True)
class Link:
    """A network interface as `match` sees it."""

    name: str
    mac: str | None


@dataclass(frozen=True)
class NetplanFile:
    path: str
    network: Mapping[str, Any]

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)


@dataclass(frozen=True)
class Claim:
    """One reason against the change: who claims the link, and how."""

    path: str
    link: str
    how: str

    def __str__(self) -> str:
        return f"{self.path} {self.how.format(self.link)}"


@dataclass(frozen=True)
class Value:
    """One key's value, and the file that it is from."""

    value: Any
    path: str
    later: bool  # than our own file


def in_order(paths: Iterable[str], folders: Sequence[str] = NETPLAN_FOLDERS) -> list[str]:
    """The files that netplan reads, in its order: by name, and of two with the same name the one in the later folder."""
    chosen: dict[str, str] = {}
    for path in sorted(paths, key=lambda path: folders.index(posixpath.dirname(path))):
        chosen[posixpath.basename(path)] = path
    return [chosen[name] for name in sorted(chosen)]


def renderer_of(files: Sequence[NetplanFile], link: str) -> str:
    """Who gets a link from netplan if our own file says nothing about it: its own renderer, its kind's, the global one, networkd."""
    found = "networkd"
    for file in files:
        found = str(file.network.get("renderer") or found)
    for file in files:
        ethernets = file.network.get("ethernets")
        found = str(_entry(ethernets, "renderer") or found) if isinstance(_entry(ethernets, "renderer"), str) else found
    for file in files:
        found = str(_entry(_entry(file.network.get("ethernets"), link), "renderer") or found)
    return found


def _entry(mapping: Any, key: str) -> Any:
    return mapping.get(key) if isinstance(mapping, Mapping) else None


def netplan_claims(files: Sequence[NetplanFile], rails: Iterable[Rail], links: Mapping[str, Link]) -> list[Claim]:
    """Why netplan would not make of our file what it says; `files` are the others, in netplan's order."""
    return [claim for rail in rails for claim in _rail_claims(files, rail, links.get(rail.netdev, Link(rail.netdev, None)))]


def _rail_claims(files: Sequence[NetplanFile], rail: Rail, link: Link) -> Iterator[Claim]:
    merged: dict[str, list[Value]] = {}
    for file in files:
        for kind, name, entry in _definitions(file.network):
            claim = _other_claim(kind, name, entry, link)
            if claim:
                yield Claim(file.path, link.name, claim)
            elif kind == "ethernets" and name == link.name:
                for key, value in entry.items():
                    merged.setdefault(str(key), []).append(Value(value, file.path, file.name > OUR_NAME))
    yield from _merged_claims(merged, rail)


def _definitions(network: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for kind in _KINDS:
        section = network.get(kind)
        for name, entry in section.items() if isinstance(section, Mapping) else ():
            if isinstance(entry, Mapping) or not entry:
                yield kind, str(name), entry or {}


def _other_claim(kind: str, name: str, entry: Mapping[str, Any], link: Link) -> str | None:
    """How a definition that would not merge with ours claims the link."""
    ports = entry.get("interfaces")
    if kind in _PORTS_OF and isinstance(ports, list) and link.name in map(str, ports):
        return f"makes {{}} a port of the {_PORTS_OF[kind]} {name}"
    if name == link.name:
        if kind != "ethernets":
            return f"defines {{}} under {kind}"
        if "match" in entry and not _matches(entry, link):
            return "uses the name {} for another interface"
        if entry.get("set-name") not in (None, "", link.name):
            return f"renames {{}} to {entry['set-name']}"
        return None
    if kind in ("ethernets", "wifis", "nm-devices") and (_matches(entry, link) or entry.get("set-name") == link.name):
        return f"configures {{}} as well, under the name {name}"
    return None


def _matches(entry: Mapping[str, Any], link: Link) -> bool:
    """Whether `match` is true for the link. An empty one of NetworkManager's is a profile for whatever comes, which claims nothing."""
    match = entry.get("match")
    if not isinstance(match, Mapping):
        return False
    if not match:
        return entry.get("renderer") != "NetworkManager"
    names, mac = match.get("name"), match.get("macaddress")
    patterns = names if isinstance(names, list) else str(names).split() if names else ["*"]
    by_name = any(fnmatch.fnmatchcase(link.name, str(pattern)) for pattern in patterns)
    return by_name and (not mac or str(mac).lower() == link.mac)


def _merged_claims(merged: Mapping[str, list[Value]], rail: Rail) -> Iterator[Claim]:
    for value in merged.get("addresses", ()):
        for address in value.value if isinstance(value.value, list) else ():
            given = str(next(iter(address), "") if isinstance(address, Mapping) else address)
            if given != rail.address:
                yield Claim(value.path, rail.netdev, f"gives {{}} the address {given}")
    for key in ("dhcp4", "dhcp6"):
        last = _last(merged, key)
        if last and _true(last.value):
            yield Claim(last.path, rail.netdev, f"turns on {key} for {{}}")
    last = _last(merged, "mtu")
    if last and last.later and str(last.value) != str(rail.mtu):
        yield Claim(last.path, rail.netdev, f"is read after our file and gives {{}} the MTU {last.value}")
    last = _last(merged, "activation-mode")
    if last and last.value in ("manual", "off"):
        yield Claim(last.path, rail.netdev, f"keeps {{}} down (activation-mode: {last.value})")


def _last(merged: Mapping[str, list[Value]], key: str) -> Value | None:
    values = merged.get(key)
    return values[-1] if values else None


def _true(value: Any) -> bool:
    return str(value).lower() in _TRUE


def profile_claims(path: str, text: str, links: Iterable[Link]) -> list[Claim]:
    """Whether one of NetworkManager's own profiles would come up on a link beside netplan's."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",))
    try:
        parser.read_string(text)
    except configparser.Error:
        return []  # NetworkManager does not read it either

    def value(section: str, *names: str) -> str:
        return next((parser.get(section, name) for name in names if parser.has_option(section, name)), "")

    claims = []
    for link in links:
        mac = value("ethernet", "mac-address") or value("802-3-ethernet", "mac-address")
        patterns = [pattern for pattern in value("match", "interface-name").replace(",", ";").split(";") if pattern]
        named = value("connection", "interface-name") == link.name or any(fnmatch.fnmatchcase(link.name, pattern) for pattern in patterns)
        if not named and not (mac and mac.lower() == link.mac):
            continue
        above = value("connection", "controller", "master")
        if above:
            claims.append(Claim(path, link.name, f"makes {{}} a port of {above}"))
        elif value("connection", "autoconnect").lower() not in ("false", "no", "0"):
            claims.append(Claim(path, link.name, f"brings {{}} up as well (ipv4 {value('ipv4', 'method') or 'auto'})"))
    return claims


def networkd_claims(path: str, text: str, links: Iterable[Link]) -> list[Claim]:
    """Whether a .network file of somebody else's keeps netplan's one for a link from being used, or names the link itself.

    networkd uses the first file that matches, by name; a pattern in a later one is a default that netplan's replaces.
    """
    sections = list(_settings(text))
    claims = []
    for link in links:
        first = posixpath.basename(path) < f"10-netplan-{link.name}.network"
        matched = _networkd_match([(key, value) for section, key, value in sections if section == "Match"], link)
        if not matched or (matched == "pattern" and not first):
            continue
        settings = [f"{key}={value}" for section, key, value in sections if section in ("Network", "Address") and _gives(key, value)]
        if first or settings:
            claims.append(Claim(path, link.name, f"configures {{}} as well ({', '.join(settings) or 'read before the file that netplan makes'})"))
    return claims


def _gives(key: str, value: str) -> bool:
    return key in ("Address", "Bond", "Bridge", "VRF") or (key == "DHCP" and value.lower() not in ("no", "false", "none", "0"))


def _settings(text: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif line and line[0] not in "#;" and "=" in line:
            key, _, value = line.partition("=")
            yield section, key.strip(), value.strip()


def _networkd_match(match: Sequence[tuple[str, str]], link: Link) -> str:
    """`name`: the link is meant by its name or address; `pattern`: it is one of those meant; empty: it is not."""
    names = [pattern for key, value in match if key == "Name" for pattern in value.split()]
    macs = [mac.lower().replace("-", ":") for key, value in match if key in ("MACAddress", "PermanentMACAddress") for mac in value.split()]
    others = [key for key, _value in match if key in ("Type", "Driver", "Path", "Property")]
    if macs and link.mac not in macs:
        return ""
    if names:
        refused = [pattern[1:] for pattern in names if pattern.startswith("!")]
        if any(fnmatch.fnmatchcase(link.name, pattern) for pattern in refused):
            return ""
        wanted = [pattern for pattern in names if not pattern.startswith("!")]
        if wanted and not any(fnmatch.fnmatchcase(link.name, pattern) for pattern in wanted):
            return ""
        return "name" if link.name in wanted else "pattern"
    return "name" if macs else "pattern" if others else ""
