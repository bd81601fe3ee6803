# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A netplan file: which interfaces it configures, and with which addresses."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

yaml: Any
try:
    import yaml
except ImportError:  # netplan itself needs it, so it is there where netplan is
    yaml = None

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

KINDS = ("ethernets", "wifis", "bridges", "bonds", "vlans", "tunnels", "modems", "dummy-devices", "virtual-ethernets", "vrfs")
# Of a definition nothing else is read or recorded: access points have passwords beside them.
_KEPT = ("addresses", "dhcp4", "link-local", "match", "set-name", "mtu", "renderer")
_TOO_DEEP = 1000
_ERRORS: tuple[type[Exception], ...] = (ValueError, RecursionError, TypeError, AttributeError, LookupError, OverflowError)
if yaml is not None:
    _ERRORS += (yaml.YAMLError,)


@dataclass(frozen=True)
class Definition:
    """One interface's part of a file."""

    id: str  # the interface's name, unless `match` says which one it is
    match_name: str | None
    match_mac: str | None
    set_name: str | None
    addresses: tuple[str, ...]  # IPv4, without prefix
    dhcp: bool
    link_local: bool  # IPv4
    renderer: str | None

    @property
    def matches(self) -> bool:
        return self.match_name is not None or self.match_mac is not None


@dataclass(frozen=True)
class Netplan:
    renderer: str | None
    definitions: tuple[Definition, ...]


def can_read() -> bool:
    """Whether this Python can read YAML."""
    return yaml is not None


def parse_netplan(text: str) -> Netplan:
    network = _network(text)
    definitions = [_definition(str(name), entry) for kind in KINDS for name, entry in _mapping(network.get(kind)) if isinstance(entry, dict)]
    return Netplan(_text(network.get("renderer")), tuple(definitions))


def reduce_netplan(text: str) -> str:
    """The same file without what no fact is made of, passwords above all; JSON is YAML as well."""
    try:
        network = _network(text)
    except ParseError:
        return "not a netplan file\n"
    reduced: dict[str, Any] = {"renderer": network["renderer"]} if _text(network.get("renderer")) else {}
    for kind in KINDS:
        for name, entry in _mapping(network.get(kind)):
            if isinstance(entry, dict):
                kept = {key: _plain(entry[key]) for key in _KEPT if entry.get(key) is not None}
                reduced.setdefault(kind, {})[str(name)] = kept
    return json.dumps({"network": reduced}) + "\n"


def _plain(value: Any, depth: int = 0) -> Any:
    """As JSON knows it; an address may be a mapping with a label, and its key is what counts."""
    if isinstance(value, dict) and depth < 3:
        return {str(key): _plain(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list) and depth < 3:
        return [_plain(entry, depth + 1) for entry in value]
    return value if isinstance(value, (str, bool, int)) else str(value)


def _network(text: str) -> dict[str, Any]:
    document = _load(text)
    if document is None or document == "":
        return {}
    network = document.get("network", document or None) if isinstance(document, dict) else document
    if network is None or network == "":
        return {}
    if not isinstance(network, dict) or network is document:
        raise ParseError("netplan", text.strip().partition("\n")[0])
    return network


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass  # YAML proper
    # YAML's reader descends once for every bracket.
    if yaml is None or text.count("[") + text.count("{") > _TOO_DEEP:
        raise ParseError("netplan", text.partition("\n")[0])
    try:
        # Every scalar as a string: to YAML 1.1 some MAC addresses are numbers of base 60.
        return yaml.load(text, Loader=yaml.BaseLoader)
    except _ERRORS as error:
        raise ParseError("netplan", text.partition("\n")[0]) from error


def _mapping(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value.items() if isinstance(value, dict) else ())


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _definition(name: str, entry: dict[str, Any]) -> Definition:
    match = entry.get("match")
    match = match if isinstance(match, dict) else {}
    names, link_local = match.get("name"), entry.get("link-local")
    return Definition(
        id=name,
        match_name=" ".join(map(str, names)) if isinstance(names, list) else _text(names),
        match_mac=_lower(match.get("macaddress")),
        set_name=_text(entry.get("set-name")),
        addresses=tuple(_addresses(entry.get("addresses"))),
        dhcp=str(entry.get("dhcp4")).lower() in ("true", "yes", "on", "y"),
        link_local=isinstance(link_local, list) and "ipv4" in link_local,
        renderer=_text(entry.get("renderer")),
    )


def _lower(value: Any) -> str | None:
    text = _text(value)
    return text.lower() if text else None


def _addresses(values: Any) -> Iterator[str]:
    for value in values if isinstance(values, list) else ():
        entry = next(iter(value), "") if isinstance(value, dict) else value
        try:
            interface = ipaddress.ip_interface(str(entry))
        except ValueError:
            continue
        if interface.version == 4:
            yield str(interface.ip)
