# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a command is, read from what it printed: rsync, dd, docker, tqdm, JSON lines. Text in, Progress out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import duration, plain, rate, shorten, size

_SIZE = r"[\d.,]+\s?(?:[kKMGTP]?i?B?)"
_CLOCK = r"(?:(?:\d+-)?\d+:)?\d+:\d\d"
_RSYNC = re.compile(rf"^\s*(?P<done>[\d,.]+[KMGT]?)\s+(?P<percent>\d+)%\s+(?P<rate>[\d.,]+[kMGT]?B/s)\s+(?P<left>{_CLOCK})")
_DD = re.compile(r"^(?P<done>\d+) bytes? \(.*\) copied, [\d.,]+(?:e[+-]\d+)? s, (?P<rate>[\d.,]+ [kMGT]?B/s)")
_TQDM = re.compile(
    rf"^(?:(?P<what>.*?):?\s*)?(?P<percent>\d+)%(?: Completed)?\s?\|[^|]*?\|?\s*(?P<done>{_SIZE})/(?P<total>{_SIZE})"
    rf"\s*\[{_CLOCK}<(?P<left>{_CLOCK}|\?)(?:,\s*(?P<rate>\S+?)/s)?",
)
_LAYER = re.compile(r"^(?P<id>[0-9a-f]{12}): (?P<status>[A-Z][A-Za-z ]+)$")
_LAYER_DONE = ("Pull complete", "Already exists")
_STEP = re.compile(r"^(?:#\d+ \[(?:[\w.-]+ )?(?P<step>\d+)/(?P<steps>\d+)\]|Step (?P<old>\d+)/(?P<olds>\d+) :) (?P<what>\S.*)$")
_BUILD_NOISE = re.compile(r"^#\d+ (?:\d+\.\d+ )?")
_FACTORS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


@dataclass(frozen=True)
class Progress:
    """What is known; what is not is None. `done` and `total` are in `unit` (bytes, layers, files …), `rate` in bytes/s, `remaining` in s."""

    done: float | None = None
    total: float | None = None
    unit: str = "bytes"
    percent: float | None = None
    rate: float | None = None
    remaining: float | None = None
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Progress:
        return cls(**{key: record[key] for key in cls.__dataclass_fields__ if key in record})

    def with_total(self, total: int | None) -> Progress:
        """The same, with the expected size where the command itself does not know it (dd, a pipe)."""
        if not total or self.done is None or self.unit != "bytes" or self.total is not None:
            return self
        known = replace(self, total=float(total), percent=min(100.0, 100.0 * self.done / total))
        if known.rate and known.remaining is None:
            known = replace(known, remaining=max(0.0, total - self.done) / known.rate)
        return known

    def words(self) -> str:
        """42 % of 119.0 GB, 512 MB/s, 3 min left."""
        parts = [self._amount()]
        if self.rate:
            parts.append(rate(self.rate))
        if self.remaining is not None and (self.percent or 0) < 100:
            parts.append(f"{duration(self.remaining)} left")
        said = ", ".join(part for part in parts if part)
        if said and self.message:
            return f"{shorten(self.message, 60)}: {said}"
        return said or shorten(self.message, 100)

    def _amount(self) -> str:
        if self.unit != "bytes":
            if self.total is not None and self.done is not None:
                return f"{self.done:.0f} of {self.total:.0f} {self.unit}".rstrip()
            return "" if self.percent is None else f"{self.percent:.0f} %"
        if self.percent is not None:
            return f"{self.percent:.0f} % of {size(self.total)}" if self.total else f"{self.percent:.0f} %"
        return "" if self.done is None else size(self.done)


def parse_size(text: str, base: int = 1024) -> float | None:
    """'2.10G', '31.25MB', '1,238,099', '512 MiB' in bytes; None where it is no size. A unit with an i is always binary."""
    match = re.fullmatch(r"([\d.,]+)\s?([kKMGTP]?)(i?)B?", text.strip())
    if not match:
        return None
    digits, letter, binary = match.groups()
    if "," in digits and re.fullmatch(r"\d{1,3}(,\d{3})*(\.\d+)?", digits):
        digits = digits.replace(",", "")
    try:
        number = float(digits.replace(",", "."))
    except ValueError:
        return None
    return float(number * (1024 if binary else base) ** _FACTORS[letter.lower()])


