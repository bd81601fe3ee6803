# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""link_bench: everything is really run, against stand-ins for ping, perftest and docker; the all-reduce against one for torch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.cluster.plugins.module_utils._bench import commands, links
from ansible_collections.gb10.cluster.plugins.module_utils._bench.links import Perftest
from ansible_collections.gb10.cluster.plugins.module_utils._bench.script import SCRIPT
from ansible_collections.gb10.cluster.plugins.module_utils._bench.spec import ARGUMENT_SPEC, MOST_BYTES, PORTS
from ansible_collections.gb10.cluster.plugins.module_utils._runner import LiveRunner
from ansible_collections.gb10.cluster.plugins.modules import link_bench
from bench_node import RANK, prepare, say
from module_runner import program, run_module

Bench = Callable[..., dict[str, Any]]
PING = {"netdev": "enp1s0f1np1", "address": "192.168.200.13", "mtu": 9000}
CLIENT = {"hca": "rocep1s0f1", "gid_index": 3, "address": "192.168.200.12", "port": 18530}
#: perftest's way of meeting: the server takes the first connection to its port, the client gives up at once if nobody listens.
MEETING = """
import socket, sys
port, client = int(sys.argv[sys.argv.index("-p") + 1]), sys.argv[-1] == "127.0.0.1"
if client:
    try:
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(b"hello")
            assert peer.recv(5) == b"hello"
    except OSError:
        sys.exit(f"Couldn't connect to 127.0.0.1:{{port}}")
    print(open("{out}").read())
else:
    with socket.create_server(("127.0.0.1", port)) as server, server.accept()[0] as peer:
        peer.sendall(peer.recv(5))
"""
TWIN = {"hca": "roceP2p1s0f1", "gid_index": 3, "address": "192.168.201.12", "port": 18531}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prepare(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def bench(here: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return lambda **arguments: run_module(link_bench.main, capsys, **arguments)


# ping


def test_ping_fills_the_mtu_on_its_own_interface(bench: Bench, here: Path, sample: Callable[[str], str]) -> None:
    say(here, "ping", sample("ping/full_size.txt"))
    result = bench(test="ping", links=[PING, {**PING, "netdev": "enP2p1s0f1np1", "mtu": 1500}])
    assert (result["failed"], result["changed"], result["ran"]) == (False, False, True)
    assert result["links"][0] == {**PING, "transmitted": 3, "received": 3, "round_trip": 0.116, "way_mtu": None}
    calls = sorted((here / "ping.calls").read_text().splitlines())
    assert calls == [
        "-n -M do -c 3 -i 0.2 -W 2 -s 1472 -I enP2p1s0f1np1 192.168.200.13",
        "-n -M do -c 3 -i 0.2 -W 2 -s 8972 -I enp1s0f1np1 192.168.200.13",
    ]


def test_ping_that_is_too_long(bench: Bench, here: Path, sample: Callable[[str], str]) -> None:
    say(here, "ping", sample("ping/too_long.txt"), 1, sample("ping/too_long_stderr.txt"))
    link = bench(test="ping", links=[PING])["links"][0]
    assert (link["received"], link["way_mtu"], link["error"]) == (0, 1500, "local error: message too long, mtu=1500")


def test_ping_that_cannot_be_sent(bench: Bench, here: Path, sample: Callable[[str], str]) -> None:
    say(here, "ping", "", 2, sample("ping/no_device_stderr.txt"))
    link = bench(test="ping", links=[PING])["links"][0]
    assert "No such device" in link["error"] and "transmitted" not in link


# perftest


def test_a_bandwidth_is_bounded_in_bytes(bench: Bench, here: Path, sample: Callable[[str], str]) -> None:
    say(here, "ib_write_bw", sample("perftest/bw_two_dell_q4_rdma_cm.txt"))
    result = bench(test="perftest_client", links=[CLIENT])
    link = result["links"][0]
    assert (link["bandwidth"], link["bandwidth_peak"], link["message"], link["rdma_mtu"]) == (111.61, 111.62, 65536, 1024)
    expected = "ib_write_bw -d rocep1s0f1 -i 1 -p 18530 -F -x 3 --report_gbits -s 65536 -q 4 -n 976 192.168.200.12"
    assert [" ".join(command) for command in result["commands"]] == [expected]
    assert (here / "ib_write_bw.calls").read_text().split() == result["commands"][0][1:]
    assert MOST_BYTES >= 65536 * 4 * 976


def test_both_twins_run_at_once_and_by_time(bench: Bench, here: Path, sample: Callable[[str], str]) -> None:
    (here / "out").write_text(sample("perftest/bw_gb10_single_twin_cpu_util.txt"))
    program(here, "ib_write_bw", f"#!/bin/sh\necho start >> {here}/times\nsleep 0.7\necho end >> {here}/times\ncat {here}/out\n")
    result = bench(test="perftest_client", seconds=4, links=[CLIENT, TWIN])
    assert [link["bandwidth"] for link in result["links"]] == [92.57, 92.57]
    assert "bandwidth_peak" not in result["links"][0]
    assert (here / "times").read_text().split() == ["start", "start", "end", "end"]
    assert all(command[-3:-1] == ["-D", "4"] for command in result["commands"])


def test_latency(bench: Bench, here: Path, sample: Callable[[str], str]) -> None:
    say(here, "ib_write_lat", sample("perftest/lat_two_sparks_rdma_cm.txt"))
    result = bench(test="perftest_client", measure="latency", links=[CLIENT])
    assert (result["links"][0]["latency"], result["links"][0]["latency_99"]) == (1.47, 1.57)
    assert " ".join(result["commands"][0]) == "ib_write_lat -d rocep1s0f1 -i 1 -p 18530 -F -x 3 -s 2 -n 1000 192.168.200.12"


def test_a_client_waits_for_its_server(bench: Bench, here: Path, sample: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_RETRY", 0.05)
    (here / "out").write_text(sample("perftest/bw_two_dell_q4_rdma_cm.txt"))
    late = (
        f"#!/bin/sh\necho x >> {here}/tries\nif [ $(wc -l < {here}/tries) -lt 3 ]; then\n"
        f' echo "Couldn\'t connect to 192.168.200.12:18530" >&2; exit 1; fi\ncat {here}/out\n'
    )
    program(here, "ib_write_bw", late)
    assert bench(test="perftest_client", links=[CLIENT])["links"][0]["bandwidth"] == 111.61
    assert len((here / "tries").read_text().split()) == 3


def test_a_client_whose_server_never_comes(bench: Bench, here: Path) -> None:
    say(here, "ib_write_bw", "", 1, "Couldn't connect to 192.168.200.12:18530\n Unable to init the socket connection\n")
    link = bench(test="perftest_client", links=[CLIENT], wait=1)["links"][0]
    assert link["error"] == "ib_write_bw: Couldn't connect to 192.168.200.12:18530"
    assert "let TCP ports 18515 to 18534 pass" in link["remedy"]


def test_a_server_has_no_address_and_returns_no_number(bench: Bench, here: Path) -> None:
    say(here, "ib_write_bw", "* Waiting for client to connect... *\n")
    result = bench(test="perftest_server", links=[{"hca": "rocep1s0f1", "port": 18530}])
    assert result["links"] == [{"hca": "rocep1s0f1", "port": 18530}]
    assert result["commands"][0][-2:] == ["-n", "976"] and "-x" not in result["commands"][0]


def test_a_server_that_nobody_comes_to_is_ended(bench: Bench, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_SLACK", 0.2)
    program(here, "ib_write_bw", f"#!/bin/sh\necho $$ > {here}/pid\nexec sleep 60\n")
    link = bench(test="perftest_server", links=[{"hca": "rocep1s0f1", "port": 18530}], wait=1)["links"][0]
    assert link["error"] == "ib_write_bw: no answer in 1 s: no client came, or the transfer hung"
    time.sleep(0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(int((here / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("error", "own", "remedy"),
    [
        ("Couldn't allocate MR with error=12", True, "memlock"),
        (" Unable to find the Infiniband/RoCE device", False, "modprobe"),
        ("Failed to modify QP 0x12 to RTR", False, "by their GIDs"),
        ("Did not detect devices \n If device exists, check if driver is up", False, "modprobe"),
        (" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81", False, "Packets of RDMA get lost"),
    ],
)
def test_what_perftest_says_is_explained(bench: Bench, here: Path, error: str, own: bool, remedy: str) -> None:
    clock = "Conflicting CPU frequency values detected: 1500.000000 != 3100.000000. CPU Frequency is not max.\n"
    say(here, "ib_write_bw", " WARNING: BW peak won't be measured in this run.\n", 1, clock + error)
    link = bench(test="perftest_client", links=[CLIENT])["links"][0]
    assert link["error"] == f"ib_write_bw: {error.splitlines()[0].strip()}"
    assert link["own_limit"] is own
    assert remedy in link["remedy"]


def test_output_that_cannot_be_read_is_an_error(bench: Bench, here: Path) -> None:
    say(here, "ib_write_bw", "no table here\n")
    assert bench(test="perftest_client", links=[CLIENT])["links"][0]["error"] == "ib_write_bw: cannot read 'no table here'"


def test_a_port_that_is_taken_is_left_alone(bench: Bench, here: Path) -> None:
    say(here, "ib_write_bw", "")
    with socket.socket() as other:
        port = next(port for port in PORTS if other.connect_ex(("127.0.0.1", port)))
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        result = bench(test="perftest_server", links=[{"hca": "rocep1s0f1", "port": port}])
    assert (result["ran"], result["missing"], result["reason"]) == (False, False, f"TCP port {port} is taken")
    assert not (here / "ib_write_bw.calls").exists()


class Programs:
    """What a runner needs of a module."""

    def get_bin_path(self, arg: str) -> str | None:
        return shutil.which(arg)


def test_the_ends_find_each_other_whoever_is_first(here: Path, sample: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends of both directions at once, the client first: a client that asked the port beforehand would use up the server's one accept."""
    monkeypatch.setattr(links, "_RETRY", 0.1)
    (here / "out").write_text(sample("perftest/bw_two_dell_q4_rdma_cm.txt"))
    program(here, "ib_write_bw", f"#!{sys.executable}\n{MEETING.format(out=here / 'out')}")
    runner = LiveRunner(Programs())
    params = {"measure": "bandwidth", "seconds": 4, "amount": MOST_BYTES, "queue_pairs": 4, "wait": 20}
    client = Perftest(runner, {**params, "test": "perftest_client"})
    server = Perftest(runner, {**params, "test": "perftest_server"})
    near = [{"hca": hca, "port": port, "address": "127.0.0.1"} for hca, port in (("rocep1s0f1", 18533), ("roceP2p1s0f1", 18534))]
    far = [{"hca": link["hca"], "port": link["port"]} for link in near]
    with ThreadPoolExecutor() as pool:
        measured = pool.submit(links.at_once, client.run, near)
        time.sleep(0.3)
        served = pool.submit(links.at_once, server.run, far)
        assert [link.get("bandwidth") for link in measured.result()] == [111.61, 111.61]
        assert served.result() == far


# What a node lacks


@pytest.mark.parametrize("check_mode", [False, True])
def test_without_perftest(bench: Bench, here: Path, monkeypatch: pytest.MonkeyPatch, check_mode: bool) -> None:
    monkeypatch.setenv("PATH", str(here))
    result = bench(test="perftest_client", links=[CLIENT], check_mode=check_mode)
    assert (result["failed"], result["ran"], result["missing"]) == (False, False, True)
    assert result["reason"] == "ib_write_bw is not installed"
    assert result["remedy"] == "Install it on this node: `sudo apt-get install perftest`."


def test_without_verbs(bench: Bench, here: Path) -> None:
    say(here, "ib_write_bw", "")
    (here / "uverbs0").unlink()
    result = bench(test="perftest_server", links=[CLIENT])
    assert (result["ran"], result["missing"]) == (False, True)
    assert result["reason"].startswith("there is no ")


def test_check_mode_runs_nothing(bench: Bench, here: Path) -> None:
    for name in ("ping", "ib_write_bw"):
        say(here, name, "")
    for arguments in ({"test": "ping", "links": [PING]}, {"test": "perftest_client", "links": [CLIENT]}, {"test": "perftest_server"}, RANK):
        result = bench(check_mode=True, **arguments)
        assert (result["changed"], result["ran"], result["missing"]) == (False, False, False)
        assert result["reason"] == "check mode measures nothing"
    assert not list(here.glob("*calls"))
    assert SCRIPT not in json.dumps(bench(check_mode=True, **RANK)["commands"])


# Options


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"test": "ping", "links": [{"netdev": "a", "address": "192.168.0.1"}]}, "links[0] needs mtu"),
        ({"test": "ping", "links": [{**PING, "netdev": "-f"}]}, "'-f' is no name of a device"),
        ({"test": "ping", "links": [{**PING, "address": "-x"}]}, "'-x' is no IPv4 address"),
        ({"test": "ping", "links": [{**PING, "mtu": 20}]}, "an MTU of 20"),
        ({"test": "perftest_client", "links": [{**CLIENT, "port": 22}]}, "port 22 is not between 18515 and 18534"),
        ({"test": "perftest_client", "links": [{**CLIENT, "gid_index": 256}]}, "a GID index of 256"),
        ({"test": "perftest_client", "amount": 16 * 10**9}, "amount is 16000000000; it has to be between 65536 and 256000000"),
        ({"test": "perftest_client", "seconds": 60}, "seconds is 60"),
        ({"test": "nccl"}, "test: nccl needs container; test: nccl needs head"),
        ({**RANK, "rank": 2}, "rank is 2; it has to be between 0 and 1"),
        ({**RANK, "head": {"address": "192.168.200.12", "port": 1}}, "head: port 1 is not"),
    ],
)
def test_options_that_are_wrong(bench: Bench, arguments: dict[str, Any], words: str) -> None:
    result = bench(**arguments)
    assert result["failed"]
    assert words in result["msg"]


def test_the_documentation_is_true() -> None:
    documented = yaml.safe_load(link_bench.DOCUMENTATION)["options"]

    def compare(spec: dict[str, Any], options: dict[str, Any]) -> None:
        assert sorted(spec) == sorted(options)
        for name, option in spec.items():
            for field in ("type", "default", "choices", "elements", "required"):
                assert options[name].get(field) == option.get(field), f"{name}: {field}"
            assert all(sentence.endswith(".") for sentence in options[name]["description"])
            compare(option.get("options", {}), options[name].get("suboptions", {}))

    compare(ARGUMENT_SPEC, documented)
    assert yaml.safe_load(link_bench.EXAMPLES)
    assert yaml.safe_load(link_bench.RETURN)["links"]["contains"]["bandwidth"]["description"].startswith("Gb/s")


def test_the_names_of_the_container_are_ours() -> None:
    assert commands.CONTAINER.startswith("gb10-bench-")
    assert commands.remove() == ["docker", "rm", "--force", "--volumes", "gb10-bench-nccl"]
