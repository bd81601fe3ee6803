# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded machines with something changed in what they answered: from there everything is real (collectors, planner, rules).

A patch changes one recorded answer. ``fact`` changes a fact instead, for the few that a recording can never have, such as a clock that runs
while others are asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import gather, select
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NO_SUCH_FILE, RecordedRunner
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan import make_plan, read_settings
from ansible_collections.gb10.cluster.plugins.plugin_utils._recipes import load_recipe

RECORDINGS = Path(__file__).resolve().parents[3] / "fixtures" / "recordings"
RECIPE = "qwen3.5-122b-a10b-fp8"
GIB = 2**30

Facts = dict[str, Any]
Plan = dict[str, Any]
Argv = tuple[str, ...]


@dataclass
class Machine:
    """A recording on its way to facts."""

    commands: dict[Argv, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    changes: list[Callable[[Facts], None]] = field(default_factory=list)
    gone: bool = False

    @classmethod
    def load(cls, name: str) -> Machine:
        """The recorded machine of that name, as it is."""
        machine = cls()
        for entry in json.loads((RECORDINGS / f"{name}.json").read_text())["entries"]:
            if entry["kind"] == "command":
                machine.commands.setdefault(tuple(entry["argv"]), entry)
            else:
                machine.files.setdefault(entry["path"], entry)
        return machine

    def matching(self, argv: Argv) -> list[dict[str, Any]]:
        """Recorded commands that begin like this. What must be changed must be there."""
        found = [entry for known, entry in self.commands.items() if begins(known, argv)]
        assert found, f"no recorded command begins with {argv}"
        return found

    def facts(self) -> Facts | None:
        """What the collectors make of it."""
        if self.gone:
            return None
        facts: Facts = json.loads(json.dumps(gather(_Replay(self), select(["all"]), 10)))
        for change in self.changes:
            change(facts)
        return facts


Patch = Callable[[Machine], None]


def begins(argv: Sequence[str], start: Argv) -> bool:
    """Whether a command begins so; the last word given may be the beginning of one."""
    return len(argv) >= len(start) and tuple(argv[: len(start) - 1]) == start[:-1] and argv[len(start) - 1].startswith(start[-1])


class _Replay(RecordedRunner):
    """Answers a command by the recorded one that is its beginning, so that cases do not repeat long lists of options."""

    def __init__(self, machine: Machine) -> None:
        super().__init__({"schema": "gb10-recording/1", "host": "x", "entries": [*machine.commands.values(), *machine.files.values()]})
        self._starts = sorted(machine.commands, key=lambda argv: (-len(argv), -len(argv[-1])))

    def command(self, argv: Sequence[str], timeout: float, reduce: Callable[[str], str] | None = None) -> Any:
        return super().command(next((start for start in self._starts if begins(argv, start)), tuple(argv)), timeout, reduce)


def answers(*argv: str, out: str = "", err: str = "", rc: int = 0) -> Patch:
    """The command says this instead of what was recorded, if anything was."""

    def patch(machine: Machine) -> None:
        for known in [known for known in machine.commands if begins(known, argv)]:
            del machine.commands[known]
        machine.commands[argv] = {"kind": "command", "argv": list(argv), "rc": rc, "stdout": out, "stderr": err, "seconds": 0.1}

    return patch


def hangs(*argv: str) -> Patch:
    """The command does not answer in time."""
    return answers(*argv, rc=124)


def absent(*argv: str) -> Patch:
    """The command is not installed."""
    return answers(*argv, rc=127, err=f"{argv[0]}: not found")


def edited(old: str, new: str, *argv: str) -> Patch:
    """A part of what the command said is another."""

    def patch(machine: Machine) -> None:
        entries = machine.matching(argv)
        assert any(old in entry["stdout"] for entry in entries), f"{old!r} is not in what {argv} said"
        for entry in entries:
            entry["stdout"] = entry["stdout"].replace(old, new)

    return patch


def rows(change: Callable[[Any], Any], *argv: str) -> Patch:
    """JSON that the command printed, changed in place."""

    def patch(machine: Machine) -> None:
        for entry in machine.matching(argv):
            value = json.loads(entry["stdout"])
            change(value)
            entry["stdout"] = json.dumps(value)

    return patch


def holds(path: str, content: str) -> Patch:
    """The file has this content."""

    def patch(machine: Machine) -> None:
        machine.files[path] = {"kind": "file", "path": path, "content": content}

    return patch


def folder(path: str) -> Patch:
    """There is such a folder, and it was only listed."""

    def patch(machine: Machine) -> None:
        machine.files[path] = {"kind": "file", "path": path, "error": "Is a directory"}

    return patch


def lacks(path: str) -> Patch:
    """There is no such file, and nothing below it."""

    def patch(machine: Machine) -> None:
        for known in [known for known in machine.files if known.startswith(path)]:
            del machine.files[known]
        machine.files[path] = {"kind": "file", "path": path, "error": NO_SUCH_FILE}

    return patch


def unrecorded(path: str) -> Patch:
    """Nobody looked at the file."""
    return lambda machine: [machine.files.pop(known) for known in list(machine.files) if known.startswith(path)] and None


def rewritten(path: str, old: str, new: str) -> Patch:
    """A part of the file is another."""

    def patch(machine: Machine) -> None:
        content = machine.files[path]["content"]
        assert old in content, f"{old!r} is not in {path}"
        machine.files[path]["content"] = content.replace(old, new)

    return patch


def meminfo(**sizes: int) -> Patch:
    """Lines of /proc/meminfo, sizes in bytes; those that are not recorded are added."""

    def patch(machine: Machine) -> None:
        entry = machine.files["/proc/meminfo"]
        lines = [line for line in entry["content"].splitlines() if line.partition(":")[0] not in sizes]
        entry["content"] = "\n".join([*lines, *(f"{name}: {size // 1024} kB" for name, size in sizes.items())]) + "\n"

    return patch


def fact(path: str, value: Any) -> Patch:
    """A fact by its dotted path, after gathering."""

    def change(facts: Facts) -> None:
        *parents, last = path.split(".")
        place = facts
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value

    return lambda machine: machine.changes.append(change)


def all_of(*patches: Patch) -> Patch:
    """One patch after the other."""

    def patch(machine: Machine) -> None:
        for each in patches:
            each(machine)

    return patch


def silent(machine: Machine) -> None:
    """The machine does not answer at all."""
    machine.gone = True


@lru_cache(maxsize=512)
def _replayed(name: str, patches: tuple[Patch, ...]) -> str:
    """Facts as text, gathered once for the same patches."""
    machine = Machine.load(name)
    for patch in patches:
        patch(machine)
    return json.dumps(machine.facts())


def replayed(name: str, *patches: Patch) -> Facts | None:
    """The facts of a recorded machine with these patches."""
    facts: Facts | None = json.loads(_replayed(name, patches))
    return facts


def planned(facts: Mapping[str, Facts | None], overrides: Facts | None = None, recipe: str = RECIPE, **variables: Any) -> Plan:
    """The real plan. ``variables`` are those of the user without their prefix."""
    resolved = load_recipe(recipe, [], overrides)
    return make_plan(facts, resolved, read_settings({f"gb10_{name}": value for name, value in variables.items()}, resolved))
