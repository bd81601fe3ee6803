# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel and its boots: /boot, apt-cache policy, the kernel's log, /proc/vmstat, PCIe error counters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

BOOT_FORMAT = r"%f\t%l\n"  # find: name, and what a link points at
PACKAGE_FORMAT = "${db:Status-Status} ${Package}\n"
# What is looked for in the kernel's log. Its very first line is among it: without it the log is not all there.
EVENTS = "Linux version |Xid \\(|NV_ERR_NO_MEMORY|\\(Fatal\\)|Killed process "

_NAME = re.compile(r"^[a-z0-9][a-z0-9.+-]*$")
_STATE = re.compile(r"^[a-z-]+$")
_IMAGE = re.compile(r"^vmlinuz-(?P<release>[0-9][\w.+~-]*)$")
_LEFTOVER = re.compile(r"\.(?:old|bak|dpkg-\w+|signed)$")
_DIGITS = re.compile(r"([0-9]+)")
_UPTIME = re.compile(r"^(?P<seconds>[0-9]{1,12}(?:\.[0-9]{1,6})?) [0-9.]+\s*$")
_PACKAGE = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.+-]*(?::\w+)?):$")
_POLICY = re.compile(r"^  (?P<field>Installed|Candidate): (?P<value>\S.*?)\s*$")
_EVENT = re.compile(EVENTS)
_XID = re.compile(r"Xid \(PCI:[^)]*\): (?P<number>[0-9]{1,6})\b")
_FATAL = re.compile(r"severity=Uncorrect(?:ed|able) \(Fatal\)")
_OOM = re.compile(r"[Oo]ut of memory: Killed process [0-9]+")
_VMSTAT = re.compile(r"^oom_kill (?P<count>[0-9]{1,18})\s*$", re.MULTILINE)
_AER = re.compile(r"^TOTAL_ERR_FATAL (?P<count>[0-9]{1,18})\s*$", re.MULTILINE)
# What systemd and the journal say last. A machine that lost its power or hung says none of it.
_SHUTDOWN = re.compile(
    r"Journal stopped|Syncing filesystems and block devices|Sending SIG(?:TERM|KILL) to remaining processes"
    r"|Reached target .*(?:Reboot|Power[ -]?Off|Halt|Shutdown|poweroff|shutdown|reboot|Kexec)|^Shutting down\.$"
    r"|System is (?:rebooting|powering down)|systemd-shutdown"
)
_NOT_SHUTDOWN = "(no line of a shutdown)"


@dataclass(frozen=True)
class Package:
    name: str
    installed: str | None
    candidate: str | None


@dataclass(frozen=True)
class Events:
    """What this boot's kernel log tells."""

    oom_kill: int
    aer_fatal: int
    xid: tuple[int, ...]  # numbers seen, each once
    nv_no_memory: int
    complete: bool  # the log begins with the boot


