# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only place that runs a command or reads a file on a node.

A runner is live or recorded; whoever uses it cannot tell which. What is not there raises `Unavailable`,
what does not answer raises `TimedOut`, so that a collector holds the way of success only.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, RecordingError, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._pseudonyms import Pseudonyms
from ansible_collections.gb10.cluster.plugins.module_utils._redact import redact_file, redact_text

SCHEMA = "gb10-recording/1"
NO_SUCH_FILE = os.strerror(errno.ENOENT)
NOT_RECORDED = "not in the recording"
ENVIRON = "/proc/self/environ"
# The variables that facts are made of, beside HF_* without the secret ones; no other one is read, so that none can end in a recording.
VARIABLES = ("HOME", "SSH_CONNECTION", "SUDO_USER", "USER")
_HF_VARIABLE = re.compile(r"^HF_\w+$")
_SECRET_VARIABLE = re.compile(r"TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)
# Tools that may get stuck in the kernel: one process of them at a time, and none any more after the first that did not answer.
_STICKY = frozenset({"nvidia-smi"})
# Exit codes of coreutils' timeout and of shells; in a recording they mean the same.
TIMEOUT_RC = 124
NOT_FOUND_RC = 127
_KILLED = (-9, 137)  # how Python and a shell call the end of a process group by SIGKILL, timeout's own one included
_KILL_AFTER = 0.5  # seconds between SIGTERM and SIGKILL
_ABANDON_AFTER = 1.0  # seconds past its timeout at which a call is given up
_CHUNK = 64 * 1024  # bytes; a file below /proc/sys allocates as much as it is asked for
_FILE_LIMIT = 64 * 1024 * 1024  # bytes

T = TypeVar("T")
Reduce = Callable[[str], str]


def wanted(name: str) -> bool:
    """Whether a variable may be read at all."""
    return name in VARIABLES or (_HF_VARIABLE.match(name) is not None and not _SECRET_VARIABLE.search(name))


@dataclass(frozen=True)
class CommandResult:
    argv: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True)
class FileResult:
    path: str
    content: str | None
    error: str | None


class Runner(Protocol):
    source: str

    def command(self, argv: Sequence[str], timeout: float, reduce: Reduce | None = None) -> CommandResult:
        """Run a command; `timeout` in seconds. `reduce` shortens what a recording has to hold of its standard output."""

    def file(self, path: str, reduce: Reduce | None = None) -> FileResult:
        """Read a file. `reduce` shortens what a recording has to hold."""

    def glob(self, pattern: str) -> list[str]:
        """Existing paths, sorted."""

    def environment(self) -> Mapping[str, str]:
        """Those variables of this session that are `wanted`."""


class Module(Protocol):
    """The part of AnsibleModule that a runner needs."""

    def get_bin_path(self, arg: str) -> str | None: ...


def abandonable(function: Callable[[], T], seconds: float) -> T:
    """The function's result, or TimedOut after so many seconds; its thread is then left behind.

    A process in uninterruptible sleep cannot be killed, and neither `timeout` nor Python ever returns from
    waiting for it. A daemon thread is the only thing that can be left waiting: the interpreter does not join it at exit.
    """
    done = threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)
        done.set()

    threading.Thread(target=work, daemon=True).start()
    if not done.wait(seconds):
        raise TimedOut
    if errors:
        raise errors[0]
    return results[0]


