# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, RecordingError, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._runner import (
    SCHEMA,
    LiveRunner,
    RecordedRunner,
    Recorder,
    abandonable,
    load_recording,
)

AnsibleModule = pytest.importorskip("ansible.module_utils.basic").AnsibleModule


class RealModule(AnsibleModule):  # type: ignore[misc, valid-type]
    """AnsibleModule's own get_bin_path, without arguments from a controller."""

    def __init__(self) -> None:
        self._debug = False


@pytest.fixture
def live() -> LiveRunner:
    return LiveRunner(RealModule())


def recorded(*entries: dict[str, Any]) -> RecordedRunner:
    return RecordedRunner({"schema": SCHEMA, "host": "spark", "entries": list(entries)})


def test_a_command(live: LiveRunner) -> None:
    result = live.command(["sh", "-c", "echo $LC_ALL '$HOME' ~; echo no >&2; exit 3"], 5)
    assert result.argv[0] == "sh"
    assert (result.rc, result.stderr) == (3, "no\n")
    assert result.stdout.startswith("C.UTF-8 $HOME /")


def test_bytes_that_are_not_utf8(live: LiveRunner) -> None:
    assert live.command(["printf", r"a\377b"], 5).stdout == "a\ufffdb"


def test_a_tool_that_is_not_there(live: LiveRunner) -> None:
    with pytest.raises(Unavailable, match="ibstat-of-nobody: not found"):
        live.command(["ibstat-of-nobody"], 5)


@pytest.mark.parametrize("command", ["sleep 60", "trap '' TERM; sleep 60 & wait; sleep 60"])
def test_a_command_that_does_not_end(live: LiveRunner, command: str) -> None:
    started = time.monotonic()
    with pytest.raises(TimedOut, match="no answer in"):
        live.command(["sh", "-c", command], 0.3)
    assert time.monotonic() - started < 30


def test_exit_code_124_of_the_command_itself_is_no_timeout(live: LiveRunner) -> None:
    assert live.command(["sh", "-c", "exit 124"], 5).rc == 124


def test_a_call_that_never_returns_is_left_behind() -> None:
    """As for a process in uninterruptible sleep, for which even `timeout` waits for ever."""
    release = threading.Event()
    started = time.monotonic()
    with pytest.raises(TimedOut):
        abandonable(lambda: release.wait(60), 0.2)
    assert time.monotonic() - started < 30
    release.set()


STUCK = """#!/bin/sh
echo $$ >> {folder}/started
setsid sh -c 'trap "" TERM HUP INT; exec sleep 60' &
echo $! > {folder}/child
trap '' TERM
kill -STOP $$
"""


