# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of ``gb10_facts``: to a survey, a node that does not answer is a fact as well."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.cluster.plugins.module_utils._words import shorten


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs the module on the node; with ``unreachable_ok`` a connection that fails gives the fact ``gb10.unreachable``, the reason."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's result."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        tolerant = boolean(arguments.get("unreachable_ok", False))
        try:
            answer: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=task_vars)
        except AnsibleConnectionFailure as error:
            if not tolerant:
                raise
            return {**result, "changed": False, "ansible_facts": {"gb10": {"unreachable": shorten(" ".join(str(error).split()), 300)}}}
        return {**result, **answer}
