# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""/boot, apt-cache policy, the kernel's log, counters, the end of a boot."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.kernel import (
    Package,
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
)

BEGIN = "Linux version 6.17.0-1014-nvidia (buildd@bos03-arm64-001) #14-Ubuntu SMP PREEMPT_DYNAMIC\n"


def test_kernels_sort_by_number_and_leftovers_do_not_count() -> None:
    text = (
        "vmlinuz-7.0.0-1019-nvidia\t\nvmlinuz-6.17.0-1014-nvidia\t\nvmlinuz-6.8.0-9-generic\t\nvmlinuz-6.17.0-1014-nvidia.old\t\n"
        "vmlinuz\tvmlinuz-6.17.0-1014-nvidia\nvmlinuz.old\tvmlinuz-6.8.0-9-generic\n"
    )
    installed = ("6.8.0-9-generic", "6.17.0-1014-nvidia", "7.0.0-1019-nvidia")
    assert parse_boot(text) == (installed, "6.17.0-1014-nvidia")


def test_a_boot_folder_without_a_link() -> None:
    assert parse_boot("vmlinuz-6.1.0-18-amd64\t\n") == (("6.1.0-18-amd64",), None)
    assert parse_boot("") == ((), None)
    with pytest.raises(ParseError):
        parse_boot("find: no\n")


def test_uptime() -> None:
    assert parse_uptime("86400.53 1690000.17\n") == 86400.53
    with pytest.raises(ParseError):
        parse_uptime("up 3 days\n")


def test_installed_packages() -> None:
    text = "installed linux-image-nvidia-hwe-24.04\nnot-installed linux-nvidia-6.8\nconfig-files linux-nvidia\n"
    assert parse_installed(text) == ("linux-image-nvidia-hwe-24.04",)
    with pytest.raises(ParseError):
        parse_installed("dpkg-query: error\n")


def test_policy(sample: Callable[[str], str]) -> None:
    text = sample("kernel/policy_debian.txt")
    packages = parse_policy(text)
    assert packages[0] == Package("linux-image-amd64", None, "6.1.192-3")
    assert packages[2].name == "python3" and packages[2].installed == packages[2].candidate is not None
    assert parse_policy(reduce_policy(text)) == packages
    assert reduce_policy(reduce_policy(text)) == reduce_policy(text)


def test_a_package_that_nobody_offers() -> None:
    assert parse_policy("linux-nvidia:\n  Installed: 6.1\n  Candidate: (none)\n") == (Package("linux-nvidia", "6.1", None),)
    with pytest.raises(ParseError):
        parse_policy("E: The package lists or status file could not be parsed or opened.\n")


def test_reboot_packages_once() -> None:
    assert parse_reboot_packages("linux-image-7.0.0\nlinux-base\nlinux-image-7.0.0\n") == ("linux-image-7.0.0", "linux-base")


def test_events_of_a_gpu_that_died(sample: Callable[[str], str]) -> None:
    events = parse_events(sample("kernel/events_xid119.txt"))
    assert events.xid == (119, 120)
    assert (events.oom_kill, events.aer_fatal, events.nv_no_memory, events.complete) == (0, 0, 0, False)
    assert parse_events(sample("kernel/events_xid169.txt")).xid == (169,)


def test_all_kinds_of_events() -> None:
    text = (
        f"{BEGIN}usb 1-1: new device\n"
        "NVRM: Xid (PCI:000f:01:00): 13, Graphics SM Warp Exception: Illegal Instruction Parameter\n"
        "NVRM: Xid (PCI:000f:01:00): 13, pid=7, name=python, again\n"
        "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from pRmApi->Alloc()\n"
        "mlx5_core 0000:01:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)\n"
        "mlx5_core 0002:01:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)\n"
        "pcieport 0000:00:00.0: PCIe Bus Error: severity=Correctable\n"
        "Out of memory: Killed process 4711 (python) total-vm:1kB\nMemory cgroup out of memory: Killed process 4712 (lmcache)\n"
    )
    events = parse_events(text)
    assert (events.oom_kill, events.aer_fatal, events.xid, events.nv_no_memory, events.complete) == (2, 2, (13,), 1, True)
    reduced = reduce_events(text)
    assert parse_events(reduced) == events
    assert reduce_events(reduced) == reduced
    assert "usb" not in reduced and "Correctable" not in reduced.replace("Uncorrectable", "")


def test_a_quiet_boot_and_no_log() -> None:
    assert parse_events(BEGIN).xid == ()
    with pytest.raises(ParseError):
        parse_events("")


def test_counters() -> None:
    text = "nr_free_pages 5\noom_kill 3\nzone_reclaim 0\n"
    assert parse_oom_kills(text) == parse_oom_kills(reduce_vmstat(text)) == 3
    assert parse_aer_fatal("Undefined 0\nDLP 0\nTOTAL_ERR_FATAL 2\n") == 2
    for parse in (parse_oom_kills, parse_aer_fatal):
        with pytest.raises(ParseError):
            parse("nothing\n")


def test_a_boot_that_ended_with_a_shutdown(sample: Callable[[str], str]) -> None:
    text = sample("kernel/boot_end_clean.txt")
    assert parse_boot_end(text) is True
    assert parse_boot_end(reduce_boot_end(text)) is True
    assert "lvm2" not in reduce_boot_end(text)


@pytest.mark.parametrize("line", ["Reached target reboot.target - System Reboot.", "Shutting down.", "Journal stopped", "System is rebooting."])
def test_lines_of_a_shutdown(line: str) -> None:
    assert parse_boot_end(f"something\n{line}\n") is True


def test_a_boot_that_broke_off() -> None:
    text = "Started Session 12 of User aurora.\nReached target Multi-User System.\ncontainerd: secret=swordfish\n"
    assert parse_boot_end(text) is False
    reduced = reduce_boot_end(text)
    assert parse_boot_end(reduced) is False
    assert reduce_boot_end(reduced) == reduced
    assert "swordfish" not in reduced and "aurora" not in reduced
    for nothing in ("", "-- No entries --\n"):
        with pytest.raises(ParseError):
            parse_boot_end(reduce_boot_end(nothing))
