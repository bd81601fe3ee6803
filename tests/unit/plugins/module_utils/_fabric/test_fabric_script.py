# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal and the way back, on real files with a real shell; the programs that would change a machine only write down that they were called."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.journal import NONE, PENDING, REVERTED, Journal
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import Busy, Paths, Refused
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.plan import Change, State
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.script import boot_unit, revert_script, undone
from fabric_cases import F0, RAIL, state

TOKEN = "0123abcd"
OLD, NEW = "old: file\n", "new: file\n"


class Place:
    """A root of its own with our files in it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.paths = Paths(str(base))
        self.journal = Journal(self.paths)
        self.programs = base / "bin"
        self.programs.mkdir()
        for name in ("netplan", "networkctl", "nmcli", "systemctl"):
            self.program(name, "")
        self.program("ip", f"case $* in *show*) cat {base}/addresses 2>/dev/null; exit 0 ;; esac\n")
        for folder in (self.paths.etc, self.paths.networkd):
            os.makedirs(folder)

    def program(self, name: str, rest: str) -> None:
        path = self.programs / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.base}/calls\n{rest}')
        path.chmod(0o755)

    def prepare(self, old: str | None = OLD, new: str | None = NEW, was: State | None = None) -> None:
        if old is not None:
            Path(self.paths.file).write_text(old)
        before = {F0: was or state(F0, manager="networkd")}
        change = Change(old, new, (RAIL,), {}, before, {}, {F0: "networkd"})
        record = {"token": TOKEN, "started": 1000.0, "old": old, "new": new, "phase": "prepared"}
        self.journal.prepare(record, new, revert_script(self.paths, change, TOKEN), boot_unit(self.paths))

    def revert(self, when: str = "now", why: str = "because of this test") -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.programs}:{os.environ['PATH']}"}
        script = Path(self.base / "copy.sh")
        script.write_text(Path(self.paths.script).read_text())
        return subprocess.run(["sh", str(script), when, why], env=environment, capture_output=True, text=True, timeout=60)

    def calls(self) -> list[str]:
        path = self.base / "calls"
        return [line for line in path.read_text().splitlines() if " show " not in line] if path.exists() else []

    def files(self) -> dict[str, str]:
        return {entry.name: entry.read_text() for entry in sorted(Path(self.paths.etc).iterdir())}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_shell_understands_the_script(place: Place) -> None:
    place.prepare()
    assert subprocess.run(["sh", "-n", place.paths.script], capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize("old", [OLD, None])
@pytest.mark.parametrize("new", [NEW, None])
@pytest.mark.parametrize("made", [True, False], ids=["after the change", "before it"])
def test_the_file_comes_back_wherever_it_was_interrupted(place: Place, old: str | None, new: str | None, made: bool) -> None:
    place.prepare(old, new)
    if made and (old or new):
        place.journal.put(new)
    assert place.revert().returncode == 0
    assert place.files() == ({"60-gb10-fabric.yaml": OLD} if old else {})
    standing = place.journal.standing()
    assert (standing.state, standing.why, standing.record["token"]) == (REVERTED, "because of this test", TOKEN)
    assert not os.path.lexists(place.paths.boot_unit)
    assert not os.path.lexists(place.paths.boot_link)


def test_the_link_comes_back(place: Place) -> None:
    place.prepare(was=state(F0, "10.0.0.1/30", up=False, manager="networkd"))
    (place.base / "addresses").write_text(f"4: {F0}    inet {RAIL.address} brd 192.168.200.255 scope global {F0}\n")
    place.revert()
    assert place.calls() == [
        "netplan generate",
        "networkctl reload",
        f"networkctl reconfigure {F0}",
        f"ip address del {RAIL.address} dev {F0}",
        f"ip address add 10.0.0.1/30 dev {F0}",
        f"ip link set dev {F0} mtu 1500",
        f"ip link set dev {F0} down",
        "systemctl stop gb10-fabric-revert.timer",
    ]


def test_networkmanagers_profile_comes_back(place: Place) -> None:
    place.prepare(was=state(F0, manager="NetworkManager", profile="1912e340-083a-3580-9ede-8a6b99efba75"))
    place.revert()
    assert f"nmcli --wait 0 connection up uuid 1912e340-083a-3580-9ede-8a6b99efba75 ifname {F0}" in place.calls()


def test_at_boot_nobody_is_asked_who_does_not_run_yet(place: Place) -> None:
    place.prepare()
    place.revert("boot")
    assert place.calls() == ["netplan generate"]
    assert place.journal.standing().state == REVERTED


def test_twice_is_as_once(place: Place) -> None:
    place.prepare()
    place.journal.put(NEW)
    place.revert()
    first = place.calls()
    assert place.revert("timer").returncode == 0
    assert place.calls() == first
    assert place.files() == {"60-gb10-fabric.yaml": OLD}


def test_what_was_confirmed_stays(place: Place) -> None:
    place.prepare()
    place.journal.put(NEW)
    place.journal.confirm(absent=False)
    assert place.revert("timer").returncode == 0
    assert place.calls() == []
    assert place.files() == {"60-gb10-fabric.yaml": NEW}
    assert place.journal.applied()["token"] == TOKEN


def test_a_late_timer_leaves_the_next_change_alone(place: Place) -> None:
    place.prepare()
    place.journal.put(NEW)
    journal = Path(place.paths.journal)
    journal.write_text(journal.read_text().replace(TOKEN, "feed"))
    assert place.revert("timer").returncode == 0
    assert place.calls() == []
    assert place.files()["60-gb10-fabric.yaml"] == NEW
    assert os.path.lexists(place.paths.boot_link)


def test_a_program_that_fails_does_not_stop_the_way_back(place: Place) -> None:
    place.prepare()
    place.journal.put(NEW)
    place.program("netplan", "exit 1\n")
    assert place.revert().returncode == 0
    assert place.files() == {"60-gb10-fabric.yaml": OLD}
    assert place.journal.standing().why == "because of this test (failed: netplan generate)"
    assert f"networkctl reconfigure {F0}" in place.calls()


@pytest.mark.parametrize(("quick", "failed"), [(True, ""), (False, f" (failed: ip address del {RAIL.address} dev {F0})")])
def test_an_address_that_a_manager_takes_first_is_no_failure(place: Place, quick: bool, failed: str) -> None:
    (place.base / "addresses").write_text(f"4: {F0}    inet {RAIL.address} brd 192.168.200.255 scope global {F0}\n")
    take = f"rm {place.base}/addresses; " if quick else ""
    place.program("ip", f"case $* in *show*) cat {place.base}/addresses 2>/dev/null ;; *del*) {take}exit 2 ;; esac\n")
    place.prepare()
    place.revert()
    assert place.journal.standing().why == f"because of this test{failed}"


def test_files_that_netplan_writes_as_they_were_stay_the_same_files(place: Place) -> None:
    """networkd would configure the other links anew otherwise, the way of the session among them."""
    live = Path(place.paths.networkd)
    (live / "10-netplan-mg0.network").write_text("same")
    (live / "10-netplan-rail.network").write_text("old")
    inode = (live / "10-netplan-mg0.network").stat().st_ino
    place.prepare()
    place.program("netplan", f"cd {live}; rm -f *; echo -n same > 10-netplan-mg0.network; echo -n new > 10-netplan-rail.network\n")
    place.revert()
    assert (live / "10-netplan-mg0.network").stat().st_ino == inode
    assert (live / "10-netplan-rail.network").read_text() == "new"

    place.journal.keep()
    subprocess.run([str(place.programs / "netplan")], check=True)
    assert (live / "10-netplan-mg0.network").stat().st_ino != inode
    place.journal.restore_kept()
    assert (live / "10-netplan-mg0.network").stat().st_ino == inode


def test_the_unit_comes_before_everybody_who_gives_addresses(place: Place) -> None:
    text = boot_unit(Paths())
    assert "ConditionPathExists=/var/lib/gb10/fabric/journal.json" in text
    before = next(line for line in text.splitlines() if line.startswith("Before="))
    assert {"systemd-networkd.service", "NetworkManager.service", "network-pre.target"} <= set(before.split("=")[1].split())
    assert "DefaultDependencies=no" in text


def test_modes(place: Place) -> None:
    place.prepare()
    place.journal.put(NEW)
    modes = {path: oct(os.stat(path).st_mode & 0o777) for path in (place.paths.state, place.paths.journal, place.paths.file, place.paths.script)}
    assert list(modes.values()) == ["0o700", "0o600", "0o600", "0o700"]


@pytest.mark.parametrize("number", range(10))
def test_a_full_disk_leaves_nothing_behind(place: Place, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Whichever of the files, or of their directories, does not fit."""
    calls = iter(range(100))
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(Refused, match=r"^/\S+: No space left on device\. Nothing was changed; make room there and run again\.$"):
        place.prepare()
    assert place.files() == {"60-gb10-fabric.yaml": OLD}
    assert not os.path.exists(place.paths.state)
    assert not os.path.lexists(place.paths.boot_link)
    assert not os.path.lexists(place.paths.boot_unit)


