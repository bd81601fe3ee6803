# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job on its node: starts or adopts the unit, and reads what systemd and the job's files say. What they mean is in _job."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import time
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._job import (
    JobSpec,
    Outcome,
    Paths,
    advice,
    environment_file,
    parse_properties,
    parse_result,
    systemd_run,
)
from ansible_collections.gb10.cluster.plugins.module_utils._progress import parse_progress
from ansible_collections.gb10.cluster.plugins.module_utils._runner import LiveRunner
from ansible_collections.gb10.cluster.plugins.module_utils._words import redact, screen_lines

LOG_TAIL = 65536
LOG_LINES = 15
LOCK_SECONDS = 10
COMMAND_SECONDS = 20.0


class Job:
    """The job on this node: reads and changes what systemd and the job's files say."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.runner = LiveRunner(module)
        self.paths = Paths(module.params["name"])
        self.secrets = {name: str(value) for name, value in module.params["secret_environment"].items()}
        self.spec = JobSpec(
            argv=module.params["argv"],
            environment={name: str(value) for name, value in module.params["environment"].items()},
            secret_names=tuple(self.secrets),
            user=module.params["user"],
            chdir=module.params["chdir"],
            timeout=module.params["timeout"],
        )

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        """Run a short command, bounded in time."""
        try:
            answer = self.runner.command(argv, COMMAND_SECONDS)
        except (Unavailable, TimedOut, Failed) as error:
            self.module.fail_json(msg=f"{error}. A job needs a node whose init is systemd.", **self.identity())
        return answer.rc, answer.stdout, answer.stderr

    def active(self) -> bool:
        """Whether systemd has our unit on its hands."""
        rc, out, err = self.run(["systemctl", "show", "--property=ActiveState", self.paths.unit])
        if rc:
            self.module.fail_json(msg=f"systemd does not answer: {(err or out).strip()}. A job needs a node whose init is systemd.")
        return parse_properties(out).get("ActiveState") in ("active", "activating", "deactivating", "reloading")

    def state(self) -> dict[str, Any]:
        """What the last start wrote down, empty if there was none since the boot."""
        text = self.read(self.paths.state)
        return dict(json.loads(text)) if text else {}

    def outcome(self) -> Outcome | None:
        return parse_result(self.read(self.paths.result))

    @staticmethod
    def read(path: str, tail: int = 0) -> str:
        """The text of a file, or only its end; empty if there is no such file."""
        if not os.path.exists(path):
            return ""
        with open(path, "rb") as file:
            if tail:
                file.seek(max(0, os.fstat(file.fileno()).st_size - tail))
            return file.read().decode(errors="replace")

    @staticmethod
    def write(path: str, text: str, mode: int) -> None:
        """Write a file that never exists with another mode or with half its text."""
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, mode)
            file.write(text)
        os.rename(f"{path}.new", path)

    def start(self) -> bool:
        """Start the job if it does not run yet. Returns whether a running one was adopted."""
        os.makedirs(self.paths.runtime, mode=0o755, exist_ok=True)
        os.makedirs(self.paths.logs, mode=0o755, exist_ok=True)
        with open(self.paths.lock, "w", encoding="utf-8") as lock:
            self.acquire(lock.fileno())
            state = self.state()
            if state.get("token") and state["token"] == self.module.params["token"]:
                return False
            if self.active():
                self.adopt(state)
                return True
            self.check()
            self.prepare()
            self.launch()
        return False

    def acquire(self, descriptor: int) -> None:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    self.module.fail_json(msg=f"another run has been starting {self.paths.unit} for {LOCK_SECONDS} s; try again")
                time.sleep(0.2)

    def adopt(self, state: dict[str, Any]) -> None:
        """Only the same command is adopted: another one under this name is somebody else's work."""
        if state.get("fingerprint") != self.spec.fingerprint:
            other = " ".join(state.get("argv", ["unknown"]))
            self.module.fail_json(
                msg=f"{self.paths.unit} is still running another command: {other}. Wait for it, or stop it: systemctl stop {self.paths.unit}",
                **self.identity(),
            )

    def check(self) -> None:
        """What systemd would only say in its journal."""
        try:
            pwd.getpwnam(self.spec.user)
        except KeyError:
            self.refuse(f"there is no user {self.spec.user} on this node")
        if self.spec.chdir and not os.path.isdir(self.spec.chdir):
            self.refuse(f"there is no directory {self.spec.chdir} on this node")

    def refuse(self, reason: str) -> NoReturn:
        self.module.fail_json(msg=f"{self.paths.unit} could not be started: {redact(reason, self.secrets.values())}", **self.identity())
        raise AssertionError("fail_json does not return")

    def prepare(self) -> None:
        for leftover in (self.paths.result, self.paths.secrets):
            if os.path.exists(leftover):
                os.unlink(leftover)
        if os.path.exists(self.paths.log):
            os.rename(self.paths.log, f"{self.paths.log}.1")
        self.write(self.paths.log, "", 0o640)
        if self.secrets:
            self.write(self.paths.secrets, environment_file(self.secrets), 0o600)
        record = {
            "token": self.module.params["token"],
            "fingerprint": self.spec.fingerprint,
            "argv": [redact(word, self.secrets.values()) for word in self.spec.argv],
            "started": time.time(),
        }
        self.write(self.paths.state, json.dumps(record), 0o600)

    def launch(self) -> None:
        # A unit of this name that failed in another way than by our hand stays loaded and would be in the way.
        self.run(["systemctl", "reset-failed", self.paths.unit])
        rc, out, err = self.run(systemd_run(self.spec, self.paths))
        if rc and self.outcome() is None:
            for leftover in (self.paths.state, self.paths.secrets):
                if os.path.exists(leftover):
                    os.unlink(leftover)
            self.refuse((err or out).strip() or "see journalctl -u " + self.paths.unit)

    def wait(self, seconds: float) -> Outcome | None:
        """The outcome as soon as there is one, None if the job still runs after these seconds."""
        deadline = time.monotonic() + seconds
        while True:
            outcome = self.outcome()
            if outcome is None and not self.active():
                # Between the two looks the end may have come.
                outcome = self.outcome() or Outcome(1, "vanished", time.time())
            if outcome or time.monotonic() >= deadline:
                return outcome
            time.sleep(min(0.5, max(0.0, deadline - time.monotonic())))

    def identity(self) -> dict[str, Any]:
        return {"argv": self.spec.argv, "unit": self.paths.unit, "log": self.paths.log}

    def report(self, outcome: Outcome | None, adopted: bool) -> dict[str, Any]:
        text = redact(self.read(self.paths.log, LOG_TAIL), self.secrets.values())
        lines = screen_lines(text)[-LOG_LINES:]
        started = float(self.state().get("started", time.time()))
        ended = outcome.finished if outcome and outcome.finished else time.time()
        record = dict(self.identity(), changed=True, adopted=adopted, running=outcome is None, last_lines=lines)
        record["seconds"] = round(max(0.0, ended - started), 1)
        progress = parse_progress(text)
        if progress:
            record["progress"] = progress.to_dict()
        if outcome:
            record.update(rc=outcome.rc, result=outcome.result)
            if outcome.rc or outcome.result != "success":
                record["advice"] = advice(outcome, lines, self.paths.log)
        return record
