# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine's log says it is doing, and what went wrong first. Text in, a sentence out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._words import plain, screen_lines, shorten

WIDTH = 90
_STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) ?")
# (APIServer pid=1) (EngineCore_DP0 pid=153) (RayWorkerProc pid=812, ip=192.168.200.13) [repeated …]
_PROCESS = re.compile(r"^(?:\((?:[\w.]+ )*pid=\d+[^)]*\)\s*)+")
# INFO 05-05 07:16:22 [model.py:554] · 2026-08-01 00:40:44,123 WARNING worker.py:1 --
_LEVELS = "(?P<level>INFO|DEBUG|WARNING|ERROR|CRITICAL)"
_LEVEL = re.compile(rf"^{_LEVELS}:?\s+(?:\d\d-\d\d \d\d:\d\d:\d\d\s+)?(?:\[[\w./]+:\d+\] ?)?")
_DATED = re.compile(rf"^\[?\d{{4}}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.\d]*\]?\s+{_LEVELS}\s+(?:[\w.]+:\d+ -- ?)?")
_BAR = re.compile(r"^(?P<what>.*?):?\s*(?P<percent>\d+)%(?: Completed)?\s?\|[^|]*\|?\s*(?P<done>\d+)/(?P<total>\d+)")
_DULL = re.compile(
    r'"(?:GET|POST|HEAD) /|^Route: |Avg prompt throughput|^non-default args|^Available routes|Started server process|[█▄▀]|=.*=|'
    r"^warnings?\.warn|^(?:Using|Use) .* backend|FutureWarning|DeprecationWarning|^rank \d+ in world size|^Final IR op|^NIXL |"
    r"^Auto-prefetch|^Detected the chat template|^Asynchronous scheduling|^Scale-out endpoints|\[repeated \d+x"
)
# What follows is a page long.
_LONG = re.compile(r" with config: .*")
_ERROR = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt)\b(?::|\()|.*\bCUDA out of memory|.*\bNCCL (?:WARN|error)|.*No available node types|"
    r".*Segmentation fault|.*error: unrecognized arguments|.*: error: )"
)
# Errors that only say that something else failed before.
_ECHO = re.compile(
    r"Engine core initialization failed|EngineCore failed to start|EngineDeadError|See (?:root cause|stack trace) above|Failed core proc|"
    r"WorkerProc initialization failed|EngineCore encountered"
)


def merged(stdout: str, stderr: str) -> list[str]:
    """The lines of `docker logs --timestamps`, both streams in the order of their time stamps, without them."""
    lines = [line for text in (stdout, stderr) for line in text.split("\n") if line.strip()]
    ordered = sorted(lines, key=_stamp)
    return screen_lines("\n".join(_STAMP.sub("", line) for line in ordered))


def _stamp(line: str) -> str:
    match = _STAMP.match(line)
    return match[1] if match else ""


@dataclass(frozen=True)
class Entry:
    """A line taken apart. `level` is empty where the line has none, such as a traceback's or a progress bar's."""

    level: str
    text: str
    indented: bool

    @property
    def is_error(self) -> bool:
        """An error's own sentence, not a part of its traceback."""
        if self.indented or self.text.startswith(("Traceback ", "File ")):
            return False
        return bool(_ERROR.match(self.text)) or (self.level in ("ERROR", "CRITICAL") and _speaks(self.text))


def entry(line: str) -> Entry:
    """The line without process, level, time and source file."""
    text = _PROCESS.sub("", plain(line))
    match = _LEVEL.match(text) or _DATED.match(text)
    level = match["level"] if match else ""
    rest = _PROCESS.sub("", text[match.end() :] if match else text)
    return Entry(level, rest.strip(), rest[:1].isspace())


def activity(lines: Sequence[str]) -> str:
    """What the engine is doing: its newest line that says something to a reader, empty if there is none."""
    for found in map(entry, reversed(lines)):
        progress = _BAR.match(found.text)
        if progress:
            what = progress["what"].strip() or "Working"
            return f"{shorten(what, WIDTH - 20)}: {progress['percent']} % ({progress['done']} of {progress['total']})"
        if found.is_error:
            return shorten(f"error: {found.text}", WIDTH)
        if found.level == "INFO" and _speaks(found.text):
            return shorten(_LONG.sub("", found.text).rstrip("."), WIDTH)
    return ""


def _speaks(text: str) -> bool:
    text = _LONG.sub("", text)
    letters = sum(character.isalpha() and character.isascii() for character in text)
    return letters >= 8 and " " in text and letters * 2 > len(text.replace(" ", "")) and not _DULL.search(text)


def first_error(lines: Sequence[str]) -> str:
    """The first error in time: what comes after it is mostly its echo."""
    errors = [found.text for found in map(entry, lines) if found.is_error]
    causes = [text for text in errors if not _ECHO.search(text)]
    return shorten((causes or errors or [""])[0], 300)


def tail(lines: Sequence[str], number: int) -> list[str]:
    """The last lines that are not the access log."""
    kept = [line for line in lines if '"GET /' not in line and '"POST /' not in line]
    return list(kept[-number:])
