# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction on a real systemd, networkd and netplan: whatever happens to it, the node ends in the old or in the new state."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scratch import FILE, MANAGEMENT, NEAR_ADDRESS, RAIL, STATE, TWIN, Pair, pair, result_of, until

ADDRESS = "192.168.200.12/24"
RAILS = [{"netdev": RAIL, "address": ADDRESS}]
QUICK = {"rails": RAILS, "watch": 1, "revert_after": 16}
JOURNAL = f"{STATE}/journal.json"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("fabric")) as made:
        yield made


@pytest.fixture
def node(machines: Pair) -> Iterator[Pair]:
    """The machine as it was before any change; a test that leaves it otherwise has failed."""
    before = machines.fingerprint()
    yield machines
    if machines.exists(FILE):
        machines.run(state="absent", watch=0)
    machines.sh(f"rm -rf {STATE}")
    assert machines.fingerprint() == before


def begun(node: Pair, phase: str, **options: Any) -> subprocess.Popen[str]:
    """A run that has come so far."""
    run = node.start(**{**QUICK, **options})
    node.sh(f"""until grep -q '"phase": "{phase}"' {JOURNAL} 2>/dev/null; do sleep 0.02; done""")
    return run


def kill(run: subprocess.Popen[str]) -> None:
    """The controller as if it had never been: Ansible's workers have sessions of their own, so each is killed by itself."""
    doomed = [run.pid]
    for pid in doomed:
        doomed += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)
    run.communicate()


