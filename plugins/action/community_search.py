# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of gb10.cluster.community_search that knows Ansible. What is asked, and how results are ranked, is in plugin_utils/_search."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.cluster.plugins.plugin_utils._search import ENDPOINT, ENDPOINT_VARIABLE, KEY_VARIABLE, Exa, community

ARGUMENT_SPEC: dict[str, Any] = {
    "plan": {"type": "dict"},
    "endpoint": {"type": "str"},
    "timeout": {"type": "int", "default": 20},
    "limit": {"type": "int", "default": 8},
}
BOUNDS = {"timeout": (1, 120, "seconds"), "limit": (1, 50, "entries")}
PUBLIC_HUB = ("huggingface.co", "hf.co")


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core comes without types
    """Runs on the controller alone, and changes nothing, with or without check mode."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENT_SPEC)
        for name, (least, most, unit) in BOUNDS.items():
            if not least <= options[name] <= most:
                raise AnsibleActionFail(f"{name} is {options[name]}; it has to be between {least} and {most} {unit}.")
        variables = task_vars or {}
        today = datetime.datetime.now(datetime.timezone.utc).date()
        provider = Exa(
            key=os.environ.get(KEY_VARIABLE, "").strip(),
            endpoint=options["endpoint"] or self._variable(variables, ENDPOINT_VARIABLE) or ENDPOINT,
            timeout=options["timeout"],
            today=today,
            own_hub=not self._from_public_hub(variables),
        )
        plan = options["plan"] or (variables.get("ansible_facts") or {}).get("gb10_plan")
        block, omitted = community(plan, provider, options["limit"], today)
        return {**result, "changed": False, "community": block, "omitted": omitted}

    def _variable(self, variables: Mapping[str, Any], name: str) -> str:
        """A variable of the user as text, empty if it is not set."""
        value = self._templar.template(variables.get(name) or "")
        return str(value or "").strip()

    def _from_public_hub(self, variables: Mapping[str, Any]) -> bool:
        """Whether models come from the public Hub: names on another one are nobody else's business."""
        hub = self._variable(variables, "gb10_hf_endpoint")
        return not hub or urlsplit(hub).hostname in PUBLIC_HUB
