# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job module with a small stand-in for systemd: a start, an adoption, each kind of end. The real systemd has its turn in the lab."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils import _job_node
from ansible_collections.gb10.cluster.plugins.module_utils._job import Paths
from ansible_collections.gb10.cluster.plugins.modules import job
from module_runner import program, run_module, use_programs

SYSTEMD_RUN = """#!{python}
import os, subprocess, sys
options, argv = sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
properties = [o.partition("=")[2].partition("=") for o in options if o.startswith("--property=")]
value = {{name: text for name, _, text in properties}}
unit = next(o.partition("=")[2] for o in options if o.startswith("--unit="))
if argv[0] == "missing":
    sys.exit("Failed to find executable missing: No such file or directory")
env = dict(os.environ, **dict(o.partition("=")[2].split("=", 1) for o in options if o.startswith("--setenv=")))
secrets = value.get("EnvironmentFile", "-")[1:]
if secrets:
    for line in open(secrets):
        name, _, quoted = line.strip().partition("=")
        env[name] = quoted[1:-1]
    os.unlink(secrets)
alive = os.path.join({state!r}, unit)
open(alive, "w").close()
# systemd-run comes back when the unit is there, not before.
if os.fork():
    sys.exit(0)
os.setsid()
log = open(value["StandardOutput"].partition(":")[2], "ab")
rc = subprocess.call([word.replace("$$", "$") for word in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
import shlex
post = [word.replace("$$", "$") for word in shlex.split(value["ExecStopPost"][1:])]
subprocess.call(post, env=dict(os.environ, SERVICE_RESULT="exit-code" if rc else "success", EXIT_CODE="exited", EXIT_STATUS=str(rc)))
os.unlink(alive)
"""
SYSTEMCTL = """#!/bin/sh
case "$1" in
  show) if [ -e {state}/"$3" ]; then echo ActiveState=active; else echo ActiveState=inactive; fi;;
esac
"""

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The module as root on a node whose systemd is the one above."""
    units = tmp_path / "units"
    units.mkdir()
    program(tmp_path / "bin", "systemd-run", SYSTEMD_RUN.format(python=sys.executable, state=str(units)))
    program(tmp_path / "bin", "systemctl", SYSTEMCTL.format(state=units))
    use_programs(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(_job_node, "Paths", lambda name: Paths(name, runtime=str(tmp_path / "run"), logs=str(tmp_path / "log")))

    def call(check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
        user = {"user": "root"} if "user" not in arguments else {}
        return run_module(job.main, capsys, check_mode, **{"name": "x", "interval": 5, "token": "one", **user, **arguments})

    return call


def finished(run: Run, **arguments: Any) -> dict[str, Any]:
    result = run(**arguments)
    deadline = time.monotonic() + 20
    while result.get("running") and time.monotonic() < deadline:
        result = run(**{**arguments, "state": "polled"})
    assert result["running"] is False
    return result


def test_a_short_job(run: Run, tmp_path: Path) -> None:
    result = finished(run, argv=["sh", "-c", "echo one; echo $GREETING"], environment={"GREETING": "hello"})
    assert (result["rc"], result["result"], result["changed"], result["adopted"]) == (0, "success", True, False)
    assert result["last_lines"] == ["one", "hello"]
    assert result["log"] == str(tmp_path / "log" / "x.log")
    assert stat.S_IMODE(os.stat(result["log"]).st_mode) == 0o640
    assert "advice" not in result


def test_a_failure_says_what_to_do(run: Run) -> None:
    result = finished(run, argv=["sh", "-c", "echo no space left on device >&2; exit 28"])
    assert (result["rc"], result["result"]) == (28, "exit-code")
    assert "disk is full" in result["advice"]


def test_secrets_reach_the_command_and_nobody_else(run: Run, tmp_path: Path) -> None:
    result = finished(run, argv=["sh", "-c", 'test "$PW" = topsecret1 && echo "it is $PW"'], secret_environment={"PW": "topsecret1"})
    assert result["rc"] == 0
    assert "topsecret1" not in str(result)
    left = [path for path in (tmp_path / "run").iterdir() if "topsecret1" in path.read_text()]
    assert left == []
    assert not (tmp_path / "run" / "job-x.env").exists()


def test_a_running_job_is_adopted(run: Run, tmp_path: Path) -> None:
    argv = ["sh", "-c", f"echo begun; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo ended"]
    first = run(argv=argv, token="one")
    assert (first.get("running"), first.get("adopted")) == (True, False), first
    second = run(argv=argv, token="two")
    assert (second["running"], second["adopted"]) == (True, True)
    other = run(argv=["true"], token="three")
    assert other["failed"]
    assert "still running another command: sh -c" in other["msg"]
    (tmp_path / "go").touch()
    last = finished(run, argv=argv, state="polled")
    assert last["last_lines"] == ["begun", "ended"]


def test_a_start_that_is_sent_twice_starts_once(run: Run, tmp_path: Path) -> None:
    argv = ["sh", "-c", f"echo ran >> {tmp_path}/count"]
    finished(run, argv=argv, token="one")
    again = finished(run, argv=argv, token="one")
    assert again["rc"] == 0
    assert (tmp_path / "count").read_text() == "ran\n"
    finished(run, argv=argv, token="two")
    assert (tmp_path / "count").read_text() == "ran\nran\n"


def test_the_log_before_is_kept(run: Run, tmp_path: Path) -> None:
    finished(run, argv=["echo", "old"], token="one")
    finished(run, argv=["echo", "new"], token="two")
    assert (tmp_path / "log" / "x.log.1").read_text() == "old\n"
    assert (tmp_path / "log" / "x.log").read_text() == "new\n"


def test_progress_is_read(run: Run) -> None:
    result = finished(run, argv=["printf", '{"done": 1, "total": 4}\\n'])
    assert result["progress"] == {"done": 1.0, "total": 4.0, "percent": 25.0, "unit": "bytes", "message": ""}


def test_a_job_without_a_trace(run: Run) -> None:
    result = run(argv=["true"], state="polled")
    assert (result["running"], result["result"]) == (False, "vanished")
    assert "Run again" in result["advice"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"argv": ["missing"]}, "Failed to find executable missing"),
        ({"argv": ["true"], "user": "nobody-of-this-name"}, "no user nobody-of-this-name"),
        ({"argv": ["true"], "chdir": "/nowhere/at/all"}, "no directory /nowhere/at/all"),
        ({"argv": ["true"], "name": "A B"}, "This job cannot be run: name 'A B'"),
    ],
)
def test_what_cannot_start_says_so(run: Run, arguments: dict[str, Any], word: str) -> None:
    result = run(**arguments)
    assert result["failed"]
    assert word in result["msg"]


def test_check_mode_starts_nothing(run: Run, tmp_path: Path) -> None:
    result = run(check_mode=True, argv=["touch", str(tmp_path / "touched")])
    assert result["changed"]
    assert result["argv"] == ["touch", str(tmp_path / "touched")]
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "touched").exists()


def test_root_is_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "become: true" in run(argv=["true"])["msg"]
