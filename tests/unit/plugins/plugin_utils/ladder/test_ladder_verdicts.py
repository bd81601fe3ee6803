# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the measurements are worth. Numbers are those that were reported of real machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.cluster.plugins.modules import link_ladder
from ansible_collections.gb10.cluster.plugins.plugin_utils._ladder import judge, make_steps, table
from ansible_collections.gb10.cluster.plugins.plugin_utils._ladder.thresholds import THRESHOLDS
from climbing import HEAD, WORKER, Climb, Json, absent, assert_sentences, collective, deployed, links, pair, port, ring


def test_a_healthy_pair_passes_as_a_whole() -> None:
    judged = Climb().judged()
    assert judged["verdict"] == "pass"
    assert judged["summary"] == "Proved: ping, link, write_bandwidth, write_latency and all_reduce."
    assert {rung["verdict"] for rung in judged["rungs"]} == {"pass"}
    assert len(judged["rungs"]) == 4 + 2 + 6 + 4 + 1
    assert_sentences(judged["rungs"])


def test_a_healthy_ring_passes_as_a_whole() -> None:
    """Six rails of two ends each, both ways: pings, writes and latencies; both functions of a cable at once; the link of each rail."""
    judged = Climb(ring()).judged()
    assert {rung["verdict"] for rung in judged["rungs"]} == {"pass"}
    assert len(judged["rungs"]) == 12 + 6 + (12 + 6) + 12 + 1
    assert_sentences(judged["rungs"])


def test_rungs_say_what_was_seen() -> None:
    climb = Climb()
    assert climb.rung("write_bandwidth", 0, HEAD)["observed"] == "spark-head to spark-worker: 111.6 Gb/s over rocep1s0f1, as a twin should."
    both = "spark-head to spark-worker: 194.6 Gb/s (rocep1s0f1 97.3, roceP2p1s0f1 97.3), as a cable of 200 Gb/s should."
    assert climb.rung("write_bandwidth", None, HEAD)["observed"] == both
    assert climb.rung("write_latency", 1, WORKER)["observed"] == "spark-worker to spark-head: 1.47 µs over roceP2p1s0f1, as it should."
    assert climb.rung("all_reduce")["observed"] == (
        "Over NET/IB (rocep1s0f1, roceP2p1s0f1), NCCL 2.28.3+cuda13.0: 21.7 GB/s with 256 MB, 26 µs with 4 kB, both twins carry it."
    )


# What was not measured


def test_nothing_measured_is_nothing_proved() -> None:
    facts = pair()
    judged = judge(deployed(facts), facts, {})
    assert judged["verdict"] == "skipped"
    assert judged["summary"] == "Proved: link; not proved: ping, write_bandwidth, write_latency and all_reduce."
    assert_sentences(judged["rungs"])
    assert {rung["verdict"] for rung in judged["rungs"] if rung["name"] != "link"} == {"skipped"}


def test_a_node_without_perftest_and_an_image_without_cuda() -> None:
    """As on machines that have rails and no RDMA: what can be proved is, the rest is skipped aloud, once a reason."""
    climb = Climb()
    climb.ready = {WORKER: {"missing": True, "reason": "ib_write_bw is not installed", "remedy": "Install it."}}
    climb.change("all_reduce", absent("torch 2.9 of this image is built without CUDA"))
    judged = climb.judged()
    assert judged["verdict"] == "skipped"
    seen = {rung["name"]: rung for rung in judged["rungs"] if rung["verdict"] == "skipped"}
    assert len(seen) == len([rung for rung in judged["rungs"] if rung["verdict"] == "skipped"]) == 3
    assert seen["write_bandwidth"]["observed"] == "Not measured: on spark-worker, ib_write_bw is not installed."
    assert seen["write_bandwidth"]["remedy"] == "Install it."
    assert seen["all_reduce"]["observed"] == "Not measured: on spark-head, torch 2.9 of this image is built without CUDA."


