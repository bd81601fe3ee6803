# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every address scheme and every cabling that people have shown is planned as it should be, from what their machines printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Interface
from textwrap import dedent
from typing import Any

import pytest
from builders import Plan
from iproute2_text import Row, read_brief_addresses, read_brief_links, read_ip, read_rdma_link
from scheme_machine import FIXTURES, Spark, printed, text_of
from schemes import Scheme, has, ibdev2netdev, netplan, nmcli, shown
from schemes_cages import CAGES
from schemes_cluster import CLUSTER
from schemes_pair import PAIR

SCHEMES = {scheme.name: scheme for scheme in (*PAIR, *CAGES, *CLUSTER)}


def rows() -> Iterator[Any]:
    """The table, once with what ports have heard and once without, where the row does not say which."""
    for scheme in SCHEMES.values():
        for heard in (False, True) if scheme.heard is None and scheme.wires else (bool(scheme.heard),):
            also = f", {'heard' if heard else 'unheard'}" if scheme.heard is None and scheme.wires else ""
            yield pytest.param(scheme, heard, id=f"{scheme.name}{also}")


@pytest.mark.parametrize(("scheme", "heard"), list(rows()))
def test_the_plan_of_a_scheme(scheme: Scheme, heard: bool) -> None:
    planned = scheme.planned(scheme.machines(heard), scheme.consent)
    assert shown(planned) == dedent(scheme.plan).strip()
    assert_ends_fit(planned)


def assert_ends_fit(planned: Plan) -> None:
    """The ends of a rail are in one subnet, know each other, and are at the same place of every rank's list of HCAs."""
    ends: dict[int, dict[str, Row]] = {}
    for name, node in planned["nodes"].items():
        for rail in node["rails"]:
            ends.setdefault(rail["number"], {})[name] = rail
        if node["rails"]:
            assert node["environment"]["NCCL_IB_HCA"] == "=" + ",".join(rail["hca"] for rail in node["rails"])
    for of_rail in ends.values():
        assert len({IPv4Interface(f"{rail['address']}/{rail['prefix']}").network for rail in of_rail.values()}) == 1
        assert len({rail["mtu"] for rail in of_rail.values()}) == 1
        for name, rail in of_rail.items():
            assert rail["peers"] == [{"node": other, "address": far["address"]} for other, far in of_rail.items() if other != name]
    addresses = [rail["address"] for of_rail in ends.values() for rail in of_rail.values()]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("scheme", [pytest.param(each, id=each.name) for each in SCHEMES.values() if " configure" in each.plan])
def test_what_was_configured_is_adopted_by_the_next_run(scheme: Scheme) -> None:
    machines = scheme.machines(bool(scheme.heard))
    first = scheme.planned(machines, consent=True)
    for name, node in first["nodes"].items():
        for rail in node["rails"]:
            if rail["action"] == "configure":
                machines[name].give(rail["netdev"], f"{rail['address']}/{rail['prefix']}")
                machines[name].rows[rail["netdev"]]["mtu"] = rail["mtu"]
    second = scheme.planned(machines, consent=False)
    for name, node in first["nodes"].items():
        assert second["nodes"][name]["rails"] == [{**rail, "action": "adopt"} for rail in node["rails"]]
        assert second["nodes"][name]["environment"] == node["environment"]


def joined(planned: Plan) -> set[frozenset[tuple[str, str]]]:
    """Which ports make a rail, whatever its number."""
    found: dict[int, set[tuple[str, str]]] = {}
    for name, node in planned["nodes"].items():
        for rail in node["rails"]:
            found.setdefault(rail["number"], set()).add((name, rail["netdev"]))
    return {frozenset(ends) for ends in found.values()}


@pytest.mark.parametrize(
    "scheme",
    [pytest.param(each, id=each.name) for each in SCHEMES.values() if " adopt" in each.plan and " configure" not in each.plan],
)
def test_another_order_of_ranks_joins_the_same_ports(scheme: Scheme) -> None:
    machines = scheme.machines(bool(scheme.heard))
    planned = scheme.planned(dict(reversed(machines.items())), scheme.consent)
    assert joined(planned) == joined(scheme.planned(machines, scheme.consent))
    assert_ends_fit(planned)


