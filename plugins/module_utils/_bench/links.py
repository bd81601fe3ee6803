# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ping and perftest on a node: one run a link, all links at once, each bounded in time."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._bench import commands
from ansible_collections.gb10.cluster.plugins.module_utils._bench.spec import PORTS
from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.perftest import parse_bandwidth, parse_latency
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ping import parse_ping
from ansible_collections.gb10.cluster.plugins.module_utils._runner import CommandResult, Runner
from ansible_collections.gb10.cluster.plugins.module_utils._words import redact

Link = Mapping[str, Any]
Answer = dict[str, Any]

_PING_SECONDS = 15.0
_SLACK = 15.0  # seconds that a run may take beyond its own length, to start and to end
_RETRY = 0.5  # seconds between two attempts of a client whose server does not listen yet
_NO_SERVER = "Couldn't connect to"
_NOISE = re.compile(r"CPU Frequency is not max|^\s*WARNING: BW peak")
_ADVICE = (
    (r"Couldn't allocate MR|Cannot allocate memory", "Locked memory is limited: raise memlock (/etc/security/limits.conf), or run as root."),
    (_NO_SERVER, f"The other end did not listen, or a firewall is between them: let TCP ports {PORTS[0]} to {PORTS[-1]} pass on the rails."),
    (r"IB device \S+ not found|No IB devices found|Did not detect devices|Unable to find the Infiniband",
     "The HCA has no verbs device: `sudo modprobe mlx5_ib ib_uverbs`, then look at /dev/infiniband and `rdma link`."),
    (r"Failed to modify QP|Unable to Connect the HCA",
     "The ends do not reach each other by their GIDs: each rail needs an address in a subnet of its own, at both ends."),
    (r"Failed status|Completion with error",
     "Packets of RDMA get lost: the same MTU at both ends, a ping on this rail to fill the neighbour table, then the error counters of the port."),
)  # fmt: skip


def at_once(run: Callable[[Link], Answer], links: Sequence[Link]) -> list[Answer]:
    """The answers in the order of the links."""
    if not links:
        return []
    with ThreadPoolExecutor(max_workers=len(links)) as pool:
        return list(pool.map(run, links))


def ping(runner: Runner, link: Link) -> Answer:
    """What came back of full-size packets."""
    answer: Answer = {"netdev": link["netdev"], "address": link["address"], "mtu": link["mtu"]}
    try:
        result = runner.command(commands.ping(link), _PING_SECONDS)
        found = parse_ping(result.stdout, result.stderr)
    except (Failed, ParseError, TimedOut, Unavailable) as error:
        return {**answer, "error": str(error)}
    answer.update(transmitted=found.transmitted, received=found.received, round_trip=found.average, way_mtu=found.mtu)
    return {**answer, "error": found.trouble} if found.trouble else answer


def busy(links: Sequence[Link]) -> list[int]:
    """Ports that a server could not listen on now."""
    taken = []
    for port in sorted({int(link["port"]) for link in links}):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As perftest does: what is left of an earlier connection is in nobody's way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                taken.append(port)
    return taken


class Perftest:
    """One end of a run. The server is ended by its bound of time whatever becomes of the client, of this module or of the connection."""

    def __init__(self, runner: Runner, params: Mapping[str, Any]) -> None:
        self._runner = runner
        self._measure = params["measure"]
        self._client = params["test"] == "perftest_client"
        self._wait = float(params["wait"])
        self._length = float(params["seconds"]) + _SLACK
        self._options = (params["measure"], params["amount"], params["seconds"], params["queue_pairs"], self._client)

    def command(self, link: Link) -> list[str]:
        return commands.perftest(link, *self._options)

    def run(self, link: Link) -> Answer:
        answer: Answer = {"hca": link["hca"], "port": link["port"], **({"address": link["address"]} if self._client else {})}
        try:
            result = self._attempt(link)
            if result.rc:
                return {**answer, **_trouble(result)}
            return {**answer, **self._numbers(result.stdout)} if self._client else answer
        except TimedOut as error:
            other = "server" if self._client else "client"
            return {**answer, "error": f"{error}: no {other} came, or the transfer hung", "remedy": _ADVICE[1][1]}
        except (Failed, ParseError, Unavailable) as error:
            return {**answer, "error": str(error)}

    def _attempt(self, link: Link) -> CommandResult:
        """The client asks again while there is no server yet. A look at the port first would be taken for the client."""
        deadline = time.monotonic() + self._wait
        while True:
            left = max(0.0, deadline - time.monotonic())
            result = self._runner.command(self.command(link), left + self._length)
            if not (self._client and result.rc and _NO_SERVER in result.stderr + result.stdout and left > _RETRY):
                return result
            time.sleep(_RETRY)

    def _numbers(self, stdout: str) -> Answer:
        if self._measure == "latency":
            latency = parse_latency(stdout)
            setup, numbers = latency.setup, {"latency": latency.typical, "latency_average": latency.average, "latency_99": latency.percentile_99}
            numbers.update(message=latency.size, iterations=latency.iterations)
        else:
            bandwidth = parse_bandwidth(stdout)
            row = bandwidth.rows[-1]
            setup, numbers = bandwidth.setup, {"bandwidth": row.average, "message": row.size, "iterations": row.iterations}
            if row.peak is not None:
                numbers["bandwidth_peak"] = row.peak
        return {**numbers, "rdma_mtu": setup.mtu, "gid_index": setup.gid_index}


def _trouble(result: CommandResult) -> Answer:
    """The first line in which perftest says what is wrong, and what to do about it."""
    text = f"{result.stderr}\n{result.stdout}"
    lines = [line.strip() for line in text.splitlines() if line.strip(" -*") and not _NOISE.search(line)]
    said = redact(lines[0])[:300] if lines else f"exit code {result.rc}, and not a word"
    remedy = next((advice for pattern, advice in _ADVICE if re.search(pattern, text)), None)
    own = re.search(_ADVICE[0][0], text) is not None
    return {"error": f"{result.argv[0]}: {said}", "own_limit": own, **({"remedy": remedy} if remedy else {})}
