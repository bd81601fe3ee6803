# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node remembers of a change, so that whoever comes next knows where it stands.

`journal.json` is there from the moment the change may begin until it is confirmed (renamed to `applied.json`, or removed with our file)
or taken back (renamed to `reverted.json`). Each of these is one rename, so that there is no state between.
"""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import glob
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import Busy, Paths, Refused

SCHEMA = "gb10-fabric/1"
NONE, PENDING, REVERTED = "none", "pending", "reverted"


@dataclass(frozen=True)
class Standing:
    """Where the last change stands."""

    state: str  # none | pending | reverted
    record: dict[str, Any]
    when: float = 0.0  # epoch: begun, or taken back
    why: str = ""


def clock(epoch: float) -> str:
    """A time as the node's own clock shows it."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(epoch))


def read_json(path: str) -> dict[str, Any]:
    """A journal file; empty if there is none, or none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("schema") == SCHEMA else {}


def read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


def sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(path: str, text: str, mode: int) -> None:
    """A file that is on the disk as a whole, or is not there."""
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError as error:
        remove(temporary)
        error.filename = error.filename or path  # a write that fails does not know it
        raise
    sync_directory(os.path.dirname(path))


def remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


class Journal:
    """The files of a change on this node."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths

    @contextlib.contextmanager
    def lock(self, seconds: float) -> Iterator[None]:
        """Nobody else changes anything meanwhile; the lock ends with the process, however that ends."""
        os.makedirs(self.paths.run, mode=0o755, exist_ok=True)
        with open(self.paths.lock, "a", encoding="utf-8") as file:
            deadline = time.monotonic() + seconds
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise Busy(f"Another run has been changing this node's rails for {seconds:.0f} s: wait for its end and run again.") from None
                    time.sleep(0.1)
            yield

    def standing(self) -> Standing:
        if os.path.exists(self.paths.journal):
            # Unreadable or not: it is there, so the change was begun and not confirmed.
            record = read_json(self.paths.journal)
            return Standing(PENDING, record, float(record.get("started", 0)))
        if os.path.exists(self.paths.reverted):
            when, _, why = (read_text(self.paths.reason) or "").strip().partition(" ")
            changed = os.stat(self.paths.reverted).st_ctime
            return Standing(REVERTED, read_json(self.paths.reverted), float(when) if when.isdigit() else changed, why or "nobody confirmed it")
        return Standing(NONE, {})

    def applied(self) -> dict[str, Any]:
        """What the last confirmed change left for the next one: how the links were before they were ours."""
        return read_json(self.paths.applied)

    def prepare(self, record: dict[str, Any], new: str | None, script: str, unit: str) -> None:
        """Everything that a change and its way back need, on the disk before anything is changed. The journal itself comes last."""
        paths = self.paths
        try:
            os.makedirs(os.path.dirname(paths.state), mode=0o755, exist_ok=True)
            os.makedirs(paths.state, mode=0o700, exist_ok=True)
            os.chmod(paths.state, 0o700)
            write(paths.script, script, 0o700)
            os.makedirs(os.path.dirname(paths.boot_link), mode=0o755, exist_ok=True)
            write(paths.boot_unit, unit, 0o644)
            os.symlink(paths.boot_unit[len(paths.base) :], paths.boot_link)
            sync_directory(os.path.dirname(paths.boot_link))
            if new is not None:
                write(paths.new, new, 0o600)
            if os.path.exists(paths.file):
                os.link(paths.file, paths.old)
                sync_directory(paths.etc)
            write(paths.journal, json.dumps({"schema": SCHEMA, **record}), 0o600)
        except OSError as error:
            remove(paths.journal)
            self.tidy()
            raise Refused(f"{_place(error, paths.state)}: {error.strerror}. Nothing was changed; make room there and run again.") from error

    def put(self, new: str | None) -> None:
        """Our file as it is to be. From here on there is something to take back."""
        if new is None:
            remove(self.paths.file)
        else:
            os.rename(self.paths.new, self.paths.file)
        sync_directory(self.paths.etc)

    def keep(self) -> None:
        """Set networkd's files from netplan aside. netplan writes all of them anew, and on a reload networkd configures every link anew whose
        file is another one, whatever stands in it: the way of the session would lose its address for a moment.
        """
        shutil.rmtree(self.paths.kept, ignore_errors=True)
        os.makedirs(self.paths.kept, mode=0o700)
        for path in glob.glob(f"{self.paths.networkd}/10-netplan-*"):
            # Where it cannot be, a link is configured once more than it had to be.
            with contextlib.suppress(OSError):
                os.link(path, os.path.join(self.paths.kept, os.path.basename(path)))

    def restore_kept(self) -> None:
        """Put those back that netplan wrote as they had been."""
        for name in sorted(os.listdir(self.paths.kept)):
            kept, live = os.path.join(self.paths.kept, name), os.path.join(self.paths.networkd, name)
            if os.path.exists(live) and filecmp.cmp(kept, live, shallow=False):
                os.rename(kept, live)

    def mark(self, token: str, **changes: Any) -> bool:
        """Note something in the journal of this change; False where it is over by now."""
        record = read_json(self.paths.journal)
        if record.get("token") != token:
            return False
        write(self.paths.journal, json.dumps({**record, **changes}), 0o600)
        return True

    def confirm(self, absent: bool) -> None:
        """The change stays: one rename, or for `absent` one unlink."""
        if absent:
            os.unlink(self.paths.journal)
        else:
            os.rename(self.paths.journal, self.paths.applied)
        sync_directory(self.paths.state)

    def tidy(self) -> None:
        """Remove whatever belongs to a change that is over. Not to be called while one is pending."""
        paths = self.paths
        # Without the link the unit is nothing, so it goes first.
        remove(paths.boot_link, paths.boot_unit, paths.old, paths.new, paths.script, paths.reason, paths.reverted)
        shutil.rmtree(paths.kept, ignore_errors=True)
        if os.path.isdir(paths.state) and not os.path.exists(paths.file):
            remove(paths.applied)
        for directory in (paths.state, os.path.dirname(paths.state)):
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def _place(error: OSError, otherwise: str) -> str:
    """Where there was no room: the folder, which says more than the name of a temporary file."""
    return os.path.dirname(str(error.filename)) if error.filename else otherwise
