# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured on which node, and what is not, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._bench.spec import MOST_BYTES, PORTS, problems
from ansible_collections.gb10.cluster.plugins.modules import link_bench
from ansible_collections.gb10.cluster.plugins.plugin_utils._ladder import make_steps
from ansible_collections.gb10.cluster.plugins.plugin_utils._ladder.base import Step
from climbing import HEAD, WORKER, Json, deployed, pair, port, ring, row

BENCHES = 12  # of a pair with two rails: per direction two bandwidths, both at once, two latencies; ping and all-reduce


def steps_of(facts: Json, **ready: Json) -> list[Step]:
    return make_steps(deployed(facts), facts, ready)


def named(steps: list[Step], name: str) -> list[Step]:
    return [step for step in steps if step.name == name]


def test_the_ladder_of_a_pair() -> None:
    steps = steps_of(pair())
    assert len(steps) == len({step.id for step in steps}) == BENCHES
    assert [step.id for step in steps[:6]] == [
        "ping",
        "write_bandwidth:spark-head:spark-worker:0",
        "write_bandwidth:spark-head:spark-worker:1",
        "write_bandwidth:spark-head:spark-worker:all",
        "write_latency:spark-head:spark-worker:0",
        "write_latency:spark-head:spark-worker:1",
    ]
    assert steps[6].id == "write_bandwidth:spark-worker:spark-head:0"
    assert steps[-1].id == "all_reduce"
    assert [step.skipped for step in steps] == [None] * BENCHES


def test_every_ping_goes_out_of_its_own_rail() -> None:
    ping = steps_of(pair())[0]
    assert ping.nodes[WORKER] == {
        "test": "ping",
        "links": [
            {"netdev": "enp1s0f1np1", "address": "192.168.200.12", "mtu": 9000},
            {"netdev": "enP2p1s0f1np1", "address": "192.168.201.12", "mtu": 9000},
        ],
    }


def test_in_a_ring_every_cable_is_measured_and_nothing_between_ports_that_no_cable_joins() -> None:
    steps = steps_of(ring())
    assert [step.skipped for step in steps] == [None] * len(steps)
    alone = [step for step in named(steps, "write_bandwidth") if step.rail is not None]
    assert {(step.hosts, step.rail) for step in alone} == {
        (hosts, rail)
        for one, other, rails in (("spark-0", "spark-1", (0, 1)), ("spark-0", "spark-2", (2, 3)), ("spark-1", "spark-2", (4, 5)))
        for hosts in ((one, other), (other, one))
        for rail in rails
    }
    assert [link["address"] for link in steps[0].nodes["spark-0"]["links"]] == ["10.1.0.2", "10.1.1.2", "10.3.0.3", "10.3.1.3"]
    reduce = named(steps, "all_reduce")[0]
    # On the network that they share beside the ring.
    assert reduce.nodes["spark-2"]["head"]["address"] == "192.0.2.10"


def test_both_ends_of_a_write_agree() -> None:
    facts = pair()
    port(facts, WORKER, 0)["gids"][1]["index"] = 5
    alone = named(steps_of(facts), "write_bandwidth")[0]
    client, server = alone.nodes[HEAD], alone.nodes[WORKER]
    assert (client["test"], server["test"]) == ("perftest_client", "perftest_server")
    assert client["links"] == [{"hca": "rocep1s0f1", "gid_index": 3, "port": 18515, "address": "192.168.200.13"}]
    assert server["links"] == [{"hca": "rocep1s0f1", "gid_index": 5, "port": 18515}]
    assert (client["seconds"], client["measure"]) == (server["seconds"], server["measure"]) == (0, "bandwidth")


def test_both_twins_at_once_run_by_time_on_ports_of_their_own() -> None:
    both = next(step for step in steps_of(pair()) if step.id.endswith(":all"))
    assert both.rail is None
    assert both.nodes[HEAD]["seconds"] == both.nodes[WORKER]["seconds"] == 4
    assert [link["port"] for link in both.nodes[WORKER]["links"]] == [18515, 18516]


def test_the_all_reduce_runs_what_the_plan_runs() -> None:
    facts = pair()
    planned = deployed(facts)
    step = make_steps(planned, facts)[-1]
    for rank, host in enumerate((HEAD, WORKER)):
        options, spec = step.nodes[host], planned["nodes"][host]["containers"][0]
        assert (options["rank"], options["world_size"], options["amount"]) == (rank, 2, MOST_BYTES)
        assert options["head"] == {"address": "192.168.200.12", "port": 18517}
        assert options["container"]["environment"] == planned["nodes"][host]["environment"]
        assert options["container"]["devices"] == spec["devices"] != []
        assert options["container"]["capabilities"] == ["IPC_LOCK"]


def test_link_bench_takes_what_the_ladder_gives() -> None:
    defaults = {name: option.get("default") for name, option in link_bench.ARGUMENT_SPEC.items()}
    for step in steps_of(pair()):
        for options in step.nodes.values():
            assert set(options) <= set(defaults)
            assert problems({**defaults, **options}) == []