def test_check_mode_passes_nothing() -> None:
    climb = Climb()
    for name in ("ping", "write_bandwidth", "write_latency", "all_reduce"):
        climb.change(name, absent("check mode measures nothing"))
    judged = climb.judged()
    assert (judged["verdict"], judged["summary"]) == (
        "skipped",
        "Proved: link; not proved: ping, write_bandwidth, write_latency and all_reduce.",
    )


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"failed": True, "msg": "boom\n at once"}, "the task failed on spark-head: boom at once"),
        ({"unreachable": True, "msg": "gone"}, "spark-head did not answer"),
        ({"skipped": True}, "on spark-head, it was not run"),
    ],
)
def test_a_task_that_did_not_end_well(result: Json, reason: str) -> None:
    climb = Climb()
    climb.results[HEAD]["all_reduce"] = result
    assert climb.rung("all_reduce")["verdict"] == "skipped"
    assert climb.rung("all_reduce")["observed"] == f"Not measured: {reason}."


@pytest.mark.parametrize("name", ["write_bandwidth", "write_latency", "all_reduce"])
def test_an_end_that_did_not_run_is_never_a_pass(name: str) -> None:
    climb = Climb().change(name, absent("TCP port 18515 is taken"), host=WORKER)
    assert {rung["verdict"] for rung in climb.rungs(name)} == {"skipped"}
    assert "on spark-worker, TCP port 18515 is taken" in climb.rungs(name)[0]["observed"]


def test_numbers_that_are_missing_are_no_pass() -> None:
    climb = Climb().change("write_bandwidth", links(bandwidth=None)).change("all_reduce", collective(runs=[]))
    assert {rung["verdict"] for rung in [*climb.rungs("write_bandwidth"), *climb.rungs("all_reduce")]} == {"skipped"}


# ping


def test_a_way_that_is_too_narrow() -> None:
    lost = links(received=0, round_trip=None, error="local error: message too long, mtu=1500")
    rung = Climb().change("ping", lost, host=WORKER).rung("ping", 1, WORKER)
    assert rung["verdict"] == "fail"
    said = "(local error: message too long, mtu=1500)"
    assert rung["observed"] == f"3 of 3 packets of 9000 bytes were lost on the way from enP2p1s0f1np1 of spark-worker to spark-head {said}."
    assert "enP2p1s0f1np1 of spark-head" in rung["remedy"]


def test_some_packets_are_lost() -> None:
    climb = Climb().change("ping", links(received=2), host=HEAD)
    assert [rung["verdict"] for rung in climb.rungs("ping")] == ["warn", "pass", "warn", "pass"]


def test_a_ping_that_could_not_be_sent() -> None:
    gone = links(transmitted=None, received=None, error="ping: cannot read 'SO_BINDTODEVICE enp1s0f1np1: No such device'")
    assert Climb().change("ping", gone).rung("ping", 0, HEAD)["verdict"] == "fail"


# link


def set_port(host: str, number: int, **values: Any) -> Callable[[Json], None]:
    return lambda facts: port(facts, host, number).update(values)


@pytest.mark.parametrize(
    ("damage", "verdict", "words"),
    [
        (set_port(WORKER, 0, rate=100), "warn", "enp1s0f1np1 of spark-worker runs at 100 Gb/s"),
        (set_port(WORKER, 0, pcie={"width": 2}), "warn", "has 2 PCIe lanes"),
        (set_port(WORKER, 0, active_mtu=1024), "warn", "RDMA uses packets of 1024 bytes on enp1s0f1np1 of spark-worker, whose MTU is 9000"),
        (
            set_port(WORKER, 0, mtu=1500, active_mtu=1024),
            "fail",
            "enp1s0f1np1 of spark-head 9000 and enp1s0f1np1 of spark-worker 1500",
        ),
        (set_port(WORKER, 0, carrier=False), "fail", "enp1s0f1np1 of spark-worker has no link"),
        (set_port(WORKER, 0, gids=[]), "fail", "rocep1s0f1 of spark-worker has no RoCE v2 GID of 192.168.200.13"),
        (set_port(WORKER, 0, gids=None), "skipped", "the GIDs of rocep1s0f1 on spark-worker could not be read"),
        (set_port(WORKER, 0, pcie=None), "skipped", "the number of PCIe lanes of enp1s0f1np1 of spark-worker could not be read"),
        (set_port(WORKER, 0, rate=None, carrier=False), "fail", "has no link"),
    ],
)
def test_links(damage: Callable[[Json], None], verdict: str, words: str) -> None:
    climb = Climb()
    damage(climb.facts)
    rung = climb.rung("link", 0)
    assert rung["verdict"] == verdict
    assert words.lower() in rung["observed"].lower()
    assert climb.rung("link", 1)["verdict"] == "pass"
    assert_sentences([rung])


