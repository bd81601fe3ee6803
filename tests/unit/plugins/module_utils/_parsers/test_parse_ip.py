# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ip import (
    Address,
    Neighbour,
    Route,
    parse_interfaces,
    parse_neighbours,
    parse_routes,
)


def test_interfaces(sample: Callable[[str], str]) -> None:
    interfaces = {interface.name: interface for interface in parse_interfaces(sample("ip/addr_lab_head.txt"))}
    up, down = interfaces["enp1s0f1np1"], interfaces["enp1s0f0np0"]
    assert (up.operstate, up.mtu, up.carrier) == ("up", 9000, True)
    assert Address("inet", "192.168.200.12", 24, "global") in up.addresses
    assert up.rx_bytes is not None and up.rx_bytes > 0
    assert (down.operstate, down.carrier, down.addresses) == ("down", False, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"ifname":"a","mtu":1500,"flags":["NO-CARRIER","UP"],"operstate":"DOWN"}]', [("a", False, None)]),
        ('[{},{"ifname":"a","mtu":1500,"flags":["UP","LOWER_UP"],"stats64":{"rx":{"bytes":5},"tx":{"bytes":6}}}]', [("a", True, 5)]),
        ("", []),
    ],
)
def test_interface_forms(text: str, expected: list[tuple[str, bool, int | None]]) -> None:
    assert [(entry.name, entry.carrier, entry.rx_bytes) for entry in parse_interfaces(text)] == expected


def test_routes(sample: Callable[[str], str]) -> None:
    routes = parse_routes(sample("ip/route_lab_head.txt"))
    assert Route("default", "172.30.180.2", "enP7s7") in routes
    assert Route("192.168.200.0/24", None, "enp1s0f1np1") in routes


def test_a_multipath_route_has_a_row_for_each_hop() -> None:
    text = '[{"dst":"default","nexthops":[{"gateway":"10.0.0.1","dev":"a","weight":1},{"gateway":"10.0.1.1","dev":"b","weight":1}]}]'
    assert parse_routes(text) == (Route("default", "10.0.0.1", "a"), Route("default", "10.0.1.1", "b"))


def test_what_a_link_is_known_by(sample: Callable[[str], str]) -> None:
    interfaces = {entry.name: entry for entry in parse_interfaces(sample("ip/addr_lab_head.txt"))}
    port = interfaces["enp1s0f1np1"]
    assert port.mac is not None and len(port.mac) == 17
    assert port.ethernet is True
    assert port.errors == {"rx_errors": 0, "tx_errors": 0}
    assert interfaces["lo"].ethernet is False


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            '{"dst":"192.168.200.13","dev":"enp1s0f1np1","lladdr":"4C:BB:47:00:00:01","state":["REACHABLE"]}',
            Neighbour("192.168.200.13", "enp1s0f1np1", "4c:bb:47:00:00:01", "REACHABLE"),
        ),
        # iproute2 6.1.0 leaves out the device that it was asked for.
        ('{"dst":"10.0.0.1","lladdr":"aa:bb:cc:00:11:22","state":["STALE"]}', Neighbour("10.0.0.1", None, "aa:bb:cc:00:11:22", "STALE")),
        ('{"dst":"10.0.0.2","dev":"a","state":["FAILED"]}', Neighbour("10.0.0.2", "a", None, "FAILED")),
        ('{"dst":"10.0.0.3","dev":"a","lladdr":"x","state":[]}', Neighbour("10.0.0.3", "a", None, None)),
    ],
)
def test_neighbours(row: str, expected: Neighbour) -> None:
    assert parse_neighbours(f"[{row},{{}}]") == (expected,)


@pytest.mark.parametrize("text", ["{}", "1: lo: <LOOPBACK>", '[{"mtu":1}]', "[1]", '[{"ifname":"a","mtu":"x"}]'])
def test_nonsense(text: str) -> None:
    with pytest.raises(ParseError):
        parse_interfaces(text)
