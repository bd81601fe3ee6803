# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of gb10.cluster.endpoint_info: waits for a completion and says meanwhile what the engine is doing."""

from __future__ import annotations

import time
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gb10.cluster.plugins.module_utils._endpoint import ARGUMENT_SPEC
from ansible_collections.gb10.cluster.plugins.module_utils._words import duration, redact
from ansible_collections.gb10.cluster.plugins.plugin_utils._remote import ask

MODULE = "gb10.cluster.endpoint_info"
SLICE = 8  # seconds: the module waits that long in one call, so that something can be said in between
HEARTBEAT = 60.0  # seconds after which the same activity is said again

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core comes without types
    """Calls the module of the same name until it has a completion, or waiting cannot help."""

    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, self._options = self.validate_argument_spec(ARGUMENT_SPEC)
        self._vars = task_vars or {}
        self._label = self._options["label"] or f"Waiting for {self._options['url']}"
        self._began = time.monotonic()
        self._said, self._said_at = "", 0.0
        result.update(self._wait() if self._options["wait"] else self._ask(self._options["completion"], 0))
        if "waited" in result:
            result["waited"] = round(self._elapsed(), 1)
        return result

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _ask(self, completion: bool, wait: int) -> dict[str, Any]:
        arguments = {**self._options, "completion": completion, "wait": wait}
        patience = self._options["wait"] - self._elapsed()
        answer = ask(self, MODULE, arguments, self._vars, patience, self._say)
        answer.pop("invocation", None)
        return answer

    def _wait(self) -> dict[str, Any]:
        """First until the API lists its models, in short calls; then for a completion, which may take its time."""
        listed = False
        while True:
            left = self._options["wait"] - self._elapsed()
            answer = self._ask(self._options["completion"], 0) if listed else self._ask(False, max(0, min(SLICE, int(left))))
            failed = bool(answer.get("failed"))
            if not failed and (listed or not self._options["completion"]):
                return answer
            left = self._options["wait"] - self._elapsed()
            if failed and (not answer.get("retry") or left <= 0):
                return self._given_up(answer, left <= 0)
            if failed:
                self._say(answer.get("activity") or self._plain_reason(answer))
                listed = False
                time.sleep(1)
            else:
                listed = True
                if self._elapsed() > SLICE:
                    self._say(f"the API answers, asking for a first completion (which may compile; at most {duration(self._options['timeout'])})")

    @staticmethod
    def _plain_reason(answer: dict[str, Any]) -> str:
        return {
            "refused": "nothing listens there yet",
            "timeout": "no answer yet",
            "server_error": "it answers with an error, still trying",
            "empty": "it answers without a token, still trying",
        }.get(str(answer.get("reason")), "not reachable yet")

    def _given_up(self, answer: dict[str, Any], out_of_time: bool) -> dict[str, Any]:
        if out_of_time and answer.get("retry"):
            answer["msg"] = f"No completion within {duration(self._options['wait'])}. {answer.get('msg', '')}"
        return answer

    def _say(self, text: str) -> None:
        now = self._elapsed()
        if text == self._said and now - self._said_at < HEARTBEAT:
            return
        self._said, self._said_at = text, now
        line = redact(f"  {self._label}: {text} ({duration(now)})", [self._options["api_key"] or ""])
        display.display(line, color=C.COLOR_SKIP)