def ended(run: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = run.communicate(timeout=120)
    return result_of(output)


def test_check_mode_shows_it_all_and_changes_nothing(node: Pair) -> None:
    before = node.fingerprint()
    result = node.run(check=True, **QUICK)
    assert result["changed"]
    assert f"addresses: [{ADDRESS}]" in result["diff"]["after"]
    assert result["diff"]["before"] == ""
    assert [command[0] for command in result["commands"]] == ["systemd-run", "netplan", "networkctl", "networkctl"]
    assert node.fingerprint() == before
    assert not node.exists(STATE)


def test_there_and_back_again(node: Pair) -> None:
    before = node.fingerprint()
    node.sh(f"ip address add 10.77.0.1/30 dev {TWIN}")
    node.background(f"timeout 60 ip monitor address dev {MANAGEMENT} > /tmp/monitor")
    twins = [*RAILS, {"netdev": TWIN, "address": "192.168.201.12/24", "mtu": 4200}]
    result = node.run(rails=twins, watch=1, revert_after=16)
    assert (result["changed"], result["state"], result["failed"]) == (True, "new", False)
    assert node.link(RAIL) == (9000, [ADDRESS])
    assert node.link(TWIN) == (4200, ["192.168.201.12/24"])
    assert node.sh(f"stat -c '%a %U' {FILE} {STATE}").split("\n")[:2] == ["600 root", "700 root"]
    assert "gb10" not in node.sh("systemctl list-timers --all --plain --no-legend; ls /etc/systemd/system/sysinit.target.wants")

    again = node.run(rails=twins, watch=1, revert_after=16)
    assert (again["changed"], again["commands"]) == (False, [])

    fewer = node.run(**QUICK)
    assert fewer["changed"]
    assert fewer["commands"][3] == ["networkctl", "reconfigure", TWIN]
    assert node.link(TWIN) == (1500, ["10.77.0.1/30"])
    assert node.link(RAIL) == (9000, [ADDRESS])

    gone = node.run(state="absent", watch=1, revert_after=16)
    assert (gone["changed"], gone["diff"]["after"]) == (True, "")
    node.sh(f"ip address del 10.77.0.1/30 dev {TWIN}")
    assert node.fingerprint() == before
    assert not node.exists(STATE)
    # The way of the session was not so much as touched by all this.
    assert node.sh("cat /tmp/monitor") == ""


def test_the_controller_is_killed_before_it_confirms(node: Pair) -> None:
    before = node.fingerprint()
    kill(begun(node, "applied"))
    assert node.link(RAIL)[1] == [ADDRESS]
    until(lambda: node.exists(f"{STATE}/reverted.json"), 25)
    until(lambda: node.fingerprint() == before, 5)
    result = node.run(check=True, **QUICK)
    assert re.search(r"An earlier change was reverted at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \w+: nobody confirmed it in time\.", result["messages"][0])


def test_no_new_connection_can_be_made(node: Pair) -> None:
    """The old one still could: it proves nothing, and it confirms nothing."""
    before = node.fingerprint()
    run = begun(node, "prepared")
    node.sh("iptables -A INPUT -p tcp --dport 22 --syn -j DROP")
    result = ended(run)
    node.sh("iptables -D INPUT -p tcp --dport 22 --syn -j DROP")
    assert (result["failed"], result["state"]) == (True, "old")
    assert f"It takes the change back by itself at {result['reverts_at']}" in result["msg"]
    until(lambda: node.exists(f"{STATE}/reverted.json"), 25)
    assert node.fingerprint() == before


def test_the_next_run_does_not_wait_for_the_timer(node: Pair) -> None:
    kill(begun(node, "prepared", revert_after=100))
    result = node.run(**QUICK)
    assert re.search(r"A change of 20.* was never confirmed and was taken back now\.", result["messages"][0])
    assert (result["state"], node.link(RAIL)[1]) == ("new", [ADDRESS])
    assert "gb10" not in node.sh("systemctl list-timers --all --plain --no-legend")


def test_the_power_is_cut_before_the_confirmation(node: Pair) -> None:
    before = node.fingerprint()
    kill(begun(node, "applied", revert_after=100))
    node.power_cut()
    told = node.sh("journalctl -b -o cat -u gb10-fabric-boot-revert -u systemd-networkd")
    assert told.rindex("Finished gb10-fabric-boot-revert") < told.rindex("Starting systemd-networkd"), told
    until(lambda: node.fingerprint() == before)
    assert "gb10" not in node.sh("ls -a /run/systemd/network /etc/netplan")
    result = node.run(state="absent", watch=0)
    assert "the node was restarted before anybody confirmed it" in result["messages"][0]
    assert not result["changed"]


def test_the_cable_is_cut_meanwhile(node: Pair) -> None:
    before = node.fingerprint()
    run = begun(node, "prepared", revert_after=40)
    node.far_ip("link", "set", RAIL, "down")
    result = ended(run)
    node.far_ip("link", "set", RAIL, "up")
    assert (result["failed"], result["state"], result["changed"]) == (True, "old", False)
    assert f"{RAIL} has no carrier" in result["msg"]
    assert "The change was taken back" in result["msg"]
    until(lambda: node.fingerprint() == before)


def test_the_management_address_may_be_away_for_a_moment(node: Pair) -> None:
    run = begun(node, "prepared", watch=3, revert_after=40)
    node.sh(f"ip address del {NEAR_ADDRESS}/24 dev {MANAGEMENT}; sleep 1.3; ip address add {NEAR_ADDRESS}/24 dev {MANAGEMENT}")
    result = ended(run)
    assert (result["failed"], result["state"]) == (False, "new")
    assert re.search(rf"The management address {NEAR_ADDRESS} was away for \d\.\d s and came back\.", result["messages"][0])


def test_but_not_for_long(node: Pair) -> None:
    before = node.fingerprint()
    run = begun(node, "prepared", watch=3, revert_after=40, management={"interface": MANAGEMENT, "address": NEAR_ADDRESS})
    node.sh(f"ip address del {NEAR_ADDRESS}/24 dev {MANAGEMENT}; sleep 6; ip address add {NEAR_ADDRESS}/24 dev {MANAGEMENT}")
    result = ended(run)
    assert (result["failed"], result["state"]) == (True, "old")
    assert f"The management address {NEAR_ADDRESS} of {MANAGEMENT} went away with the change and was still missing after 3 s." in result["msg"]
    assert "The change was taken back; the node is as it was." in result["msg"]
    assert node.fingerprint() == before


def test_a_file_of_others_claims_the_link(node: Pair) -> None:
    other = "/etc/netplan/90-mine.yaml"
    node.put(other, f"network:\n  version: 2\n  ethernets:\n    {RAIL}:\n      addresses: [10.1.1.1/24]\n")
    before = node.fingerprint()
    result = node.run(**QUICK)
    assert result["failed"]
    assert f"{other} gives {RAIL} the address 10.1.1.1/24" in result["msg"]
    assert node.fingerprint() == before
    node.sh(f"rm {other}")


def test_the_way_of_the_session_is_not_changed(node: Pair) -> None:
    before = node.fingerprint()
    result = node.run(rails=[{"netdev": MANAGEMENT, "address": "10.9.0.3/24"}])
    assert result["failed"]
    assert node.fingerprint() == before


@pytest.mark.parametrize("folder", ["/etc/netplan", "/var/lib/gb10"])
def test_a_full_disk(node: Pair, folder: str) -> None:
    node.sh(f"""
        cp -a /etc/netplan /tmp/copy; mkdir -p {folder}; mount -t tmpfs -o size=32k,mode=755 full {folder}
        [ {folder} = /etc/netplan ] && cp -a /tmp/copy/. {folder}; dd if=/dev/zero of={folder}/filler bs=4k 2>/dev/null; true""")
    before = node.fingerprint()
    result = node.run(**QUICK)
    after = node.fingerprint()
    node.sh(f"umount {folder}; rm -rf /tmp/copy; rmdir /var/lib/gb10 2>/dev/null; true")
    assert result["failed"]
    assert re.fullmatch(rf"{folder}\S*: No space left on device. Nothing was changed; make room there and run again\.", result["msg"])
    assert after == before