@pytest.mark.parametrize(
    ("name", "log", "ranks"),
    [
        ("different cages, link-local on one function, with consent", "log_asymmetric_ports", "ab"),
        ("two /29 with networkd, MTU 9000", "log_ib_plugin", "a"),
    ],
)
def test_hcas_are_those_that_nccl_used_on_these_machines(name: str, log: str, ranks: str) -> None:
    scheme = SCHEMES[name]
    nodes = scheme.planned(scheme.machines(heard=False), scheme.consent)["nodes"]
    lines = re.findall(r"NET/IB : Using (.*) \[RO\](?:; OOB (\S+):([\d.]+)<0>)?", text_of(f"nccl/{log}.txt"))
    for rank, (used, interface, address) in zip(ranks, lines, strict=True):
        environment = nodes[rank]["environment"]
        assert environment["NCCL_IB_HCA"] == "=" + ",".join(re.findall(r"\[\d\](\w+):1/RoCE", used))
        assert not interface or (environment["NCCL_SOCKET_IFNAME"], environment["VLLM_HOST_IP"]) == (interface, address)


def test_a_ring_of_link_local_addresses_is_not_one_wire() -> None:
    """The playbook's netplan file for two, on the three machines of its ring. No rail has an end at all of them."""
    links = ibdev2netdev(printed("playbook_ring.txt", "ibdev2netdev"))
    both_cages = netplan(printed("playbook_linklocal.txt", "cat /etc/netplan/40-cx7.yaml"))
    nodes = tuple((links, both_cages, has("enp1s0f0np0", f"169.254.10.{i}/16"), has("enp1s0f1np1", f"169.254.20.{i}/16")) for i in (1, 2, 3))
    scheme = Scheme("ring, link-local", "playbook_ring, playbook_linklocal; the addresses are made up", nodes, "", "a0-b1 b0-c1 c0-a1")
    planned = scheme.planned(scheme.machines(heard=True), consent=False)
    assert planned["topology"] == "ring"
    assert {finding["id"] for finding in planned["findings"] if finding["severity"] == "block"} >= {"fabric.ring_subnet"}


def test_profiles_are_named_in_the_language_of_the_machine() -> None:
    spark = Spark(0)
    nmcli(printed("nmcli_localised.txt", "nmcli con show", "spark-aa15"))(spark)
    fabric = spark.facts()["fabric"]
    managers = {row["name"]: row.get("manager") for row in fabric["interfaces"]}
    assert (managers["enP7s7"], managers["wlP9s9"]) == ("NetworkManager", "NetworkManager")
    assert managers["docker0"] != "NetworkManager"
    assert next(row for row in fabric["interfaces"] if row["name"] == "wlP9s9")["persistent"] is True


def test_every_fixture_has_a_row_and_says_where_it_is_from() -> None:
    told = " ".join(scheme.provenance for scheme in SCHEMES.values())
    for path in (FIXTURES / "schemes").iterdir():
        assert text_of(f"schemes/{path.name}")
        assert path.stem in told or path.stem in ("iproute2_6.1.0", "nmcli_localised"), path.name
    assert all(scheme.provenance for scheme in SCHEMES.values())


def by_name(rows: list[Row]) -> dict[str, Row]:
    return {row["ifname"]: row for row in rows}


def test_text_becomes_what_iproute2_prints_as_json() -> None:
    expected = by_name(json.loads(printed("iproute2_6.1.0.txt", "ip -j -s addr")))
    addresses, links = (by_name(read_ip(printed("iproute2_6.1.0.txt", command))) for command in ("ip addr", "ip -s link"))
    assert {name: {**row, "stats64": links[name]["stats64"]} for name, row in addresses.items()} == expected
    brief = by_name(read_brief_addresses(printed("iproute2_6.1.0.txt", "ip -br addr")))
    assert {name: without(row["addr_info"]) for name, row in brief.items()} == {name: without(row["addr_info"]) for name, row in expected.items()}
    for name, row in by_name(read_brief_links(printed("iproute2_6.1.0.txt", "ip -br link"))).items():
        assert row == {key: expected[name][key] for key in ("ifname", "operstate", "address", "flags")}


def without(addresses: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the short form says of addresses, and their scope, which it leaves out."""
    return [{key: row[key] for key in ("family", "local", "prefixlen", "scope", "metric") if key in row} for row in addresses]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_ip, "2: a: <UP> mtu 1500\n    vlan protocol 802.1Q\n"),
        (read_ip, "2: a: <UP> mtu 1500\n    inet 10.0.0.1/24 scope global home a\n"),
        (read_ip, "    inet 10.0.0.1/24 scope global a\n"),
        (read_brief_addresses, "a  UP  10.0.0.1/33\n"),
        (read_brief_links, "a  UP  <UP>\n"),
        (read_brief_links, "a is up\n"),
        (read_rdma_link, "link a/1 state ACTIVE netdev b\n"),
    ],
)
def test_nothing_of_a_sample_is_passed_over(read: Any, text: str) -> None:
    with pytest.raises(ValueError):
        read(text)
