# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What job, endpoint_info, ray_cluster_info and report document is what they take."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.action import report as report_action
from ansible_collections.gb10.cluster.plugins.modules import endpoint_info, job, ray_cluster_info, report


class Taken(Exception):
    """The module asked for its arguments."""


def argument_spec(module: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if module is report:
        return report_action.ARGUMENT_SPEC

    def take(self: AnsibleModule, argument_spec: dict[str, Any], **options: Any) -> None:
        assert options == {"supports_check_mode": True}
        raise Taken(argument_spec)

    monkeypatch.setattr(AnsibleModule, "__init__", take)
    with pytest.raises(Taken) as taken:
        module.main()
    return dict(taken.value.args[0])


@pytest.mark.parametrize("module", [job, endpoint_info, ray_cluster_info, report], ids=lambda module: module.__name__.rpartition(".")[2])
def test_documentation_is_true(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    spec = argument_spec(module, monkeypatch)
    assert sorted(documented) == sorted(spec)
    for name, option in spec.items():
        for field in ("type", "default", "choices", "elements", "required"):
            assert documented[name].get(field) == option.get(field), f"{name}: {field}"
        assert all(isinstance(sentence, str) and sentence.endswith(".") for sentence in documented[name]["description"])
    assert yaml.safe_load(module.EXAMPLES)
    for entry in yaml.safe_load(module.RETURN).values():
        assert {"description", "returned", "type"} <= set(entry)
