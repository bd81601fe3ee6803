# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which port leads where: by what ports have heard, by the other function of their cage, and never by their names."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from builders import Facts, Plan, ids, plan, port, row

CONSENT = {"consent": ["network"]}
STRANGER = "02:00:00:00:00:99"

#: A node's number and one of its cages.
Cage = tuple[int, int]
Cluster = dict[str, Facts | None]


def cluster(*wires: tuple[Cage, ...], nodes: int = 2, deaf: bool = False, mixed: bool = False, strangers: tuple[Cage, ...] = ()) -> Cluster:
    """Sparks without addresses whose cages are joined by these wires, a cable having two ends and a switch more.

    ``deaf``: nobody has heard of anybody. ``mixed``: both functions of a cage hear of both at the other ends, as one wire carries them.
    """
    facts = row(nodes)
    with_link = {cage for wire in wires for cage in wire} | set(strangers)
    for number in range(nodes):
        ports = [port(cage, twin, up=(number, cage) in with_link) for cage in (0, 1) for twin in (0, 1)]
        for each in ports:
            each["mac"] = mac(number, each["cage"], each["twin"])
        of(facts, number)["fabric"]["ports"] = ports
    for wire in wires if not deaf else ():
        for (here, cage), (there, far) in [*combinations(wire, 2), *combinations(wire[::-1], 2)]:
            for twin in (0, 1):
                hear(facts, (here, cage, twin), *(mac(there, far, other) for other in (0, 1) if mixed or other == twin))
    for here, cage in strangers:
        hear(facts, (here, cage, 0), STRANGER)
        hear(facts, (here, cage, 1), STRANGER)
    return facts


def of(facts: Cluster, number: int) -> Facts:
    found = facts[f"spark-{number}"]
    assert found is not None
    return found


def mac(number: int, cage: int, twin: int) -> str:
    return f"4c:bb:47:00:0{number}:{cage}{twin}"


def hear(facts: Cluster, end: tuple[int, int, int], *macs: str) -> None:
    number, cage, twin = end
    found = next(each for each in of(facts, number)["fabric"]["ports"] if (each["cage"], each["twin"]) == (cage, twin))
    found.setdefault("neighbours", []).extend({"address": f"fe80::{i}", "mac": text, "state": "STALE"} for i, text in enumerate(macs))


def made(facts: Cluster, **variables: Any) -> Plan:
    return plan(facts, {"nodes": len(facts), "tensor_parallel": 1, "pipeline_parallel": len(facts)}, **{**CONSENT, **variables})


def joined(planned: Plan) -> list[dict[str, str]]:
    """Each rail as node and netdev of its ends."""
    rails: dict[int, dict[str, str]] = {}
    for node, found in planned["nodes"].items():
        for rail in found["rails"]:
            rails.setdefault(rail["number"], {})[node] = rail["netdev"]
    return [rails[number] for number in sorted(rails)]


def both(**ends: int) -> list[dict[str, str]]:
    """The two rails of one wire, its ends given as ``n0=<cage>``."""
    return [{f"spark-{node[1:]}": f"en{twin}p1s0f{cage}np{cage}" for node, cage in ends.items()} for twin in ("", "P2")]


@pytest.mark.parametrize("mixed", [False, True])
def test_a_cable_between_different_cages_beside_one_that_leads_elsewhere(mixed: bool) -> None:
    """The first cage of node 0 is a storage box's: its name would have been the wrong choice."""
    facts = cluster(((0, 1), (1, 0)), strangers=((0, 0),), mixed=mixed)
    planned = made(facts)
    assert joined(planned) == both(n0=1, n1=0)
    assert planned["ok"]
    assert planned["topology"] == "shared"


@pytest.mark.parametrize("deaf", [0, 1])
def test_it_is_enough_that_one_end_heard(deaf: int) -> None:
    facts = cluster(((0, 1), (1, 0)), strangers=((1 - deaf, 1 if deaf else 0),))
    for each in of(facts, deaf)["fabric"]["ports"]:
        each.pop("neighbours", None)
    assert joined(made(facts)) == both(n0=1, n1=0)


def test_two_cables_laid_crosswise_make_the_rails_of_one() -> None:
    """The functions of one cage carry all that the adapter can, so the second cable is left as it is."""
    facts = cluster(((0, 0), (1, 1)), ((0, 1), (1, 0)))
    assert joined(made(facts)) == both(n0=0, n1=1)


def test_a_node_that_hears_its_own_other_function_has_heard_of_nobody() -> None:
    facts = cluster(((0, 1), (1, 0)), deaf=True)
    hear(facts, (0, 1, 0), mac(0, 1, 1))
    assert joined(made(facts)) == both(n0=1, n1=0)


