# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers of the proof ladder: ping, perftest, NCCL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nccl import MARK, Bench, Run, TestRow, parse_bench, parse_log, parse_tests
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.perftest import (
    BandwidthRow,
    Setup,
    parse_bandwidth,
    parse_latency,
)
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ping import Ping, parse_ping
from hypothesis import given, settings
from hypothesis import strategies as st

Sample = Callable[[str], str]
FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
PARSERS: dict[str, list[Callable[[str], object]]] = {
    "ping": [parse_ping, lambda text: parse_ping(text, text)],
    "perftest": [parse_bandwidth, parse_latency],
    "nccl": [parse_log, parse_tests, parse_bench],
}
SAMPLES = {tool: [path.read_text(encoding="utf-8") for path in sorted((FIXTURES / tool).glob("*.txt"))] for tool in PARSERS}
LINE = json.dumps(
    {
        MARK: 1,
        "rank": 0,
        "torch": "2.9.1+cu130",
        "nccl": "2.28.3",
        "correct": True,
        "runs": [{"size": 4096, "seconds": 2.8e-05, "busbw": 0.15}, {"size": 256000000, "seconds": 0.0118, "busbw": 21.7}],
    }
)


# ping


def test_ping_that_comes_back(sample: Sample) -> None:
    assert parse_ping(sample("ping/full_size.txt")) == Ping(3, 3, 0.116, None, None)


def test_ping_that_is_too_long_says_what_the_way_has(sample: Sample) -> None:
    assert parse_ping(sample("ping/too_long.txt"), sample("ping/too_long_stderr.txt")) == Ping(
        3, 0, None, "local error: message too long, mtu=1500", 1500
    )


def test_ping_that_is_lost(sample: Sample) -> None:
    assert parse_ping(sample("ping/lost.txt")) == Ping(3, 0, None, None, None)


def test_ping_that_a_router_answers() -> None:
    text = "From 10.0.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1500)\n3 packets transmitted, 0 received, +1 errors, 100% packet loss, time 2ms\n"
    assert parse_ping(text) == Ping(3, 0, None, "Frag needed and DF set (mtu = 1500)", 1500)


def test_ping_that_did_not_send_says_why(sample: Sample) -> None:
    with pytest.raises(ParseError, match="SO_BINDTODEVICE nosuch0: No such device"):
        parse_ping("", sample("ping/no_device_stderr.txt"))


# perftest


@pytest.mark.parametrize(
    ("name", "setup", "row"),
    [
        ("gb10_single_twin_cpu_util", Setup("roceP2p1s0f0", 1, 1024, 3), BandwidthRow(65536, 1059332, None, 92.57)),
        ("playbook_twin_roceP2p1_concurrent", Setup("roceP2p1s0f0", 1, 1024, 3), BandwidthRow(65536, 927940, None, 97.28)),
        ("playbook_twin_rocep1_concurrent", Setup("rocep1s0f0", 1, 1024, 3), BandwidthRow(65536, 882805, None, 92.57)),
        ("two_dell_q4_rdma_cm", Setup("rocep1s0f0", 4, 1024, None), BandwidthRow(65536, 20000, 111.62, 111.61)),
    ],
)
def test_bandwidth(sample: Sample, name: str, setup: Setup, row: BandwidthRow) -> None:
    found = parse_bandwidth(sample(f"perftest/bw_{name}.txt"))
    assert (found.setup, found.rows[0]) == (setup, row)


def test_a_run_without_an_end_has_a_row_a_second(sample: Sample) -> None:
    assert [row.average for row in parse_bandwidth(sample("perftest/bw_playbook_twin_roceP2p1_concurrent.txt")).rows] == [97.28] * 4 + [97.29, 97.28]


def test_megabytes_of_perftest_are_mebibytes(sample: Sample) -> None:
    """13334.7 MB/sec were reported of a link on which others saw 111.85 Gb/s."""
    text = sample("perftest/bw_two_dell_q4_rdma_cm.txt").replace("Gb/sec", "MB/sec").replace("111.61", "13334.7")
    assert parse_bandwidth(text).rows[0].average == 111.86