def test_an_mtu_that_is_small_at_both_ends() -> None:
    climb = Climb()
    for host in (HEAD, WORKER):
        port(climb.facts, host, 0).update(mtu=1500, active_mtu=1024)
    rung = climb.rung("link", 0)
    assert (rung["verdict"], rung["observed"]) == ("warn", "The MTU is 1500 at all ends, which costs 5 to 10 %.")


def test_the_worst_of_a_link_comes_first_and_nothing_is_left_out() -> None:
    climb = Climb()
    port(climb.facts, HEAD, 0).update(rate=100)
    port(climb.facts, WORKER, 0).update(gids=[], pcie=None)
    rung = climb.rung("link", 0)
    assert rung["verdict"] == "fail"
    assert rung["observed"].startswith("rocep1s0f1 of spark-worker has no RoCE v2 GID")
    assert "runs at 100 Gb/s" in rung["observed"] and "could not be read" in rung["observed"]


def test_a_rail_without_facts_is_not_taken_for_good() -> None:
    climb = Climb()
    del climb.facts[WORKER]["fabric"]["ports"]
    assert {rung["verdict"] for rung in climb.rungs("link")} == {"skipped"}
    assert "Nothing is known of enp1s0f1np1 of spark-worker." in climb.rung("link", 0)["observed"]


def test_a_rail_that_is_not_configured_yet() -> None:
    climb = Climb()
    climb.plan["nodes"][HEAD]["rails"][1]["action"] = "configure"
    assert climb.rung("link", 1)["observed"] == "The rail has no addresses yet."
    assert climb.rung("link", 0)["verdict"] == "pass"


# perftest


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(92.57, "pass"), (111.85, "pass"), (97.28, "pass"), (60.0, "warn"), (24.9, "fail"), (13.23, "fail"), (1.0, "fail")],
)
def test_bandwidth_of_one_twin(value: float, verdict: str) -> None:
    rung = Climb().change("write_bandwidth", links(bandwidth=value), rail=0).rung("write_bandwidth", 0, HEAD)
    assert rung["verdict"] == verdict
    assert f"{value:.1f} Gb/s" in rung["observed"]


def test_a_power_capped_adapter() -> None:
    rung = Climb().change("write_bandwidth", links(bandwidth=13.23)).rung("write_bandwidth", 1, WORKER)
    assert rung["observed"] == "spark-worker to spark-head: 13.2 Gb/s over roceP2p1s0f1, an adapter that came up power-capped."
    assert rung["remedy"].startswith("Reboot both machines with the cable in")
    assert "27 W" in rung["remedy"]
    assert rung["source"] == "https://github.com/NVIDIA/dgx-spark-playbooks/pull/108"


def test_a_slow_link_is_not_blamed_on_the_adapter() -> None:
    climb = Climb().change("write_bandwidth", links(bandwidth=20.0), rail=0)
    port(climb.facts, WORKER, 0)["rate"] = 40
    rung = climb.rung("write_bandwidth", 0, HEAD)
    assert rung["observed"] == "spark-head to spark-worker: 20.0 Gb/s over rocep1s0f1 on a link of 40 Gb/s."
    assert rung["remedy"] == "Mend the link first: see the rung `link`."