def test_a_tool_stuck_in_the_kernel_is_started_once_and_costs_its_bound_once(
    live: LiveRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As near as it gets to uninterruptible sleep: stopped, deaf to SIGTERM, and its output stays open in a child that no signal reaches."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(STUCK.format(folder=tmp_path))
    tool.chmod(0o755)
    monkeypatch.setattr(RealModule, "get_bin_path", lambda self, name: str(tool) if name == "nvidia-smi" else f"/usr/bin/{name}", raising=False)
    reasons: list[str] = []

    def ask(argument: str) -> None:
        with pytest.raises(TimedOut) as stop:
            live.command(["nvidia-smi", argument], 1)
        reasons.append(str(stop.value))

    threads = [threading.Thread(target=ask, args=(argument,)) for argument in ("--version", "--query-gpu=name", "--query-compute-apps=pid")]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - started < 30  # the child lasts 60
    assert len((tmp_path / "started").read_text().split()) == 1
    assert sorted("not asked" in reason for reason in reasons) == [False, True, True]
    started = time.monotonic()
    with pytest.raises(TimedOut, match="not asked"):
        live.command(["nvidia-smi", "-L"], 60)
    assert time.monotonic() - started < 30
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_tool_that_answers_is_asked_by_one_after_the_other(live: LiveRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nmkdir {tmp_path}/busy || exit 1\nsleep 0.1\nrmdir {tmp_path}/busy\necho $1\n")
    tool.chmod(0o755)
    monkeypatch.setattr(RealModule, "get_bin_path", lambda self, name: str(tool) if name == "nvidia-smi" else f"/usr/bin/{name}", raising=False)
    results: dict[str, tuple[int, str]] = {}

    def ask(argument: str) -> None:
        result = live.command(["nvidia-smi", argument], 60)
        results[argument] = (result.rc, result.stdout)

    threads = [threading.Thread(target=ask, args=(argument,)) for argument in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {argument: (0, f"{argument}\n") for argument in "abc"}


def test_errors_come_out_of_the_thread() -> None:
    with pytest.raises(ZeroDivisionError):
        abandonable(lambda: 1 // 0, 5)


def test_many_commands_at_once(live: LiveRunner) -> None:
    """From threads: every answer is its own command's and whole, and the time is that of one."""
    results: dict[int, str] = {}

    def work(number: int) -> None:
        results[number] = live.command(["sh", "-c", f"sleep 1; echo {number}"], 60).stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"{number}\n" for number in range(24)}
    assert time.monotonic() - started < 20


def test_a_daemon_that_is_left_behind_is_not_waited_for(live: LiveRunner) -> None:
    started = time.monotonic()
    assert live.command(["sh", "-c", "sleep 9 & echo begun"], 30).stdout == "begun\n"
    assert time.monotonic() - started < 5


def test_an_output_is_reduced_before_anybody_sees_it(live: LiveRunner) -> None:
    recorder = Recorder(live)
    assert recorder.command(["printf", "a\\nb\\n"], 5, lambda text: text.replace("a\n", "")).stdout == "b\n"
    (entry,) = recorder.recording("x")["entries"]
    assert entry["stdout"] == "b\n"


def test_files(live: LiveRunner, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").mkdir()
    assert live.file(f"{tmp_path}/a").content == "one"
    assert live.file(f"{tmp_path}/a", str.upper).content == "ONE"
    assert live.file(f"{tmp_path}/c").error == "No such file or directory"
    assert live.file(f"{tmp_path}/b").error == "Is a directory"
    assert live.glob(f"{tmp_path}/*") == [f"{tmp_path}/a", f"{tmp_path}/b"]


def test_files_of_the_kernel(live: LiveRunner) -> None:
    assert live.file("/proc/sys/kernel/hostname").content
    assert "MemTotal" in (live.file("/proc/meminfo").content or "")


def test_only_known_variables(live: LiveRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "swordfish")
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_API_KEY", "swordfish")
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "swordfish")
    environment = live.environment()
    assert environment["SSH_CONNECTION"] == "10.0.0.1 1 10.0.0.2 22"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert "swordfish" not in environment.values()


def test_a_recorded_command() -> None:
    runner = recorded({"kind": "command", "argv": ["id"], "rc": 1, "stdout": "a", "stderr": "b", "seconds": 2})
    result = runner.command(["id"], 5)
    assert (result.rc, result.stdout, result.stderr, result.seconds) == (1, "a", "b", 2)
    with pytest.raises(Unavailable, match="id: not in the recording"):
        runner.command(["id", "-u"], 5)


def test_a_recorded_timeout() -> None:
    with pytest.raises(TimedOut):
        recorded({"kind": "command", "argv": ["nvidia-smi"], "rc": 124, "seconds": 10}).command(["nvidia-smi"], 5)


def test_recorded_files() -> None:
    runner = recorded(
        {"kind": "file", "path": "/sys/class/infiniband/rocep1s0f0/fw_ver", "content": "28\n"},
        {"kind": "file", "path": "/dev/infiniband/uverbs0", "error": "not read"},
    )
    assert runner.file("/sys/class/infiniband/rocep1s0f0/fw_ver").content == "28\n"
    assert runner.file("/dev/infiniband/uverbs0").error == "not read"
    assert runner.file("/etc/passwd").error == "not in the recording"
    assert runner.glob("/sys/class/infiniband/*") == ["/sys/class/infiniband/rocep1s0f0"]
    assert runner.glob("/dev/infiniband/*") == ["/dev/infiniband/uverbs0"]
    assert runner.glob("/sys/class/net/*") == []


@pytest.mark.parametrize(
    ("recording", "message"),
    [
        ({}, "not a gb10-recording/1 file"),
        ([], "not a gb10-recording/1 file"),
        ({"schema": "gb10-recording/2"}, "not a gb10-recording/1 file"),
        ({"schema": SCHEMA, "entries": [{"kind": "file"}]}, "an entry without"),
        ({"schema": SCHEMA, "entries": ["x"]}, "an entry without"),
    ],
)
def test_what_is_no_recording(recording: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(recording))
    with pytest.raises(RecordingError, match=message):
        load_recording(str(path))


def test_a_recording_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        load_recording(f"{tmp_path}/none.json")
    (tmp_path / "text").write_text("no json")
    with pytest.raises(RecordingError, match="text: Expecting value"):
        load_recording(f"{tmp_path}/text")


def test_a_recorder_gives_back_what_it_saw(live: LiveRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    (tmp_path / "release").write_text('DGX_NAME="x"\nDGX_SERIAL_NUMBER="198"\n')
    (tmp_path / "listed").write_text("")
    recorder = Recorder(live)
    recorder.command(["echo", "hf_" + "a" * 30], 5)
    with pytest.raises(TimedOut):
        recorder.command(["sleep", "9"], 0.2)
    with pytest.raises(Unavailable):
        recorder.command(["ibstat-of-nobody"], 5)
    recorder.file(f"{tmp_path}/release")
    recorder.file(f"{tmp_path}/none")
    paths = recorder.glob(f"{tmp_path}/*")
    environment = recorder.environment()

    recording = recorder.recording("spark")
    assert (recording["schema"], recording["host"]) == (SCHEMA, "spark")
    replay = RecordedRunner(json.loads(json.dumps(recording)))
    assert replay.command(["echo", "hf_" + "a" * 30], 5).stdout == "REDACTED\n"
    with pytest.raises(TimedOut):
        replay.command(["sleep", "9"], 0.2)
    with pytest.raises(Unavailable, match="not found"):
        replay.command(["ibstat-of-nobody"], 5)
    assert replay.file(f"{tmp_path}/release").content == 'DGX_NAME="x"\nDGX_SERIAL_NUMBER="REDACTED"\n'
    assert replay.file(f"{tmp_path}/none").error == "No such file or directory"
    assert replay.glob(f"{tmp_path}/*") == paths
    assert dict(replay.environment()) == dict(environment)


def test_a_program_that_is_no_program(live: LiveRunner, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("not an executable format")
    (tmp_path / "broken").chmod(0o755)
    runner = LiveRunner(RealModule())
    runner._timeout = None  # without coreutils' timeout the error comes from exec itself
    with pytest.raises(Failed, match="Exec format error"):
        runner.command([f"{tmp_path}/broken"], 5)