def test_ports_that_are_taken_are_left_alone() -> None:
    facts = pair()
    facts[HEAD]["services"]["listening"] += [{"address": "0.0.0.0", "port": 18515}, {"address": "::", "port": 18517}]
    both = next(step for step in steps_of(facts) if step.id.endswith(":all"))
    assert [link["port"] for link in both.nodes[HEAD]["links"]] == [18516, 18518]


def test_no_port_is_free() -> None:
    facts = pair()
    facts[WORKER]["services"]["listening"] += [{"address": "0.0.0.0", "port": number} for number in PORTS]
    skipped = [step.skipped for step in steps_of(facts) if step.name != "ping"]
    assert set(skipped) == {"no TCP port from 18515 to 18534 is free on all nodes"}


def without_verbs(facts: Json) -> None:
    facts[WORKER]["fabric"]["devices"] = ["/dev/infiniband/rdma_cm"]


def without_gid(facts: Json) -> None:
    for number in (0, 1):
        port(facts, WORKER, number)["gids"] = []


def without_hca(facts: Json) -> None:
    for number in (0, 1):
        port(facts, HEAD, number)["hca"] = None


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (without_verbs, "spark-worker has no /dev/infiniband/uverbs device"),
        (without_gid, "rocep1s0f1 has no RoCE v2 GID of 192.168.200.13 on spark-worker, or its GIDs could not be read"),
        (without_hca, "the HCA of enp1s0f1np1 of spark-head is not known"),
    ],
)
def test_what_rdma_lacks_is_said(damage: Callable[[Json], None], reason: str) -> None:
    facts = pair()
    damage(facts)
    writes = [step for step in steps_of(facts) if step.name.startswith("write")]
    assert len(writes) == BENCHES - 2
    assert reason in {step.skipped for step in writes}
    assert all(step.skipped and not step.nodes for step in writes)


def test_unknown_devices_are_left_to_the_node() -> None:
    facts = pair()
    for host in facts:
        del facts[host]["fabric"]["devices"]
    assert {step.skipped for step in steps_of(facts)} == {None}


def test_perftest_that_is_missing_on_one_node_is_not_waited_for() -> None:
    said = {"ran": False, "missing": True, "reason": "ib_write_bw is not installed", "remedy": "Install it."}
    steps = make_steps(deployed(pair()), pair(), {HEAD: {"missing": False}, WORKER: said})
    writes = [step for step in steps if step.name.startswith("write")]
    assert {(step.skipped, step.remedy) for step in writes} == {("on spark-worker, ib_write_bw is not installed", "Install it.")}
    assert steps[0].skipped is None and steps[-1].skipped is None


def test_what_both_lack_is_one_sentence() -> None:
    said = {"ran": False, "missing": True, "reason": "ib_write_bw is not installed"}
    steps = make_steps(deployed(pair()), pair(), {HEAD: said, WORKER: said})
    assert {step.skipped for step in steps if step.name.startswith("write")} == {"on spark-head and spark-worker, ib_write_bw is not installed"}


def test_the_all_reduce_needs_the_image() -> None:
    facts = pair()
    planned = deployed(facts)
    planned["nodes"][WORKER]["image"] = {"action": "copy"}
    step = make_steps(planned, facts)[-1]
    assert step.skipped is not None and step.skipped.startswith("spark-worker does not have the image")
    assert step.remedy == "Deploy first: site.yml."


def test_the_all_reduce_needs_room_beside_the_server() -> None:
    facts = pair()
    facts[HEAD]["memory"]["available"] = 9 * 2**30
    step = steps_of(facts)[-1]
    assert step.skipped == "spark-head has 9.0 GiB of memory free, 10 GiB are needed so that it cannot freeze"
    del facts[HEAD]["memory"]["available"]
    assert steps_of(facts)[-1].skipped == "how much memory spark-head has free is not known"


def test_a_node_that_did_not_answer() -> None:
    facts = pair()
    planned = deployed(facts)
    facts[WORKER] = {"unreachable": "no route to host"}
    assert {step.skipped for step in make_steps(planned, facts)} == {"spark-worker did not answer"}


def test_one_node_or_no_rail_has_no_ladder() -> None:
    facts = pair()
    planned = deployed(facts)
    alone = deepcopy(planned)
    alone["ranks"] = [HEAD]
    assert make_steps(alone, facts) == []
    planned["nodes"][WORKER]["rails"] = []
    assert make_steps(planned, facts) == []


def test_a_rail_that_is_not_configured_yet_is_not_measured() -> None:
    facts = pair()
    planned = deployed(facts)
    planned["nodes"][WORKER]["rails"][1]["action"] = "configure"
    steps = make_steps(planned, facts)
    assert len(steps) == BENCHES - 6
    assert {step.rail for step in steps if step.name == "write_bandwidth"} == {0}


def test_four_nodes_are_measured_in_pairs_with_the_head() -> None:
    facts = row(4)
    steps = make_steps(deployed(facts), facts)
    clients = {step.hosts for step in steps if step.name == "write_latency"}
    assert len(clients) == 6 and all("spark-0" in hosts for hosts in clients)
    assert len(steps[-1].hosts) == 4
