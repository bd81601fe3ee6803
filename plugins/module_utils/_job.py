# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job is: its unit, its files, its systemd-run command line and how it ended. Pure: nothing here touches a node."""

from __future__ import annotations

import hashlib
import json
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

ARGUMENT_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "argv": {"type": "list", "elements": "str", "required": True},
    "environment": {"type": "dict", "default": {}},
    "secret_environment": {"type": "dict", "default": {}, "no_log": True},
    "user": {"type": "str", "default": "root"},
    "chdir": {"type": "path"},
    "timeout": {"type": "int", "default": 3600},
    "label": {"type": "str"},
    "interval": {"type": "float", "default": 5.0},
    "total": {"type": "int"},
    "reconnect": {"type": "int", "default": 300},
    "state": {"type": "str", "choices": ["started", "polled"], "default": "started"},
    "token": {"type": "str", "no_log": False, "default": ""},
}


@dataclass(frozen=True)
class Paths:
    """Where a job keeps what it needs. All but the log lie on a tmpfs and are gone with the boot, like the unit itself."""

    name: str
    runtime: str = "/run/gb10"
    logs: str = "/var/log/gb10"

    @property
    def unit(self) -> str:
        return f"gb10-job-{self.name}.service"

    @property
    def state(self) -> str:
        return f"{self.runtime}/job-{self.name}.json"

    @property
    def result(self) -> str:
        return f"{self.runtime}/job-{self.name}.result"

    @property
    def secrets(self) -> str:
        return f"{self.runtime}/job-{self.name}.env"

    @property
    def lock(self) -> str:
        return f"{self.runtime}/job-{self.name}.lock"

    @property
    def log(self) -> str:
        return f"{self.logs}/{self.name}.log"


@dataclass(frozen=True)
class JobSpec:
    """One command and how it is to run."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    secret_names: Sequence[str] = ()
    user: str = "root"
    chdir: str | None = None
    timeout: int = 3600

    @property
    def fingerprint(self) -> str:
        """Two jobs with this in common are the same job. Neither the secrets' values nor the time limit are part of it."""
        record = [list(self.argv), sorted(self.environment.items()), sorted(self.secret_names), self.user, self.chdir]
        return hashlib.sha256(json.dumps(record).encode()).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """How a job ended. `result` is systemd's word: success, exit-code, signal, timeout, oom-kill, …"""

    rc: int
    result: str
    finished: float | None = None


def problems(params: Mapping[str, Any]) -> list[str]:
    """What is wrong with these options, one sentence each."""
    found = []
    if not NAME.fullmatch(params["name"]):
        found.append(f"name {params['name']!r} must match {NAME.pattern}")
    if not params["argv"] or not params["argv"][0]:
        found.append("argv is empty")
    if params["timeout"] <= 0 or params["interval"] <= 0:
        found.append("timeout and interval must be greater than 0")
    for option in ("environment", "secret_environment"):
        for name, value in params[option].items():
            if not VARIABLE.fullmatch(name):
                found.append(f"{option}: {name!r} is no name of an environment variable")
            elif "\0" in str(value):
                found.append(f"{option}: the value of {name} contains a NUL byte")
    return found


def systemd_run(spec: JobSpec, paths: Paths) -> list[str]:
    """The command line that starts the job. Its end is written by systemd itself, whether anyone watches or not."""
    # Written by systemd, as root ("+"), however the command ends: $$ leaves the variable to the shell, and the rename
    # makes the result appear as a whole.
    record = (
        f"rm -f {paths.secrets}; "
        f'echo "$$SERVICE_RESULT $$EXIT_CODE $$EXIT_STATUS $$(date +%s.%N)" > {paths.result}.new'
        f" && mv {paths.result}.new {paths.result}"
    )
    properties = [
        "StandardInput=null",
        f"StandardOutput=append:{paths.log}",
        f"StandardError=append:{paths.log}",
        f"RuntimeMaxSec={spec.timeout}",
        "TimeoutStopSec=30",
        f"ExecStopPost=+/bin/sh -c '{record}'",
    ]
    if spec.chdir:
        properties.append(f"WorkingDirectory={spec.chdir}")
    if spec.secret_names:
        # "-": systemd reads the file once more for ExecStopPost, when it is already gone.
        properties += [f"EnvironmentFile=-{paths.secrets}", f"ExecStartPost=+/bin/rm -f {paths.secrets}"]
    command = ["systemd-run", "--quiet", "--collect", "--service-type=exec", f"--unit={paths.unit}"]
    command += [f"--description=gb10.cluster job {paths.name}", f"--uid={spec.user}"]
    command += [f"--property={entry}" for entry in properties]
    command += [f"--setenv={name}={value}" for name, value in spec.environment.items()]
    # systemd expands $NAME in the command it runs; ours are meant as they stand.
    return [*command, "--", spec.argv[0], *(word.replace("$", "$$") for word in spec.argv[1:])]


