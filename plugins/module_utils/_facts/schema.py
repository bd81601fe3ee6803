# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of `ansible_facts.gb10`; docs/contracts.md says what each field means and its unit.

Every class is `total=False`: what could not be read is absent, never zero.
"""

from __future__ import annotations

from typing import Any, TypedDict

SCHEMA = 1

SUBSETS = (
    "identity",
    "os",
    "kernel",
    "cpu",
    "memory",
    "gpu",
    "fabric",
    "docker",
    "workloads",
    "deployments",
    "models",
    "disk",
    "services",
    "python",
    "user",
    "ssh",
    "limits",
    "time",
)


class KernelEvents(TypedDict, total=False):
    oom_kill: int
    aer_fatal: int
    xid: list[int]
    nv_no_memory: int


class KernelFacts(TypedDict, total=False):
    release: str
    machine: str
    cmdline: str
    installed: list[str]
    next_boot: str
    candidate: str
    reboot_required: bool
    reboot_packages: list[str]
    uptime: float
    crash_records: int
    previous_boot_clean: bool
    events: KernelEvents


class GpuDevice(TypedDict, total=False):
    index: int
    name: str
    bus_id: str
    compute_capability: str
    temperature: int
    utilization: int
    power: float
    clock: int
    clock_max: int
    state: str
    memory_total: int


class GpuProcessFact(TypedDict, total=False):
    pid: int
    name: str
    memory: int


class GpuFacts(TypedDict, total=False):
    present: bool
    driver: str
    cuda: str
    module: dict[str, str]
    library: str
    cdi: list[dict[str, str]]
    devices: list[GpuDevice]
    processes: list[GpuProcessFact]


class AddressFact(TypedDict, total=False):
    address: str
    prefix: int
    scope: str


class Gid(TypedDict, total=False):
    index: int
    type: str
    gid: str
    address: str


class Port(TypedDict, total=False):
    netdev: str
    hca: str
    pci: str
    cage: int
    twin: int
    carrier: bool
    operstate: str
    speed: int
    mtu: int
    addresses: list[AddressFact]
    state: str
    rate: float
    active_mtu: int
    gids: list[Gid]
    firmware: str
    rx_bytes: int
    tx_bytes: int
    rdma_rx_bytes: int
    rdma_tx_bytes: int
    mac: str
    pcie: dict[str, Any]
    errors: dict[str, int]
    manager: str
    persistent: bool
    files: list[str]
    neighbours: list[dict[str, str]]


class InterfaceFact(TypedDict, total=False):
    name: str
    operstate: str
    mtu: int
    addresses: list[AddressFact]
    mac: str
    kind: str
    manager: str
    persistent: bool
    files: list[str]


class RouteFact(TypedDict, total=False):
    destination: str
    gateway: str
    interface: str


class SshPath(TypedDict, total=False):
    interface: str
    address: str
    peer: str


class NetplanFact(TypedDict, total=False):
    file: str
    readable: bool
    renderer: str
    interfaces: list[str]


class FabricFacts(TypedDict, total=False):
    ports: list[Port]
    interfaces: list[InterfaceFact]
    netplan: list[NetplanFact]
    hotplug: dict[str, bool]
    firewall: dict[str, Any]
    routes: list[RouteFact]
    ssh: SshPath
    devices: list[str]


class DockerFacts(TypedDict, total=False):
    available: bool
    reason: str
    unit: str
    socket: dict[str, Any]
    group: dict[str, bool]
    store: str
    toolkit: str
    toolkit_mode: str
    version: str
    root_dir: str
    storage_driver: str
    runtimes: list[str]
    images: list[dict[str, Any]]
    containers: list[dict[str, Any]]
    volumes: list[dict[str, Any]]


class Workload(TypedDict, total=False):
    name: str
    kind: str
    memory: int
    gpu_memory: int
    rss: int
    pids: list[int]
    container_id: str
    image: str
    engine: str
    managed: bool


class Deployment(TypedDict, total=False):
    kind: str
    path: str


class Revision(TypedDict, total=False):
    revision: str
    complete: bool
    files: int
    size: int
    missing: list[str]


class Repository(TypedDict, total=False):
    repo: str
    refs: dict[str, str]
    size: int
    incomplete: list[str]
    incomplete_size: int
    incomplete_age: float
    foreign: int
    locks: list[dict[str, Any]]
    revisions: list[Revision]


class ModelFacts(TypedDict, total=False):
    cache: str
    exists: bool
    owner: str
    writable: bool
    filesystem: str
    environment: dict[str, str]
    repositories: list[Repository]


class DiskFact(TypedDict, total=False):
    path: str
    mount: str
    filesystem: str
    total: int
    free: int
    inodes_free: int


class ServiceFacts(TypedDict, total=False):
    listening: list[dict[str, Any]]
    units: list[dict[str, Any]]


class ProbeFact(TypedDict, total=False):
    status: str
    reason: str
    seconds: float


class Gb10(TypedDict, total=False):
    schema: int
    source: str
    root: bool
    seconds: float
    identity: dict[str, Any]
    os: dict[str, Any]
    kernel: KernelFacts
    cpu: dict[str, Any]
    memory: dict[str, Any]
    gpu: GpuFacts
    fabric: FabricFacts
    docker: DockerFacts
    workloads: list[Workload]
    deployments: list[Deployment]
    models: ModelFacts
    disk: list[DiskFact]
    services: ServiceFacts
    python: dict[str, Any]
    user: dict[str, Any]
    ssh: dict[str, Any]
    limits: dict[str, int]
    time: dict[str, Any]
    probes: dict[str, ProbeFact]


def known(**fields: Any) -> Any:
    """A fact without what is not known."""
    return {name: value for name, value in fields.items() if value is not None}
