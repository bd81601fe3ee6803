# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ip import Address, Route, parse_interfaces, parse_routes


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


@pytest.mark.parametrize("text", ["{}", "1: lo: <LOOPBACK>", '[{"mtu":1}]', "[1]", '[{"ifname":"a","mtu":"x"}]'])
def test_nonsense(text: str) -> None:
    with pytest.raises(ParseError):
        parse_interfaces(text)
