# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi: CSV queries (with header and units) and --version."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

GPU_FIELDS = (
    "index",
    "name",
    "pci.bus_id",
    "driver_version",
    "compute_cap",
    "temperature.gpu",
    "utilization.gpu",
    "power.draw",
    "memory.total",
    "clocks.current.sm",
    "clocks.max.sm",
    "pstate",
)
PROCESS_FIELDS = ("pid", "process_name", "used_memory")
NO_DEVICES = "No devices were found"

_UNITS = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_UNIT_IN_HEADER = re.compile(r"^(?P<name>[\w.]+)(?: \[(?P<unit>[^\]]+)\])?$")
_VALUE = re.compile(r"^(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,9})?)(?: ?(?P<unit>[A-Za-z%]+))?$")
_PID = re.compile(r"^\s*[0-9]{1,10}\s*$")
_BUS_ID = re.compile(r"^(?:0000)?(?P<domain>[0-9A-Fa-f]{4}):(?P<rest>[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])$")


@dataclass(frozen=True)
class Gpu:
    index: int | None
    name: str | None
    bus_id: str | None
    driver: str | None
    compute_capability: str | None
    temperature: int | None  # °C
    utilization: int | None  # percent
    power: float | None  # W
    memory_total: int | None  # bytes; None on unified memory
    clock: int | None = None  # MHz, of the streaming multiprocessors
    clock_max: int | None = None  # MHz
    state: str | None = None  # P0 … P12


@dataclass(frozen=True)
class GpuProcess:
    pid: int
    name: str
    memory: int | None  # bytes


def parse_gpus(text: str, fields: Sequence[str] = ()) -> tuple[Gpu, ...]:
    """`--query-gpu=… --format=csv`, in whatever order the header names the fields; `fields` is for output without a header."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0] == NO_DEVICES:
        return ()
    if not lines:
        raise ParseError("nvidia-smi --query-gpu", "")
    header = dict.fromkeys(fields) if fields else _header(lines.pop(0))
    if not {"name", "gpu_name"} & set(header):
        raise ParseError("nvidia-smi --query-gpu", ", ".join(header))
    gpus = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(header):
            raise ParseError("nvidia-smi --query-gpu", line)
        row = {name: _known(cell) for name, cell in zip(header, cells)}
        gpus.append(_gpu(row, header, line))
    return tuple(gpus)


def _header(line: str) -> dict[str, str | None]:
    """Field name to unit."""
    fields: dict[str, str | None] = {}
    for cell in line.split(","):
        match = _UNIT_IN_HEADER.match(cell.strip())
        if match is None:
            raise ParseError("nvidia-smi", line)
        fields[match.group("name")] = match.group("unit")
    return fields


def _known(cell: str) -> str | None:
    """[N/A], [Not Supported], [Unknown Error], [Insufficient Permissions], ERR!: no value."""
    return None if not cell or cell.startswith("[") or cell in ("N/A", "ERR!") else cell


def _gpu(row: Mapping[str, str | None], header: Mapping[str, str | None], line: str) -> Gpu:
    def number(field: str) -> float | None:
        cell = row.get(field)
        return None if cell is None else _number(cell, header[field], line)

    def whole(field: str) -> int | None:
        value = number(field)
        return None if value is None else round(value)

    bus_id = row.get("pci.bus_id") or row.get("gpu_bus_id")
    return Gpu(
        index=whole("index"),
        name=row.get("name") or row.get("gpu_name"),
        bus_id=_bus_id(bus_id, line) if bus_id else None,
        driver=row.get("driver_version"),
        compute_capability=row.get("compute_cap"),
        temperature=whole("temperature.gpu"),
        utilization=whole("utilization.gpu"),
        power=number("power.draw"),
        memory_total=whole("memory.total"),
        clock=whole("clocks.current.sm") if row.get("clocks.current.sm") else whole("clocks.sm"),
        clock_max=whole("clocks.max.sm"),
        state=row.get("pstate"),
    )


def _number(cell: str, header_unit: str | None, line: str) -> float:
    """A value in base units: bytes for memory, else as printed."""
    match = _VALUE.match(cell)
    if match is None:
        raise ParseError("nvidia-smi", line)
    unit = match.group("unit") or header_unit or ""
    return float(match.group("number")) * _UNITS.get(unit, 1)


def _bus_id(text: str, line: str) -> str:
    """As the kernel writes it: nvidia-smi says 0000000F:01:00.0, sysfs says 000f:01:00.0."""
    match = _BUS_ID.match(text)
    if match is None:
        raise ParseError("nvidia-smi --query-gpu", line)
    return f"{match.group('domain')}:{match.group('rest')}".lower()


def parse_processes(text: str) -> tuple[GpuProcess, ...]:
    """`--query-compute-apps=pid,process_name,used_memory --format=csv`. A process name may hold commas."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or lines[0] == NO_DEVICES:
        return ()
    header = _header(lines[0])
    names = list(header)
    if len(names) != 3 or names[0] != "pid" or names[1] not in ("process_name", "name"):
        raise ParseError("nvidia-smi --query-compute-apps", lines[0])
    processes = []
    for line in lines[1:]:
        if line.startswith("["):  # "[Not Supported]": no list to be had
            continue
        first, _, rest = line.partition(",")
        name, separator, last = rest.rpartition(",")
        if not separator or not _PID.match(first):
            raise ParseError("nvidia-smi --query-compute-apps", line)
        memory = _known(last.strip())
        used = None if memory is None else round(_number(memory, header[names[2]], line))
        processes.append(GpuProcess(int(first), name.strip(), used))
    return tuple(processes)


def parse_cuda_version(text: str) -> str:
    """`--version`: the CUDA version that the driver supports."""
    match = re.search(r"^CUDA Version\s*:\s*(\d+\.\d+)\s*$", text, re.MULTILINE)
    if match is None:
        raise ParseError("nvidia-smi --version", text.strip().partition("\n")[0])
    return match.group(1)
