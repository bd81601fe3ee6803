# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine made of what others printed, as a recording and as facts.

The default machine is `uncabled.txt`: a Spark with all four functions, no cable, Wi-Fi for management. What every GB10 has in common comes from
nowhere else: MAC addresses of the ports lie at fixed distances, names pair netdevs with HCAs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import gather, select
from ansible_collections.gb10.cluster.plugins.module_utils._runner import SCHEMA, RecordedRunner
from builders import Facts
from iproute2_text import Row, address_row, read_ip

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PORTS = ("enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0", "enP2p1s0f1np1")
#: MAC addresses count from that of enP7s7.
_DISTANCE = {"enP7s7": 0, **dict(zip(PORTS, (1, 2, 5, 6)))}
_PROMPT = re.compile(r"^(?:[\w-]+@(?P<host>[\w-]+):\S*)?\$ (?P<command>.+)$")


def text_of(fixture: str) -> str:
    """A fixture without the line that says where it is from."""
    source, _newline, text = (FIXTURES / fixture).read_text(encoding="utf-8").partition("\n")
    assert source.startswith("# source: "), fixture
    return text


def printed(fixture: str, command: str, host: str | None = None) -> str:
    """What the command printed in a session of `schemes/`, on the host where there are several."""
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text_of(f"schemes/{fixture}").splitlines():
        if prompt := _PROMPT.match(line):
            lines = found.setdefault(str(prompt["host"]), []) if prompt["command"] == command and host in (None, prompt["host"]) else None
        elif lines is not None:
            lines.append(line)
    assert len(found) == 1, f"{command!r} of {host} is not in {fixture} once"
    return "".join(f"{line}\n" for text in found.values() for line in text)


class Spark:
    """One machine on its way to a recording."""

    def __init__(self, rank: int) -> None:
        default = printed("uncabled.txt", "ip a").replace("192.168.111.87/", f"192.168.111.{87 + rank}/")
        self.rank = rank
        self.rows: dict[str, Row] = {row["ifname"]: row for row in read_ip(default)}
        self.commands: dict[tuple[str, ...], str] = {}
        self.files: dict[str, str] = {}
        self.mute: set[str] = set()
        self.near: dict[str, list[Row]] = {}
        self._said: set[str] = set()
        self._shift = rank << 8

    def take(self, row: Row) -> None:
        """A row that a sample has, or what it has of one."""
        name = row["ifname"]
        if "address" in row:
            self._said.add(name)
        self.rows[name] = {**self.rows.get(name, {"mtu": 1500, "addr_info": []}), **row}
        if "flags" not in row and name != "lo":
            self.link(name, row["operstate"] == "UP")

    def link(self, name: str, up: bool) -> None:
        """What the kernel says of a port with a cable, and of one without."""
        self.rows[name] |= {"operstate": "UP" if up else "DOWN", "flags": [*([] if up else ["NO-CARRIER"]), "BROADCAST", "MULTICAST", "UP"]}
        if up:
            self.rows[name]["flags"].append("LOWER_UP")

    def up(self, name: str) -> bool:
        return name in self.rows and "LOWER_UP" in self.rows[name]["flags"]

    def give(self, name: str, address: str, **changes: Any) -> None:
        """An address beside those that are there."""
        row = self.rows[name]
        row["addr_info"] = [*row["addr_info"], {**address_row(address), "label": name, **changes}]

    def another(self) -> None:
        """The same sample stands for a second machine."""
        self._shift += 1 << 8
        self._said.clear()

    def macs(self) -> None:
        """Hardware addresses that the sample does not say: by those that it says, else by the default machine's."""
        anchor = next((name for name in _DISTANCE if name in self._said), None)
        base = _number(self.rows[anchor]["address"]) - _DISTANCE[anchor] if anchor else None
        for name, row in self.rows.items():
            if name not in self._said and name != "lo":
                told = base is not None and name in _DISTANCE
                row["address"] = _mac((base or 0) + _DISTANCE[name] if told else _number(row["address"]) + self._shift)

    def ipv4(self, name: str) -> list[IPv4Interface]:
        row = self.rows.get(name, {})
        return [IPv4Interface(f"{each['local']}/{each['prefixlen']}") for each in row.get("addr_info", []) if each["family"] == "inet"]

    def recording(self) -> dict[str, Any]:
        """What the collector asks for. What no sample says is not in it."""
        session = next(str(address.ip) for name in ("enP7s7", "wlP9s9") for address in self.ipv4(name))
        commands = {
            ("ip", "-j", "-s", "addr"): json.dumps(list(self.rows.values())),
            ("ip", "-4", "-j", "route"): json.dumps(list(self._routes())),
            ("ip", "-6", "-j", "neigh"): json.dumps([{**row, "dev": name} for name, rows in self.near.items() for row in rows]),
            ("ibdev2netdev",): "".join(
                f"roce{name[2:-3]} port 1 ==> {name} ({'Up' if self.up(name) else 'Down'})\n" for name in PORTS if name in self.rows
            ),
            **self.commands,
        }
        files = {"/proc/self/environ": f"HOME=/home/user\0SSH_CONNECTION=192.168.111.20 51235 {session} 22\0USER=user\0", **self.files}
        entries: list[dict[str, Any]] = [{"kind": "command", "argv": list(argv), "rc": 0, "stdout": out} for argv, out in commands.items()]
        entries += [{"kind": "file", "path": path, "content": content} for path, content in files.items()]
        if any(path.startswith("/etc/netplan/") for path in files):
            entries.append({"kind": "file", "path": "/etc/netplan", "error": "Is a directory"})
        return {"schema": SCHEMA, "host": f"node-{self.rank}", "entries": entries}

    def _routes(self) -> Iterator[Row]:
        """The kernel's own: a network for each address of a port that is up."""
        for name, row in self.rows.items():
            if row["operstate"] == "UP":
                for address in self.ipv4(name):
                    yield {"dst": str(address.network), "dev": name, "protocol": "kernel", "scope": "link", "prefsrc": str(address.ip), "flags": []}

    def facts(self) -> Facts:
        facts: Facts = json.loads(_gathered(json.dumps(self.recording())))
        unread = {name: probe["reason"] for name, probe in facts["probes"].items() if probe["status"] not in ("ok", "unavailable")}
        assert not unread, unread
        return facts


def on_cage(cage: str) -> list[str]:
    return [name for name in PORTS if name.endswith(f"np{cage}")]


@lru_cache(maxsize=256)
def _gathered(recording: str) -> str:
    """Facts as text, gathered once for the same recording."""
    return json.dumps(gather(RecordedRunner(json.loads(recording)), select(["fabric"]), 10))


def _number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


def _mac(number: int) -> str:
    return ":".join(f"{number:012x}"[i : i + 2] for i in range(0, 12, 2))
