# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change is made of: the links that it touches, the commands that make it, and what still differs afterwards. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import TIMER, Paths, Rail

NETWORKD = "networkd"
NETWORK_MANAGER = "NetworkManager"
_NMCLI_WAIT = "15"  # seconds that nmcli waits for a profile to come up
_NMCLI_UNKNOWN = 10  # nmcli's exit status where there is no such profile


@dataclass(frozen=True)
class State:
    """A link as it is, or was."""

    name: str
    up: bool
    mtu: int
    addresses: tuple[str, ...]  # all of global scope, with prefix
    by_hand: tuple[str, ...] = ()  # those of them that no manager would bring back by its own account: set without a lifetime
    carrier: bool = True
    manager: str = "none"  # networkd | NetworkManager | none
    profile: str | None = None  # UUID of NetworkManager's active one
    addr_gen_mode: int | None = None  # how the kernel makes the IPv6 link-local address, which managers do themselves: 0 EUI-64, 1 not at all

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> State:
        return cls(**{**record, "addresses": tuple(record["addresses"]), "by_hand": tuple(record["by_hand"])})


@dataclass(frozen=True)
class Change:
    """One transaction."""

    old: str | None  # our file before
    new: str | None  # our file after; None: there is none
    rails: tuple[Rail, ...]  # those that change: what is to be true afterwards
    gone: Mapping[str, State | None]  # links that are no longer ours, and how they were before they were; None if nobody knows
    before: Mapping[str, State]  # every link above as it is now
    ours: Mapping[str, tuple[str, ...]]  # the addresses that our old file gives to links above
    owners: Mapping[str, str]  # who looks after a link afterwards

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(sorted({rail.netdev for rail in self.rails} | set(self.gone)))

    def owned(self, owner: str) -> list[str]:
        return [name for name in self.links if self.owners.get(name) == owner]


def satisfied(rail: Rail, state: State | None) -> bool:
    """Whether the link has what the rail says."""
    return state is not None and rail.address in state.addresses and rail.mtu == state.mtu


def lacking(rail: Rail, state: State | None) -> str:
    """What is missing of a rail, as a clause."""
    if state is None:
        return f"there is no interface {rail.netdev}"
    if not state.carrier:
        return f"{rail.netdev} has no carrier, so that its cable or the other end's power is missing"
    if rail.address not in state.addresses:
        has = f", it has {', '.join(state.addresses)}" if state.addresses else ""
        return f"{rail.netdev} did not get the address {rail.address}{has}"
    return f"{rail.netdev} has the MTU {state.mtu} instead of {rail.mtu}"


def apply_commands(change: Change) -> list[list[str]]:
    """What makes the change once our file lies in its place: for our links only, and no service is restarted."""
    commands = [["netplan", "generate"]]
    networkd = change.owned(NETWORKD)
    if networkd:
        commands += [["networkctl", "reload"], ["networkctl", "reconfigure", *networkd]]
    profiles = change.owned(NETWORK_MANAGER)
    if profiles:
        commands.append(["nmcli", "connection", "reload"])
    wanted = {rail.netdev for rail in change.rails}
    for name in profiles:
        if name in wanted:
            commands.append(["nmcli", "--wait", _NMCLI_WAIT, "connection", "up", f"netplan-{name}"])
        else:
            state = change.gone.get(name)
            if state is not None and state.profile:
                commands.append(return_profile(name, state.profile))
    return commands


def return_profile(name: str, profile: str) -> list[str]:
    """Bring a link back to the profile that NetworkManager had on it; one that asks for an address nobody gives would be waited for in vain."""
    return ["nmcli", "--wait", "0", "connection", "up", "uuid", profile, "ifname", name]


def returns_profile(command: Sequence[str]) -> bool:
    """Whether this is a command of `return_profile`, which may fail without harm to the change."""
    return command[:2] == ["nmcli", "--wait"] and "uuid" in command


def lost_profile(command: Sequence[str], rc: int) -> str:
    """What there is to know where NetworkManager has lost the profile that was to come back; empty if it has not.

    Its automatic ones are in memory only. It makes them when it starts, for links without another profile, which ours had then.
    """
    if rc != _NMCLI_UNKNOWN:
        return ""
    return (
        f"NetworkManager no longer knows the profile that was on {command[-1]} before ({command[-3]}). "
        "If it was an automatic one, NetworkManager makes it again when it is started next."
    )


def arm_command(paths: Paths, seconds: float) -> list[str]:
    """The timer on the node that takes the change back."""
    return [
        "systemd-run", "--quiet", "--collect", f"--unit={TIMER}", f"--on-active={max(1, round(seconds))}s",
        "--timer-property=AccuracySec=100ms", "--description=Take back an unconfirmed change of the fabric's addresses (gb10.cluster)",
        "--", "/bin/sh", paths.script, "timer", "nobody confirmed it in time",
    ]  # fmt: skip


def mending_commands(name: str, was: State | None, ours: Iterable[str], now: State) -> list[list[str]]:
    """What a manager leaves behind on a link that is no longer ours: an MTU stays as it was set, addresses set by hand are lost."""
    commands = [["ip", "address", "del", address, "dev", name] for address in ours if address in now.addresses and not _was(was, address)]
    if was is None:
        return commands
    if was.mtu != now.mtu:
        commands.append(["ip", "link", "set", "dev", name, "mtu", str(was.mtu)])
    commands += [["ip", "address", "add", address, "dev", name] for address in was.by_hand if address not in now.addresses]
    if was.addr_gen_mode is not None and was.addr_gen_mode != now.addr_gen_mode:
        # By sysctl, since the kernel makes the address at once then; by netlink it would wait for the link to go down and up.
        commands.append(["sysctl", "-qw", f"net.ipv6.conf.{name}.addr_gen_mode={was.addr_gen_mode}"])
    if now.up and not was.up:
        commands.append(["ip", "link", "set", "dev", name, "down"])
    return commands


def _was(state: State | None, address: str) -> bool:
    return state is not None and address in state.addresses


def expected_mending(change: Change) -> Iterator[list[str]]:
    """The same for check mode, where the manager has not done its part: what it would leave is the MTU, and a link that is up."""
    for name, was in sorted(change.gone.items()):
        now = change.before[name]
        if was is not None:
            kept = tuple(address for address in now.addresses if address not in change.ours.get(name, ()))
            left = State(name, now.up, now.mtu, kept, addr_gen_mode=now.addr_gen_mode)
            yield from mending_commands(name, was, (), left)


def changed_links(old: Mapping[str, Any], new: Mapping[str, Any], rails: Sequence[Rail], states: Mapping[str, State]) -> tuple[list[Rail], list[str]]:
    """The rails that need work and the links that are no longer ours. A link whose definition stays and which has it all is left alone.

    One without a carrier cannot have its address, and nothing that could be run would help.
    """
    work = []
    for rail in rails:
        state = states.get(rail.netdev)
        idle = state is not None and not state.carrier
        if old.get(rail.netdev) != new.get(rail.netdev) or not (satisfied(rail, state) or idle):
            work.append(rail)
    return work, sorted(set(old) - set(new))
