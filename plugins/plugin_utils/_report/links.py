# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cages, twins and cables, as far as the ends can tell: what is drawn, and what is said in the drawing's stead."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import listing

from .lines import dig
from .recon import order

Port = Mapping[str, Any]


@dataclass(frozen=True)
class Cage:
    number: int
    ports: tuple[Port, ...]

    @property
    def state(self) -> str:
        """up where any of its functions has a link, down where none has, unknown where none could be read."""
        states = [port_state(port) for port in self.ports]
        return next((state for state in ("up", "down") if state in states), "unknown")


@dataclass(frozen=True)
class Cable:
    """Between two nodes' cages. `certain` is false where only the link itself, and no common subnet or neighbour, says that it is one cable."""

    left: tuple[str, int]
    right: tuple[str, int]
    certain: bool
    label: str
    note: str


def port_state(port: Port) -> str:
    return {True: "up", False: "down"}.get(port.get("carrier"), "unknown")  # type: ignore[arg-type]


def cages(node: Mapping[str, Any] | None) -> list[Cage] | None:
    """Both, whatever is plugged; fewer where the machine shows fewer; None where the ports could not be read."""
    ports = dig(node, "ports")
    if ports is None:
        return None
    numbers = sorted({int(port.get("cage", 0)) for port in ports})
    ordered = sorted(ports, key=lambda port: (port.get("twin", 9), str(port.get("netdev"))))
    return [Cage(number, tuple(port for port in ordered if int(port.get("cage", 0)) == number)) for number in numbers]


def cables(document: Mapping[str, Any]) -> list[Cable]:
    """Between two nodes; how more are joined is said in words (`leads`)."""
    hosts = order(document)
    if len(hosts) != 2:
        return []
    left, right = hosts
    ends = [[cage for cage in cages(document["nodes"].get(host)) or [] if cage.state == "up"] for host in hosts]
    found: list[Cable] = []
    free = list(ends[1])
    rest = []
    for cage in ends[0]:
        peer = next((entry for entry in free if _leads_to(cage, right, entry)), None)
        peer = peer or next((entry for entry in free if _networks(cage) & _networks(entry)), None)
        if peer is None:
            rest.append(cage)
            continue
        free.remove(peer)
        found.append(_cable(left, cage, right, peer, True))
    found += [_cable(left, cage, right, peer, False) for cage, peer in zip(rest, free, strict=False)]
    return found


def _cable(left: str, cage: Cage, right: str, peer: Cage, certain: bool) -> Cable:
    both = [*cage.ports, *peer.ports]
    up = [port for port in both if port.get("carrier")]
    speeds = sorted({port["speed"] for port in up if port.get("speed")})
    # A twin without an address is no rail: its MTU would only confuse.
    rails = [port for port in up if port.get("addresses")] or up
    mtus = sorted({port["mtu"] for port in rails if port.get("mtu")})
    label = " / ".join(f"{speed / 1000:.0f} Gb/s" for speed in speeds) or "speed not known"
    note = f"MTU {' / '.join(str(mtu) for mtu in mtus)}" if mtus else "MTU not known"
    return Cable((left, cage.number), (right, peer.number), certain, label, note)


def _leads_to(cage: Cage, host: str, other: Cage) -> bool:
    """Whether a port of the cage heard of one of the other, or was heard."""
    ends = {f"{host} {port.get('netdev')}" for port in other.ports}
    return any(ends & set(port.get("leads_to") or []) for port in cage.ports)


def _networks(cage: Cage) -> set[str]:
    found = set()
    for port in cage.ports:
        for address in port.get("addresses") or []:
            network = _network(str(address))
            # Every unconfigured port has a link-local address: a common one there says nothing.
            if network and port.get("carrier") and not network.is_link_local:
                found.add(str(network))
    return found


def _network(address: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_interface(address).network
    except ValueError:
        return None


def state_words(port: Port) -> str:
    """up, 200 Gb/s · no link · link not known"""
    state = port_state(port)
    if state == "up":
        return f"up, {port['speed'] / 1000:.0f} Gb/s" if port.get("speed") else "up"
    return {"down": "no link", "unknown": "link not known"}[state]


def speed_words(port: Port) -> str:
    """200 Gb/s · up · no link: short, where a sign says the state too."""
    return f"{port['speed'] / 1000:.0f} Gb/s" if port_state(port) == "up" and port.get("speed") else state_words(port)


def address_words(port: Port) -> str:
    return ", ".join(port.get("addresses") or []) or "no address"


def rows(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """The drawing as a table: a row a function."""
    found = []
    for host in order(document):
        for cage in cages(document["nodes"].get(host)) or []:
            found += [
                {
                    "node": host,
                    "cage": str(cage.number),
                    "twin": str(port.get("twin", "?")),
                    "netdev": str(port.get("netdev", "?")),
                    "hca": str(port.get("hca") or "none"),
                    "link": state_words(port),
                    "address": address_words(port),
                    "mtu": str(port.get("mtu", "not known")),
                }
                for port in cage.ports
            ]
    return found


def _led_to(document: Mapping[str, Any]) -> Iterator[tuple[str, Cage, list[str]]]:
    """Each cage that leads anywhere, as far as anybody heard: its node, and the nodes there."""
    for host in order(document):
        for cage in cages(document["nodes"].get(host)) or []:
            ends = dict.fromkeys(end.partition(" ")[0] for port in cage.ports for end in port.get("leads_to") or [])
            if ends:
                yield host, cage, list(ends)


def leads(document: Mapping[str, Any]) -> list[str]:
    """Which nodes each cage leads to, a clause each."""
    return [f"cage {cage.number} of {host} leads to {listing(ends)}" for host, cage, ends in _led_to(document)]


def shape(document: Mapping[str, Any]) -> str:
    """What joins more than two nodes: a switch · spark-a ↔ spark-b, spark-a ↔ spark-c · a switch, or cables from node to node"""
    found = list(_led_to(document))
    if any(len(ends) > 1 for _host, _cage, ends in found):
        return "a switch"
    pairs = dict.fromkeys(tuple(sorted((host, ends[0]), key=order(document).index)) for host, _cage, ends in found)
    return ", ".join(" ↔ ".join(pair) for pair in pairs) or "a switch, or cables from node to node"


def sentence(document: Mapping[str, Any]) -> str:
    """What the drawing shows, in words."""
    hosts: Sequence[str] = order(document)
    parts = []
    for host in hosts:
        found = cages(document["nodes"].get(host))
        if document["nodes"].get(host) is None:
            parts.append(f"{host} did not answer")
        elif found is None:
            parts.append(f"the ports of {host} could not be read")
        elif not found:
            parts.append(f"{host} shows no ConnectX-7 port, as is normal without a cable")
        else:
            words = {"up": "has a link", "down": "has no link", "unknown": "is not known"}
            parts.append(f"{host}: " + ", ".join(f"cage {cage.number} {words[cage.state]}" for cage in found))
    parts += leads(document) if len(hosts) > 2 else []
    for cable in cables(document):
        sure = "is cabled to" if cable.certain else "is probably cabled to"
        parts.append(f"cage {cable.left[1]} of {cable.left[0]} {sure} cage {cable.right[1]} of {cable.right[0]}, {cable.label}, {cable.note}")
    url = dig(document, "plan.endpoint.url")
    if url:
        parts.append(f"clients reach {dig(document, 'plan.head', 'the head')} at {url}")
    return "; ".join(parts) + "."
