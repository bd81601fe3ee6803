# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA's files say beside nvidia-smi: kernel module, libcuda, CDI specification, container toolkit, CUDA toolkit."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

# "NVIDIA UNIX Open Kernel Module for aarch64  580.142  Release Build", "NVIDIA UNIX aarch64 Kernel Module  580.142  …"
_MODULE = re.compile(r"^NVRM version:\s*NVIDIA UNIX (?P<open>Open )?.*?Kernel Module\b.*?\s(?P<version>[0-9]{3,4}(?:\.[0-9]+){1,2})\s", re.MULTILINE)
_LIBRARY = re.compile(r"(?:^|/)libcuda\.so\.(?P<version>[0-9]{3,4}(?:\.[0-9]+){1,2})\s*$")
_CDI_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(?P<version>[0-9]{3,4}(?:\.[0-9]+){1,2})(?![.0-9])")
_TOOLKIT = re.compile(r"^NVIDIA Container Toolkit CLI version:? +v?(?P<version>[0-9]+\.[0-9]+\.[0-9]+(?:[-~+.]?rc\.?[0-9]+)?)")
_SECTION = re.compile(r"^\[(?P<name>[\w.\"-]+)\]\s*(?:#.*)?$")
_MODE = re.compile(r"^mode\s*=\s*[\"'](?P<mode>[\w-]+)[\"']\s*(?:#.*)?$")
_VERSION = re.compile(r"^[0-9]+(?:\.[0-9]+){1,3}$")


@dataclass(frozen=True)
class KernelModule:
    version: str
    flavor: str  # open | proprietary


def parse_module(text: str) -> KernelModule:
    """/proc/driver/nvidia/version: the module that is loaded"""
    match = _MODULE.search(text.replace("\r\n", "\n"))
    if match is None:
        raise ParseError("/proc/driver/nvidia/version", text.strip().partition("\n")[0])
    return KernelModule(match.group("version"), "open" if match.group("open") else "proprietary")


def parse_library(text: str) -> str:
    """What `libcuda.so.1` points at: `libcuda.so.580.142`"""
    match = _LIBRARY.search(text.strip())
    if match is None:
        raise ParseError("libcuda.so.1", text)
    return match.group("version")


def parse_cdi(text: str) -> str:
    """A CDI specification, YAML or JSON: the driver whose libraries it names most."""
    versions = Counter(match.group("version") for match in _CDI_LIBRARY.finditer(text))
    if not versions:
        raise ParseError("CDI specification", text.strip().partition("\n")[0])
    return min(versions, key=lambda version: (-versions[version], version))


def reduce_cdi(text: str) -> str:
    """The names of the driver's libraries; the rest of a specification is a hundred kilobytes of paths."""
    return "".join(f"{match.group(0)}\n" for match in _CDI_LIBRARY.finditer(text))


def parse_toolkit_version(text: str) -> str:
    """`nvidia-ctk --version`: `NVIDIA Container Toolkit CLI version 1.18.1`"""
    for line in text.splitlines():
        match = _TOOLKIT.search(line)
        if match is not None:
            return match.group("version")
    raise ParseError("nvidia-ctk --version", text.strip().partition("\n")[0])


def parse_toolkit_mode(text: str) -> str:
    """/etc/nvidia-container-runtime/config.toml: how the runtime puts the GPU into a container."""
    section = ""
    for line in text.splitlines():
        head = _SECTION.match(line.strip())
        mode = _MODE.match(line.strip())
        if head is not None:
            section = head.group("name")
        elif mode is not None and section == "nvidia-container-runtime":
            return mode.group("mode")
    raise ParseError("nvidia-container-runtime/config.toml", text.strip().partition("\n")[0])


def parse_cuda_toolkit(text: str) -> str:
    """/usr/local/cuda/version.json"""
    try:
        version = json.loads(text)["cuda"]["version"]
    except (KeyError, TypeError, ValueError) as error:
        raise ParseError("cuda/version.json", text) from error
    if not isinstance(version, str) or not _VERSION.match(version):
        raise ParseError("cuda/version.json", str(version))
    return version
