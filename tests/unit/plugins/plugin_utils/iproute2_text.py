# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""What iproute2 prints for people, turned into the rows that it prints with -j, as iproute2 6.1.0 does.

People paste the text form, and the collector asks for JSON. So a fixture stays what a machine printed, and the collector reads it all the same.
A line or a word that is not known here is an error: nothing of a sample is passed over in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_interface
from typing import Any

Row = dict[str, Any]

FOREVER = 2**32 - 1
_LINK = re.compile(r"^(?P<ifindex>\d+): (?P<ifname>[^\s:@]+)(?:@(?P<peer>\S+))?: <(?P<flags>[A-Z_,-]+)> (?P<rest>.+)$")
_LINK_WORDS = {"qdisc": "qdisc", "master": "master", "state": "operstate", "mode": "linkmode", "group": "group"}
_ADDRESS_FLAGS = ("dynamic", "noprefixroute", "tentative", "deprecated", "temporary", "secondary", "mngtmpaddr")
_BRIEF = re.compile(r"^(?P<ifname>\S+)\s+(?P<operstate>UP|DOWN|UNKNOWN)(?:\s+(?P<rest>\S.*?))?\s*$")
#: Columns of `ip -s`, by the names they have in JSON.
_COUNTERS = {"missed": "over_errors", "mcast": "multicast", "carrier": "carrier_errors", "collsns": "collisions"}


def read_ip(text: str) -> list[Row]:
    """`ip addr`, `ip addr show DEV`, `ip link`, with or without -s."""
    rows: list[Row] = []
    lines = iter(text.splitlines())
    for line in filter(str.strip, lines):
        if match := _LINK.match(line):
            rows.append(_link(match))
        elif rows and line.startswith(" "):
            _detail(rows[-1], line, lines)
        else:
            raise ValueError(f"not a line of `ip`: {line!r}")
    return rows


def _link(match: re.Match[str]) -> Row:
    words = match["rest"].split()
    row: Row = {"ifindex": int(match["ifindex"]), "ifname": match["ifname"], "flags": match["flags"].split(",")}
    if match["peer"]:
        other = re.match(r"^if(\d+)$", match["peer"])
        row |= {"link_index": int(other[1])} if other else {"link": match["peer"]}
    for word, value in zip(words[::2], words[1::2], strict=True):
        if word in ("mtu", "qlen"):
            row["txqlen" if word == "qlen" else word] = int(value)
        else:
            row[_LINK_WORDS[word]] = value
    return {**row, "addr_info": []}


def _detail(row: Row, line: str, lines: Iterator[str]) -> None:
    word, *rest = line.split()
    if word.startswith("link/"):
        row |= {"link_type": word.partition("/")[2], "address": rest[0], "broadcast": rest[2]}
        if rest[3:]:
            row["link_netnsid"] = int(_only(rest[3:], "link-netnsid"))
    elif word == "altname":
        row.setdefault("altnames", []).extend(rest)
    elif word in ("inet", "inet6"):
        row["addr_info"].append(_address(word, rest))
    elif word == "valid_lft":
        row["addr_info"][-1] |= {"valid_life_time": _seconds(rest[0]), "preferred_life_time": _seconds(_only(rest[1:], "preferred_lft"))}
    elif word in ("RX:", "TX:"):
        counts = zip(rest, next(lines).split(), strict=True)
        row.setdefault("stats64", {})[word[:2].lower()] = {_COUNTERS.get(name, name): int(count) for name, count in counts}
    else:
        raise ValueError(f"not a line of `ip`: {line!r}")


def _only(words: list[str], name: str) -> str:
    """The value of the one setting that may stand here."""
    if len(words) != 2 or words[0] != name:
        raise ValueError(f"not {name}: {words}")
    return words[1]


def _seconds(text: str) -> int:
    return FOREVER if text == "forever" else int(text.removesuffix("sec"))


def _address(family: str, words: list[str]) -> Row:
    local, _slash, prefix = words[0].partition("/")
    row: Row = {"family": family, "local": local, "prefixlen": int(prefix)}
    rest = words[1:]
    while rest and rest[0] in ("metric", "brd", "scope"):
        name, value = rest[0], rest[1]
        row["broadcast" if name == "brd" else name] = int(value) if name == "metric" else value
        rest = rest[2:]
    while rest and rest[0] in _ADDRESS_FLAGS:
        row[rest.pop(0)] = True
    if len(rest) != (family == "inet"):
        raise ValueError(f"not an address of `ip`: {words}")
    return {**row, "label": rest[0]} if rest else row


def read_brief_addresses(text: str) -> list[Row]:
    """`ip -br addr`. It leaves scopes out: link for link-local ones, host for the loopback, global for others."""
    rows = []
    for match in _brief(text):
        words = (match["rest"] or "").split()
        found: list[Row] = []
        while words:
            word = words.pop(0)
            if word == "metric":
                found[-1]["metric"] = int(words.pop(0))
            else:
                found.append(address_row(word))
        rows.append({"ifname": match["ifname"], "operstate": match["operstate"], "addr_info": found})
    return rows


def read_brief_links(text: str) -> list[Row]:
    """`ip -br link`. Some cut its last column off, then the state says whether there is a link. An owner's redacted MAC is not known."""
    rows = []
    for match in _brief(text):
        mac, _blank, flags = (match["rest"] or "").partition(" ")
        row: Row = {"ifname": match["ifname"], "operstate": match["operstate"]}
        if re.match(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$", mac):
            row["address"] = mac
        elif mac != "<redacted-mac>":
            raise ValueError(f"not a line of `ip -br link`: {match[0]!r}")
        if flags:
            row["flags"] = flags.strip().strip("<>").split(",")
        rows.append(row)
    return rows


def _brief(text: str) -> Iterator[re.Match[str]]:
    for line in filter(str.strip, text.splitlines()):
        match = _BRIEF.match(line)
        if match is None:
            raise ValueError(f"not a line of `ip -br`: {line!r}")
        yield match


def read_rdma_link(text: str) -> list[Row]:
    """`rdma link`, without the numbers that it leaves out."""
    rows = []
    for line in filter(str.strip, text.splitlines()):
        words = line.split()
        if words[0] != "link" or words[2::2] != ["state", "physical_state", "netdev"]:
            raise ValueError(f"not a line of `rdma link`: {line!r}")
        name, _slash, port = words[1].partition("/")
        rows.append({"ifname": name, "port": int(port), **dict(zip(words[2::2], words[3::2], strict=True))})
    return rows


def address_row(text: str) -> Row:
    """An address with its prefix as a row of `addr_info`, with the scope that it has unless somebody gives it another."""
    address = ip_interface(text)
    scope = "link" if address.is_link_local else "host" if address.is_loopback else "global"
    return {"family": "inet" if address.version == 4 else "inet6", "local": str(address.ip), "prefixlen": address.network.prefixlen, "scope": scope}
