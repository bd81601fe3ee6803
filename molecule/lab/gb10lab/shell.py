"""Running programs and telling the user about it: the only place of the lab that starts a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class LabError(Exception):
    """Something the user has to know, said in one or two sentences; shown without a traceback."""


def say(text: str) -> None:
    """Print one sentence at once, even into a pipe."""
    print(text, flush=True)


@contextmanager
def step(text: str, quiet_below: float = 0.0) -> Iterator[None]:
    """Say what is being done and how long it took; a step faster than ``quiet_below`` seconds says nothing."""
    started = time.monotonic()
    if not quiet_below:
        say(f"{text} ...")
    yield
    seconds = time.monotonic() - started
    if seconds >= quiet_below:
        say(f"{text}: done in {seconds:.1f} s")


def _as_root(argv: Sequence[str]) -> list[str]:
    return list(argv) if os.geteuid() == 0 else ["sudo", "-n", *argv]


def run(
    argv: Sequence[str],
    *,
    root: bool = False,
    check: bool = True,
    stdin: str | bytes | None = None,
    timeout: float = 120,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program with its output captured; a failure names the command and the end of what it said."""
    command = _as_root(argv) if root else list(argv)
    data = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        raw = subprocess.run(
            command,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            timeout=timeout,
            env={**os.environ, "LC_ALL": "C", **(env or {})},
            check=False,
        )
    except FileNotFoundError as error:
        raise LabError(f"{command[0]} is not installed: run molecule/lab/host.sh first") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"this command did not end within {timeout:.0f} s: {' '.join(command)}") from error
    done = subprocess.CompletedProcess(command, raw.returncode, raw.stdout.decode(errors="replace"), raw.stderr.decode(errors="replace"))
    if check and done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-12:])
        raise LabError(f"this command failed with {done.returncode}: {' '.join(command)[:600]}\n{last}")
    return done


def pipe(source: Sequence[str], sink: Sequence[str], *, root: bool = True, timeout: float = 900) -> str:
    """Run ``source | sink`` without holding the data in memory; returns what the sink printed."""
    with subprocess.Popen(_as_root(source) if root else list(source), stdout=subprocess.PIPE) as first:
        second = subprocess.run(_as_root(sink) if root else list(sink), stdin=first.stdout, stdout=subprocess.PIPE, timeout=timeout, check=False)
    if first.returncode or second.returncode:
        raise LabError(f"this pipe failed ({first.returncode}, {second.returncode}): {' '.join(source)} | {' '.join(sink)}")
    return second.stdout.decode(errors="replace").strip()


def detached(argv: Sequence[str]) -> None:
    """Start a program that goes on without us."""
    quiet = subprocess.DEVNULL
    subprocess.Popen(_as_root(argv), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


def passthrough(argv: Sequence[str], *, root: bool = False, env: dict[str, str] | None = None) -> int:
    """Run a program on the user's own terminal and return its exit code."""
    sys.stdout.flush()
    return subprocess.run(_as_root(argv) if root else list(argv), check=False, env={**os.environ, **(env or {})}).returncode


def wait_for(what: str, ready: object, seconds: float, pause: float = 0.1) -> None:
    """Call ``ready`` until it returns something true; a bounded wait that says what did not come."""
    assert callable(ready)
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise LabError(f"{what} did not come within {seconds:.0f} s")
        time.sleep(pause)
