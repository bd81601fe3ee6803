# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's argument specification is its API: it and the role's defaults say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = sorted((Path(__file__).resolve().parents[3] / "roles").iterdir())


def load(path: Path) -> dict[str, Any]:
    return (yaml.safe_load(path.read_text()) if path.exists() else None) or {}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_and_specification_agree(role: Path) -> None:
    specified: dict[str, Any] = {}
    for entry in load(role / "meta/argument_specs.yml")["argument_specs"].values():
        specified.update({name: option.get("default") for name, option in entry["options"].items() if not option.get("required")})
    assert specified == load(role / "defaults/main.yml")


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_entry_point_exists_and_is_specified(role: Path) -> None:
    specified = set(load(role / "meta/argument_specs.yml")["argument_specs"])
    assert {"main"} <= specified
    assert all((role / "tasks" / f"{entry}.yml").exists() for entry in specified)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_main_holds_only_includes(role: Path) -> None:
    tasks = yaml.safe_load((role / "tasks/main.yml").read_text())

    assert all(any(key.startswith("ansible.builtin.include") for key in task) for task in tasks)
