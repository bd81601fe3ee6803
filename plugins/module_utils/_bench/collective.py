# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The all-reduce on a node: one container, bounded in time and memory, gone afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._bench import commands
from ansible_collections.gb10.cluster.plugins.module_utils._engine_log import first_error, merged
from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.meminfo import parse_meminfo
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nccl import Bench, Log, parse_bench, parse_log
from ansible_collections.gb10.cluster.plugins.module_utils._runner import CommandResult, Runner
from ansible_collections.gb10.cluster.plugins.module_utils._words import gib, redact

_START = 60.0  # seconds that docker may take to start and to end the container, beside the program's own limit
_DOCKER = 15.0  # seconds for a question to docker
_NOT_STARTED = (125, 126, 127)  # docker run: by the daemon, the program cannot be run, there is no such program


class Skipped(Exception):
    """Nothing was measured; `remedy` is one sentence, or empty."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        self.remedy = remedy
        super().__init__(reason)


def available_memory(runner: Runner) -> int | None:
    """Bytes, None if nobody can say."""
    content = runner.file("/proc/meminfo").content
    try:
        return parse_meminfo(content).get("MemAvailable") if content else None
    except ParseError:
        return None


def all_reduce(runner: Runner, params: Mapping[str, Any]) -> dict[str, Any]:
    """What this rank measured and how NCCL got across. Raises Skipped if it could not be measured here."""
    room = available_memory(runner)
    if room is None or room < params["memory"]:
        seen = "how much memory is free is unknown" if room is None else f"{gib(room)} of memory are free"
        raise Skipped(f"{seen}, {gib(params['memory'])} are needed", "Stop what holds the memory (recon.yml names it), then run it again.")
    try:
        _clear(runner)
        result = runner.command(commands.nccl(params), params["timeout"] + _START)
    except TimedOut as error:
        return {"rank": params["rank"], "error": f"the container did not end: {error}"}
    except (Failed, Unavailable) as error:
        raise Skipped(str(error), "Docker must run on this node, and this user must be allowed to use it.") from error
    finally:
        _remove(runner)
    return _read(result, params)


def _clear(runner: Runner) -> None:
    """Remove what an earlier run may have left. A container of that name without our label is not ours."""
    answer = runner.command(["docker", "inspect", "--type", "container", "--format", "{{json .Config.Labels}}", commands.CONTAINER], _DOCKER)
    if answer.rc and "no such" not in answer.stderr.lower():
        raise Failed(" ".join(answer.stderr.split())[:300])
    if answer.rc == 0 and f'"{commands.LABEL}"' not in answer.stdout:
        raise Skipped(
            f"a container named {commands.CONTAINER} is there that is not ours", f"Give it another name: docker rename {commands.CONTAINER} …"
        )
    if answer.rc == 0:
        runner.command(commands.remove(), _DOCKER)


def _remove(runner: Runner) -> None:
    """The container ends and removes itself. This is for the case that it did not, and harmless otherwise."""
    try:
        _clear(runner)
    except (Failed, Skipped, TimedOut, Unavailable):
        return


def _read(result: CommandResult, params: Mapping[str, Any]) -> dict[str, Any]:
    log = _log(f"{result.stdout}\n{result.stderr}")
    try:
        bench = parse_bench(result.stdout)
    except ParseError:
        said = first_error([redact(line) for line in merged(result.stdout, result.stderr)]) or " ".join(result.stderr.split())[-300:]
        if result.rc in _NOT_STARTED:
            raise Skipped(f"the container could not be started: {redact(said) or f'exit code {result.rc}'}") from None
        return {"rank": params["rank"], "error": said or f"exit code {result.rc}, and not a word", **_transport(log, None)}
    if bench.skipped:
        raise Skipped(bench.skipped, "Measure with an image whose torch is built for CUDA.")
    found: dict[str, Any] = {"rank": bench.rank, "torch": bench.torch, **_transport(log, bench)}
    if bench.error:
        return {**found, "error": redact(bench.error)}
    return {
        **found,
        "correct": bench.correct,
        "runs": [{"size": run.size, "seconds": run.seconds, "busbw": round(run.busbw, 3)} for run in bench.runs],
    }


def _log(text: str) -> Log | None:
    try:
        return parse_log(text)
    except ParseError:
        return None


def _transport(log: Log | None, bench: Bench | None) -> dict[str, Any]:
    """How NCCL got across; `transport` is absent where no channel was seen."""
    found: dict[str, Any] = {"nccl": (log.version if log else None) or (bench.nccl if bench else None)}
    if log is not None:
        found.update(channels=dict(log.channels), devices=list(log.devices or ()), warnings=[redact(text) for text in log.warnings])
        if log.transport is not None:
            found["transport"] = log.transport
    return found
