# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL says with NCCL_DEBUG=INFO, what nccl-tests print, and the line of our own benchmark.

Which network NCCL uses is read from the channel lines and from nothing else: "NET/IB : No device found." stands in logs of healthy runs too,
before the line that names the devices.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

#: The key that makes a line of JSON ours.
MARK = "gb10_bench"

# "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"; a plugin of NVIDIA's images calls itself NET/IBext_v11.
_CHANNEL = re.compile(r"\bChannel [0-9]+/[0-9]+ ?: ?\S+ -> \S+ \[(?:send|receive)\] via NET/(?P<net>\w+)")
_USING = re.compile(r"\bNET/(?P<net>\w+) : Using (?P<devices>.*)$")
_DEVICE = re.compile(r"\[[0-9]+\](?P<device>[^\s:]+)")
_VERSION = re.compile(r"\bNCCL version (?P<version>[0-9]+\.[0-9]+[\w.+-]*)")
_WARNING = re.compile(r"\bNCCL WARN (?P<text>\S.*)$")
_BYTES = re.compile(r"^[0-9]{1,15}$")
_NUMBER = re.compile(r"^[0-9]{1,12}(?:\.[0-9]{1,6})?$")
_AVERAGE = re.compile(r"^# Avg bus bandwidth\s*: (?P<value>[0-9]{1,12}(?:\.[0-9]{1,9})?)\s*$")
_FIELDS = 13  # of a row of nccl-tests: size, count, type, redop, root, and twice time, algbw, busbw, #wrong


@dataclass(frozen=True)
class Log:
    """`channels`: how many of them each network carries, as (name, number); `devices` of the network that is used, None if not said."""

    version: str | None
    channels: tuple[tuple[str, int], ...]
    devices: tuple[str, ...] | None
    warnings: tuple[str, ...]

    @property
    def transport(self) -> str | None:
        """ib, socket, mixed, or the network's own name; None if no channel line was seen."""
        kinds = {_kind(net) for net, _count in self.channels}
        return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else None


@dataclass(frozen=True)
class TestRow:
    """`size` in bytes; bus bandwidths in GB/s and times in µs, out of place and in place."""

    __test__ = False  # for pytest: not a test

    size: int
    times: tuple[float, float]
    busbw: tuple[float, float]


@dataclass(frozen=True)
class Tests:
    """`average` bus bandwidth in GB/s over all sizes, None if the run ended before it."""

    __test__ = False

    rows: tuple[TestRow, ...]
    average: float | None


@dataclass(frozen=True)
class Run:
    """One message size of our benchmark: bytes, seconds of one all-reduce, bus bandwidth in GB/s."""

    size: int
    seconds: float
    busbw: float


@dataclass(frozen=True)
class Bench:
    """The line of our benchmark. `skipped` says why nothing was measured, `error` why it failed; both are None after success."""

    rank: int
    skipped: str | None
    error: str | None
    torch: str | None
    nccl: str | None
    correct: bool | None
    runs: tuple[Run, ...]


def parse_log(text: str) -> Log:
    """The lines of NCCL in an output that holds others as well. ParseError if there is not one of them."""
    version, found = None, False
    channels: dict[str, int] = {}
    devices: dict[str, tuple[str, ...]] = {}
    warnings: list[str] = []
    for line in text.splitlines():
        found = found or "NCCL" in line or "NET/" in line
        match = _CHANNEL.search(line)
        if match:
            channels[match.group("net")] = channels.get(match.group("net"), 0) + 1
        match = _USING.search(line)
        if match:
            devices[match.group("net")] = tuple(entry.group("device") for entry in _DEVICE.finditer(match.group("devices").partition(";")[0]))
        match = _VERSION.search(line)
        version = version or (match.group("version") if match else None)
        match = _WARNING.search(line)
        if match and len(warnings) < 5:
            warnings.append(match.group("text").strip()[:300])
    if not found:
        raise ParseError("NCCL", text.strip().rpartition("\n")[2])
    return Log(version, tuple(sorted(channels.items())), _devices(devices, channels), tuple(warnings))


def _devices(devices: dict[str, tuple[str, ...]], channels: dict[str, int]) -> tuple[str, ...] | None:
    """Those of the network that carries the channels; before there are channels, those of the network that was found last."""
    wanted = {_kind(net) for net in channels} or {_kind(net) for net in list(devices)[-1:]}
    for net, names in devices.items():
        if _kind(net) in wanted:
            return names
    return None


def _kind(net: str) -> str:
    return "ib" if net.startswith("IB") else "socket" if net == "Socket" else net


def parse_tests(text: str) -> Tests:
    """The table of all_reduce_perf, all_gather_perf, sendrecv_perf, between lines of mpirun and of NCCL."""
    rows, average, seen = [], None, False
    for line in text.splitlines():
        match = _AVERAGE.match(line.strip())
        average = float(match.group("value")) if match else average
        seen = seen or line.startswith("#")
        fields = line.split()
        if line.startswith("#") or len(fields) != _FIELDS or not (_BYTES.match(fields[0]) and _BYTES.match(fields[1])):
            continue
        numbers = [fields[i] for i in (5, 7, 9, 11)]
        if not all(_NUMBER.match(number) for number in numbers):
            raise ParseError("nccl-tests", line)
        out_time, out_bus, in_time, in_bus = (float(number) for number in numbers)
        rows.append(TestRow(int(fields[0]), (out_time, in_time), (out_bus, in_bus)))
    if not rows or not seen:
        raise ParseError("nccl-tests", text.strip().rpartition("\n")[2])
    return Tests(tuple(rows), average)


def parse_bench(text: str) -> Bench:
    """The last line of our own in what the container printed; NCCL's lines stand around it."""
    for line in reversed(text.splitlines()):
        if not line.strip().startswith("{"):
            continue
        try:
            record = json.loads(line)
            if isinstance(record, dict) and MARK in record:
                return _bench(record)
        except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            if f'"{MARK}"' in line:
                raise ParseError("all-reduce", line) from error
    raise ParseError("all-reduce", text.strip().rpartition("\n")[2])


def _bench(record: dict[str, Any]) -> Bench:
    runs = tuple(Run(int(run["size"]), float(run["seconds"]), float(run["busbw"])) for run in record.get("runs") or [])
    correct = record.get("correct")
    return Bench(
        rank=int(record["rank"]),
        skipped=_text(record.get("skipped")),
        error=_text(record.get("error")),
        torch=_text(record.get("torch")),
        nccl=_text(record.get("nccl")),
        correct=correct if isinstance(correct, bool) else None,
        runs=runs,
    )


def _text(value: object) -> str | None:
    return str(value)[:400] if value else None
