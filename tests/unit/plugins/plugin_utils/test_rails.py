# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails: adopted as they are, configured only by consent, never over what somebody uses."""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv4Network
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan.addressing import free_subnet
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan.rails import plan_fabric, read_ports
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules.context import Node
from builders import HEAD, WORKER, Facts, cabled, ids, plan, port, row, spark, twin, worker
from hypothesis import given, settings
from hypothesis import strategies as st

CONSENT = {"consent": ["network"]}


def pair(first: list[Facts], second: list[Facts]) -> dict[str, Facts | None]:
    """Two Sparks with these ports."""
    facts = twin()
    for name, ports in ((HEAD, first), (WORKER, second)):
        facts[name]["fabric"]["ports"] = ports  # type: ignore[index]
    return facts


def rails(made: dict[str, Any]) -> dict[str, list[tuple[str, str, int, str]]]:
    """Per node the rails' netdev, address, MTU and action."""
    return {
        name: [(rail["netdev"], f"{rail['address']}/{rail['prefix']}", rail["mtu"], rail["action"]) for rail in node["rails"]]
        for name, node in made["nodes"].items()
    }


def test_a_fabric_that_works_is_adopted_as_it_is() -> None:
    for options in ({}, CONSENT):
        assert rails(plan(twin(), **options)) == {
            HEAD: [("enp1s0f1np1", "192.168.200.12/24", 9000, "adopt"), ("enP2p1s0f1np1", "192.168.201.12/24", 9000, "adopt")],
            WORKER: [("enp1s0f1np1", "192.168.200.13/24", 9000, "adopt"), ("enP2p1s0f1np1", "192.168.201.13/24", 9000, "adopt")],
        }


def test_cables_in_different_cages() -> None:
    made = plan(pair(cabled(12, cage=1), cabled(13, cage=0)))
    assert [rail["hca"] for rail in made["nodes"][WORKER]["rails"]] == ["rocep1s0f0", "roceP2p1s0f0"]
    assert made["ok"]


def test_twins_joined_crosswise_are_matched_by_their_subnet() -> None:
    made = plan(pair(cabled(12), cabled(13, first="192.168.201.13", second="192.168.200.13")))
    assert [rail[1] for rail in rails(made)[WORKER]] == ["192.168.200.13/24", "192.168.201.13/24"]
    assert made["nodes"][WORKER]["environment"]["NCCL_IB_HCA"] == "=roceP2p1s0f1,rocep1s0f1"


def test_both_cages_cabled_make_four_rails() -> None:
    def four(number: int) -> list[Facts]:
        return [port(cage, twin_, f"10.{cage}.{twin_}.{number}") for cage in (0, 1) for twin_ in (0, 1)]

    made = plan(pair(four(12), four(13)))
    assert [rail[1] for rail in rails(made)[HEAD]] == ["10.0.0.12/24", "10.0.1.12/24", "10.1.0.12/24", "10.1.1.12/24"]


def test_a_port_to_somewhere_else_is_no_rail() -> None:
    made = plan(pair([*cabled(12)[:2], port(0, 0, "10.9.9.1")], cabled(13)))
    assert len(made["nodes"][HEAD]["rails"]) == 2
    assert made["ok"]


def test_without_consent_an_unaddressed_twin_is_left_alone() -> None:
    made = plan(pair(cabled(12, second=None), cabled(13, second=None)))
    assert [len(node["rails"]) for node in made["nodes"].values()] == [1, 1]
    assert made["nodes"][HEAD]["environment"]["NCCL_IB_HCA"] == "=rocep1s0f1"
    assert made["ok"]
    assert ids(made, "warn") == ["fabric.twin_without_address"] * 2


def test_with_consent_the_twin_gets_a_subnet_that_nobody_has() -> None:
    facts = pair(cabled(12, second=None, mtu=4200), cabled(13, second=None, mtu=4200))
    facts[WORKER]["fabric"]["routes"] = [{"destination": "192.168.201.0/25", "interface": "wlP9s9"}, {"destination": "default"}]  # type: ignore[index]
    made = plan(facts, **CONSENT)
    assert rails(made) == {
        HEAD: [("enp1s0f1np1", "192.168.200.12/24", 4200, "adopt"), ("enP2p1s0f1np1", "192.168.202.11/24", 4200, "configure")],
        WORKER: [("enp1s0f1np1", "192.168.200.13/24", 4200, "adopt"), ("enP2p1s0f1np1", "192.168.202.12/24", 4200, "configure")],
    }
    assert ids(made, "warn") == []
    assert made["nodes"][HEAD]["environment"]["NCCL_IB_HCA"] == "=rocep1s0f1,roceP2p1s0f1"


def test_one_end_addressed_the_other_joins_its_subnet() -> None:
    made = plan(pair(cabled(12, second="10.5.0.12"), cabled(13, second=None)), **CONSENT)
    assert rails(made)[HEAD][1] == ("enP2p1s0f1np1", "10.5.0.12/24", 9000, "adopt")
    assert rails(made)[WORKER][1] == ("enP2p1s0f1np1", "10.5.0.13/24", 9000, "configure")


