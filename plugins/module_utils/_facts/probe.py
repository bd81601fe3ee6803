# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes: questions to the node that are asked all at once, each with its own bound of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import ProbeFact
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NO_SUCH_FILE, NOT_RECORDED, CommandResult, FileResult, Reduce, Runner

# Seconds that a probe gets past its commands' own bound, so that it can say itself what did not answer.
_GRACE = 1.5


class Node:
    """A runner within the time of one probe."""

    def __init__(self, runner: Runner, timeout: float) -> None:
        self._runner = runner
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout

    def run(self, *argv: str, reduce: Reduce | None = None, at_most: float | None = None) -> CommandResult:
        """Run a command in what is left of the probe's time, or in `at_most` seconds."""
        left = self._timeout if self._runner.source == "recording" else self._deadline - time.monotonic()
        left = left if at_most is None else min(left, at_most)
        if left <= 0:
            raise TimedOut(f"{argv[0]}: no time left of {self._timeout:.0f} s")
        return self._runner.command(argv, left, reduce)

    def output(self, *argv: str, reduce: Reduce | None = None) -> str:
        """Standard output of a command that succeeds."""
        result = self.run(*argv, reduce=reduce)
        if result.rc != 0:
            raise Failed(f"{argv[0]}: {complaint(result)}")
        return result.stdout

    def file(self, path: str, reduce: Reduce | None = None) -> FileResult:
        return self._runner.file(path, reduce)

    def read(self, path: str, reduce: Reduce | None = None) -> str | None:
        """A file's content, None where there is none to read."""
        return self._runner.file(path, reduce).content

    def exists(self, path: str) -> bool | None:
        """Whether there is such a file; None where nobody could say."""
        result = self._runner.file(path)
        if result.content is not None:
            return True
        if result.error == NO_SUCH_FILE:
            return False
        return None if result.error == NOT_RECORDED else True

    def require(self, path: str, reduce: Reduce | None = None) -> str:
        result = self._runner.file(path, reduce)
        if result.content is None:
            raise Unavailable(f"{path}: {result.error}")
        return result.content

    def glob(self, pattern: str) -> list[str]:
        return self._runner.glob(pattern)

    def environment(self) -> Mapping[str, str]:
        return self._runner.environment()


def complaint(result: CommandResult) -> str:
    """The first line in which a tool says what is wrong."""
    for text in (result.stderr, result.stdout):
        for line in text.splitlines():
            if line.strip():
                return line.strip()[:300]
    return f"exit code {result.rc}"


@dataclass(frozen=True)
class Probe:
    name: str
    subsets: frozenset[str]
    ask: Callable[[Node], Any]


def probe(name: str, subsets: str, ask: Callable[[Node], Any]) -> Probe:
    return Probe(name, frozenset(subsets.split()), ask)


@dataclass(frozen=True)
class Noted:
    """A value with a remark: something, but not all, could be read."""

    value: Any
    note: str


@dataclass(frozen=True)
class Outcome:
    status: str  # ok | unavailable | failed | timeout
    seconds: float
    value: Any = None
    reason: str | None = None

    def fact(self) -> ProbeFact:
        fact: ProbeFact = {"status": self.status, "seconds": round(self.seconds, 3)}
        if self.reason:
            fact["reason"] = self.reason
        return fact


@dataclass(frozen=True)
class Seen:
    """The outcomes of all probes. A probe that was not asked reads like one without an answer."""

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        """The probe's value, None where it has none."""
        outcome = self.outcomes.get(name)
        return None if outcome is None else outcome.value

    def status(self, name: str) -> str | None:
        outcome = self.outcomes.get(name)
        return None if outcome is None else outcome.status

    def reason(self, name: str) -> str | None:
        outcome = self.outcomes.get(name)
        return None if outcome is None else outcome.reason


def ask_all(runner: Runner, probes: Sequence[Probe], timeout: float) -> Seen:
    """Ask every probe at the same time. One that is stuck is left behind when its time is over; see `abandonable`."""
    started = time.monotonic()
    futures: dict[str, Future[Outcome]] = {}
    for entry in probes:
        future = futures[entry.name] = Future()
        Thread(target=_ask, args=(entry, Node(runner, timeout), future), daemon=True, name=entry.name).start()
    outcomes = {}
    for name, future in futures.items():
        left = started + timeout + _GRACE - time.monotonic()
        try:
            outcomes[name] = future.result(timeout=max(left, 0))
        except NotDone:
            outcomes[name] = Outcome("timeout", time.monotonic() - started, reason=f"no answer in {timeout:.0f} s")
    return Seen(outcomes)


def _ask(entry: Probe, node: Node, future: Future[Outcome]) -> None:
    started = time.monotonic()
    try:
        value = entry.ask(node)
        status, reason = "ok", None
        if isinstance(value, Noted):
            value, reason = value.value, value.note
    except Unavailable as error:
        value, status, reason = None, "unavailable", str(error)
    except TimedOut as error:
        value, status, reason = None, "timeout", str(error)
    except (Failed, ParseError) as error:
        value, status, reason = None, "failed", str(error)
    except Exception as error:
        # A defect of one probe must not take the other facts away: it is reported like any other failure.
        value, status, reason = None, "failed", f"{type(error).__name__}: {error}"
    future.set_result(Outcome(status, time.monotonic() - started, value, reason))