def test_latency_between_warnings_about_the_clock(sample: Sample) -> None:
    text = sample("perftest/lat_two_sparks_rdma_cm.txt")
    noisy = text.replace(" 2       1000", "Conflicting CPU frequency values detected: 1500.0 != 3100.0. CPU Frequency is not max.\n 2       1000")
    for variant in (text, noisy):
        found = parse_latency(variant)
        assert (found.size, found.iterations) == (2, 1000)
        assert (found.minimum, found.typical, found.average, found.maximum, found.percentile_99) == (1.42, 1.47, 1.47, 1.93, 1.57)
        assert found.setup == Setup("rocep1s0f1", 1, 1024, None)


@pytest.mark.parametrize("parse", [parse_bandwidth, parse_latency])
def test_a_table_without_a_row_or_of_the_other_test(sample: Sample, parse: Callable[[str], object]) -> None:
    bandwidth, latency = sample("perftest/bw_two_dell_q4_rdma_cm.txt"), sample("perftest/lat_two_sparks_rdma_cm.txt")
    for text in ("", bandwidth.partition(" 65536")[0], latency if parse is parse_bandwidth else bandwidth):
        with pytest.raises(ParseError):
            parse(text)


# NCCL


@pytest.mark.parametrize(
    ("name", "transport", "channels", "devices"),
    [
        ("ib_plugin", "ib", (("IBext_v11", 4),), ("rocep1s0f0", "roceP2p1s0f0")),
        ("ib_one_channel", "ib", (("IB", 1),), None),
        ("ib_merged", "ib", (("IB", 6),), None),
        ("asymmetric_ports", None, (), ("rocep1s0f0", "roceP2p1s0f0")),
        ("no_device_then_ib", "ib", (("IB", 1),), ("rocep1s0f0",)),
        ("no_device", None, (), ("net1",)),
        ("stale_gid", None, (), None),
    ],
)
def test_transport_is_read_from_the_channel_lines(
    sample: Sample, name: str, transport: str | None, channels: tuple[tuple[str, int], ...], devices: tuple[str, ...] | None
) -> None:
    log = parse_log(sample(f"nccl/log_{name}.txt"))
    assert (log.transport, log.channels, log.devices) == (transport, channels, devices)


def test_channels_over_sockets(sample: Sample) -> None:
    log = parse_log(sample("nccl/log_no_device.txt") + "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n")
    assert (log.transport, log.devices) == ("socket", ("net1",))


def test_channels_over_both() -> None:
    line = "h:1:1 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/"
    assert parse_log(f"{line}IB/0\n{line}Socket/0/GDRDMA\n").transport == "mixed"


def test_warnings_of_nccl(sample: Sample) -> None:
    assert parse_log(sample("nccl/log_stale_gid.txt")).warnings == ("Call to ibv_modify_qp failed with 61 No data available",)


def test_version_of_nccl(sample: Sample) -> None:
    assert parse_log(sample("nccl/pulsar_allreduce_single_rail.txt")).version == "2.28.3+cuda13.0"


@pytest.mark.parametrize(
    ("name", "count", "last", "average"),
    [
        ("all_gather_two_dell", 1, TestRow(17179869184, (374425.0, 373792.0), (22.94, 22.98)), 22.9611),
        ("all_gather_mpirun_noise", 1, TestRow(17179869184, (363815.0, 356613.0), (23.61, 24.09)), 23.8491),
        ("all_gather_final_topology", 1, TestRow(17179869184, (362805.0, 356282.0), (23.68, 24.11)), 23.8932),
        ("pulsar_allreduce_dual_rail", 10, TestRow(536870912, (26156.9, 26090.8), (20.52, 20.58)), 14.2987),
        ("pulsar_allreduce_dual_rail_small", 18, TestRow(1048576, (322.68, 332.95), (3.25, 3.15)), 0.631517),
        ("pulsar_allreduce_dual_rail_qps4", 8, TestRow(536870912, (23889.3, 23899.3), (22.47, 22.46)), 18.1748),
        ("pulsar_allreduce_single_rail", 27, TestRow(536870912, (38659.7, 38657.4), (13.89, 13.89)), 4.67079),
        ("pulsar_sendrecv_dual_rail", 14, TestRow(536870912, (25023.4, 25009.3), (21.45, 21.47)), 7.9102),
    ],
)
def test_tables_of_nccl_tests(sample: Sample, name: str, count: int, last: TestRow, average: float) -> None:
    tests = parse_tests(sample(f"nccl/{name}.txt"))
    assert (len(tests.rows), tests.rows[-1], tests.average) == (count, last, average)