class LiveRunner:
    """Runs on the node itself, from several threads at once.

    Not with run_command: it reads until its select, of one second, comes back empty and the process has ended. One that writes and ends
    between the two is taken to have said nothing (ansible-core 2.19 to 2.21, module_utils/basic.py), which happens to commands of a
    whole number of seconds on a busy machine. Output goes into memory here: whole when the process ends, however long a daemon that
    it left behind holds on to it, and even on a full disk.
    """

    source = "live"

    def __init__(self, module: Module) -> None:
        self._module = module
        self._timeout = module.get_bin_path("timeout")
        self._turns = {tool: threading.Lock() for tool in _STICKY}
        self._stuck: set[str] = set()

    def command(self, argv: Sequence[str], timeout: float, reduce: Reduce | None = None) -> CommandResult:
        turn = self._turns.get(argv[0])
        if turn is None:
            return self._command(argv, timeout, reduce)
        started = time.monotonic()
        if not turn.acquire(timeout=timeout):
            raise TimedOut(f"{argv[0]}: not asked, another call of it gave no answer in {timeout:.0f} s")
        try:
            left = timeout - (time.monotonic() - started)
            if argv[0] in self._stuck or left <= 0:
                raise TimedOut(f"{argv[0]}: not asked, another call of it gave no answer in {timeout:.0f} s")
            return self._command(argv, left, reduce)
        except TimedOut:
            self._stuck.add(argv[0])
            raise
        finally:
            turn.release()

    def _command(self, argv: Sequence[str], timeout: float, reduce: Reduce | None) -> CommandResult:
        # The interpreter that runs this module is the one whose packages other modules will see.
        program = sys.executable if argv[0] == "python3" else self._module.get_bin_path(argv[0])
        if program is None:
            raise Unavailable(f"{argv[0]}: not found")
        args = [program, *argv[1:]]
        if self._timeout is not None:
            args = [self._timeout, "-k", str(_KILL_AFTER), f"{timeout:.3f}", *args]
        started = time.monotonic()
        try:
            rc, stdout, stderr = abandonable(lambda: self._run(args), timeout + _ABANDON_AFTER)
        except TimedOut:
            raise TimedOut(f"{argv[0]}: no answer in {timeout:.0f} s, and it cannot be killed") from None
        except OSError as error:
            raise Failed(f"{argv[0]}: {error.strerror}") from error
        seconds = time.monotonic() - started
        if rc in (TIMEOUT_RC, *_KILLED) and seconds >= timeout:
            raise TimedOut(f"{argv[0]}: no answer in {timeout:.0f} s")
        output = stdout.decode("utf-8", "replace")
        return CommandResult(tuple(argv), rc, reduce(output) if reduce else output, stderr.decode("utf-8", "replace"), round(seconds, 3))

    @staticmethod
    def _run(args: list[str]) -> tuple[int, bytes, bytes]:
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}
        with open(os.memfd_create("stdout"), "w+b") as out, open(os.memfd_create("stderr"), "w+b") as err:
            rc = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, check=False).returncode
            # Whoever was left behind shares the position with us: it stays where it is.
            stdout, stderr = (os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in (out, err))
        return rc, stdout, stderr

    def file(self, path: str, reduce: Reduce | None = None) -> FileResult:
        try:
            content = _content(path).decode("utf-8", "replace")
        except OSError as error:
            return FileResult(path, None, error.strerror or "cannot be read")
        return FileResult(path, reduce(content) if reduce else content, None)

    def glob(self, pattern: str) -> list[str]:
        return sorted(glob.glob(pattern))

    def environment(self) -> Mapping[str, str]:
        found = {name: value for name, value in os.environ.items() if wanted(name)}
        if "SSH_CONNECTION" not in found:
            found.update(self._session())
        return found

    def _session(self) -> Iterator[tuple[str, str]]:
        """SSH_CONNECTION from the nearest ancestor that has it: sudo does not let it pass."""
        pid = "self"
        for _generation in range(12):
            stat = self.file(f"/proc/{pid}/stat").content or ""
            fields = stat.rpartition(")")[2].split()
            if len(fields) < 2 or fields[1] in ("0", "1"):
                return
            pid = fields[1]
            for name, value in _variables(self.file(f"/proc/{pid}/environ").content or ""):
                if name == "SSH_CONNECTION":
                    yield name, value
                    return


def _content(path: str) -> bytes:
    content = bytearray()
    with open(path, "rb", buffering=0) as stream:
        while len(content) < _FILE_LIMIT:
            chunk = stream.read(_CHUNK)
            if not chunk:
                break
            content += chunk
    return bytes(content)


def _variables(environ: str) -> Iterator[tuple[str, str]]:
    for entry in environ.split("\0"):
        name, separator, value = entry.partition("=")
        if separator and wanted(name):
            yield name, value


