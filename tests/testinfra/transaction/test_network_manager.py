# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction where a real NetworkManager looks after the rails, as on a machine with a desktop: the old or the new state, as with networkd.

One rail has the stock file's profile, which is netplan's under the very name that ours has; the other one NetworkManager's automatic profile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from scratch import FILE, MANAGEMENT, NETWORK_MANAGER, RAIL, STATE, TWIN, Pair, pair, until
from test_transaction import begun, kill

ADDRESSES = {RAIL: "192.168.200.12/24", TWIN: "192.168.201.12/24"}
BOTH = {"rails": [{"netdev": name, "address": address} for name, address in ADDRESSES.items()], "watch": 1, "revert_after": 16}
AUTOMATIC = "Wired connection 1"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("fabric"), NETWORK_MANAGER) as made:
        until(lambda: all(made.profiles().values()))
        yield made


@pytest.fixture
def before(machines: Pair) -> dict[str, Any]:
    """The machine as it was before any change, both rails with the profile that this file is about."""
    found = machines.fingerprint()
    assert [profile.partition(":")[2] for _name, profile in sorted(found["profiles"].items())] == [AUTOMATIC, f"netplan-{RAIL}"]
    return found


@pytest.fixture
def node(machines: Pair, before: dict[str, Any]) -> Iterator[Pair]:
    """A test that leaves it otherwise has failed."""
    yield machines
    if machines.exists(FILE):
        machines.run(state="absent", watch=0)
    machines.sh(f"rm -rf {STATE}")
    assert settled(machines, before) == before


def settled(node: Pair, wanted: dict[str, Any]) -> dict[str, Any]:
    """How the machine is as soon as it is as wanted, or after a while all the same: NetworkManager goes its way in steps."""
    with suppress(AssertionError):
        until(lambda: node.fingerprint() == wanted, 10)
    return node.fingerprint()


def assert_back(node: Pair, before: dict[str, Any]) -> None:
    """All is as it was. Ours and the stock file's profile have one name and one UUID: which of the two is at work shows in what it gives."""
    assert settled(node, before) == before
    until(lambda: " 169.254." in node.sh(f"ip -4 address show dev {RAIL}"))


def given(node: Pair) -> bool:
    """Whether both rails have what they are to have, from the profiles that netplan made for NetworkManager."""
    profiles = {name: profile.partition(":")[2] for name, profile in node.profiles().items()}
    live = {name: node.link(name) for name in ADDRESSES}
    return (profiles, live) == ({name: f"netplan-{name}" for name in ADDRESSES}, {name: (9000, [address]) for name, address in ADDRESSES.items()})


def test_check_mode_names_our_links_only_and_changes_nothing(node: Pair, before: dict[str, Any]) -> None:
    result = node.run(check=True, **BOTH)
    assert result["changed"]
    assert [command[0] for command in result["commands"]] == ["systemd-run", "netplan", "nmcli", "nmcli", "nmcli"]
    assert result["commands"][2] == ["nmcli", "connection", "reload"]
    assert [command[-2:] for command in result["commands"][3:]] == [["up", f"netplan-{TWIN}"], ["up", f"netplan-{RAIL}"]]
    assert node.fingerprint() == before
    assert not node.exists(STATE)


def test_there_and_back_again(node: Pair, before: dict[str, Any]) -> None:
    node.background(f"timeout 90 ip monitor address dev {MANAGEMENT} > /tmp/monitor")
    result = node.run(**BOTH)
    assert (result["changed"], result["state"], result["failed"]) == (True, "new", False)
    assert given(node)
    assert node.sh(f"stat -c '%a %U' {FILE}") == "600 root\n"

    again = node.run(**BOTH)
    assert (again["changed"], again["commands"]) == (False, [])

    gone = node.run(state="absent", watch=1, revert_after=16)
    assert (gone["changed"], gone["messages"]) == (True, [])
    assert_back(node, before)
    assert not node.exists(STATE)
    # The way of the session was not so much as touched by all this.
    assert node.sh("cat /tmp/monitor") == ""


def test_the_controller_is_killed_before_it_confirms(node: Pair, before: dict[str, Any]) -> None:
    kill(begun(node, "applied", **BOTH))
    assert given(node)
    until(lambda: node.exists(f"{STATE}/reverted.json"), 25)
    assert_back(node, before)
    # Not one of its commands failed.
    assert node.sh(f"cat {STATE}/reason").rstrip().endswith(" nobody confirmed it in time")


def test_a_profile_of_others_claims_the_link(node: Pair) -> None:
    node.sh(f"nmcli connection add type ethernet con-name 'my rail' ifname {RAIL} ipv4.method manual ipv4.addresses 10.1.1.1/24")
    claimed = node.fingerprint()
    result = node.run(**BOTH)
    assert result["failed"]
    assert f"/etc/NetworkManager/system-connections/my rail.nmconnection brings {RAIL} up as well (ipv4 manual)" in result["msg"]
    assert node.fingerprint() == claimed
    assert not node.exists(STATE)
    node.sh("nmcli connection delete 'my rail'")


def test_the_power_is_cut_before_the_confirmation(node: Pair, before: dict[str, Any]) -> None:
    kill(begun(node, "applied", **{**BOTH, "revert_after": 100}))
    node.power_cut()
    told = node.sh("journalctl -b -o cat -u gb10-fabric-boot-revert -u NetworkManager")
    assert told.rindex("Finished gb10-fabric-boot-revert") < told.rindex("Starting NetworkManager"), told
    assert settled(node, before) == before
    assert node.sh(f"cat {STATE}/reason").rstrip().endswith(" the node was restarted before anybody confirmed it")


def test_the_power_is_cut_after_the_confirmation(node: Pair, before: dict[str, Any]) -> None:
    """The addresses come with the boot. An automatic profile is not made beside ours, so that giving back takes one more start."""
    node.run(**BOTH)
    node.power_cut()
    until(lambda: given(node))
    gone = node.run(state="absent", watch=1, revert_after=16)
    assert gone["state"] == "new"
    uuid = before["profiles"][TWIN].partition(":")[0]
    assert [message.partition(". ")[0] for message in gone["messages"]] == [
        f"NetworkManager no longer knows the profile that was on {TWIN} before ({uuid})"
    ]
    assert node.link(TWIN) == before["live"][TWIN]
    node.sh("systemctl restart NetworkManager")
