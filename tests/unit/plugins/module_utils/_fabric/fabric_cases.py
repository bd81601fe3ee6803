# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links, rails and files to decide about."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gb10.cluster.plugins.module_utils._fabric.document import parse_netplan
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.foreign import Link, NetplanFile
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import Rail
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.plan import State

SAMPLES = Path(__file__).with_name("samples")
F0, F1, P2F0, P2F1 = "enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0", "enP2p1s0f1np1"
MAC = "4c:bb:47:00:00:12"
RAIL = Rail(F0, "192.168.200.12/24", 9000)
LINKS = {name: Link(name, MAC if name == F0 else None) for name in (F0, F1, P2F0, P2F1)}


def own_sample(name: str) -> str:
    lines = (SAMPLES / name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("# source:"))


def netplan(text: str, path: str = "/etc/netplan/40-cx7.yaml") -> NetplanFile:
    return NetplanFile(path, parse_netplan(text))


def ethernet(entry: str, name: str = F0, path: str = "/etc/netplan/40-cx7.yaml") -> NetplanFile:
    """A file with one definition, written in flow style."""
    return netplan(f"network: {{version: 2, ethernets: {{{name}: {entry}}}}}", path)


def state(name: str = F0, *addresses: str, **changes: object) -> State:
    given: dict[str, object] = {"up": True, "mtu": 1500, "by_hand": addresses, **changes}
    return State(name=name, addresses=addresses, **given)  # type: ignore[arg-type]
