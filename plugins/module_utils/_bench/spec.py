# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What link_bench takes, and its bounds. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

#: Bytes: what one run may move (ib_write_bw) or reduce (NCCL). The published test of 16 GB has frozen machines.
MOST_BYTES = 256_000_000
#: TCP ports, perftest's own default first. Servers of ours listen nowhere else.
PORTS = range(18515, 18535)
#: Seconds.
MOST_SECONDS, MOST_WAIT, MOST_TIMEOUT = 10, 120, 600
MOST_QUEUE_PAIRS = 16

LINK: dict[str, Any] = {
    "address": {"type": "str"},
    "netdev": {"type": "str"},
    "mtu": {"type": "int"},
    "hca": {"type": "str"},
    "gid_index": {"type": "int"},
    "port": {"type": "int"},
}
CONTAINER: dict[str, Any] = {
    "image": {"type": "str", "required": True},
    "environment": {"type": "dict", "default": {}},
    "devices": {"type": "list", "elements": "str", "default": []},
    "capabilities": {"type": "list", "elements": "str", "default": []},
    "ulimits": {"type": "list", "elements": "str", "default": []},
    "shm_size": {"type": "str"},
    "python": {"type": "str", "default": "python3"},
}
ARGUMENT_SPEC: dict[str, Any] = {
    "test": {"type": "str", "choices": ["ping", "perftest_server", "perftest_client", "nccl"], "required": True},
    "measure": {"type": "str", "choices": ["bandwidth", "latency"], "default": "bandwidth"},
    "links": {"type": "list", "elements": "dict", "options": LINK, "default": []},
    "amount": {"type": "int", "default": MOST_BYTES},
    "seconds": {"type": "int", "default": 0},
    "queue_pairs": {"type": "int", "default": 4},
    "wait": {"type": "int", "default": 30},
    "container": {"type": "dict", "options": CONTAINER},
    "rank": {"type": "int", "default": 0},
    "world_size": {"type": "int", "default": 2},
    "head": {"type": "dict", "options": {"address": {"type": "str", "required": True}, "port": {"type": "int", "required": True}}},
    "memory": {"type": "int", "default": 4 * 2**30},
    "timeout": {"type": "int", "default": 120},
}

_NEEDED = {
    "ping": ("address", "netdev", "mtu"),
    "perftest_server": ("hca", "port"),
    "perftest_client": ("hca", "port", "address"),
}
# What ends up as a word of a command line.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def problems(params: Mapping[str, Any]) -> list[str]:
    """What is wrong with these options, one sentence each."""
    found = [
        f"{name} is {params[name]}; it has to be between {least} and {most}"
        for name, least, most in (
            ("amount", 65536, MOST_BYTES),
            ("seconds", 0, MOST_SECONDS),
            ("queue_pairs", 1, MOST_QUEUE_PAIRS),
            ("wait", 1, MOST_WAIT),
            ("timeout", 10, MOST_TIMEOUT),
            ("world_size", 2, 64),
            ("rank", 0, params["world_size"] - 1),
        )
        if not least <= params[name] <= most
    ]
    if params["test"] == "nccl":
        found += [f"test: nccl needs {name}" for name in ("container", "head") if not params[name]]
        found += _port(params["head"]["port"], "head") + _address(params["head"]["address"], "head") if params["head"] else []
    else:
        for number, link in enumerate(params["links"]):
            found += _link(link, f"links[{number}]", _NEEDED[params["test"]])
    return found


def _link(link: Mapping[str, Any], where: str, needed: tuple[str, ...]) -> list[str]:
    found = [f"{where} needs {name}" for name in needed if link.get(name) is None]
    for name in ("netdev", "hca"):
        if link.get(name) is not None and not _NAME.fullmatch(link[name]):
            found.append(f"{where}: {link[name]!r} is no name of a device")
    if link.get("mtu") is not None and not 576 <= link["mtu"] <= 65535:
        found.append(f"{where}: an MTU of {link['mtu']} is not between 576 and 65535")
    if link.get("gid_index") is not None and not 0 <= link["gid_index"] <= 255:
        found.append(f"{where}: a GID index of {link['gid_index']} is not between 0 and 255")
    if link.get("address") is not None:
        found += _address(link["address"], where)
    if link.get("port") is not None:
        found += _port(link["port"], where)
    return found


def _address(text: str, where: str) -> list[str]:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return [f"{where}: {text!r} is no IPv4 address"]
    return []


def _port(port: int, where: str) -> list[str]:
    return [] if port in PORTS else [f"{where}: port {port} is not between {PORTS[0]} and {PORTS[-1]}"]
