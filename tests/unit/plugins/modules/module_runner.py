# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module's main() in this process, with arguments in and its JSON out."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args


def run_module(main: Callable[[], None], capsys: pytest.CaptureFixture[str], check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    """The module's result; `failed` is always in it."""
    capsys.readouterr()
    with patch_module_args({**arguments, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit) as stop:
        main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    result.setdefault("failed", False)
    assert result["failed"] == bool(stop.value.code)
    return result


def use_programs(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let modules find the programs of this directory before all others."""
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    # The real one looks into other directories first.
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda self, arg, required=False, opt_dirs=None: shutil.which(arg))


def program(directory: Path, name: str, text: str) -> None:
    """An executable on a PATH of our own."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
