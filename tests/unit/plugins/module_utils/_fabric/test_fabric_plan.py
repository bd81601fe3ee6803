# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change is made of, and how the seconds after it are judged."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import ARGUMENT_SPEC, Management, Paths, Rail, Undone, problems, rails_of
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.plan import (
    Change,
    State,
    apply_commands,
    arm_command,
    changed_links,
    expected_mending,
    lacking,
    lost_profile,
    mending_commands,
    return_profile,
    returns_profile,
    satisfied,
)
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.watch import SETTLE, Watch
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ip import Address, Interface
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.network_manager import parse_devices
from fabric_cases import F0, P2F0, RAIL, own_sample, state

TWIN = Rail(P2F0, "192.168.201.12/24", 9000)
GOOD = state(F0, RAIL.address, mtu=9000)
UUID = "1912e340-083a-3580-9ede-8a6b99efba75"


def change(**changes: Any) -> Change:
    given: dict[str, Any] = {"old": None, "new": "x", "rails": (RAIL,), "gone": {}, "before": {F0: state()}, "ours": {}, "owners": {F0: "networkd"}}
    return Change(**{**given, **changes})


def test_networkd_configures_our_links_and_no_other() -> None:
    both = change(rails=(RAIL, TWIN), owners={F0: "networkd", P2F0: "networkd"})
    assert apply_commands(both) == [["netplan", "generate"], ["networkctl", "reload"], ["networkctl", "reconfigure", P2F0, F0]]


def test_networkmanager_brings_up_netplans_profiles() -> None:
    commands = apply_commands(change(rails=(RAIL, TWIN), owners={F0: "NetworkManager", P2F0: "networkd"}))
    assert commands == [
        ["netplan", "generate"],
        ["networkctl", "reload"],
        ["networkctl", "reconfigure", P2F0],
        ["nmcli", "connection", "reload"],
        ["nmcli", "--wait", "15", "connection", "up", f"netplan-{F0}"],
    ]


def test_a_link_that_is_given_back_gets_the_profile_that_it_had() -> None:
    devices = {device.name: device for device in parse_devices(own_sample("nmcli_device_auto_profile.txt"))}
    was = state(P2F0, manager="NetworkManager", profile=devices[P2F0].profile)
    back = change(new=None, rails=(), gone={P2F0: was, F0: None}, before={P2F0: was, F0: GOOD}, owners={P2F0: "NetworkManager", F0: "NetworkManager"})
    assert apply_commands(back) == [
        ["netplan", "generate"],
        ["nmcli", "connection", "reload"],
        ["nmcli", "--wait", "0", "connection", "up", "uuid", UUID, "ifname", P2F0],
    ]


def test_a_profile_that_networkmanager_has_lost_is_spoken_of() -> None:
    back = return_profile(F0, UUID)
    assert lost_profile(back, 10).startswith(f"NetworkManager no longer knows the profile that was on {F0} before ({UUID}). ")
    # Up, or waiting for a cable: it is there.
    assert (lost_profile(back, 0), lost_profile(back, 4)) == ("", "")
    made = apply_commands(change(owners={F0: "NetworkManager"}))
    assert [returns_profile(command) for command in [back, *made]] == [True, False, False, False]


@pytest.mark.parametrize("owner", ["networkd", "NetworkManager"])
def test_nothing_is_restarted_and_netplan_never_applies(owner: str) -> None:
    words = [word for command in apply_commands(change(owners={F0: owner})) for word in command]
    assert not {"apply", "restart", "try", "systemctl"} & set(words)


def test_the_timer_is_on_the_node() -> None:
    command = arm_command(Paths(), 59.6)
    assert command[0] == "systemd-run"
    assert "--on-active=60s" in command
    assert command[command.index("--") + 1 : -1] == ["/bin/sh", "/var/lib/gb10/fabric/revert.sh", "timer"]


def test_what_managers_leave_behind() -> None:
    was = state(F0, "10.0.0.1/30", mtu=1500, up=False)
    now = state(F0, RAIL.address, mtu=9000)
    assert mending_commands(F0, was, [RAIL.address], now) == [
        ["ip", "address", "del", RAIL.address, "dev", F0],
        ["ip", "link", "set", "dev", F0, "mtu", "1500"],
        ["ip", "address", "add", "10.0.0.1/30", "dev", F0],
        ["ip", "link", "set", "dev", F0, "down"],
    ]
    assert mending_commands(F0, was, [RAIL.address], was) == []
    assert mending_commands(F0, None, [RAIL.address], now) == [["ip", "address", "del", RAIL.address, "dev", F0]]
    leased = state(F0, "10.0.0.1/30", by_hand=())
    assert mending_commands(F0, leased, [], state(F0)) == []


def test_check_mode_knows_that_an_mtu_stays() -> None:
    back = change(new=None, rails=(), gone={F0: state(), P2F0: None}, before={F0: GOOD, P2F0: GOOD}, ours={F0: (RAIL.address,)})
    assert list(expected_mending(back)) == [["ip", "link", "set", "dev", F0, "mtu", "1500"]]


@pytest.mark.parametrize(
    ("now", "clause"),
    [
        (None, f"there is no interface {F0}"),
        (state(F0, carrier=False), f"{F0} has no carrier, so that its cable or the other end's power is missing"),
        (state(F0), f"{F0} did not get the address 192.168.200.12/24"),
        (state(F0, "10.0.0.1/24"), f"{F0} did not get the address 192.168.200.12/24, it has 10.0.0.1/24"),
        (state(F0, RAIL.address), f"{F0} has the MTU 1500 instead of 9000"),
    ],
)
def test_what_is_missing_has_words(now: State | None, clause: str) -> None:
    assert not satisfied(RAIL, now)
    assert lacking(RAIL, now) == clause


