"""Runs playbooks as a user does and reads their output as a user does."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENTS = os.environ.get("GB10_TEST_ENVIRONMENTS", str(ROOT / ".venv")).split(":")
CONSENT = ["-e", '{"gb10_reclaim": ["vllm_node"], "gb10_consent": ["network"]}']


def play(environment: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ansible-playbook from the root, as the README says it, and gives its output as a user sees it."""
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "MOLECULE_"))}
    settings |= {"PATH": f"{environment}/bin:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1", "COLUMNS": "120"}
    return subprocess.run(
        ["ansible-playbook", *arguments],
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
