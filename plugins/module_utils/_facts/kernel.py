# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel: what runs, what the next boot will run, and what went wrong in this boot and at the end of the one before"""

from __future__ import annotations

import re

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Noted, Probe, Seen, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import KernelEvents, KernelFacts, known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.kernel import (
    BOOT_FORMAT,
    EVENTS,
    PACKAGE_FORMAT,
    Events,
    parse_aer_fatal,
    parse_boot,
    parse_boot_end,
    parse_events,
    parse_installed,
    parse_oom_kills,
    parse_policy,
    parse_reboot_packages,
    parse_uptime,
    reduce_boot_end,
    reduce_events,
    reduce_policy,
    reduce_vmstat,
    version_key,
)
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NO_SUCH_FILE, CommandResult, Reduce

# The metapackages that pull in kernels of DGX OS: an upgrade installs the kernel that they name.
_METAPACKAGE = re.compile(r"^linux-(?:image-)?nvidia(?:-64k)?(?:-hwe-[0-9.]+(?:-edge)?|-[0-9]+\.[0-9]+)?$")
_PACKAGES = ("linux-nvidia*", "linux-image-nvidia*")
_PSTORE = "/sys/fs/pstore"
_ARCHIVE = "/var/lib/systemd/pstore"  # systemd moves records there at the next boot
_LAST_LINES = "50"
_MOST_LINES = "20000"  # of a kernel log that journalctl cannot search itself
_NOT_FOR_US = ("insufficient permissions", "not seeing messages from other users", "Permission denied")
_FOR_READERS = "only root and members of the groups adm and systemd-journal may read the system's journal"


def probes() -> tuple[Probe, ...]:
    return (
        probe("kernel", "kernel", _kernel),
        probe("kernel_images", "kernel", _images),
        probe("kernel_candidate", "kernel", _candidate),
        probe("reboot_required", "kernel", _reboot_required),
        probe("uptime", "kernel", lambda node: parse_uptime(node.require("/proc/uptime"))),
        probe("pstore", "kernel", _crash_records),
        probe("kernel_log", "kernel", _events),
        probe("kernel_counters", "kernel", _counters),
        probe("previous_boot", "kernel", _previous_boot),
    )


def _kernel(node: Node) -> dict[str, str]:
    release = node.require("/proc/sys/kernel/osrelease").strip()
    cmdline = node.read("/proc/cmdline")
    machine = node.output("uname", "-m").strip()
    return known(release=release, machine=machine or None, cmdline=None if cmdline is None else cmdline.strip())  # type: ignore[no-any-return]


def _images(node: Node) -> tuple[tuple[str, ...], str]:
    releases, target = parse_boot(node.output("find", "/boot", "-maxdepth", "1", "-name", "vmlinuz*", "-printf", BOOT_FORMAT))
    if not releases:
        raise Unavailable("/boot: no vmlinuz-*")
    return releases, target or releases[-1]


def _candidate(node: Node) -> str:
    """Of the kernel metapackages that are installed the newest version that apt would install. apt is slow, dpkg is not."""
    listing = node.run("dpkg-query", "--show", f"--showformat={PACKAGE_FORMAT}", *_PACKAGES).stdout
    names = [name for name in parse_installed(listing) if _METAPACKAGE.match(name)]
    if not names:
        raise Unavailable("dpkg-query: no metapackage linux-nvidia-* is installed")
    packages = parse_policy(node.output("apt-cache", "policy", *names, reduce=reduce_policy))
    candidates = [package.candidate for package in packages if package.candidate]
    if not candidates:
        raise Unavailable(f"apt-cache policy: no candidate for {', '.join(names)}")
    return max(candidates, key=version_key)


def _reboot_required(node: Node) -> tuple[bool, tuple[str, ...]]:
    flag = node.exists("/run/reboot-required")
    if flag is None:
        raise Unavailable("/run/reboot-required: not in the recording")
    return flag, parse_reboot_packages(node.read("/run/reboot-required.pkgs") or "") if flag else ()


