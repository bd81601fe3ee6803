"""Runs playbooks as a user does and reads their output as a user does."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = os.environ.get("GB10_TEST_ENVIRONMENTS", str(ROOT / ".venv")).split(":")
CONSENT = ["-e", '{"gb10_reclaim": ["vllm_node"], "gb10_consent": ["network"]}']


def play(environment: str, *arguments: str, sessions: str | None = None, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Runs ansible-playbook from the root, as the README says it, and gives its output as a user sees it.

    `sessions`: a folder of its own for the SSH connections that stay open, instead of the user's; `prefix`: words before the command.
    """
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "MOLECULE_"))}
    settings |= {"PATH": f"{environment}/bin:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1", "COLUMNS": "120"}
    if sessions is not None:
        settings["ANSIBLE_SSH_CONTROL_PATH_DIR"] = sessions
    return subprocess.run(
        [*prefix, "ansible-playbook", *arguments],
        cwd=ROOT,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


def recap(output: str) -> dict[str, dict[str, int]]:
    rows = re.findall(r"^(\S+)\s+: (ok=.*)$", output, re.MULTILINE)
    return {host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)} for host, counts in rows}


def assert_clean(output: str) -> None:
    assert not re.search(r"\[(WARNING|DEPRECATION WARNING|ERROR)\]|Traceback|is deprecated", output), output


def fingerprints(nodes: Sequence[str] = ("spark-head", "spark-worker")) -> str:
    """What a run that only looks must leave alone."""
    return "".join(
        subprocess.run(["python3", "molecule/lab/lab.py", "fingerprint", node], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for node in nodes
    )
