# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever a tool prints, a parser returns records or raises ParseError."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers import (
    account,
    cpuinfo,
    df,
    docker,
    firewall,
    hf_cache,
    hf_downloads,
    ip,
    kernel,
    meminfo,
    netplan,
    network_manager,
    nvidia,
    nvidia_smi,
    process,
    rdma,
    release,
    ss,
    systemctl,
)
from hypothesis import given, settings
from hypothesis import strategies as st

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
PARSERS: dict[str, list[Callable[[str], object]]] = {
    "account": [
        account.parse_id,
        account.parse_passwd_home,
        account.parse_group,
        account.parse_ahosts,
        account.parse_session,
        account.parse_host_key,
    ],
    "cpuinfo": [cpuinfo.parse_cpuinfo],
    "df": [df.parse_df],
    "firewall": [firewall.parse_ufw_conf, firewall.parse_ufw_status, firewall.parse_nft, firewall.parse_iptables],
    "docker": [docker.parse_info, docker.parse_ids, docker.parse_containers, docker.parse_images, docker.parse_volumes],
    "hf_cache": [hf_cache.parse_listing, hf_cache.parse_index],
    "hf_downloads": [hf_downloads.parse_downloads],
    "ip": [ip.parse_interfaces, ip.parse_routes, ip.parse_neighbours],
    "kernel": [
        kernel.parse_boot,
        kernel.parse_uptime,
        kernel.parse_installed,
        kernel.parse_policy,
        kernel.parse_reboot_packages,
        kernel.parse_events,
        kernel.parse_oom_kills,
        kernel.parse_aer_fatal,
        kernel.parse_boot_end,
    ],
    "meminfo": [meminfo.parse_meminfo, meminfo.parse_swaps],
    "netplan": [netplan.parse_netplan],
    "network_manager": [
        network_manager.parse_devices,
        network_manager.parse_connections,
        network_manager.parse_profiles,
        network_manager.parse_networkctl,
    ],
    "nvidia": [
        nvidia.parse_module,
        nvidia.parse_library,
        nvidia.parse_cdi,
        nvidia.parse_toolkit_version,
        nvidia.parse_toolkit_mode,
        nvidia.parse_cuda_toolkit,
    ],
    "nvidia_smi": [
        nvidia_smi.parse_gpus,
        lambda text: nvidia_smi.parse_gpus(text, ("index", "name", "memory.total")),
        nvidia_smi.parse_processes,
        nvidia_smi.parse_cuda_version,
    ],
    "process": [process.parse_ps, process.parse_cgroups, process.parse_limits, process.parse_locks, process.parse_memory_stat],
    "rdma": [
        rdma.parse_ibdev2netdev,
        rdma.parse_rdma_link,
        rdma.parse_ibstat,
        rdma.parse_ibv_devinfo,
        rdma.parse_rate,
        rdma.parse_state,
        rdma.parse_link_speed,
        rdma.parse_gid,
        rdma.parse_gid_type,
    ],
    "release": [release.parse_os_release, release.parse_dgx_release],
    "ss": [ss.parse_listeners],
    "systemctl": [systemctl.parse_units],
}
# What a recording holds of an output, and the parser that must read the same from it.
REDUCED = {
    "docker": [(docker.reduce_inspect, docker.parse_containers), (docker.reduce_inspect, docker.parse_images)],
    "firewall": [(firewall.reduce_nft, firewall.parse_nft)],
    "hf_cache": [(hf_cache.reduce_index, hf_cache.parse_index)],
    "kernel": [
        (kernel.reduce_policy, kernel.parse_policy),
        (kernel.reduce_events, kernel.parse_events),
        (kernel.reduce_vmstat, kernel.parse_oom_kills),
        (kernel.reduce_boot_end, kernel.parse_boot_end),
    ],
    "netplan": [(netplan.reduce_netplan, netplan.parse_netplan)],
    "network_manager": [(network_manager.reduce_networkctl, network_manager.parse_networkctl)],
    "nvidia": [(nvidia.reduce_cdi, nvidia.parse_cdi)],
}
ALL = [parse for parsers in PARSERS.values() for parse in parsers]
SAMPLES = {tool: [path.read_text(encoding="utf-8") for path in sorted((FIXTURES / tool).glob("*.txt"))] for tool in PARSERS}

