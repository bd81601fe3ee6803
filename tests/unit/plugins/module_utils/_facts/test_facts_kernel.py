# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel: what runs, what comes next, what went wrong, and what a plain user cannot know."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.kernel import BOOT_FORMAT, EVENTS, PACKAGE_FORMAT
from recorded_node import Answer, answer, facts_from

BOOT = ("find", "/boot", "-maxdepth", "1", "-name", "vmlinuz*", "-printf", BOOT_FORMAT)
PACKAGES = ("dpkg-query", "--show", f"--showformat={PACKAGE_FORMAT}", "linux-nvidia*", "linux-image-nvidia*")
POLICY = ("apt-cache", "policy", "linux-image-nvidia-hwe-24.04", "linux-nvidia-hwe-24.04")
PSTORE = ("find", "/sys/fs/pstore", "/var/lib/systemd/pstore", "-type", "f", "-printf", r"%p\n")
LOG = ("journalctl", "-k", "-b", "0", "--grep", EVENTS, "--no-pager", "-o", "cat")
WHOLE_LOG = ("journalctl", "-k", "-b", "0", "-n", "20000", "--no-pager", "-o", "cat")
PREVIOUS = ("journalctl", "-b", "-1", "-n", "50", "--no-pager", "-o", "cat")
BEGIN = "Linux version 6.17.0-1014-nvidia (buildd@x)\n"
HINT = (
    "Hint: You are currently not seeing messages from other users and the system.\n"
    "      Users in groups 'adm', 'systemd-journal' can see all messages.\n"
)