@pytest.mark.parametrize(
    ("first", "second", "verdict", "words"),
    [
        (92.57, 97.28, "pass", "189.8 Gb/s"),
        (99.0, 50.0, "warn", "less than the cable"),
        (49.0, 49.0, "warn", "no more than one twin"),
        (111.0, 13.2, "fail", "power-capped"),
        (13.2, 13.3, "fail", "power-capped"),
    ],
)
def test_bandwidth_of_both_twins(first: float, second: float, verdict: str, words: str) -> None:
    def change(result: Json) -> None:
        result["links"][0]["bandwidth"], result["links"][1]["bandwidth"] = first, second

    rung = Climb().change("write_bandwidth", change, host=HEAD, rail=None).rung("write_bandwidth", None, HEAD)
    assert rung["verdict"] == verdict
    assert words in rung["observed"]


@pytest.mark.parametrize(("value", "verdict"), [(1.47, "pass"), (1.74, "pass"), (4.83, "pass"), (12.0, "warn")])
def test_latency(value: float, verdict: str) -> None:
    assert Climb().change("write_latency", links(latency=value)).rung("write_latency", 0, HEAD)["verdict"] == verdict


def test_a_write_that_fails_says_why() -> None:
    broken = links(bandwidth=None, error="ib_write_bw: Failed to modify QP to RTR", own_limit=False, remedy="See the GIDs.")
    rung = Climb().change("write_bandwidth", broken, host=HEAD, rail=0).rung("write_bandwidth", 0, HEAD)
    assert (rung["verdict"], rung["remedy"]) == ("fail", "See the GIDs.")
    assert rung["observed"] == "spark-head to spark-worker, rocep1s0f1: ib_write_bw: Failed to modify QP to RTR."


def test_a_limit_of_the_user_says_nothing_about_the_link() -> None:
    limited = links(bandwidth=None, error="ib_write_bw: Couldn't allocate MR", own_limit=True, remedy="Raise memlock.")
    rung = Climb().change("write_bandwidth", limited, rail=0).rung("write_bandwidth", 0)
    assert (rung["verdict"], rung["remedy"]) == ("skipped", "Raise memlock.")


# all-reduce


def test_sockets_fail_whatever_the_number() -> None:
    sockets = collective(21.0, transport="socket", channels={"Socket": 8}, devices=["enp1s0f1np1"])
    rung = Climb().change("all_reduce", sockets, host=WORKER).rung("all_reduce")
    assert rung["verdict"] == "fail"
    assert rung["observed"] == "NCCL goes over NET/Socket on spark-worker, not over RDMA (21.0 GB/s)."
    assert "--device /dev/infiniband" in rung["remedy"]


@pytest.mark.parametrize(
    ("busbw", "verdict", "words"),
    [
        (23.65, "pass", "both twins"),
        (20.5, "pass", "both twins"),
        (17.85, "warn", "MTU"),
        (13.89, "warn", "one twin only"),
        (12.5, "warn", "one twin only"),
        (9.78, "fail", "less than one twin"),
        (2.84, "fail", "power-capped"),
    ],
)
def test_bus_bandwidth(busbw: float, verdict: str, words: str) -> None:
    climb = Climb()
    # The other rungs know no better here.
    climb.change("write_bandwidth", absent("not installed"))
    for host in (HEAD, WORKER):
        climb.facts[host]["fabric"]["ports"][1]["mtu"] = 1500
    rung = climb.change("all_reduce", collective(busbw)).rung("all_reduce")
    assert (rung["verdict"], words in rung["observed"]) == (verdict, True), rung


def test_the_slower_rank_decides() -> None:
    assert Climb().change("all_reduce", collective(12.5), host=WORKER).rung("all_reduce")["verdict"] == "warn"


