# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of gb10.cluster.fabric_transaction: has the change made, drops the connection, and confirms over a new one."""

from __future__ import annotations

import time
import uuid
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import ARGUMENT_SPEC
from ansible_collections.gb10.cluster.plugins.module_utils._words import shorten

MODULE = "gb10.cluster.fabric_transaction"
PAUSE = 2.0  # seconds between two attempts to come back
RESERVE = 2.0  # seconds before the node's own timer in which nothing is confirmed any more
PASSED_ON = ("changed", "diff", "commands", "state", "messages", "warnings", "deprecations", "exception", "module_stdout", "module_stderr")

display = Display()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core comes without types
    """Drives the module of the same name."""

    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENT_SPEC)
        self._vars = task_vars or {}
        self._options = {**options, "token": uuid.uuid4().hex}
        began = time.monotonic()
        try:
            answer = self._ask("apply")
        except AnsibleConnectionFailure as error:
            # Nobody knows how far the module came; the node does.
            if self._task.check_mode:
                raise
            answer = {"pending": True, "messages": [f"The connection was lost while the change was made ({_short(error)})."]}
        if answer.get("pending"):
            budget = float(answer.get("seconds_left", self._options["revert_after"] - (time.monotonic() - began)))
            answer = self._confirm(answer, budget)
        elif answer.get("failed") and "state" not in answer and not self._task.check_mode:
            answer = self._interrupted(answer)
        result.update(self._passed(answer))
        return result

    def _ask(self, phase: str) -> dict[str, Any]:
        given = {name: value for name, value in {**self._options, "phase": phase}.items() if value is not None}
        return dict(self._execute_module(module_name=MODULE, module_args=given, task_vars=self._vars))

    def _confirm(self, applied: dict[str, Any], budget: float) -> dict[str, Any]:
        """Come back over a new connection and keep the change, within the time that the node gives."""
        until = time.monotonic() + budget - RESERVE
        why = ""
        while True:
            self._drop()
            try:
                answer = self._ask("confirm")
            except AnsibleConnectionFailure as error:
                why = _short(error)
            else:
                if answer.get("same_connection"):
                    why = "the old connection could not be dropped"
                elif not answer.get("busy"):
                    return self._decided(applied, answer)
                else:
                    why = str(answer.get("msg"))
            if time.monotonic() + PAUSE >= until:
                return self._given_up(applied, why)
            time.sleep(PAUSE)

    def _decided(self, applied: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        messages = [*applied.get("messages", []), *answer.get("messages", [])]
        if answer.get("failed"):
            said = answer.get("msg", "The module failed without a word.")
            return {**applied, **self._passed(answer), "failed": True, "changed": False, "state": "old", "messages": messages, "msg": said}
        return {**applied, "changed": True, "state": "new", "messages": messages}

    def _given_up(self, applied: dict[str, Any], why: str) -> dict[str, Any]:
        node = self._vars.get("inventory_hostname", "The node")
        when = f"at {applied['reverts_at']}" if "reverts_at" in applied else f"within {self._options['revert_after']} s of the change"
        return {
            **applied,
            "failed": True,
            "changed": True,
            "state": "old",
            "msg": f"{node} could not be reached over a new connection after the change of its rails ({why}). "
            f"It takes the change back by itself {when}: wait for that, look at the cables and run again.",
        }

    def _interrupted(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The module ended without a word of its own. What it has begun is taken back at once, not when the timer comes."""
        try:
            self._drop()
            after = self._ask("confirm")
        except AnsibleConnectionFailure as error:
            after = {
                "msg": f"The node cannot be asked ({_short(error)}); what was begun it takes back by itself within {self._options['revert_after']} s."
            }
        said = f"The change was interrupted ({shorten(str(answer.get('msg', 'no reason given')), 200)}). {after.get('msg', '')}".strip()
        return {**answer, "state": "old", "msg": said}

    def _drop(self) -> None:
        """Drop the connection, so that the next call makes a new one."""
        try:
            self._connection.reset()
        except (AnsibleError, AttributeError) as error:
            display.vvv(f"the old connection could not be dropped: {error}")

    def _passed(self, answer: dict[str, Any]) -> dict[str, Any]:
        result = {name: answer[name] for name in PASSED_ON if name in answer}
        if answer.get("failed"):
            result.update(failed=True, msg=answer.get("msg", "The module failed without a word."))
            if answer.get("reverts_at"):
                result["reverts_at"] = answer["reverts_at"]
        return result


def _short(error: Exception) -> str:
    return shorten(" ".join(str(error).split()), 160).rstrip(".")