def test_silent_neighbours_are_none() -> None:
    facts = cluster(((0, 1), (1, 0)), deaf=True)
    hear(facts, (0, 1, 0), STRANGER)
    of(facts, 0)["fabric"]["ports"][2]["neighbours"][0]["state"] = "FAILED"
    assert joined(made(facts)) == both(n0=1, n1=0)


def test_one_cage_each_can_only_be_joined_to_each_other() -> None:
    assert joined(made(cluster(((0, 1), (1, 0)), deaf=True))) == both(n0=1, n1=0)


def test_where_nobody_heard_and_two_ways_are_possible_nothing_is_guessed() -> None:
    facts = cluster(((0, 0), (1, 1)), ((0, 1), (1, 0)), deaf=True)
    planned = made(facts)
    assert joined(planned) == []
    assert ids(planned, "block") == ["fabric.unseen"] * 2
    assert ids(made(facts, consent=[]), "block") == ["fabric.unseen"] * 2
    assert "`sudo nmcli device modify enp1s0f0np0 ipv6.method link-local`" in planned["findings"][0]["remedy"]


def test_the_twin_of_a_port_that_is_joined_is_joined_to_its_twin() -> None:
    """Node 0 has a link in its other cage too, and nobody heard anything: the rail that works tells where its cage leads."""
    facts = cluster(((0, 1), (1, 0)), deaf=True)
    for each in of(facts, 0)["fabric"]["ports"]:
        each |= {"carrier": True, "operstate": "up"}
    for number, cage in ((0, 1), (1, 0)):
        found = next(each for each in of(facts, number)["fabric"]["ports"] if each["cage"] == cage and each["twin"] == 0)
        found["addresses"] = [{"address": f"10.5.0.{number + 1}", "prefix": 24, "scope": "global"}]
    planned = made(facts)
    assert joined(planned) == both(n0=1, n1=0)
    assert [rail["action"] for rail in planned["nodes"]["spark-0"]["rails"]] == ["adopt", "configure"]


def test_two_ports_with_one_hardware_address_tell_nothing() -> None:
    facts = cluster(((0, 1), (1, 0)))
    for each in of(facts, 1)["fabric"]["ports"]:
        each["mac"] = "4c:bb:47:00:01:00"
    for each in of(facts, 0)["fabric"]["ports"]:
        each["neighbours"] = [{"address": "fe80::1", "mac": "4c:bb:47:00:01:00", "state": "STALE"}]
    assert made(facts)["nodes"]["spark-1"]["rails"]


@pytest.mark.parametrize("nodes", [4, 8])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_switch(nodes: int, mixed: bool) -> None:
    cages = [number % 2 for number in range(nodes)]
    planned = made(cluster(tuple(enumerate(cages)), nodes=nodes, mixed=mixed))
    assert planned["ok"]
    assert planned["topology"] == "shared"
    assert joined(planned) == both(**{f"n{number}": cage for number, cage in enumerate(cages)})
    hcas = [planned["nodes"][f"spark-{number}"]["environment"]["NCCL_IB_HCA"] for number in range(nodes)]
    assert hcas == [f"=rocep1s0f{cage},roceP2p1s0f{cage}" for cage in cages]
    assert len({rail["address"] for node in planned["nodes"].values() for rail in node["rails"]}) == 2 * nodes


def test_four_nodes_that_heard_nobody_may_be_joined_in_pairs() -> None:
    planned = made(cluster(((0, 1), (1, 1), (2, 1), (3, 1)), nodes=4, deaf=True))
    assert ids(planned, "block") == ["fabric.unseen"] * 4


RING = (((0, 0), (1, 1)), ((1, 0), (2, 1)), ((2, 0), (0, 1)))


def test_a_ring_of_three() -> None:
    planned = made(cluster(*RING, nodes=3))
    assert planned["ok"]
    assert planned["topology"] == "ring"
    assert joined(planned) == [*both(n0=0, n1=1), *both(n0=1, n2=0), *both(n1=0, n2=1)]
    assert len({rail["address"].rpartition(".")[0] for node in planned["nodes"].values() for rail in node["rails"]}) == 6
    assert [id_ for id_ in ids(planned) if id_.startswith("fabric.")] == ["fabric.ring"]
    node = planned["nodes"]["spark-1"]
    assert node["environment"]["NCCL_IB_HCA"] == "=rocep1s0f1,roceP2p1s0f1,rocep1s0f0,roceP2p1s0f0"
    assert {name: node["environment"][name] for name in ("NCCL_IB_SUBNET_AWARE_ROUTING", "NCCL_IB_MERGE_NICS", "NCCL_NET_PLUGIN")} == {
        "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
        "NCCL_IB_MERGE_NICS": "0",
        "NCCL_NET_PLUGIN": "none",
    }
    # The ranks find each other beside the ring, and the head hands on image and model over the cable between the two.
    assert node["environment"]["NCCL_SOCKET_IFNAME"] == "enP7s7"
    assert node["environment"]["VLLM_HOST_IP"] == node["fabric_address"] == "192.0.2.11"
    assert node["ssh"]["destination"] == f"aurora@{node['rails'][0]['address']}"
    assert node["rails"][0]["peers"] == [{"node": "spark-0", "address": planned["nodes"]["spark-0"]["rails"][0]["address"]}]