def test_a_slow_nccl_over_good_links_is_not_blamed_on_them() -> None:
    rung = Climb().change("all_reduce", collective(3.04)).rung("all_reduce")
    assert rung["verdict"] == "fail"
    assert "though perftest writes 112 Gb/s on every rail" in rung["observed"]
    assert "NCCL" in rung["remedy"] and "Reboot" not in rung["remedy"]


def test_links_that_were_not_all_measured_do_not_clear_the_link() -> None:
    climb = Climb().change("write_bandwidth", absent("TCP port 18516 is taken"), rail=1).change("all_reduce", collective(3.04))
    assert "though perftest" not in climb.rung("all_reduce")["observed"]


def test_an_mtu_that_is_known_to_be_right_is_not_blamed() -> None:
    rung = Climb().change("all_reduce", collective(18.6)).rung("all_reduce")
    assert rung["verdict"] == "warn"
    assert "though every rail has an MTU of 4200 or more" in rung["observed"]


def test_channels_that_were_not_seen_are_no_pass() -> None:
    rung = Climb().change("all_reduce", collective(transport=None, channels={})).rung("all_reduce")
    assert rung["verdict"] == "warn"
    assert "over which network is not known" in rung["observed"]


@pytest.mark.parametrize(
    ("warning", "remedy"),
    [
        ("Call to ibv_modify_qp failed with 61 No data available", "Leave NCCL_IB_GID_INDEX unset"),
        ("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "memlock"),
        ("Failed to initialize NET plugin IB", "--device /dev/infiniband"),
    ],
)
def test_the_rank_that_nccl_warned_on_has_the_cause(warning: str, remedy: str) -> None:
    climb = Climb().change("all_reduce", collective(error="DistBackendError: remote process exited", runs=None))
    climb.change("all_reduce", collective(warnings=[warning]), host=WORKER)
    rung = climb.rung("all_reduce")
    assert rung["verdict"] == "fail"
    assert rung["observed"] == f"The all-reduce failed on spark-worker: {warning}."
    assert remedy in rung["remedy"]


def test_a_wrong_sum() -> None:
    rung = Climb().change("all_reduce", collective(correct=False), host=HEAD).rung("all_reduce")
    assert (rung["verdict"], rung["observed"]) == ("fail", "The sum is wrong on spark-head.")


# The whole


def test_the_worst_rung_decides() -> None:
    assert Climb().change("write_latency", links(latency=9.0)).judged()["verdict"] == "warn"
    climb = Climb().change("write_latency", links(latency=9.0)).change("ping", links(received=0, round_trip=None))
    judged = climb.judged()
    assert judged["verdict"] == "fail"
    assert judged["summary"] == "Broken: ping; worse than it should be: write_latency; proved: link, write_bandwidth and all_reduce."


def test_one_node_and_no_rail_are_not_proved() -> None:
    facts = pair()
    planned = deployed(facts)
    planned["nodes"][HEAD]["rails"] = []
    assert judge(planned, facts, {})["verdict"] == "skipped"
    planned["ranks"] = [HEAD]
    assert judge(planned, facts, {}) == {"rungs": [], "verdict": "skipped", "summary": "One node has no fabric to prove."}


def test_same_input_same_output() -> None:
    climb = Climb()
    assert climb.judged() == climb.judged()
    assert make_steps(climb.plan, climb.facts) == make_steps(climb.plan, climb.facts)


# The table


def test_bands_cover_every_number_and_have_sources() -> None:
    for threshold in THRESHOLDS:
        assert min(band.floor for band in threshold.bands) == 0
        assert threshold.expected.endswith(".")
        for band in threshold.bands:
            assert threshold.band(band.floor) is band
            assert band.source.startswith("https://")
            assert bool(band.remedy) == (band.verdict != "pass")


def test_the_documentation_shows_the_table() -> None:
    notes = yaml.safe_load(link_ladder.DOCUMENTATION)["notes"]
    assert [note for note in notes if "(https://" in note] == table()