def _crash_records(node: Node) -> int | Noted:
    """What the kernel left behind when it crashed. Records of older crashes lie where systemd has moved them."""
    result = node.run("find", _PSTORE, _ARCHIVE, "-type", "f", "-printf", r"%p\n")
    count = len([line for line in result.stdout.splitlines() if line.strip()])
    complaints = [line for line in result.stderr.splitlines() if line.strip() and NO_SUCH_FILE not in line]
    if complaints and not count:
        raise Failed(f"{complaints[0]}; only root may list crash records")
    if not complaints and result.rc != 0 and not count and _PSTORE in result.stderr:
        raise Unavailable(f"{_PSTORE}: {NO_SUCH_FILE}")
    return Noted(count, f"{complaints[0]}; only root sees all crash records") if complaints else count


def _journal(node: Node, *argv: str, reduce: Reduce) -> CommandResult:
    result = node.run("journalctl", *argv, "--no-pager", "-o", "cat", reduce=reduce)
    if any(words in result.stderr for words in _NOT_FOR_US):
        raise Failed(f"journalctl: {_FOR_READERS}")
    return result


def _events(node: Node) -> Events | Noted:
    """journalctl searches itself where it was built with PCRE; it says `nothing found` by its exit code."""
    result = _journal(node, "-k", "-b", "0", "--grep", EVENTS, reduce=reduce_events)
    if result.rc != 0 and "pattern matching support" in result.stderr:
        result = _journal(node, "-k", "-b", "0", "-n", _MOST_LINES, reduce=reduce_events)
    if result.rc != 0 and result.stderr.strip():
        raise Failed(f"journalctl: {complaint(result)}")
    if not result.stdout.strip():
        raise Unavailable("journalctl: the journal holds no kernel log of this boot")
    events = parse_events(result.stdout)
    return events if events.complete else Noted(events, "the journal no longer holds the beginning of this boot's kernel log")


def _counters(node: Node) -> dict[str, int]:
    """The kernel's own counts, which everybody may read, unlike its log."""
    vmstat = node.read("/proc/vmstat", reduce_vmstat)
    fatal = []
    for path in node.glob("/sys/bus/pci/devices/*/aer_dev_fatal"):
        text = node.read(path)
        if text is not None:
            fatal.append(parse_aer_fatal(text))
    counters: dict[str, int] = known(oom_kill=parse_oom_kills(vmstat) if vmstat else None, aer_fatal=sum(fatal) if fatal else None)
    if not counters:
        raise Unavailable("neither /proc/vmstat nor PCIe error counters can be read")
    return counters


def _previous_boot(node: Node) -> bool:
    result = _journal(node, "-b", "-1", "-n", _LAST_LINES, reduce=reduce_boot_end)
    if result.rc != 0:
        raise Unavailable(f"journalctl: {complaint(result)}")
    return parse_boot_end(result.stdout)


def kernel_facts(seen: Seen) -> KernelFacts:
    running: dict[str, str] = seen.get("kernel") or {}
    installed, next_boot = seen.get("kernel_images") or (None, None)
    required, packages = seen.get("reboot_required") or (None, ())
    facts: KernelFacts = known(
        **running,
        installed=None if installed is None else list(installed),
        next_boot=next_boot,
        candidate=seen.get("kernel_candidate"),
        reboot_required=required,
        reboot_packages=None if required is None else list(packages),
        uptime=seen.get("uptime"),
        crash_records=seen.get("pstore"),
        previous_boot_clean=seen.get("previous_boot"),
        events=_event_facts(seen) or None,
    )
    return facts


def _event_facts(seen: Seen) -> KernelEvents:
    """A device that went away took its counter along, and a journal forgets: the larger number counts."""
    log: Events | None = seen.get("kernel_log")
    counters: dict[str, int] = seen.get("kernel_counters") or {}
    events: KernelEvents = known(
        oom_kill=_larger(counters.get("oom_kill"), None if log is None else log.oom_kill),
        aer_fatal=_larger(counters.get("aer_fatal"), None if log is None else log.aer_fatal),
        xid=None if log is None else list(log.xid),
        nv_no_memory=None if log is None else log.nv_no_memory,
    )
    return events


def _larger(first: int | None, second: int | None) -> int | None:
    return max((count for count in (first, second) if count is not None), default=None)