def parse_clock(text: str) -> float | None:
    """'0:03:12', '03:12', '1-02:00:00' (tqdm's and rsync's ways) in seconds."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d)", text.strip())
    if not match:
        return None
    days, hours, minutes, seconds = (int(group or 0) for group in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def parse_progress(log: str) -> Progress | None:
    """The state of the command that wrote this log (its tail is enough), None while it has said nothing."""
    newest: str | None = None
    for line in _newest_first(log):
        found = _json(line) or _rsync(line) or _dd(line) or _tqdm(line) if newest is None else None
        if found:
            return found
        if newest is None and _LAYER.match(line):
            return _layers(log)
        step = _STEP.match(line)
        if step:
            # A build says above its output which step that output belongs to.
            return _step(step, newest)
        newest = newest or line
    return Progress(message=_BUILD_NOISE.sub("", newest).strip()) if newest else None


def _newest_first(log: str) -> Iterator[str]:
    for line in reversed(re.split(r"[\r\n]+", plain(log))):
        if line.strip():
            yield line.rstrip()


def _json(line: str) -> Progress | None:
    """{"done": 12, "total": 47, "unit": "files", "message": "Fetching"}; also rate and remaining, where the command knows them."""
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    done, total = _number(record, "done"), _number(record, "total")
    if done is None:
        return None
    return Progress(
        done=done,
        total=total or None,
        percent=min(100.0, 100.0 * done / total) if total else None,
        unit=str(record.get("unit", "bytes")),
        message=str(record.get("message", "")),
        rate=_number(record, "rate"),
        remaining=_number(record, "remaining"),
    )


def _number(record: Any, key: str) -> float | None:
    value = record.get(key) if isinstance(record, dict) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf") else None


def _rsync(line: str) -> Progress | None:
    match = _RSYNC.match(line)
    if not match:
        return None
    done, percent = parse_size(match["done"]), float(match["percent"])
    # rsync gives no total: what is done and the percentage tell it, roughly at first.
    total = done * 100 / percent if done is not None and percent >= 5 else None
    # With "(xfr#" behind it the clock is the time that was needed, not the time that is left.
    remaining = None if "xfr#" in line else parse_clock(match["left"])
    return Progress(done=done, total=total, percent=percent, rate=parse_size(match["rate"][:-2]), remaining=remaining)


def _dd(line: str) -> Progress | None:
    match = _DD.match(line)
    if not match:
        return None
    return Progress(done=float(match["done"]), rate=parse_size(match["rate"][:-2], base=1000))


def _tqdm(line: str) -> Progress | None:
    match = _TQDM.match(line.strip())
    if not match:
        return None
    # Byte bars carry a unit letter; bars that count files or shards do not.
    counts = not re.search(r"[A-Za-z]", match["done"] + match["total"])
    speed = None if counts or not match["rate"] else parse_size(match["rate"], base=1000)
    what = (match["what"] or "").strip()
    return Progress(
        done=parse_size(match["done"], base=1000),
        total=parse_size(match["total"], base=1000),
        unit="" if counts else "bytes",
        percent=float(match["percent"]),
        rate=speed,
        remaining=None if match["left"] == "?" else parse_clock(match["left"]),
        message=what,
    )


def _layers(log: str) -> Progress:
    """docker pull without a terminal names each layer's steps, never bytes: layers are what can be counted."""
    layers: dict[str, str] = {}
    for line in re.split(r"[\r\n]+", plain(log)):
        match = _LAYER.match(line.rstrip())
        if match:
            layers[match["id"]] = match["status"]
    done = sum(status in _LAYER_DONE for status in layers.values())
    return Progress(done=float(done), total=float(len(layers)), unit="layers", percent=100.0 * done / len(layers))


def _step(match: re.Match[str], newest: str | None) -> Progress:
    step, steps = (match["step"], match["steps"]) if match["step"] else (match["old"], match["olds"])
    detail = _BUILD_NOISE.sub("", newest).strip() if newest else match["what"]
    return Progress(message=f"step {step} of {steps}: {detail}")


class Meter:
    """Turns successive readings into lines worth saying: adds the speed where the command gives none, and says nothing twice."""

    def __init__(self, total: int | None = None, heartbeat: float = 60.0) -> None:
        self._total = total
        self._heartbeat = heartbeat
        self._first: tuple[float, float] | None = None
        self._said = ""
        self._said_at = 0.0

    def line(self, now: float, progress: Progress | None) -> str | None:
        """What to say `now` (seconds since the start), None where nothing is new. The longer it takes, the less often."""
        quiet = now - self._said_at
        words = self._measured(now, progress).words() if progress else ""
        if words and words != self._said and (not self._said or quiet >= min(60.0, now / 20)):
            self._said, self._said_at = words, now
            return words
        if quiet >= self._heartbeat:
            self._said_at = now
            return f"{self._said or 'no output yet'} (no news, {duration(now)} in all)"
        return None

    def _measured(self, now: float, progress: Progress) -> Progress:
        if progress.done is None or progress.unit != "bytes":
            return progress
        known = progress.with_total(self._total)
        if self._first is None or known.done is None or known.done < self._first[1]:
            self._first = (now, progress.done)
            return known
        started, at_start = self._first
        if known.rate is None and now - started >= 1 and progress.done > at_start:
            speed = (progress.done - at_start) / (now - started)
            left = None if known.total is None else max(0.0, known.total - progress.done) / speed
            known = replace(known, rate=speed, remaining=left if known.remaining is None else known.remaining)
        return known
