# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu: whether there is one, who uses it, and whether module, library and CDI specification are of one driver"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Noted, Probe, Seen, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import GpuDevice, GpuFacts, known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nvidia import (
    KernelModule,
    parse_cdi,
    parse_library,
    parse_module,
    reduce_cdi,
)
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nvidia_smi import (
    GPU_FIELDS,
    NO_DEVICES,
    PROCESS_FIELDS,
    Gpu,
    GpuProcess,
    parse_cuda_version,
    parse_gpus,
    parse_processes,
)
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.process import container_ids
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NO_SUCH_FILE, NOT_RECORDED

_LIBRARIES = ("/usr/lib/*-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1")
_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_MODEL = re.compile(r"^Model:\s*(?P<name>\S.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class GpuUser:
    """A process on the GPU, and the containers that its cgroup names."""

    process: GpuProcess
    containers: tuple[str, ...]


def probes() -> tuple[Probe, ...]:
    return (
        probe("nvidia_smi", "gpu identity workloads", _gpus),
        probe("nvidia_smi_processes", "gpu workloads", _processes),
        probe("nvidia_smi_version", "gpu", lambda node: parse_cuda_version(node.output("nvidia-smi", "--version"))),
        probe("nvidia_proc", "gpu identity workloads", _proc),
        probe("nvidia_module", "gpu", lambda node: parse_module(node.require("/proc/driver/nvidia/version"))),
        probe("libcuda", "gpu", _library),
        probe("cdi", "gpu", _specifications),
    )


def _library(node: Node) -> str:
    """The version in the name of the file that `libcuda.so.1` leads to."""
    for pattern in _LIBRARIES:
        for path in node.glob(pattern):
            return parse_library(node.output("readlink", path))
    raise Unavailable("libcuda.so.1: not found")


def _specifications(node: Node) -> list[dict[str, str]] | Noted:
    if all(node.exists(folder) is None for folder in _CDI_FOLDERS):
        raise Unavailable(f"{_CDI_FOLDERS[0]}: {NOT_RECORDED}")
    found, unreadable = [], []
    for pattern in (f"{folder}/*.{suffix}" for folder in _CDI_FOLDERS for suffix in ("yaml", "json")):
        for path in node.glob(pattern):
            result = node.file(path, reduce_cdi)
            try:
                version = parse_cdi(result.content) if result.content else None
            except ParseError:
                version = None  # somebody else's devices
            if result.content is None:
                unreadable.append(f"{path}: {result.error}")
            found.append(known(path=path, version=version))
    return Noted(found, "; ".join(unreadable)) if unreadable else found


def _query(node: Node, option: str) -> str:
    """nvidia-smi says `No devices were found` with exit code 6, and some versions with 0."""
    result = node.run("nvidia-smi", option, "--format=csv")
    if result.rc != 0 and not result.stdout.strip().startswith(NO_DEVICES):
        raise Failed(f"nvidia-smi: {complaint(result)}")
    return result.stdout


def _gpus(node: Node) -> tuple[Gpu, ...]:
    return parse_gpus(_query(node, f"--query-gpu={','.join(GPU_FIELDS)}"))


def _processes(node: Node) -> list[GpuUser]:
    processes = parse_processes(_query(node, f"--query-compute-apps={','.join(PROCESS_FIELDS)}"))
    return [GpuUser(entry, container_ids(node.read(f"/proc/{entry.pid}/cgroup") or "")) for entry in processes]


def _proc(node: Node) -> list[str] | None:
    """Models that the driver knows, which it says even while nvidia-smi hangs. None: no driver is loaded."""
    version = node.file("/proc/driver/nvidia/version")
    if version.error == NO_SUCH_FILE:
        return None
    if version.error is not None:
        raise Unavailable(f"{version.path}: {version.error}")
    names = []
    for path in node.glob("/proc/driver/nvidia/gpus/*/information"):
        match = _MODEL.search(node.read(path) or "")
        names.append(match.group("name") if match else "")
    return names


def gpu_facts(seen: Seen) -> GpuFacts:
    gpus: tuple[Gpu, ...] | None = seen.get("nvidia_smi")
    users: list[GpuUser] | None = seen.get("nvidia_smi_processes")
    module: KernelModule | None = seen.get("nvidia_module")
    drivers = {gpu.driver for gpu in gpus or () if gpu.driver}
    facts: GpuFacts = known(
        present=is_present(seen),
        driver=drivers.pop() if len(drivers) == 1 else None,
        cuda=seen.get("nvidia_smi_version"),
        module=None if module is None else asdict(module),
        library=seen.get("libcuda"),
        cdi=seen.get("cdi"),
        devices=None if gpus is None else [_device(gpu) for gpu in gpus],
        processes=None if users is None else [known(**asdict(user.process)) for user in users],
    )
    return facts


def is_present(seen: Seen) -> bool | None:
    """Presence never depends on memory: on a GB10 nvidia-smi has no number for that. None: nobody could say."""
    gpus: tuple[Gpu, ...] | None = seen.get("nvidia_smi")
    if gpus is not None:
        return bool(gpus)
    if seen.get("nvidia_proc"):
        return True
    # Neither the tool nor a loaded driver. A tool that failed proves nothing.
    without_driver = seen.status("nvidia_smi") == "unavailable" and seen.status("nvidia_proc") == "ok" and seen.get("nvidia_proc") is None
    return False if without_driver else None


def _device(gpu: Gpu) -> GpuDevice:
    fields: dict[str, Any] = {
        "index": gpu.index,
        "name": gpu.name,
        "bus_id": gpu.bus_id,
        "compute_capability": gpu.compute_capability,
        "temperature": gpu.temperature,
        "utilization": gpu.utilization,
        "power": gpu.power,
        "clock": gpu.clock,
        "clock_max": gpu.clock_max,
        "state": gpu.state,
        "memory_total": gpu.memory_total,
    }
    device: GpuDevice = known(**fields)
    return device