def test_a_run_that_was_killed_has_no_average(sample: Sample) -> None:
    tests = parse_tests(sample("nccl/pulsar_allreduce_single_rail.txt").partition("# Out of bounds")[0])
    assert (len(tests.rows), tests.average) == (27, None)


def test_our_line_between_those_of_nccl(sample: Sample) -> None:
    text = f"{sample('nccl/log_ib_plugin.txt')}\n{LINE}\nhost:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Destroy COMPLETE\n"
    assert parse_bench(text) == Bench(0, None, None, "2.9.1+cu130", "2.28.3", True, (Run(4096, 2.8e-05, 0.15), Run(256000000, 0.0118, 21.7)))


def test_our_line_that_skips() -> None:
    bench = parse_bench(json.dumps({MARK: 1, "rank": 1, "skipped": "torch 2.9 of this image is built without CUDA"}))
    assert (bench.rank, bench.skipped, bench.runs) == (1, "torch 2.9 of this image is built without CUDA", ())


@pytest.mark.parametrize(
    "text", ["", "{}", '{"other": 1}', f'{{"{MARK}": 1}}', LINE[:-10], LINE.replace("256000000", '"x"'), LINE.replace("21.7", "[]")]
)
def test_no_line_of_ours(text: str) -> None:
    with pytest.raises(ParseError):
        parse_bench(text)


# Whatever is printed


def reads_or_refuses(parse: Callable[[str], object], text: str) -> None:
    try:
        parse(text)
    except ParseError as error:
        assert str(error)


@settings(max_examples=60, deadline=None)
@given(text=st.text())
def test_any_text(text: str) -> None:
    for parsers in PARSERS.values():
        for parse in parsers:
            reads_or_refuses(parse, text)


@settings(max_examples=80, deadline=None)
@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), st.lists, max_leaves=5))
def test_any_value_in_our_line(value: object) -> None:
    for record in ({"rank": value}, {"rank": 0, "runs": value}, {"rank": 0, "runs": [{"size": value, "seconds": 1, "busbw": value}]}):
        reads_or_refuses(parse_bench, json.dumps({MARK: 1, **record}))


@pytest.mark.parametrize("tool", sorted(PARSERS))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_garbled_samples(tool: str, data: st.DataObject) -> None:
    """A sample cut off, with CRLF, with a piece replaced, with bytes that are not UTF-8, or of another tool."""
    text = data.draw(st.sampled_from([*SAMPLES[tool], LINE, *SAMPLES["ping"]]))
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    garbled = [text[:end], text[start:], text.replace("\n", "\r\n"), text[:start] + data.draw(st.text(max_size=10)) + text[end:]]
    garbled.append(text.encode()[start:end].decode("latin-1"))
    garbled.append(text.encode("utf-16")[:end].decode("utf-8", "replace"))
    for parse in PARSERS[tool]:
        for variant in garbled:
            reads_or_refuses(parse, variant)


@pytest.mark.parametrize("tool", sorted(PARSERS))
def test_crlf_reads_like_lf(tool: str) -> None:
    read = 0
    for text in [*SAMPLES[tool], LINE]:
        for parse in PARSERS[tool]:
            try:
                expected = parse(text)
            except ParseError:
                continue
            assert parse(text.replace("\n", "\r\n")) == expected
            read += 1
    assert read