def kernel(commands: dict[tuple[str, ...], Answer], files: dict[str, str | None] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    facts = facts_from("kernel", commands, files or {})
    return facts.get("kernel", {}), facts["probes"]


def test_a_new_kernel_waits_for_the_next_boot() -> None:
    policy = (
        "linux-image-nvidia-hwe-24.04:\n  Installed: 6.17.0-1014.14\n  Candidate: 7.0.0-1019.19\n"
        "linux-nvidia-hwe-24.04:\n  Installed: 6.17.0-1014.14\n  Candidate: 6.17.0-1032.32\n"
    )
    names = "installed linux-image-nvidia-hwe-24.04\ninstalled linux-nvidia-hwe-24.04\ninstalled linux-nvidia-hwe-24.04-headers\n"
    facts, _probes = kernel(
        {
            BOOT: answer("vmlinuz-7.0.0-1019-nvidia\t\nvmlinuz-6.17.0-1014-nvidia\t\nvmlinuz\tvmlinuz-7.0.0-1019-nvidia\n"),
            PACKAGES: answer(names),
            POLICY: answer(policy),
        },
        {
            "/run/reboot-required": "*** System restart required ***\n",
            "/run/reboot-required.pkgs": "linux-image-7.0.0-1019-nvidia\nlinux-base\n",
            "/proc/uptime": "86400.50 1.00\n",
        },
    )
    assert facts["installed"] == ["6.17.0-1014-nvidia", "7.0.0-1019-nvidia"]
    assert (facts["next_boot"], facts["candidate"]) == ("7.0.0-1019-nvidia", "7.0.0-1019.19")
    assert (facts["reboot_required"], facts["reboot_packages"]) == (True, ["linux-image-7.0.0-1019-nvidia", "linux-base"])
    assert facts["uptime"] == 86400.5


def test_without_a_link_the_newest_kernel_is_booted() -> None:
    facts, _probes = kernel({BOOT: answer("vmlinuz-6.8.0-9-generic\t\nvmlinuz-6.17.0-1014-nvidia\t\n")}, {"/run/reboot-required": None})
    assert facts == {
        "installed": ["6.8.0-9-generic", "6.17.0-1014-nvidia"],
        "next_boot": "6.17.0-1014-nvidia",
        "reboot_required": False,
        "reboot_packages": [],
    }


def test_nothing_known_is_nothing_said() -> None:
    facts, probes = kernel({PACKAGES: answer("not-installed linux-nvidia-6.8\n"), BOOT: answer("")})
    assert facts == {}
    assert "no metapackage linux-nvidia" in probes["kernel_candidate"]["reason"]
    assert probes["reboot_required"]["status"] == "unavailable"


def test_events_in_the_log_and_in_the_counters() -> None:
    log = BEGIN + "NVRM: Xid (PCI:000f:01:00): 119, pid=1\nNVRM: NV_ERR_NO_MEMORY\nOut of memory: Killed process 1 (python)\n"
    aer = "/sys/bus/pci/devices/0000:01:00.{}/aer_dev_fatal"
    files: dict[str, str | None] = {"/proc/vmstat": "oom_kill 3\n", aer.format(0): "TOTAL_ERR_FATAL 1\n", aer.format(1): "TOTAL_ERR_FATAL 2\n"}
    facts, _probes = kernel({LOG: answer(log)}, files)
    assert facts["events"] == {"oom_kill": 3, "aer_fatal": 3, "xid": [119], "nv_no_memory": 1}


def test_a_plain_user_sees_the_counters_only() -> None:
    facts, probes = kernel({LOG: answer(rc=1, stderr=HINT), PREVIOUS: answer(rc=1, stderr=HINT)}, {"/proc/vmstat": "oom_kill 0\n"})
    assert facts == {"events": {"oom_kill": 0}}
    for probe in ("kernel_log", "previous_boot"):
        assert probes[probe]["status"] == "failed"
        assert "only root and members of the groups adm" in probes[probe]["reason"]


def test_a_quiet_log_and_one_that_was_cut() -> None:
    facts, probes = kernel({LOG: answer(BEGIN)})
    assert facts["events"] == {"oom_kill": 0, "aer_fatal": 0, "xid": [], "nv_no_memory": 0}
    assert "reason" not in probes["kernel_log"]
    facts, probes = kernel({LOG: answer("NVRM: Xid (PCI:000f:01:00): 13, x\n")})
    assert facts["events"]["xid"] == [13]
    assert "no longer holds the beginning" in probes["kernel_log"]["reason"]
    facts, probes = kernel({LOG: answer(rc=1)})
    assert (facts, probes["kernel_log"]["status"]) == ({}, "unavailable")


def test_a_journal_that_cannot_search() -> None:
    refusal = answer(rc=1, stderr="Compiled without pattern matching support\n")
    facts, _probes = kernel({LOG: refusal, WHOLE_LOG: answer(BEGIN + "usb 1-1: new\nNVRM: Xid (PCI:000f:01:00): 79, x\n")})
    assert facts["events"]["xid"] == [79]


@pytest.mark.parametrize(
    ("stdout", "rc", "stderr", "expected", "status"),
    [
        ("Reached target reboot.target - System Reboot.\nShutting down.\n", 0, "", True, "ok"),
        ("Started Session 12 of User aurora.\n", 0, "", False, "ok"),
        ("", 1, "Data from the specified boot (-1) is not available: No such boot ID in journal\n", None, "unavailable"),
    ],
)
def test_the_end_of_the_boot_before(stdout: str, rc: int, stderr: str, expected: bool | None, status: str) -> None:
    facts, probes = kernel({PREVIOUS: answer(stdout, rc, stderr)})
    assert (facts.get("previous_boot_clean"), probes["previous_boot"]["status"]) == (expected, status)


DENIED = "find: '/sys/fs/pstore': Permission denied\n"


@pytest.mark.parametrize(
    ("stdout", "stderr", "expected", "reason"),
    [
        ("", "", 0, None),
        ("/sys/fs/pstore/dmesg-efi-1\n/var/lib/systemd/pstore/7/dmesg.txt\n", "", 2, None),
        ("", "find: '/var/lib/systemd/pstore': No such file or directory\n", 0, None),
        ("", DENIED, None, "only root may list crash records"),
        ("/var/lib/systemd/pstore/7/dmesg.txt\n", DENIED, 1, "only root sees all crash records"),
        ("", "find: '/sys/fs/pstore': No such file or directory\n", None, "No such file"),
    ],
)
def test_crash_records(stdout: str, stderr: str, expected: int | None, reason: str | None) -> None:
    facts, probes = kernel({PSTORE: answer(stdout, 1 if stderr else 0, stderr)})
    assert facts.get("crash_records") == expected
    assert (reason or "") in probes["pstore"].get("reason", "")
