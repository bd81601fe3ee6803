# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""/proc/cpuinfo"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

# (implementer, part) as Arm's Technical Reference Manuals give them; the kernel does not print names on arm64.
_ARM_PARTS = {("0x41", "0xd85"): "Cortex-X925", ("0x41", "0xd87"): "Cortex-A725", ("0x41", "0xd4f"): "Neoverse-V2"}


@dataclass(frozen=True)
class Cpus:
    count: int
    models: tuple[str, ...]  # in the order met first


def parse_cpuinfo(text: str) -> Cpus:
    count = 0
    implementer = ""
    models: dict[str, None] = {}
    for line in text.splitlines():
        name, separator, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if not separator:
            continue
        if name == "processor" and value.isdigit():
            count += 1
        elif name == "model name" and value:
            models[value] = None
        elif name == "CPU implementer":
            implementer = value
        elif name == "CPU part":
            models[_ARM_PARTS.get((implementer, value), f"{implementer}/{value}")] = None
    if count == 0:
        raise ParseError("/proc/cpuinfo", text.partition("\n")[0])
    return Cpus(count, tuple(models))
