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
    hf_cache,
    ip,
    meminfo,
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
    "account": [account.parse_id, account.parse_passwd_home, account.parse_session, account.parse_host_key],
    "cpuinfo": [cpuinfo.parse_cpuinfo],
    "df": [df.parse_df],
    "docker": [docker.parse_info, docker.parse_ids, docker.parse_containers, docker.parse_images, docker.parse_volumes],
    "hf_cache": [hf_cache.parse_listing, hf_cache.parse_index],
    "ip": [ip.parse_interfaces, ip.parse_routes],
    "meminfo": [meminfo.parse_meminfo],
    "nvidia_smi": [
        nvidia_smi.parse_gpus,
        lambda text: nvidia_smi.parse_gpus(text, ("index", "name", "memory.total")),
        nvidia_smi.parse_processes,
        nvidia_smi.parse_cuda_version,
    ],
    "process": [process.parse_ps, process.parse_cgroups, process.parse_limits, process.parse_memory_stat],
    "rdma": [
        rdma.parse_ibdev2netdev,
        rdma.parse_rdma_link,
        rdma.parse_ibstat,
        rdma.parse_ibv_devinfo,
        rdma.parse_rate,
        rdma.parse_state,
        rdma.parse_gid,
        rdma.parse_gid_type,
    ],
    "release": [release.parse_os_release, release.parse_dgx_release],
    "ss": [ss.parse_listeners],
    "systemctl": [systemctl.parse_units],
}
ALL = [parse for parsers in PARSERS.values() for parse in parsers]
SAMPLES = {tool: [path.read_text(encoding="utf-8") for path in sorted((FIXTURES / tool).glob("*.txt"))] for tool in PARSERS}

# JSON of any shape, with the keys that the parsers look for.
KEYS = ["ifname", "mtu", "flags", "addr_info", "local", "dst", "nexthops", "stats64", "rx", "bytes"]
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
    for parse in (*PARSERS["ip"], *PARSERS["docker"], *PARSERS["hf_cache"], rdma.parse_rdma_link):
        reads_or_refuses(parse, text)


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


@pytest.mark.parametrize("tool", sorted(PARSERS))
def test_crlf_reads_like_lf(tool: str) -> None:
    for text in SAMPLES[tool]:
        body = text.partition("\n")[2]
        for parse in PARSERS[tool]:
            try:
                expected = parse(body)
            except ParseError:
                continue
            if parse is not hf_cache.parse_listing:  # a file name may end in a carriage return
                assert parse(body.replace("\n", "\r\n")) == expected
