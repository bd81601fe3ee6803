# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.rdma import (
    Adapter,
    parse_gid,
    parse_gid_type,
    parse_ibdev2netdev,
    parse_ibstat,
    parse_ibv_devinfo,
    parse_link_speed,
    parse_rate,
    parse_rdma_link,
    parse_state,
)

NETDEVS = {
    "rocep1s0f0": "enp1s0f0np0",
    "rocep1s0f1": "enp1s0f1np1",
    "roceP2p1s0f0": "enP2p1s0f0np0",
    "roceP2p1s0f1": "enP2p1s0f1np1",
}
FIRMWARE = "28.45.4028"


@pytest.mark.parametrize("name", ["ibdev2netdev_gb10", "ibdev2netdev_p2_first"])
def test_ibdev2netdev_in_any_order(sample: Callable[[str], str], name: str) -> None:
    assert {link.hca: link.netdev for link in parse_ibdev2netdev(sample(f"rdma/{name}.txt"))} == NETDEVS


def test_rdma_link(sample: Callable[[str], str]) -> None:
    links = parse_rdma_link(sample("rdma/rdma_link_gb10.txt"))
    assert {link.hca: link.netdev for link in links} == NETDEVS
    assert [link.state for link in links] == ["ACTIVE", "DOWN", "ACTIVE", "DOWN"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]\n", []),
        ("", []),
        ('[{"ifname":"rocep1s0f1","port":1,"state":"ACTIVE","netdev":"enp1s0f1np1"}]', [("rocep1s0f1", "enp1s0f1np1", "ACTIVE")]),
        ('[{"ifname":"ibp1s0","port":1,"state":"DOWN"}]', [("ibp1s0", None, "DOWN")]),
        ("link mlx5_0/1 subnet_prefix fe80 lid 13 state INIT physical_state LINK_UP\n", [("mlx5_0", None, "INIT")]),
    ],
)
def test_rdma_link_forms(text: str, expected: list[tuple[str, str | None, str]]) -> None:
    assert [(link.hca, link.netdev, link.state) for link in parse_rdma_link(text)] == expected


def test_ibstat_even_when_cut_off(sample: Callable[[str], str]) -> None:
    assert parse_ibstat(sample("rdma/ibstat_dell.txt")) == (
        Adapter("roceP2p1s0f0", FIRMWARE, "ACTIVE", 200.0, None),
        Adapter("roceP2p1s0f1", FIRMWARE, "DOWN", 40.0, None),
        Adapter("rocep1s0f0", FIRMWARE, "ACTIVE", 200.0, None),
        Adapter("rocep1s0f1", FIRMWARE, None, None, None),  # the recording ends before its port
    )


@pytest.mark.parametrize(("name", "function"), [("ibv_devinfo_spark_f1", 1), ("ibv_devinfo_oem_f0", 0)])
def test_ibv_devinfo(sample: Callable[[str], str], name: str, function: int) -> None:
    adapters = {adapter.hca: adapter for adapter in parse_ibv_devinfo(sample(f"rdma/{name}.txt"))}
    assert set(adapters) == set(NETDEVS)
    for hca, adapter in adapters.items():
        up = hca.endswith(str(function))
        assert adapter == Adapter(hca, FIRMWARE, "ACTIVE" if up else "DOWN", None, 4096 if up else 1024)


def test_ibv_devinfo_without_a_device() -> None:
    assert parse_ibv_devinfo("No IB devices found\n") == ()


@pytest.mark.parametrize(
    ("text", "expected"), [("200 Gb/sec (4X HDR)\n", 200), ("40 Gb/sec (4X QDR)", 40), ("100 Gb/sec (2X HDR)", 100), ("2.5 Gb/sec (1X SDR)", 2.5)]
)
def test_rate(text: str, expected: float) -> None:
    assert parse_rate(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("4: ACTIVE\n", "ACTIVE"), ("1: DOWN", "DOWN"), ("5: ACTIVE_DEFER", "ACTIVE_DEFER")])
def test_state(text: str, expected: str) -> None:
    assert parse_state(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:0000:0000:0000:0000:0000:0000:0000\n", None),
        ("fe80:0000:0000:0000:0000:0000:0000:0000\n", None),
        ("0000:0000:0000:0000:0000:ffff:c0a8:640a", ("0000:0000:0000:0000:0000:ffff:c0a8:640a", "192.168.100.10")),
        ("fe80:0000:0000:0000:4ebb:47ff:feec:9413", ("fe80:0000:0000:0000:4ebb:47ff:feec:9413", None)),
    ],
)
def test_gid(text: str, expected: tuple[str, str | None] | None) -> None:
    assert parse_gid(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("32.0 GT/s PCIe\n", 32.0), ("16 GT/s", 16.0), ("2.5 GT/s PCIe", 2.5), ("Unknown\n", None), ("Unknown speed", None)],
)
def test_link_speed(text: str, expected: float | None) -> None:
    assert parse_link_speed(text) == expected


def test_gid_type() -> None:
    assert parse_gid_type("RoCE v2\n") == "RoCE v2"
    assert parse_gid_type("IB/RoCE v1\n") == "RoCE v1"


@pytest.mark.parametrize(
    "parse", [parse_rate, parse_state, parse_link_speed, parse_gid, parse_gid_type, parse_ibdev2netdev, parse_ibstat, parse_ibv_devinfo]
)
def test_nonsense(parse: Callable[[str], object]) -> None:
    with pytest.raises(ParseError):
        parse("segmentation fault")
