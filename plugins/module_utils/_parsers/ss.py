# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ss -ltnpH: listening TCP sockets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_PORT = re.compile(r"^[0-9]{1,5}$")
_USER = re.compile(r'"(?P<name>(?:[^"\\]|\\.)*)",pid=(?P<pid>[0-9]{1,10})')


@dataclass(frozen=True)
class Listener:
    address: str
    port: int
    pid: int | None  # only of one's own processes, or for root
    process: str | None


def parse_listeners(text: str) -> tuple[Listener, ...]:
    listeners = []
    for line in text.splitlines():
        fields = line.split(None, 5)
        if not fields or fields[0] == "State":
            continue
        if len(fields) < 5 or fields[0] != "LISTEN":
            raise ParseError("ss", line)
        address, separator, port = fields[3].rpartition(":")
        if not separator or not _PORT.match(port):
            raise ParseError("ss", line)
        user = _USER.search(fields[5]) if len(fields) > 5 else None
        listeners.append(
            Listener(
                address=_address(address),
                port=int(port),
                pid=int(user.group("pid")) if user else None,
                process=user.group("name") if user else None,
            )
        )
    return tuple(listeners)


def _address(text: str) -> str:
    """`[::1]`, `127.0.0.53%lo`, and `*`, which is a dual-stack `::`."""
    return "::" if text == "*" else text.strip("[]").partition("%")[0]