class RecordedRunner:
    """Answers from a recording. A path exists when the recording holds it or something below it."""

    source = "recording"

    def __init__(self, recording: Mapping[str, Any]) -> None:
        self._commands: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self._files: dict[str, Mapping[str, Any]] = {}
        if not isinstance(recording, Mapping) or recording.get("schema") != SCHEMA:
            raise RecordingError(f"not a {SCHEMA} file")
        reason = recording.get("unreachable")
        #: Why the node could not be recorded, where it could not.
        self.unreachable = str(reason) if reason else None
        for entry in recording.get("entries") or []:
            try:
                if entry["kind"] == "command":
                    self._commands.setdefault(tuple(entry["argv"]), entry)
                elif entry["kind"] == "file":
                    self._files.setdefault(entry["path"], entry)
            except (KeyError, TypeError) as error:
                raise RecordingError(f"{SCHEMA}: an entry without kind, argv or path") from error

    def command(self, argv: Sequence[str], timeout: float, reduce: Reduce | None = None) -> CommandResult:
        entry = self._commands.get(tuple(argv))
        if entry is None:
            raise Unavailable(f"{argv[0]}: {NOT_RECORDED}")
        rc, seconds = int(entry.get("rc") or 0), float(entry.get("seconds") or 0)
        if rc == TIMEOUT_RC:
            raise TimedOut(entry.get("stderr") or f"{argv[0]}: no answer in {seconds:.0f} s")
        if rc == NOT_FOUND_RC:
            raise Unavailable(entry.get("stderr") or f"{argv[0]}: not found")
        output = entry.get("stdout") or ""
        return CommandResult(tuple(argv), rc, reduce(output) if reduce else output, entry.get("stderr") or "", seconds)

    def file(self, path: str, reduce: Reduce | None = None) -> FileResult:
        entry = self._files.get(path)
        if entry is None:
            return FileResult(path, None, NOT_RECORDED)
        content = entry.get("content")
        if content is None:
            return FileResult(path, None, entry.get("error") or "cannot be read")
        return FileResult(path, reduce(content) if reduce else content, None)

    def glob(self, pattern: str) -> list[str]:
        wanted = pattern.split("/")
        found = set()
        for path, entry in self._files.items():
            if entry.get("error") == NO_SUCH_FILE:
                continue
            parts = path.split("/")[: len(wanted)]
            if len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted)):
                found.add("/".join(parts))
        return sorted(found)

    def environment(self) -> Mapping[str, str]:
        return dict(_variables(self.file(ENVIRON).content or ""))


class Recorder:
    """A runner that remembers what another one saw, without secrets and under pseudonyms; see `Pseudonyms` for the salt."""

    def __init__(self, runner: Runner, salt: str | None = None) -> None:
        self.source = runner.source
        self._runner = runner
        self._pseudonyms = Pseudonyms(secrets.token_hex(32) if salt is None else salt)
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, ...], dict[str, Any]] = {}

    def command(self, argv: Sequence[str], timeout: float, reduce: Reduce | None = None) -> CommandResult:
        try:
            result = self._runner.command(argv, timeout, reduce)
        except TimedOut as error:
            self._keep_command(CommandResult(tuple(argv), TIMEOUT_RC, "", str(error), timeout))
            raise
        except Unavailable as error:
            self._keep_command(CommandResult(tuple(argv), NOT_FOUND_RC, "", str(error), 0.0))
            raise
        self._keep_command(result)
        return result

    def file(self, path: str, reduce: Reduce | None = None) -> FileResult:
        result = self._runner.file(path, reduce)
        if result.content is None:
            self._keep_file(path, error=result.error)
        else:
            self._keep_file(path, content=self._pseudonyms.text(redact_file(path, result.content)))
        return result

    def glob(self, pattern: str) -> list[str]:
        paths = self._runner.glob(pattern)
        for path in paths:
            self._keep_file(path, replace=False, error="not read")
        return paths

    def environment(self) -> Mapping[str, str]:
        variables = self._runner.environment()
        content = "".join(f"{name}={self._pseudonyms.text(redact_text(value))}\0" for name, value in sorted(variables.items()))
        self._keep_file(ENVIRON, content=content)
        return variables

    def _keep_file(self, path: str, replace: bool = True, **outcome: str | None) -> None:
        self._keep(("file", path), {"kind": "file", "path": self._pseudonyms.text(path), **outcome}, replace)

    def _keep_command(self, result: CommandResult) -> None:
        texts = {"stdout": result.stdout, "stderr": result.stderr}
        hidden = {name: self._pseudonyms.text(redact_text(text)) for name, text in texts.items()}
        argv = [self._pseudonyms.text(word) for word in result.argv]
        self._keep(("command", *result.argv), {"kind": "command", "argv": argv, "rc": result.rc, **hidden, "seconds": result.seconds})

    def _keep(self, key: tuple[str, ...], entry: dict[str, Any], replace: bool = True) -> None:
        with self._lock:
            if replace or key not in self._entries:
                self._entries[key] = entry

    def recording(self, host: str) -> dict[str, Any]:
        """The recording so far, in an order that does not depend on which probe was faster."""
        with self._lock:
            return {"schema": SCHEMA, "host": host, "entries": [self._entries[key] for key in sorted(self._entries)]}


def load_recording(path: str) -> RecordedRunner:
    try:
        with open(path, encoding="utf-8") as stream:
            return RecordedRunner(json.load(stream))
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise RecordingError(f"{path}: {error}") from error
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from error
