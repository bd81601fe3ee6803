# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `ping` of iputils prints (Debian 12, Ubuntu 24.04; LC_ALL=C)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_COUNTS = re.compile(r"^(?P<sent>[0-9]{1,9}) packets transmitted, (?P<received>[0-9]{1,9}) received\b")
_TIMES = re.compile(r"^rtt min/avg/max/mdev = [0-9.]{1,12}/(?P<average>[0-9]{1,9}(?:\.[0-9]{1,6})?)/[0-9.]{1,12}/[0-9.]{1,12} ms")
# In the output, of a router or of our own host: "From 192.168.200.12 icmp_seq=1 Destination Host Unreachable".
_ANSWERED = re.compile(r"^From \S+ icmp_seq=[0-9]+ (?P<why>\S.*)$")
# On standard error: "ping: local error: message too long, mtu=1500", "/usr/bin/ping: SO_BINDTODEVICE x: No such device".
_OWN = re.compile(r"^(?:\S*/)?ping: (?P<why>\S.*)$")
_MTU = re.compile(r"\bmtu ?= ?(?P<mtu>[0-9]{1,6})\b")


@dataclass(frozen=True)
class Ping:
    """`average` is the mean round trip in ms, None if nothing came back; `trouble` what ping complained of first; `mtu` what it says the way has."""

    transmitted: int
    received: int
    average: float | None
    trouble: str | None
    mtu: int | None


def parse_ping(stdout: str, stderr: str = "") -> Ping:
    """The statistics at the end, and the first complaint. ParseError if ping did not get as far as sending."""
    trouble, counts, average = _first(stderr.splitlines(), _OWN), None, None
    for line in stdout.splitlines():
        counts = _COUNTS.match(line.strip()) or counts
        times = _TIMES.match(line.strip())
        average = float(times.group("average")) if times else average
    if counts is None:
        raise ParseError("ping", trouble or stdout.strip().rpartition("\n")[2])
    trouble = trouble or _first(stdout.splitlines(), _ANSWERED)
    mtu = _MTU.search(trouble) if trouble else None
    return Ping(int(counts.group("sent")), int(counts.group("received")), average, trouble, int(mtu.group("mtu")) if mtu else None)


def _first(lines: list[str], pattern: re.Pattern[str]) -> str | None:
    for line in lines:
        match = pattern.match(line.strip())
        if match:
            return match.group("why").strip()[:200]
    return None
