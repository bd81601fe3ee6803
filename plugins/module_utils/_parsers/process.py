# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes: ps, /proc/<pid>/cgroup, /proc/self/limits, /proc/locks, a memory cgroup's memory.stat."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_PS = re.compile(r"^\s*(?P<pid>[0-9]{1,10})\s+(?P<ppid>[0-9]{1,10})\s+(?P<rss>[0-9]{1,15})\s+(?P<name>\S.*?)\s+(?P<cgroup>\S+)\s*$")
PS_FORMAT = "pid=,ppid=,rss=,comm=,cgroup="
_BYTES = re.compile(r"^[0-9]{1,20}\s*$")
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_CGROUP = re.compile(r"^(?P<hierarchy>[0-9]+):(?P<controllers>[^:]*):(?P<path>/.*)$")
_LIMIT = re.compile(r"^(?P<name>Max [a-z ]+?)\s{2,}(?P<soft>unlimited|[0-9]{1,20})\s+(?:unlimited|[0-9]+)\s*\w*\s*$")
_LOCK = re.compile(r"^[0-9]+:\s+(?P<waits>->\s+)?\S+\s+\S+\s+\S+\s+-?[0-9]+\s+(?:<none>|[0-9a-f]+:[0-9a-f]+):(?P<inode>[0-9]{1,20})\s+\S+\s+\S+\s*$")


@dataclass(frozen=True)
class Process:
    pid: int
    ppid: int
    rss: int  # bytes
    name: str
    containers: tuple[str, ...]  # ids in its cgroup, the innermost first


@dataclass(frozen=True)
class Cgroup:
    """One line of /proc/<pid>/cgroup; version 2 has no controllers."""

    controllers: tuple[str, ...]
    path: str


def parse_ps(text: str) -> tuple[Process, ...]:
    """ps with PS_FORMAT. A name may hold blanks, a cgroup does not."""
    processes = []
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _PS.match(line)
        if match is None:
            raise ParseError("ps", line)
        pid, ppid, rss = (int(match.group(field)) for field in ("pid", "ppid", "rss"))
        processes.append(Process(pid, ppid, rss * 1024, match.group("name"), container_ids(match.group("cgroup"))))
    return tuple(processes)


def parse_cgroups(text: str) -> tuple[Cgroup, ...]:
    cgroups = []
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _CGROUP.match(line)
        if match is None:
            raise ParseError("/proc/PID/cgroup", line)
        cgroups.append(Cgroup(tuple(filter(None, match.group("controllers").split(","))), match.group("path")))
    return tuple(cgroups)


def container_ids(cgroup: str) -> tuple[str, ...]:
    """64-digit ids in a cgroup's path, the innermost first: `/docker/<id>`, `docker-<id>.scope`, and either below another.

    A node that is a container itself has its own id in front of that of the container it runs.
    """
    return tuple(dict.fromkeys(reversed(_CONTAINER.findall(cgroup))))


def parse_limits(text: str) -> dict[str, int]:
    """Soft limits by name (`Max open files`); -1 is unlimited."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or not lines[0].startswith("Limit"):
        raise ParseError("/proc/self/limits", lines[0] if lines else "")
    limits = {}
    for line in lines[1:]:
        match = _LIMIT.match(line)
        if match is None:
            raise ParseError("/proc/self/limits", line)
        soft = match.group("soft")
        limits[match.group("name")] = -1 if soft == "unlimited" else int(soft)
    return limits


def parse_memory_stat(text: str) -> int:
    """Bytes that a cgroup cannot give back: anonymous and shared memory, without the page cache.

    Version 2 calls them `anon` and `shmem`, version 1 `total_rss` and `total_shmem` (the children included).
    """
    fields = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if _BYTES.match(value):
            fields[name] = int(value)
    for anonymous, shared in (("anon", "shmem"), ("total_rss", "total_shmem")):
        if anonymous in fields:
            return fields[anonymous] + fields.get(shared, 0)
    raise ParseError("memory.stat", text.partition("\n")[0])


def parse_locks(text: str) -> frozenset[int]:
    """/proc/locks: inodes of the files that somebody has locked"""
    inodes = set()
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _LOCK.match(line)
        if match is None:
            raise ParseError("/proc/locks", line)
        if not match.group("waits"):
            inodes.add(int(match.group("inode")))
    return frozenset(inodes)
