# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ib_write_bw and ib_write_lat of perftest print (4.5 of Debian 12, 24.01 of Ubuntu 24.04, and newer).

The columns are found by their names: with --cpu_util there is one more, and rates are in MB/sec unless --report_gbits is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

# " Number of qps   : 1            Transport type : IB": two settings a line.
_SETTING = re.compile(r"(?P<name>[A-Z#][\w. *#-]*?)\s*:\s+(?P<value>\S+)")
_NUMBER = re.compile(r"^[0-9]{1,18}(?:\.[0-9]{1,9})?$")
_BANDWIDTH = re.compile(r"^BW (?P<which>peak|average)\[(?P<unit>[\w/]+)\]$")
_LATENCY = re.compile(r"^(?:t_(?P<which>min|max|typical|avg)|(?P<percentile>99)% percentile)\[usec\]$")
# perftest divides by 2^20 and calls it MB (later MiB).
_TO_GBITS = {"Gb/sec": 1.0, "MB/sec": 8 * 2**20 / 1e9, "MiB/sec": 8 * 2**20 / 1e9}
_COLUMN = re.compile(r"(?:#|BW |t_|MsgRate|CPU_Util|tps |[0-9.]+% )[^\s\[]*(?: ?percentile)?(?:\[[^\]]*\])?")


@dataclass(frozen=True)
class Setup:
    """What a test ran on. `mtu` is the packet size of RDMA in bytes; with rdma_cm no GID index is printed."""

    device: str | None
    queue_pairs: int | None
    mtu: int | None
    gid_index: int | None


@dataclass(frozen=True)
class BandwidthRow:
    """`size` is that of a message in bytes; peak and average in Gb/s. Of a run by time no peak is measured."""

    size: int
    iterations: int
    peak: float | None
    average: float


@dataclass(frozen=True)
class Bandwidth:
    setup: Setup
    rows: tuple[BandwidthRow, ...]


@dataclass(frozen=True)
class Latency:
    """One way, in microseconds, of messages of `size` bytes."""

    setup: Setup
    size: int
    iterations: int
    minimum: float
    typical: float
    average: float
    maximum: float
    percentile_99: float


def parse_bandwidth(text: str) -> Bandwidth:
    """The rows of ib_write_bw: one, or one a second with --run_infinitely."""
    columns: list[str] = []
    rows = []
    for names, fields in _table(text, "ib_write_bw"):
        columns = names
        values = dict(zip(columns, fields))
        peak, average = _rate(values, "peak"), _rate(values, "average")
        if average is None:
            raise ParseError("ib_write_bw", " ".join(columns))
        rows.append(BandwidthRow(int(values["#bytes"]), int(values["#iterations"]), peak or None, average))
    if not rows:
        raise ParseError("ib_write_bw", _last(text))
    return Bandwidth(_setup(text), tuple(rows))


def parse_latency(text: str) -> Latency:
    """The row of ib_write_lat."""
    for columns, fields in _table(text, "ib_write_lat"):
        found: dict[str, float] = {}
        for name, value in zip(columns, fields):
            match = _LATENCY.match(name)
            if match:
                found[match.group("which") or match.group("percentile")] = float(value)
        if set(found) != {"min", "max", "typical", "avg", "99"}:
            raise ParseError("ib_write_lat", " ".join(columns))
        return Latency(_setup(text), int(fields[0]), int(fields[1]), found["min"], found["typical"], found["avg"], found["max"], found["99"])
    raise ParseError("ib_write_lat", _last(text))


def _table(text: str, source: str) -> list[tuple[list[str], list[str]]]:
    """The rows of numbers below a line of column names. Between them stand warnings about the CPU's frequency."""
    columns: list[str] = []
    rows = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#bytes"):
            columns = _COLUMN.findall(stripped)
            continue
        fields = stripped.split()
        if not columns or not fields or not all(_NUMBER.match(field) for field in fields):
            continue
        if len(fields) < len(columns) or columns[:2] != ["#bytes", "#iterations"] or not (fields[0].isdigit() and fields[1].isdigit()):
            raise ParseError(source, line)
        rows.append((columns, fields))
    return rows


def _rate(values: dict[str, str], which: str) -> float | None:
    """A column of bandwidth in Gb/s."""
    for name, value in values.items():
        match = _BANDWIDTH.match(name)
        if match and match.group("which") == which and match.group("unit") in _TO_GBITS:
            return round(float(value) * _TO_GBITS[match.group("unit")], 2)
    return None


def _setup(text: str) -> Setup:
    """The settings above the table; what is not printed, or is cut off, is None."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip().startswith("#bytes"):
            break
        for match in _SETTING.finditer(line):
            found.setdefault(match.group("name"), match.group("value"))
    return Setup(
        device=found.get("Device"),
        queue_pairs=_whole(found.get("Number of qps")),
        mtu=_whole(found.get("Mtu", "").partition("[")[0]),
        gid_index=_whole(found.get("GID index")),
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,9}", text) else None


def _last(text: str) -> str:
    return text.strip().rpartition("\n")[2]