def test_no_address_at_all() -> None:
    facts = pair(cabled(12, first=None, second=None), cabled(13, first=None, second=None))
    facts[WORKER]["fabric"]["ssh"] = {"interface": "enP7s7", "address": "192.0.2.11", "peer": "192.0.2.2"}  # type: ignore[index]
    refused = plan(facts)
    assert ids(refused, "block") == ["fabric.no_address"] * 2
    assert refused["nodes"][HEAD]["containers"] == []
    made = plan(facts, **CONSENT)
    assert made["ok"]
    assert rails(made)[WORKER] == [
        ("enp1s0f1np1", "192.168.200.12/24", 9000, "configure"),
        ("enP2p1s0f1np1", "192.168.201.12/24", 9000, "configure"),
    ]
    assert made["nodes"][WORKER]["fabric_address"] == "192.168.200.12"


def test_the_interface_of_our_session_is_never_configured() -> None:
    facts = pair(cabled(12, first=None, second=None), cabled(13, first=None, second=None))
    facts[WORKER]["fabric"]["ssh"] = {"interface": "enp1s0f1np1", "address": "fe80::1", "peer": "fe80::2"}  # type: ignore[index]
    made = plan(facts, **CONSENT)
    assert "enp1s0f1np1" not in [rail[0] for rail in rails(made)[WORKER]]


def test_addresses_that_disagree_are_not_touched() -> None:
    made = plan(pair(cabled(12, second="10.5.0.12"), cabled(13, second="10.6.0.13")), **CONSENT)
    assert [len(node["rails"]) for node in made["nodes"].values()] == [1, 1]


def test_link_local_twins_are_paired_in_order() -> None:
    def local(number: int) -> list[Facts]:
        return cabled(number, first=f"169.254.1.{number}", second=f"169.254.2.{number}", prefix=16, scope="link")

    made = plan(pair(local(12), local(13)))
    assert [rail[0] for rail in rails(made)[WORKER]] == ["enp1s0f1np1", "enP2p1s0f1np1"]
    assert made["nodes"][WORKER]["fabric_address"] == "169.254.1.13"
    assert set(ids(made, "warn")) == {"fabric.link_local", "fabric.same_subnet"}


def test_a_rail_without_an_hca_on_one_end_is_left_out_on_both() -> None:
    facts = twin()
    facts[WORKER]["fabric"]["ports"][1]["hca"] = None  # type: ignore[index]
    made = plan(facts)
    assert made["nodes"][HEAD]["environment"]["NCCL_IB_HCA"] == "=rocep1s0f1"
    assert made["nodes"][WORKER]["environment"]["NCCL_IB_HCA"] == "=rocep1s0f1"


def test_eight_nodes_get_eight_addresses() -> None:
    facts = row(8)
    for fact in facts.values():
        assert fact is not None
        fact["fabric"]["ports"][1]["addresses"] = []
    made = plan(facts, {"nodes": 8, "tensor_parallel": 8}, **CONSENT)
    ends = [IPv4Interface(node[1][1]) for node in rails(made).values()]
    assert len({end.ip for end in ends}) == 8
    assert len({end.network for end in ends}) == 1


def test_ports_with_gaps_in_their_facts() -> None:
    facts = spark()
    facts["fabric"]["ports"] = [{"netdev": "b", "state": "ACTIVE"}, {"netdev": "a", "operstate": "down", "addresses": [{"address": "x"}, {}]}]
    found = read_ports(Node("n", 0, facts))
    assert [(entry.netdev, entry.up, entry.addresses, entry.mtu) for entry in found] == [("a", False, (), None), ("b", True, (), None)]


def test_nodes_of_unknown_fabric_are_named() -> None:
    facts = worker()
    del facts["fabric"]["ports"]
    fabric = plan_fabric([Node(HEAD, 0, spark()), Node(WORKER, 1, facts), Node("third", 2, None)], False)
    assert fabric.unknown == (WORKER,)
    assert set(fabric.rails) == {HEAD}


networks = st.builds(lambda address, prefix: IPv4Network((address, prefix), strict=False), st.integers(0xC0A80000, 0xC0A8FFFF), st.integers(17, 30))


@given(st.lists(networks, max_size=40))
@settings(deadline=None)
def test_a_free_subnet_overlaps_nothing(used: list[IPv4Network]) -> None:
    found = free_subnet(used)
    assert found is not None
    assert not any(found.overlaps(network) for network in used)
    assert found == free_subnet(list(reversed(used)))


def test_no_free_subnet() -> None:
    assert free_subnet([IPv4Network("0.0.0.0/0")]) is None


@pytest.mark.parametrize("prefix", [29, 30])
def test_small_subnets_have_room_for_both(prefix: int) -> None:
    facts = pair(cabled(1, second="10.7.0.1", prefix=prefix), cabled(2, first="192.168.200.2", second=None, prefix=prefix))
    made = plan(facts, **CONSENT)
    assert rails(made)[WORKER][1][1] == f"10.7.0.2/{prefix}"
