# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs an action plugin against a scripted node: what the module answers, how the clock goes, what the user sees."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

LOST = AnsibleConnectionFailure("Failed to connect to the host via ssh: Connection timed out")


class Node:
    """Answers of the module, in order (the last one again and again), and every call of it. Time passes only by sleeping and asking."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, plugin: Any, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.now = 1000.0
        self.seconds = 5.0
        self.resets = 0
        self._plugin = plugin
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)
        monkeypatch.setattr(plugin.display, "display", lambda text, color=None: self.said.append(text))

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def execute(self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(module_args)
        self.now += self.seconds
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def reset(self) -> None:
        self.resets += 1

    def run(self, check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
        """The result of the task."""
        task = SimpleNamespace(args=arguments, check_mode=check_mode, async_val=0, action="test")
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nowhere"), reset=self.reset)
        action = self._plugin.ActionModule(task, connection, None, None, None, None)
        action._execute_module = self.execute
        result: dict[str, Any] = action.run(None, {"inventory_hostname": "spark-head"})
        return result