# JSON of any shape, with the keys that the parsers look for.
KEYS = ["ifname", "mtu", "flags", "addr_info", "local", "dst", "nexthops", "stats64", "rx", "bytes"]
KEYS += ["network", "ethernets", "addresses", "match", "Interfaces", "Addresses", "Family", "Address", "AdministrativeState", "Name", "cuda"]
KEYS += ["Env", "Ulimits", "Devices", "CapAdd", "RootFS", "Layers", "lladdr", "state"]
KEYS += ["Id", "State", "Config", "HostConfig", "Running", "Pid", "Labels", "Mounts", "Size", "weight_map"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), children, max_size=6),
    max_leaves=12,
)


def reads_or_refuses(parse: Callable[[str], object], text: str) -> None:
    try:
        parse(text)
    except ParseError as error:
        assert str(error)


def test_every_tool_has_samples() -> None:
    assert [tool for tool, samples in SAMPLES.items() if not samples] == []


@settings(max_examples=60, deadline=None)
@given(text=st.text())
def test_any_text(text: str) -> None:
    for parse in ALL:
        reads_or_refuses(parse, text)


@settings(max_examples=100, deadline=None)
@given(value=JSON)
def test_any_json(value: object) -> None:
    text = json.dumps(value)
    for tool in ("ip", "docker", "hf_cache", "netplan", "network_manager", "nvidia"):
        for parse in PARSERS[tool]:
            reads_or_refuses(parse, text)
        for reduce, parse in REDUCED.get(tool, ()):
            reads_or_refuses(parse, reduce(text))
    reads_or_refuses(rdma.parse_rdma_link, text)


@pytest.mark.parametrize("tool", sorted(PARSERS))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_garbled_samples(tool: str, data: st.DataObject) -> None:
    """A sample cut off, with CRLF, with a piece replaced, with bytes that are not UTF-8, or of some other tool."""
    text = data.draw(st.sampled_from(SAMPLES[tool] + SAMPLES["nvidia_smi"]))
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    garbled = [text[:end], text[start:], text.replace("\n", "\r\n"), text[:start] + data.draw(st.text(max_size=10)) + text[end:]]
    garbled.append(text.encode()[start:end].decode("latin-1"))
    garbled.append(text.encode("utf-16")[:end].decode("utf-8", "replace"))
    for parse in PARSERS[tool]:
        for variant in garbled:
            reads_or_refuses(parse, variant)


@pytest.mark.parametrize("tool", sorted(REDUCED))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_reducing_twice_or_garbled_text(tool: str, data: st.DataObject) -> None:
    """What was reduced once stays as it is, for a recording is read through the same reduction; and no text breaks one."""
    text = data.draw(st.sampled_from(SAMPLES[tool]) | st.text())
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    for variant in (text, text[start:], text[:end], text[:start] + data.draw(st.text(max_size=6)) + text[end:]):
        for reduce, parse in REDUCED[tool]:
            once = reduce(variant)
            assert reduce(once) == once
            try:
                expected = parse(variant)
            except ParseError:
                continue
            assert parse(once) == expected


@pytest.mark.parametrize("tool", sorted(PARSERS))
def test_crlf_reads_like_lf(tool: str) -> None:
    for text in SAMPLES[tool]:
        body = text.partition("\n")[2]
        for parse in PARSERS[tool]:
            try:
                expected = parse(body)
            except ParseError:
                continue
            if parse not in (hf_cache.parse_listing, hf_downloads.parse_downloads):  # a file name may end in a carriage return
                assert parse(body.replace("\n", "\r\n")) == expected