def test_only_links_that_need_it_are_touched() -> None:
    entry, other = {"addresses": [RAIL.address]}, {"addresses": ["10.0.0.1/24"]}
    good = {F0: GOOD, P2F0: state(P2F0, TWIN.address, mtu=9000)}
    both = {F0: entry, P2F0: entry}
    assert changed_links(both, both, [RAIL, TWIN], good) == ([], [])
    assert changed_links({F0: other, P2F0: entry}, both, [RAIL, TWIN], good) == ([RAIL], [])
    assert changed_links({P2F0: entry}, both, [RAIL, TWIN], good) == ([RAIL], [])
    assert changed_links(both, {F0: entry}, [RAIL], good) == ([], [P2F0])
    # An address that somebody has taken away comes back; one without a cable cannot.
    assert changed_links(both, both, [RAIL, TWIN], {**good, F0: state()}) == ([RAIL], [])
    assert changed_links(both, both, [RAIL, TWIN], {**good, F0: state(carrier=False)}) == ([], [])


def test_a_state_survives_the_journal() -> None:
    was = state(F0, "10.0.0.1/24", profile=UUID)
    assert State.from_dict(was.to_dict()) == was


WAY = Management("mg0", "10.9.0.2")


def looks(watch: Watch, *present: bool, step: float = 0.5, now: State = GOOD) -> list[bool]:
    return [watch.look(number * step, {F0: now}, there) for number, there in enumerate(present)]


def test_all_well_for_as_long_as_it_is_watched() -> None:
    assert looks(Watch(WAY, 2.0, change()), *[True] * 5) == [False] * 4 + [True]


def test_a_blip_is_kept() -> None:
    watch = Watch(WAY, 5.0, change())
    assert looks(watch, True, *[False] * 4, *[True] * 6)[-1] is True


def test_a_blip_at_the_end_is_waited_for() -> None:
    watch = Watch(WAY, 2.0, change())
    assert looks(watch, True, True, True, True, False, False, True) == [False] * 6 + [True]


def test_an_absence_is_not() -> None:
    watch = Watch(WAY, 2.0, change())
    assert looks(watch, True, False, False, False, False) == [False] * 5
    with pytest.raises(Undone, match=r"The management address 10\.9\.0\.2 of mg0 went away with the change and was still missing after 2 s\."):
        watch.look(2.5, {F0: GOOD}, False)


def test_a_rail_that_does_not_come_is_not_waited_for_forever() -> None:
    watch = Watch(None, 1.0, change())
    assert watch.look(SETTLE - 0.1, {F0: state()}, True) is False
    with pytest.raises(Undone, match=rf"After 10 s {F0} did not get the address"):
        watch.look(SETTLE, {F0: state()}, True)


def interface(*addresses: str) -> Interface:
    return Interface("x", "up", 1500, True, tuple(Address("inet", address, 24, "global") for address in addresses), 0, 0, None, True, {})


def test_the_address_must_be_where_it_was() -> None:
    assert Watch(WAY, 1, change()).is_present({"mg0": interface("10.9.0.2")})
    assert not Watch(WAY, 1, change()).is_present({"mg0": interface("10.9.0.20"), "other": interface("10.9.0.2")})
    assert Watch(Management(None, "10.9.0.2"), 1, change()).is_present({"other": interface("10.9.0.2")})
    assert Watch(None, 1, change()).is_present({})


def options(**changes: Any) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in ARGUMENT_SPEC.items()}
    return {**defaults, "rails": [{"netdev": F0, "address": RAIL.address, "mtu": 9000}], **changes}


def test_options_as_they_should_be() -> None:
    assert problems(options()) == []
    assert rails_of(options()) == (RAIL,)
    assert problems(options(state="absent", rails=[])) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rails": []}, "rails is empty"),
        ({"rails": [{"netdev": "lo", "address": "10.0.0.1/24", "mtu": 9000}]}, "no name of a network interface"),
        ({"rails": [{"netdev": "x; reboot", "address": "10.0.0.1/24", "mtu": 9000}]}, "no name of a network interface"),
        ({"rails": [{"netdev": F0, "address": "10.0.0.1", "mtu": 9000}]}, "needs its prefix, such as 10.0.0.1/24"),
        ({"rails": [{"netdev": F0, "address": "10.0.0.0/24", "mtu": 9000}]}, "network's own or broadcast address"),
        ({"rails": [{"netdev": F0, "address": "fd00::1/64", "mtu": 9000}]}, "no IPv4 address with a prefix"),
        ({"rails": [{"netdev": F0, "address": "10.0.0.1/24", "mtu": 90}]}, "mtu 90 of"),
        ({"rails": [{"netdev": F0, "address": "10.0.0.1/24", "mtu": 9000}] * 2}, f"{F0} is there twice"),
        ({"management": {"address": "head"}}, "'head' is no address"),
        ({"watch": 50.0}, "revert_after must be at least 15 s more than watch"),
        ({"watch": -1.0}, "must not be negative"),
        ({"token": "'; reboot"}, "token is not made by the action plugin"),
    ],
)
def test_options_that_cannot_be(changes: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in problems(options(**changes)))
