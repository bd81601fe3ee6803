# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who we are: id, getent (passwd, group, ahostsv4), SSH_CONNECTION, ssh host keys."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_ID = re.compile(
    r"^uid=(?P<uid>[0-9]{1,20})(?:\((?P<user>[^)]*)\))? gid=(?P<gid>[0-9]{1,20})(?:\([^)]*\))?(?: groups=(?P<groups>\S.*?))?(?: context=\S+)?$"
)
_GROUP = re.compile(r"^[0-9]+(?:\((?P<name>[^)]*)\))?$")
_GROUP_NAME = re.compile(r"^[\w.-]+\$?$")
_HOST_KEY = re.compile(r"^(?P<type>(?:ssh|ecdsa|sk)-[\w@.-]+) (?P<key>[A-Za-z0-9+/]+={0,3})(?: .*)?$")


@dataclass(frozen=True)
class Identity:
    uid: int
    gid: int
    user: str | None
    groups: tuple[str, ...]  # names, sorted


@dataclass(frozen=True)
class Session:
    """An SSH session as the node sees it."""

    peer: str
    address: str


@dataclass(frozen=True)
class HostKey:
    type: str
    key: str


def parse_id(text: str) -> Identity:
    match = _ID.match(text.strip())
    if match is None:
        raise ParseError("id", text)
    names = []
    for entry in (match.group("groups") or "").split(","):
        group = _GROUP.match(entry) if entry else None
        if entry and group is None:
            raise ParseError("id", text)
        if group is not None and group.group("name"):
            names.append(group.group("name"))
    return Identity(int(match.group("uid")), int(match.group("gid")), match.group("user") or None, tuple(sorted(names)))


def parse_passwd_home(text: str) -> str:
    """`getent passwd NAME`: the home directory"""
    fields = text.strip().split(":")
    if len(fields) != 7 or not fields[5].startswith("/"):
        raise ParseError("getent passwd", text)
    return fields[5]


def parse_group(text: str) -> tuple[str, ...]:
    """`getent group NAME`: its members"""
    fields = text.strip().split(":")
    if len(fields) != 4 or not _GROUP_NAME.match(fields[0]) or not fields[2].isdigit():
        raise ParseError("getent group", text)
    return tuple(name.strip() for name in fields[3].split(",") if name.strip())


def parse_ahosts(text: str) -> tuple[str, ...]:
    """`getent ahostsv4 NAME`: the addresses, each once, best first; there is a line for every kind of socket"""
    addresses: dict[str, None] = {}
    for line in text.splitlines():
        fields = line.split()
        if not fields:
            continue
        try:
            addresses[str(ipaddress.IPv4Address(fields[0]))] = None
        except ValueError as error:
            raise ParseError("getent ahostsv4", line) from error
    return tuple(addresses)


def parse_session(text: str) -> Session:
    """SSH_CONNECTION: client address, client port, server address, server port"""
    fields = text.split()
    if len(fields) != 4:
        raise ParseError("SSH_CONNECTION", text)
    return Session(peer=_address(fields[0], text), address=_address(fields[2], text))


def _address(text: str, line: str) -> str:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError as error:
        raise ParseError("SSH_CONNECTION", line) from error
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def parse_host_key(text: str) -> HostKey:
    """/etc/ssh/ssh_host_*_key.pub"""
    match = _HOST_KEY.match(text.strip())
    if match is None:
        raise ParseError("ssh host key", text)
    return HostKey(match.group("type"), match.group("key"))