def environment_file(secrets: Mapping[str, str]) -> str:
    """The text of an EnvironmentFile that gives exactly these values."""
    lines = []
    for name, value in secrets.items():
        quoted = re.sub(r'(["\\`$])', r"\\\1", str(value))
        lines.append(f'{name}="{quoted}"\n')
    return "".join(lines)


def parse_result(text: str) -> Outcome | None:
    """The file that ExecStopPost wrote: 'exit-code exited 2 1790000000'."""
    words = text.split()
    if not words:
        return None
    # Without a process (it could not be started) systemd leaves the code and the status empty, and only the time follows.
    result, finished = words[0], float(words[-1]) if re.fullmatch(r"\d{9,}(\.\d+)?", words[-1]) else None
    if len(words) < 4:
        return Outcome(0 if result == "success" else 1, result, finished)
    code, status = words[1], words[2]
    if code == "exited" and status.isdigit():
        return Outcome(int(status), result, finished)
    number = getattr(signal, f"SIG{status}", None)
    return Outcome(128 + int(number) if number else 1, result, finished)


def parse_properties(text: str) -> dict[str, str]:
    """`systemctl show` output as a mapping."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


_ADVICE = (
    (r"no space left on device|not enough free (?:disk )?space", "The disk is full: free some space (df -h, docker system df) and run again."),
    (r"gated repo|\b401\b|unauthorized|authentication required|access to model .* is restricted",
     "Access was refused: check the token (HF_TOKEN for gated models, docker login for registries) and run again."),
    (r"\b429\b|toomanyrequests|rate limit", "The other side limits requests: wait some minutes, or give a token, and run again."),
    (r"temporary failure in name resolution|no such host|name or service not known|could not resolve",
     "A name could not be resolved on the node: check its DNS and its way to the internet."),
    (r"connection refused|network is unreachable|no route to host|connection timed out|i/o timeout|connection reset",
     "The network failed: check that the node reaches the other side, then run again; what was transferred is kept where the tool can."),
    (r"manifest unknown|manifest for .* not found|repository .* not found|repositorynotfounderror|revision.?not.?found",
     "What was asked for does not exist there: check the name, the tag and the revision."),
    (r"host key verification failed|permission denied \(publickey",
     "SSH between the nodes was refused: check the node's key in the other's authorized_keys and its host key."),
    (r"permission denied", "A permission is missing: check the owner of the path named above and the user of this job."),
    (r"exec format error", "The image or program is for another architecture than this node's."),
    (r"cannot connect to the docker daemon|is the docker daemon running", "Docker does not answer: systemctl status docker"),
)  # fmt: skip


def advice(outcome: Outcome, lines: Sequence[str], log: str) -> str:
    """What to do about this failure, one sentence."""
    if outcome.result == "vanished":
        return f"Nothing is left of it: the node was restarted, or its unit was removed. What it said is in {log}. Run again."
    if outcome.result == "timeout":
        return "It took longer than its limit: if the log shows that it was still getting on, run again with a larger timeout."
    if outcome.result == "oom-kill" or outcome.rc == 128 + signal.SIGKILL:
        return "It was killed, probably for want of memory: free memory on the node (who holds it: recon.yml) and run again."
    if outcome.rc in (128 + signal.SIGTERM, 128 + signal.SIGINT):
        return "Somebody stopped it (systemctl stop, or the node went down). Run again."
    text = "\n".join(lines).lower()
    for pattern, sentence in _ADVICE:
        if re.search(pattern, text):
            return sentence
    return f"The whole log is on the node: less {log}. Run again when the cause is mended."
