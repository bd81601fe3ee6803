# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of gb10.cluster.link_ladder that knows Ansible. What is measured, and what it is worth, is in plugin_utils/_ladder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.cluster.plugins.action.plan import gather_facts, plain
from ansible_collections.gb10.cluster.plugins.plugin_utils._ladder import judge, make_steps

ARGUMENT_SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["planned", "judged"], "default": "judged"},
    "ready": {"type": "dict", "default": {}},
    "results": {"type": "dict", "default": {}},
    "plan": {"type": "dict"},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core comes without types
    """Runs on the controller alone, and changes nothing, with or without check mode."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENT_SPEC)
        variables = task_vars or {}
        plan = plain(options["plan"] or (variables.get("ansible_facts") or {}).get("gb10_plan"))
        if not isinstance(plan, Mapping) or not plan.get("ranks"):
            raise AnsibleActionFail("There is no plan yet: run gb10.cluster.gb10_facts on all nodes and gb10.cluster.plan before this task.")
        facts = gather_facts(variables.get("hostvars") or {}, list(plan["ranks"]))
        ready = plain(options["ready"])
        if options["state"] == "planned":
            self._together(len(plan["ranks"]))
            steps = [step.to_dict() for step in make_steps(plan, facts, ready)]
            return {**result, "changed": False, "steps": steps}
        return {**result, "changed": False, "ladder": judge(plan, facts, plain(options["results"]), ready)}

    @staticmethod
    def _together(ranks: int) -> None:
        """The ends of a measurement have to run at the same time, or each waits for the other until it gives up."""
        forks = int(context.CLIARGS.get("forks") or C.DEFAULT_FORKS)
        if forks < ranks:
            raise AnsibleActionFail(f"Ansible runs on {forks} of {ranks} nodes at a time, the ladder needs all at once: use --forks {ranks} or more.")
