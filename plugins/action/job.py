# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of gb10.cluster.job: starts the job, watches it, says how far it is."""

from __future__ import annotations

import shlex
import time
import uuid
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gb10.cluster.plugins.module_utils._job import ARGUMENT_SPEC
from ansible_collections.gb10.cluster.plugins.module_utils._progress import Meter, Progress
from ansible_collections.gb10.cluster.plugins.module_utils._words import duration, redact, shorten
from ansible_collections.gb10.cluster.plugins.plugin_utils._remote import ask

MODULE = "gb10.cluster.job"
SHORT = 10.0  # seconds: a job that ends within them needs no words
GRACE = 90  # seconds beyond the time limit in which systemd must have stopped the command
RESULT_KEYS = ("argv", "log", "unit", "adopted", "rc", "result", "seconds", "last_lines")

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core comes without types
    """Drives the module of the same name."""

    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENT_SPEC)
        self._vars = task_vars or {}
        self._options = options
        self._secrets = [str(value) for value in options["secret_environment"].values()]
        self._label = options["label"] or f"{options['name']} on {self._vars.get('inventory_hostname', 'the node')}"
        self._began = time.monotonic()
        if self._task.check_mode:
            result.update(self._finish(self._ask("started")))
            return result
        result.update(self._finish(self._watch()))
        return result

    def _ask(self, state: str) -> dict[str, Any]:
        patience = 0 if self._task.check_mode else self._options["reconnect"]
        return ask(self, MODULE, {**self._options, "state": state}, self._vars, patience, self._worry)

    def _worry(self, text: str) -> None:
        self._say(f"{text}; the job does not depend on it" if text.startswith("connection lost") else text, C.COLOR_WARN)

    def _watch(self) -> dict[str, Any]:
        self._options["token"] = uuid.uuid4().hex
        answer = self._ask("started")
        if answer.get("adopted"):
            self._say(f"already running for {duration(answer['seconds'])} as {answer['unit']}, going on with that")
        meter = Meter(total=self._options["total"])
        adopted, told = bool(answer.get("adopted")), bool(answer.get("adopted"))
        limit = self._began + self._options["timeout"] + GRACE + self._options["reconnect"]
        while answer.get("running"):
            if time.monotonic() > limit:
                answer["failed"] = True
                answer["msg"] = f"{self._label}: still running after its time limit; look at it: systemctl status {answer['unit']}"
                return answer
            elapsed = time.monotonic() - self._began
            line = meter.line(elapsed, Progress.from_dict(answer["progress"]) if "progress" in answer else None)
            if line:
                self._say(line)
            if not told and elapsed >= SHORT:
                told = True
                self._say(f"runs on the node as {answer['unit']}; a lost connection does not stop it, and the next run finds it")
            answer = self._ask("polled")
        if adopted:
            answer["adopted"] = True
        return answer

    def _say(self, text: str, color: str | None = None) -> None:
        display.display(redact(f"  {self._label}: {text}", self._secrets), color=color)

    def _finish(self, answer: dict[str, Any]) -> dict[str, Any]:
        result = {key: answer[key] for key in RESULT_KEYS if key in answer}
        result["changed"] = bool(answer.get("changed"))
        for key in ("warnings", "deprecations", "exception", "module_stdout", "module_stderr"):
            if key in answer:
                result[key] = answer[key]
        if answer.get("failed"):
            result.update(failed=True, msg=answer.get("msg", "the module failed without a word"))
        elif answer.get("rc", 0) or answer.get("result", "success") != "success":
            result.update(failed=True, msg=self._failure(answer))
            # They are in the message already, readable.
            del result["last_lines"]
        elif "rc" in answer and time.monotonic() - self._began >= SHORT:
            self._say(f"done in {duration(answer['seconds'])}", C.COLOR_OK)
        return result

    def _failure(self, answer: dict[str, Any]) -> str:
        how = {
            "timeout": f"was stopped at its limit of {duration(self._options['timeout'])}",
            "oom-kill": "was killed for want of memory",
            "vanished": "is gone without a trace",
        }.get(answer.get("result", ""), f"failed with exit code {answer.get('rc')}")
        lines = [
            f"{self._label}: the command {how} after {duration(answer.get('seconds', 0))}.",
            f"It ran: {shlex.join(answer.get('argv', []))}",
        ]
        if answer.get("last_lines"):
            lines.append(f"The last lines of {answer['log']}:")
            lines += [f"  {shorten(line, 200)}" for line in answer["last_lines"]]
        else:
            lines.append(f"It said nothing ({answer['log']} is empty).")
        return redact("\n".join([*lines, f"What to do: {answer.get('advice', '')}"]), self._secrets)
