# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The change itself, on the node: looked at, prepared, armed, made, watched; and later confirmed over another connection, or taken back."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._fabric import plan
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.document import parse_ours, render
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.foreign import NetplanFile, renderer_of
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.journal import PENDING, REVERTED, Journal, Standing, clock, read_text
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.node import COMMAND_SECONDS, Managers, Node, complaint
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import (
    TIMER,
    Management,
    Paths,
    Rail,
    Refused,
    Undone,
    management_of,
    rails_of,
)
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.plan import Change, State
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.script import boot_unit, revert_script, undone
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.watch import Watch
from ansible_collections.gb10.cluster.plugins.module_utils._words import listing

LOCK_SECONDS = 20.0
REVERT_SECONDS = 90.0  # the script's own commands are bounded each
RESERVE = 5.0  # seconds before the timer at which nothing new is begun


class Transaction:
    def __init__(self, node: Node, paths: Paths, params: Mapping[str, Any]) -> None:
        self.node = node
        self.paths = paths
        self.params = params
        self.journal = Journal(paths)
        self.absent = params["state"] == "absent"
        self.rails = () if self.absent else rails_of(params)
        self.token = params["token"] or uuid.uuid4().hex
        self.messages: list[str] = []
        self.commands: list[list[str]] = []
        self.diff: dict[str, str] = {}

    def result(self, **more: Any) -> dict[str, Any]:
        return {"changed": False, "diff": self.diff, "commands": self.commands, "state": "new", "messages": self.messages, **more}

    # -- the first half -------------------------------------------------------------------------------------------------------------------

    def apply(self, check: bool) -> dict[str, Any]:
        """Make the change, and leave it to the timer unless it is confirmed."""
        if not os.path.isdir(self.paths.etc):
            raise Refused(f"There is no {self.paths.etc} on this node: its rails are given addresses by netplan only, so install netplan.io.")
        with contextlib.nullcontext() if check else self.journal.lock(LOCK_SECONDS):
            old = self._leftover(check)
            change, new = self._plan(old)
            self.diff = {
                "before": old or "", "after": new or "",
                "before_header": self.paths.file, "after_header": self.paths.file,
            }  # fmt: skip
            if not change.links and old == new:
                return self.result(changed=bool(self.commands))
            self._refuse_the_session(change)
            if check:
                commands = [plan.arm_command(self.paths, self.params["revert_after"]), *plan.apply_commands(change), *plan.expected_mending(change)]
                self.commands += commands
                return self.result(changed=True)
            return self._make(change, new)

    def _leftover(self, check: bool) -> str | None:
        """Clear up after a run that did not come to its end. Returns our file as it then is."""
        standing = self.journal.standing()
        if standing.state == PENDING:
            begun = f"A change of {clock(standing.when)} was never confirmed"
            if check:
                self.messages.append(f"{begun} and would be taken back first.")
                return standing.record.get("old", read_text(self.paths.file))
            self.commands.append(["sh", self.paths.script, "now", "a later run found it unconfirmed"])
            self._take_back(self.commands[-1][-1])
            self.messages.append(f"{begun} and was taken back now.")
        elif standing.state == REVERTED:
            self.messages.append(f"An earlier change was reverted at {clock(standing.when)}: {standing.why}.")
        if not check:
            self.journal.tidy()
        return read_text(self.paths.file)

    def _plan(self, old: str | None) -> tuple[Change, str | None]:
        managers = self.node.managers()
        files = self.node.netplan_files()
        try:
            had = parse_ours(old) if old else {}
        except ParseError:
            raise Refused(f"{self.paths.file} is not as this collection writes it: move it away and run again.") from None
        states = self.node.states({rail.netdev for rail in self.rails} | set(had), managers)
        owners = {name: self._owner(name, managers, files, had) for name in {rail.netdev for rail in self.rails} | set(had)}
        new = None if self.absent else render(self.rails, {name: owner for name, owner in owners.items() if owner != renderer_of(files, name)})
        work, gone = plan.changed_links(had, parse_ours(new) if new else {}, self.rails, states)
        self._check(managers, files, states, owners, work)
        before = self.journal.applied().get("before", {})
        change = Change(
            old=old,
            new=new,
            rails=tuple(work),
            # A link that was taken out of the machine has nothing to be put back.
            gone={name: State.from_dict(before[name]) if name in before else None for name in gone if name in states},
            before={name: state for name, state in states.items() if name in {rail.netdev for rail in work} | set(gone)},
            ours={name: tuple(entry.get("addresses") or ()) for name, entry in had.items()},
            owners=owners,
        )
        return change, new

    @staticmethod
    def _owner(name: str, managers: Managers, files: list[NetplanFile], had: Mapping[str, Any]) -> str:
        """Who looks after the link, and goes on doing so; a link that nobody looks after goes to whom netplan gives it."""
        now = managers.of(name)
        return str(had.get(name, {}).get("renderer") or renderer_of(files, name)) if now == "none" else now

    def _check(self, managers: Managers, files: list[NetplanFile], states: Mapping[str, State], owners: Mapping[str, str], work: list[Rail]) -> None:
        """Refuse before anything is changed."""
        claims = self.node.claims(files, self.rails, managers)
        if claims:
            raise Refused(
                f"{listing([str(claim) for claim in claims])}, and files of others are never changed: "
                f"take {listing(sorted({claim.link for claim in claims}))} out of there, or leave it out of the rails."
            )
        for rail in self.rails:
            if rail.netdev not in states:
                raise Refused(
                    f"There is no interface {rail.netdev} on this node: look at `ip link`, and at the cable if the adapter is switched off without."
                )
            if not states[rail.netdev].carrier and rail not in work:
                self.messages.append(f"{rail.netdev} has no carrier: it gets its address when the cable is in.")
        for rail in work:
            above = self.node.above(rail.netdev)
            if above:
                raise Refused(f"{rail.netdev} is a part of {listing(above)}: a rail needs an interface of its own, so take it out of there.")
            owner = owners[rail.netdev]
            if owner not in managers.active:
                raise Refused(
                    f"netplan gives {rail.netdev} to {owner}, which does not run on this node: start it, or name another renderer for netplan."
                )

    def _refuse_the_session(self, change: Change) -> None:
        """The interface that carries our own session is never touched, whatever the facts said about it."""
        management = self._management()
        interfaces = self.node.interfaces()
        for address in {management.address if management else "", self._session()[0]} - {""}:
            carriers = [name for name, entry in interfaces.items() if any(own.address == address for own in entry.addresses)]
            if management and address == management.address:
                if not carriers or (management.interface and management.interface not in carriers):
                    where = f" on {management.interface}" if management.interface else ""
                    raise Refused(f"The management address {address} is not{where} even now, so nobody could tell whether a change hurts it.")
                carriers += [management.interface] if management.interface else []
            for name in carriers:
                if name in change.links or any(name in self.node.above(link) for link in change.links):
                    raise Refused(
                        f"{name} carries this very session ({address}) and is never changed: reach the node another way, or leave {name} out."
                    )
        if management is None:
            self.messages.append("No management address was given, so none was watched.")

    def _management(self) -> Management | None:
        given = management_of(self.params)
        address = self._session()[0]
        return given or (Management(None, address) if address else None)

    def _session(self) -> tuple[str, str]:
        """The node's own address in this session, and what tells the session from any other. Empty without SSH."""
        words = self.node.runner.environment().get("SSH_CONNECTION", "").split()
        return (words[2], " ".join(words)) if len(words) == 4 else ("", "")

    def _make(self, change: Change, new: str | None) -> dict[str, Any]:
        against = self.node.rehearse(new)
        if against:
            raise Refused(f"netplan would not take the file: {against}. Nothing was changed.")
        started = time.time()
        deadline = started + self.params["revert_after"]
        kept = self.journal.applied().get("before", {})
        had = parse_ours(change.old) if change.old else {}
        # How a link was before it was ours is known from the run that took it; now it shows our own doing.
        before = {rail.netdev: kept.get(rail.netdev) if rail.netdev in had else change.before[rail.netdev].to_dict() for rail in self.rails}
        record = {
            "token": self.token, "started": started, "deadline": deadline, "phase": "prepared", "old": change.old, "new": new,
            "before": {name: state for name, state in before.items() if state}, "session": self._session()[1],
        }  # fmt: skip
        self.journal.prepare(record, new, revert_script(self.paths, change, self.token), boot_unit(self.paths))
        self._arm()
        self._change(change, new, deadline)
        return self.result(changed=True, pending=True, deadline=deadline, reverts_at=clock(deadline), seconds_left=round(deadline - time.time(), 1))

    def _arm(self) -> None:
        command = plan.arm_command(self.paths, self.params["revert_after"])
        try:
            # One of an earlier change that ran out would be in the way by its name.
            self.node.run(["systemctl", "stop", f"{TIMER}.timer"])
            result = self.node.run(command)
            if result.rc:
                raise Refused(f"The timer that takes a change back could not be set ({complaint(result)}). Nothing was changed.")
        except Refused:
            os.unlink(self.paths.journal)
            self.journal.tidy()
            raise
        self.commands.append(command)

    def _change(self, change: Change, new: str | None, deadline: float) -> None:
        """From here on every way out leads to the new state or back to the old one."""
        try:
            self.journal.put(new)
            for command in plan.apply_commands(change):
                returning = plan.returns_profile(command)
                rc = self._run(command, deadline, tolerant=returning)
                lost = plan.lost_profile(command, rc) if returning else ""
                self.messages += [lost] if lost else []
            watch = Watch(self._management(), self.params["watch"], change)
            watch.run(self.node, deadline - RESERVE)
            self.messages += watch.messages
            for name, was in sorted(change.gone.items()):
                for now in self.node.states([name]).values():
                    for command in plan.mending_commands(name, was, change.ours.get(name, ()), now):
                        self._run(command, deadline)
            over = not self.journal.mark(self.token, phase="applied")
        except (Refused, Undone, OSError) as error:
            reason = str(error) if isinstance(error, (Refused, Undone)) else f"{error}."
            raise Undone(f"{reason} {self._undo(change, reason.rstrip('.'))}") from error
        if over:
            raise Undone(f"{self._ended()} Run again.")

    def _run(self, command: list[str], deadline: float, tolerant: bool = False) -> int:
        left = deadline - RESERVE - time.time()
        if left <= 0:
            raise Undone("The change took so long that the node's own timer was about to take it back.")
        self.commands.append(command)
        keeping = command == ["netplan", "generate"]
        if keeping:
            self.journal.keep()
        try:
            result = self.node.runner.command(command, min(COMMAND_SECONDS, left))
        except (Unavailable, TimedOut, Failed) as error:
            raise Undone(f"{error}.") from error
        if keeping:
            self.journal.restore_kept()
        if result.rc and not tolerant:
            raise Undone(f"{' '.join(command)} failed: {complaint(result)}.")
        return result.rc

    # -- the way back ---------------------------------------------------------------------------------------------------------------------

    def _undo(self, change: Change, why: str) -> str:
        """Take the change back and say how that went, one sentence."""
        try:
            self._take_back(why)
        except Refused as error:
            return str(error)
        now = self.node.states(change.before)
        rest = [text for name, state in sorted(change.before.items()) for text in [undone(state, now.get(name))] if text]
        self.journal.tidy()
        return f"The change was taken back, but {listing(rest)}." if rest else "The change was taken back; the node is as it was."

    def _take_back(self, why: str) -> None:
        """Run the node's own way back now. Raises Refused where that fails."""
        try:
            result = self.node.runner.command(["sh", self.paths.script, "now", why[:500]], REVERT_SECONDS)
        except (Unavailable, TimedOut, Failed) as error:
            raise Refused(f"The change could not be taken back ({error}); the node tries again at its next start.") from error
        if result.rc or self.journal.standing().state == PENDING:
            raise Refused(f"The change could not be taken back ({complaint(result)}); the node tries again at its next start.")

    def _ended(self) -> str:
        standing: Standing = self.journal.standing()
        if standing.state == REVERTED:
            return f"The node reverted the change at {clock(standing.when)}: {standing.why}."
        return "The change was ended by somebody else."

    # -- the second half ------------------------------------------------------------------------------------------------------------------

    def confirm(self) -> dict[str, Any]:
        """Keep the change: called over another connection than the one that made it."""
        with self.journal.lock(LOCK_SECONDS):
            standing = self.journal.standing()
            if standing.state == REVERTED and standing.record.get("token") == self.token:
                raise Undone(f"{self._ended()} The node is as it was; run again.")
            if standing.state != PENDING:
                if self._is_confirmed():
                    return self.result(changed=True)
                raise Undone("There is no change of this run on the node: it was never begun, or another run has taken it back. Run again.")
            if standing.record.get("token") != self.token:
                raise Undone("Another run has begun a change of its own in the meantime: let it end, and run again.")
            if standing.record.get("phase") != "applied":
                self._take_back("it was interrupted before it was checked")
                raise Undone("The change was interrupted on the node before it was checked, and was taken back: run again.")
            session = self._session()[1]
            if session and session == standing.record.get("session"):
                return self.result(same_connection=True)
            self.journal.confirm(self.absent)
            # A timer that cannot be stopped finds nothing to take back.
            with contextlib.suppress(Refused):
                self.node.run(["systemctl", "stop", f"{TIMER}.timer"])
            self.journal.tidy()
            return self.result(changed=True)

    def _is_confirmed(self) -> bool:
        """Whether the answer to a first confirmation was lost on its way."""
        if self.absent:
            return not os.path.exists(self.paths.file)
        return self.journal.applied().get("token") == self.token
