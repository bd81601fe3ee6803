# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nvidia_smi import (
    GPU_FIELDS,
    Gpu,
    GpuProcess,
    parse_cuda_version,
    parse_gpus,
    parse_processes,
)

MIB = 1024**2
FULL = (
    "index, name, pci.bus_id, driver_version, compute_cap, temperature.gpu, utilization.gpu [%], power.draw [W], memory.total [MiB], "
    "clocks.current.sm [MHz], clocks.max.sm [MHz], pstate\n"
    "0, NVIDIA GB10, 0000000F:01:00.0, 580.142, 12.1, 36, 0 %, 4.12 W, [N/A], 208 MHz, 3003 MHz, P8\n"
)


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        (
            "gpus_header_memory_total",
            "",
            Gpu(None, "NVIDIA GB10", None, "580.95.05", None, None, None, None, None),
        ),
        (
            "gpus_noheader_gigabyte",
            "index gpu_name pci.bus_id driver_version compute_cap memory.total",
            Gpu(0, "NVIDIA GB10", "000f:01:00.0", "580.142", "12.1", None, None, None, None),
        ),
        (
            "gpus_noheader_units",
            "name driver_version temperature.gpu utilization.gpu",
            Gpu(None, "NVIDIA GB10", None, "580.159.03", None, 37, 0, None, None),
        ),
        (
            "gpus_noheader_lenovo",
            "name compute_cap driver_version memory.total",
            Gpu(None, "NVIDIA GB10", None, "580.159.03", "12.1", None, None, None, None),
        ),
        (
            "gpus_noheader_nounits",
            "index name memory.total memory.used memory.free",
            Gpu(0, "NVIDIA GB10", None, None, None, None, None, None, None),
        ),
    ],
)
def test_gpus(sample: Callable[[str], str], name: str, fields: str, expected: Gpu) -> None:
    assert parse_gpus(sample(f"nvidia_smi/{name}.txt"), fields.split()) == (expected,)


def test_all_fields_that_we_ask_for() -> None:
    assert parse_gpus(FULL) == (Gpu(0, "NVIDIA GB10", "000f:01:00.0", "580.142", "12.1", 36, 0, 4.12, None, 208, 3003, "P8"),)
    assert FULL.splitlines()[0].replace(" [%]", "").replace(" [MHz]", "").replace(" [W]", "").replace(" [MiB]", "").split(", ") == list(GPU_FIELDS)


def test_clocks_without_units_or_values() -> None:
    (gpu,) = parse_gpus("name, clocks.sm [MHz], clocks.max.sm [MHz], pstate\nNVIDIA GB10, 799, [N/A], P0\n")
    assert (gpu.clock, gpu.clock_max, gpu.state) == (799, None, "P0")


def test_memory_of_another_gpu_is_in_bytes() -> None:
    assert parse_gpus("name, memory.total [MiB]\nNVIDIA RTX 6000, 49140 MiB\n")[0].memory_total == 49140 * MIB


@pytest.mark.parametrize("parse", [parse_gpus, parse_processes])
def test_no_devices(sample: Callable[[str], str], parse: Callable[[str], tuple[object, ...]]) -> None:
    assert parse(sample("nvidia_smi/no_devices.txt")) == ()


@pytest.mark.parametrize("name", ["could_not_communicate", "driver_library_mismatch"])
def test_other_errors_are_not_parsed(sample: Callable[[str], str], name: str) -> None:
    with pytest.raises(ParseError):
        parse_gpus(sample(f"nvidia_smi/{name}.txt"))
    with pytest.raises(ParseError):
        parse_processes(sample(f"nvidia_smi/{name}.txt"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pid, process_name, used_gpu_memory [MiB]\n", ()),
        ("pid, process_name, used_gpu_memory [MiB]\n374, VLLM::EngineCore, 100352 MiB\n", (GpuProcess(374, "VLLM::EngineCore", 100352 * MIB),)),
        ("pid, process_name, used_gpu_memory [MiB]\n7, a, b, [N/A]\n", (GpuProcess(7, "a, b", None),)),
        ("pid, process_name, used_gpu_memory [MiB]\n7, python, 19135\n", (GpuProcess(7, "python", 19135 * MIB),)),
        ("", ()),
    ],
)
def test_processes(text: str, expected: tuple[GpuProcess, ...]) -> None:
    assert parse_processes(text) == expected


def test_processes_of_a_recorded_machine(sample: Callable[[str], str]) -> None:
    processes = parse_processes(sample("nvidia_smi/processes_dell.txt"))
    assert [(process.pid, process.memory) for process in processes] == [
        (168864, 24420 * MIB),
        (169094, 19871 * MIB),
        (169489, 9279 * MIB),
    ]
    assert {process.name for process in processes} == {"/usr/local/bin/llama-server"}


def test_cuda_version(sample: Callable[[str], str]) -> None:
    assert parse_cuda_version(sample("nvidia_smi/version.txt")) == "13.0"
    with pytest.raises(ParseError):
        parse_cuda_version("NVIDIA-SMI version  : 580.142\n")
