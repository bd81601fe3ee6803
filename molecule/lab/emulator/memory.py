"""Who holds the unified memory: containers by their label, the engine's own workers by what they are."""

from __future__ import annotations

import http.client
import json
import re
import socket
import urllib.parse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .common import LIB, RUN, write_atomic, write_in_place

DOCKER = "/var/run/docker.sock"
PROCESSES = RUN / "processes.json"
MEMINFO = RUN / "proc" / "meminfo"
GIB_IN_KIB = 1024 * 1024


@dataclass(frozen=True)
class Holder:
    """One process that holds GPU memory."""

    pid: int
    name: str
    mib: int


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self) -> None:
        super().__init__("docker", timeout=5)

    def connect(self) -> None:
        """The engine listens on a socket file, not on a port."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(5)
        self.sock.connect(DOCKER)


def _ask(path: str) -> Any:
    connection = _UnixConnection()
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def containers() -> list[Holder] | None:
    """The running containers that carry an emulated weight, or None while no engine answers."""
    query = urllib.parse.quote(json.dumps({"label": ["lab.memory_gib"], "status": ["running", "paused"]}))
    found = []
    try:
        for listed in _ask(f"/containers/json?filters={query}"):
            one = _ask(f"/containers/{listed['Id']}/json")
            if not one.get("State", {}).get("Running"):
                continue
            labels = one["Config"]["Labels"]
            mib = int(float(labels["lab.memory_gib"]) * 1024)
            found.append(Holder(one["State"]["Pid"], labels.get("lab.process", "python3"), mib))
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
    return found


def _argv(pid: str) -> list[str]:
    try:
        return Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return [""]


def _parent(pid: str) -> str:
    try:
        return Path("/proc", pid, "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
    except (OSError, IndexError):
        return "0"


def _alone(pid: str) -> bool:
    """Whether an engine core does the work itself: its server was not asked for more than one rank."""
    argv = " ".join(_argv(_parent(pid)))
    asked = re.findall(r"(?:-tp|--tensor-parallel-size|-pp|--pipeline-parallel-size)[ =](\d+)", argv)
    return bool(argv) and all(int(number) == 1 for number in asked)


def ranks(gpu: dict[str, Any]) -> list[Holder]:
    """The running tensor parallel workers of a real engine: each takes the memory of one rank."""
    mib = int(gpu["rank_gib"] * 1024)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        title = _argv(entry.name)[0]
        if title.startswith(tuple(gpu["rank_patterns"])):
            found.append(Holder(int(entry.name), gpu["rank_name"], mib))
        elif title.startswith(gpu["engine_pattern"]) and _alone(entry.name):
            found.append(Holder(int(entry.name), gpu["engine_name"], mib))
    return found


def alive(holders: list[Holder]) -> list[Holder]:
    """Those whose process still exists."""
    return [one for one in holders if Path("/proc", str(one.pid)).exists()]


def publish(settings: dict[str, Any], holders: list[Holder]) -> None:
    """Make nvidia-smi and /proc/meminfo tell the same story."""
    ordered = sorted(holders, key=lambda one: one.pid)
    text = json.dumps([asdict(one) for one in ordered])
    if not PROCESSES.exists() or PROCESSES.read_text() != text:
        write_atomic(PROCESSES, text)
    write_in_place(MEMINFO, meminfo(settings["memory"], sum(one.mib for one in ordered)))


def meminfo(memory: dict[str, float], held_mib: int) -> str:
    """The recorded file with the lines that move: what is held is neither free nor available, the page cache gives way."""
    template = (LIB / "proc" / "meminfo").read_text()
    total = int(re.findall(r"MemTotal: +(\d+)", template)[0])
    held = held_mib * 1024
    os_used, cache, reserve = (int(memory[key] * GIB_IN_KIB) for key in ("os_gib", "page_cache_gib", "reserve_gib"))
    cache = max(reserve // 2, min(cache, total - os_used - held - reserve))
    free = max(reserve, total - os_used - held - cache)
    anonymous = os_used // 4 + held
    values = {
        "MemFree": free,
        "MemAvailable": max(reserve // 2, min(total, free + cache * 85 // 100 - reserve // 4)),
        "Cached": cache,
        "Active": anonymous + cache // 4,
        "Inactive": cache * 3 // 4,
        "Active(anon)": anonymous,
        "Active(file)": cache // 4,
        "Inactive(file)": cache * 3 // 4,
        "AnonPages": anonymous,
        "Committed_AS": os_used + held,
    }

    def line(match: re.Match[str]) -> str:
        key = match.group(1)
        if key not in values:
            return match.group(0)
        width = len(match.group(0)) - len(key) - len(": kB")
        return f"{key}:{values[key]:>{width}} kB"

    return re.sub(r"^([^:\n]+): +\d+ kB$", line, template, flags=re.MULTILINE)