def version_key(release: str) -> list[tuple[int, str]]:
    """For sorting: 6.8.0-9 comes before 6.17.0-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(release) if part]


def parse_boot(text: str) -> tuple[tuple[str, ...], str | None]:
    """find in /boot with BOOT_FORMAT: the releases installed, oldest first, and the one that `vmlinuz` points at."""
    releases, target = set(), None
    for line in text.splitlines():
        if not line.strip():
            continue
        name, separator, link = line.partition("\t")
        if not separator:
            raise ParseError("/boot", line)
        match = _IMAGE.match(name.strip())
        if match is not None and not _LEFTOVER.search(name.strip()):
            releases.add(match.group("release"))
        elif name == "vmlinuz":
            match = _IMAGE.match(link.strip().rpartition("/")[2])
            target = match.group("release") if match else None
    return tuple(sorted(releases, key=version_key)), target


def parse_uptime(text: str) -> float:
    match = _UPTIME.match(text)
    if match is None:
        raise ParseError("/proc/uptime", text)
    return float(match.group("seconds"))


def parse_installed(text: str) -> tuple[str, ...]:
    """dpkg-query with PACKAGE_FORMAT: names of the packages that are installed"""
    names = []
    for line in text.splitlines():
        if not line.strip():
            continue
        state, _separator, name = line.strip().partition(" ")
        if not _NAME.match(name) or not _STATE.match(state):
            raise ParseError("dpkg-query", line)
        if state == "installed":
            names.append(name)
    return tuple(names)


def parse_policy(text: str) -> tuple[Package, ...]:
    """`apt-cache policy`; packages that apt does not know are not in its output."""
    blocks: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        head, field = _PACKAGE.match(line.rstrip()), _POLICY.match(line)
        if head is not None:
            blocks.append((head.group("name"), {}))
        elif field is not None and blocks:
            blocks[-1][1][field.group("field")] = field.group("value")
        elif line.strip() and not (blocks and line.startswith(" ")):
            raise ParseError("apt-cache policy", line)
    for name, fields in blocks:
        if "Candidate" not in fields:
            raise ParseError("apt-cache policy", name)
    return tuple(Package(name, _version(fields.get("Installed")), _version(fields.get("Candidate"))) for name, fields in blocks)


def _version(text: str | None) -> str | None:
    return None if text in (None, "(none)") else text


def reduce_policy(text: str) -> str:
    """Without the archives that offer a version."""
    return "".join(line.rstrip() + "\n" for line in text.splitlines() if _PACKAGE.match(line.rstrip()) or _POLICY.match(line))


def parse_reboot_packages(text: str) -> tuple[str, ...]:
    """/run/reboot-required.pkgs: a package a line, once for each upgrade of it."""
    return tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def reduce_events(text: str) -> str:
    """The kernel's log without the lines that no fact is made of."""
    return "".join(f"{line}\n" for line in text.splitlines() if _EVENT.search(line))


def parse_events(text: str) -> Events:
    lines = [line for line in text.splitlines() if _EVENT.search(line)]
    if not lines:
        raise ParseError("the kernel's log", "")
    return Events(
        oom_kill=sum(_OOM.search(line) is not None for line in lines),
        aer_fatal=sum(_FATAL.search(line) is not None for line in lines),
        xid=tuple(sorted({int(match.group("number")) for line in lines if (match := _XID.search(line))})),
        nv_no_memory=sum("NV_ERR_NO_MEMORY" in line for line in lines),
        complete=any("Linux version " in line for line in lines),
    )


def parse_oom_kills(text: str) -> int:
    """/proc/vmstat: processes killed for want of memory since the boot."""
    match = _VMSTAT.search(text.replace("\r\n", "\n"))
    if match is None:
        raise ParseError("/proc/vmstat", text.partition("\n")[0])
    return int(match.group("count"))


def reduce_vmstat(text: str) -> str:
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith("oom_kill "))


def parse_aer_fatal(text: str) -> int:
    """A PCI device's `aer_dev_fatal`: fatal errors since the device appeared."""
    match = _AER.search(text.replace("\r\n", "\n"))
    if match is None:
        raise ParseError("aer_dev_fatal", text.partition("\n")[0])
    return int(match.group("count"))


def reduce_boot_end(text: str) -> str:
    """Of a journal's last lines those that tell of a shutdown."""
    lines = _entries(text)
    return "".join(f"{line}\n" for line in lines if _SHUTDOWN.search(line)) or (f"{_NOT_SHUTDOWN}\n" if lines else "")


def parse_boot_end(text: str) -> bool:
    """The last lines of a boot's journal: whether it ended with a shutdown."""
    lines = _entries(text)
    if not lines:
        raise ParseError("the journal of the previous boot", text)
    return any(_SHUTDOWN.search(line) for line in lines)


def _entries(text: str) -> list[str]:
    """Without journalctl's own remarks: `-- No entries --`"""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("-- ")]
