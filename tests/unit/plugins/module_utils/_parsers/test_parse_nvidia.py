# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NVIDIA's files say beside nvidia-smi."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nvidia import (
    KernelModule,
    parse_cdi,
    parse_cuda_toolkit,
    parse_library,
    parse_module,
    parse_toolkit_mode,
    parse_toolkit_version,
    reduce_cdi,
)

CDI = """cdiVersion: 0.5.0
containerEdits:
  hooks:
  - args: [nvidia-cdi-hook, create-symlinks, --link, libcuda.so.1::/usr/lib/aarch64-linux-gnu/libcuda.so]
  mounts:
  - containerPath: /usr/lib/aarch64-linux-gnu/libcuda.so.580.142
    hostPath: /usr/lib/aarch64-linux-gnu/libcuda.so.580.142
  - containerPath: /usr/lib/aarch64-linux-gnu/libnvidia-ml.so.580.142
    hostPath: /usr/lib/aarch64-linux-gnu/libnvidia-ml.so.580.142
devices:
- name: all
"""
CONFIGURATION = """disable-require = false
mode = "not this one"

[nvidia-container-cli]
environment = []

[nvidia-container-runtime]
log-level = "info"
mode = "{}"

[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
"""


@pytest.mark.parametrize(("name", "version"), [("module_gb10_open", "580.142"), ("module_gb10_with_gcc", "580.173.02")])
def test_the_module_of_a_gb10(sample: Callable[[str], str], name: str, version: str) -> None:
    assert parse_module(sample(f"nvidia/{name}.txt")) == KernelModule(version, "open")


def test_a_proprietary_module() -> None:
    text = "NVRM version: NVIDIA UNIX aarch64 Kernel Module  580.173.02  Tue Jun 23 08:34:19 UTC 2026\nGCC version:  gcc version 13.3.0\n"
    assert parse_module(text) == KernelModule("580.173.02", "proprietary")


@pytest.mark.parametrize("text", ["libcuda.so.580.142\n", "/usr/lib/aarch64-linux-gnu/libcuda.so.580.142"])
def test_the_library(text: str) -> None:
    assert parse_library(text) == "580.142"


def test_the_driver_of_a_cdi_specification() -> None:
    assert parse_cdi(CDI) == "580.142"
    assert parse_cdi(CDI.replace("580.142", "580.95.05")) == "580.95.05"
    assert parse_cdi(reduce_cdi(CDI)) == "580.142"
    assert reduce_cdi(reduce_cdi(CDI)) == reduce_cdi(CDI)


def test_a_specification_with_a_leftover_goes_by_the_majority() -> None:
    assert parse_cdi(CDI + "  - hostPath: /opt/libcuda.so.570.86.15\n") == "580.142"


def test_toolkit_version(sample: Callable[[str], str]) -> None:
    assert parse_toolkit_version(sample("nvidia/toolkit_version.txt")) == "1.17.8"
    assert parse_toolkit_version("NVIDIA Container Toolkit CLI version 1.18.0-rc.2\n") == "1.18.0-rc.2"


@pytest.mark.parametrize("mode", ["auto", "cdi", "legacy"])
def test_toolkit_mode(mode: str) -> None:
    assert parse_toolkit_mode(CONFIGURATION.format(mode)) == mode


def test_cuda_toolkit(sample: Callable[[str], str]) -> None:
    assert parse_cuda_toolkit(sample("nvidia/cuda_version_gb10.txt")) == "13.0.3"


@pytest.mark.parametrize("parse", [parse_module, parse_library, parse_cdi, parse_toolkit_version, parse_toolkit_mode, parse_cuda_toolkit])
@pytest.mark.parametrize("text", ["", "segmentation fault\n", '{"cuda": {"version": 13}}', '[nvidia-container-cli]\nmode = "auto"\n'])
def test_nonsense(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