def test_standings(place: Place) -> None:
    assert place.journal.standing().state == NONE
    place.prepare()
    standing = place.journal.standing()
    assert (standing.state, standing.when, standing.record["old"]) == (PENDING, 1000.0, OLD)
    Path(place.paths.journal).write_text("{half")
    assert place.journal.standing().state == PENDING


def test_a_change_that_is_over_is_not_marked(place: Place) -> None:
    place.prepare()
    assert not place.journal.mark("another", phase="applied")
    assert place.journal.mark(TOKEN, phase="applied")
    assert place.journal.standing().record["phase"] == "applied"
    place.revert()
    assert not place.journal.mark(TOKEN, phase="applied")
    assert not os.path.exists(place.paths.journal)


def test_absent_leaves_no_trace(place: Place) -> None:
    place.prepare(new=None)
    place.journal.put(None)
    place.journal.confirm(absent=True)
    place.journal.tidy()
    assert place.files() == {}
    assert not os.path.exists(f"{place.base}/var/lib/gb10")


def test_one_at_a_time(place: Place) -> None:
    with place.journal.lock(1), pytest.raises(Busy, match="Another run has been changing"), Journal(place.paths).lock(0):
        raise AssertionError("two at once")


@pytest.mark.parametrize(
    ("now", "clause"),
    [
        (None, f"there is no interface {F0}"),
        (state(F0), f"{F0} lacks 10.0.0.1/30"),
        (state(F0, "10.0.0.1/30", mtu=9000), f"{F0} has the MTU 9000 instead of 1500"),
        (state(F0, "10.0.0.1/30"), ""),
    ],
)
def test_what_is_not_back(now: Any, clause: str) -> None:
    assert undone(state(F0, "10.0.0.1/30"), now) == clause