def test_what_was_configured_is_adopted_with_the_same_numbers() -> None:
    facts = cluster(*RING, nodes=3)
    first = made(facts)
    for number in range(3):
        by_name = {rail["netdev"]: rail for rail in first["nodes"][f"spark-{number}"]["rails"]}
        for each in of(facts, number)["fabric"]["ports"]:
            rail = by_name[each["netdev"]]
            each["addresses"] = [{"address": rail["address"], "prefix": rail["prefix"], "scope": "global"}]
    second = made(facts, consent=[])
    assert joined(second) == joined(first)
    assert {rail["action"] for node in second["nodes"].values() for rail in node["rails"]} == {"adopt"}
    assert [node["environment"] for node in second["nodes"].values()] == [node["environment"] for node in first["nodes"].values()]


def test_a_ring_whose_nodes_share_no_other_network() -> None:
    facts = cluster(*RING, nodes=3)
    of(facts, 2)["fabric"]["interfaces"][0]["addresses"][0]["address"] = "198.51.100.7"
    planned = made(facts)
    assert ids(planned, "block") == ["fabric.ring_alone"]
    assert planned["nodes"]["spark-0"]["containers"] == []


def test_a_ring_over_networks_of_docker_is_none() -> None:
    facts = cluster(*RING, nodes=3)
    for number in range(3):
        of(facts, number)["fabric"]["interfaces"][0]["kind"] = "bridge"
    assert ids(made(facts), "block") == ["fabric.ring_alone"]


def test_a_ring_that_is_cabled_straight() -> None:
    """Equal cages at both ends of two cables; the third can only be crossed then."""
    planned = made(cluster(((0, 0), (1, 0)), ((1, 1), (2, 1)), ((2, 0), (0, 1)), nodes=3))
    assert planned["topology"] == "ring"
    assert ids(planned, "warn") == ["fabric.ring_straight"]
    assert planned["findings"][0]["nodes"] == ["spark-0", "spark-1", "spark-2"]


@pytest.mark.parametrize("consent", [[], ["network"]])
def test_a_ring_that_lacks_a_cable(consent: list[str]) -> None:
    planned = made(cluster(*RING[:2], nodes=3), consent=consent)
    assert ids(planned, "block") == ["fabric.apart"]
    assert planned["findings"][0]["nodes"] == ["spark-0", "spark-2"]
    assert "joins spark-0 with spark-2," in planned["findings"][0]["observed"]


def test_a_node_without_any_link_is_said_once() -> None:
    planned = made(cluster(RING[0], nodes=3))
    assert ids(planned, "block") == ["fabric.no_rail"]
    assert planned["findings"][0]["nodes"] == ["spark-2"]


def test_a_ring_of_four_leaves_nodes_apart() -> None:
    wires = tuple((((i, 0), ((i + 1) % 4, 1))) for i in range(4))
    planned = made(cluster(*wires, nodes=4))
    assert planned["topology"] is None
    assert ids(planned, "block") == ["fabric.apart"]
    assert "joins spark-0 with spark-2 and spark-1 with spark-3," in planned["findings"][0]["observed"]


def test_a_ring_whose_twins_share_a_subnet() -> None:
    """The netplan example of NVIDIA's playbook for three Sparks: one subnet a cable, .1 and .2 on one end."""
    facts = cluster(*RING, nodes=3, mixed=True)
    subnets = {frozenset(wire): i for i, wire in enumerate(RING)}
    for wire, i in subnets.items():
        for place, (number, cage) in enumerate(sorted(wire)):
            for each in of(facts, number)["fabric"]["ports"]:
                if each["cage"] == cage:
                    each["addresses"] = [{"address": f"192.168.{i}.{1 + 2 * place + each['twin']}", "prefix": 24, "scope": "global"}]
    planned = made(facts, consent=[])
    assert joined(planned) == [*both(n0=0, n1=1), *both(n0=1, n2=0), *both(n1=0, n2=1)]
    assert set(ids(planned, "warn")) == {"fabric.same_subnet"}
