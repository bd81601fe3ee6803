# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit of a job: how it is started, what it leaves behind, what its end means."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._job import (
    JobSpec,
    Outcome,
    Paths,
    advice,
    environment_file,
    parse_properties,
    parse_result,
    problems,
    systemd_run,
)

PATHS = Paths("image-pull")


def command(**changes: object) -> list[str]:
    return systemd_run(JobSpec(**{"argv": ["docker", "pull", "x"], **changes}), PATHS)  # type: ignore[arg-type]


def test_the_unit() -> None:
    argv = command(user="aurora", timeout=7200, chdir="/srv")
    assert argv[: argv.index("--")] == [
        "systemd-run",
        "--quiet",
        "--collect",
        "--service-type=exec",
        "--unit=gb10-job-image-pull.service",
        "--description=gb10.cluster job image-pull",
        "--uid=aurora",
        "--property=StandardInput=null",
        "--property=StandardOutput=append:/var/log/gb10/image-pull.log",
        "--property=StandardError=append:/var/log/gb10/image-pull.log",
        "--property=RuntimeMaxSec=7200",
        "--property=TimeoutStopSec=30",
        next(word for word in argv if "ExecStopPost" in word),
        "--property=WorkingDirectory=/srv",
    ]
    assert argv[argv.index("--") + 1 :] == ["docker", "pull", "x"]


def test_the_command_is_not_expanded_by_systemd() -> None:
    argv = command(argv=["bash", "-c", "echo $HOME ${X} 100%"])
    assert argv[-1] == "echo $$HOME $${X} 100%"


def test_environment_and_secrets_travel_apart() -> None:
    argv = command(environment={"HF_HOME": "/x y"}, secret_names=["HF_TOKEN"])
    assert "--setenv=HF_HOME=/x y" in argv
    assert "--property=EnvironmentFile=-/run/gb10/job-image-pull.env" in argv
    assert "--property=ExecStartPost=+/bin/rm -f /run/gb10/job-image-pull.env" in argv
    assert not any("HF_TOKEN" in word for word in argv)
    assert not any("EnvironmentFile" in word for word in command())


def test_the_end_is_written_as_a_whole(tmp_path: object) -> None:
    """What ExecStopPost runs, run: after systemd has made $ of $$ and taken the quotes."""
    paths = Paths("x", runtime=str(tmp_path))
    value = next(word for word in systemd_run(JobSpec(argv=["true"]), paths) if "ExecStopPost" in word).partition("ExecStopPost=+")[2]
    argv = [word.replace("$$", "$") for word in shlex.split(value)]
    environment = {"SERVICE_RESULT": "exit-code", "EXIT_CODE": "exited", "EXIT_STATUS": "3", "PATH": "/usr/bin:/bin"}
    subprocess.run(argv, check=True, env=environment)
    with open(paths.result, encoding="utf-8") as file:
        outcome = parse_result(file.read())
    assert outcome is not None
    assert (outcome.rc, outcome.result) == (3, "exit-code")
    assert outcome.finished is not None
    assert outcome.finished > 1.7e9


@pytest.mark.parametrize("value", ["plain", 'a"b', "$HOME `id` \\", "with space", "two\nlines", "ünï"])
def test_environment_file_keeps_the_value(value: str) -> None:
    """A shell reads double quotes as systemd does."""
    script = environment_file({"NAME": value}) + 'printf %s "$NAME"'
    assert subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout == value


def test_what_makes_two_jobs_the_same() -> None:
    base = JobSpec(argv=["a"], environment={"X": "1"})
    assert base.fingerprint == JobSpec(argv=["a"], environment={"X": "1"}, timeout=5).fingerprint
    assert base.fingerprint != JobSpec(argv=["a"], environment={"X": "2"}).fingerprint
    assert base.fingerprint != JobSpec(argv=["a"], environment={"X": "1"}, user="aurora").fingerprint


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", None),
        ("success exited 0 1790000000.123\n", Outcome(0, "success", 1790000000.123)),
        ("exit-code exited 127 1790000000\n", Outcome(127, "exit-code", 1790000000.0)),
        ("timeout killed TERM 1790000000\n", Outcome(143, "timeout", 1790000000.0)),
        ("oom-kill killed KILL 1790000000\n", Outcome(137, "oom-kill", 1790000000.0)),
        ("signal killed RTMIN+3 1790000000\n", Outcome(1, "signal", 1790000000.0)),
        ("resources 1790000000\n", Outcome(1, "resources", 1790000000.0)),
        ("success\n", Outcome(0, "success", None)),
    ],
)
def test_result(text: str, outcome: Outcome | None) -> None:
    assert parse_result(text) == outcome


def test_properties() -> None:
    assert parse_properties("ActiveState=active\nDescription=a=b\nnonsense\n") == {"ActiveState": "active", "Description": "a=b"}


@pytest.mark.parametrize(
    ("outcome", "lines", "word"),
    [
        (Outcome(143, "timeout"), [], "larger timeout"),
        (Outcome(137, "oom-kill"), [], "memory"),
        (Outcome(143, "signal"), [], "stopped"),
        (Outcome(1, "vanished"), [], "restarted"),
        (Outcome(1, "exit-code"), ["write /var/lib/docker/tmp: no space left on device"], "disk is full"),
        (Outcome(1, "exit-code"), ["401 Client Error. Access to model x is restricted"], "HF_TOKEN"),
        (Outcome(1, "exit-code"), ["toomanyrequests: You have reached your pull rate limit"], "wait"),
        (Outcome(1, "exit-code"), ["dial tcp: lookup registry-1.docker.io: no such host"], "DNS"),
        (Outcome(1, "exit-code"), ["ssh: connect to host 192.0.2.1 port 22: Connection refused"], "network failed"),
        (Outcome(1, "exit-code"), ["aurora@192.0.2.1: Permission denied (publickey)."], "authorized_keys"),
        (Outcome(1, "exit-code"), ["exec /usr/bin/python3: exec format error"], "architecture"),
        (Outcome(1, "exit-code"), ["something else"], "less /var/log/gb10/x.log"),
    ],
)
def test_advice(outcome: Outcome, lines: list[str], word: str) -> None:
    assert word in advice(outcome, lines, "/var/log/gb10/x.log")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"name": "Not a name"}, ["Not a name"]),
        ({"name": "../etc"}, ["../etc"]),
        ({"argv": []}, ["argv is empty"]),
        ({"timeout": 0}, ["greater than 0"]),
        ({"environment": {"a b": 1}, "secret_environment": {"X": "a\0b"}}, ["'a b'", "value of X"]),
    ],
)
def test_problems(changes: dict[str, object], words: list[str]) -> None:
    params: dict[str, object] = {"name": "x", "argv": ["true"], "timeout": 1, "interval": 1, "environment": {}, "secret_environment": {}}
    found = problems({**params, **changes})
    assert len(found) == len(words)
    for sentence, word in zip(found, words):
        assert word in sentence
        assert "a\0b" not in sentence
