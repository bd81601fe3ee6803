# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that cannot be reached, to a survey and to everybody else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gb10.cluster.plugins.action.gb10_facts import ActionModule


class Unreachable(ActionModule):
    """The real plugin; only the way to the node is cut."""

    def __init__(self, **arguments: Any) -> None:
        self._task = SimpleNamespace(args=arguments, async_val=0, action="gb10_facts", check_mode=False, diff=False)
        self._connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
        self._supports_async = True

    def _execute_module(self, **_arguments: Any) -> dict[str, Any]:
        raise AnsibleConnectionFailure("Failed to connect to the host via ssh:\r\n  Connection refused")


def test_to_a_survey_it_is_a_fact_with_the_reason() -> None:
    result = Unreachable(unreachable_ok=True).run(task_vars={})
    assert result["ansible_facts"] == {"gb10": {"unreachable": "Failed to connect to the host via ssh: Connection refused"}}
    assert result["changed"] is False
    assert "failed" not in result


def test_otherwise_the_host_is_unreachable_as_ever() -> None:
    with pytest.raises(AnsibleConnectionFailure):
        Unreachable().run(task_vars={})
