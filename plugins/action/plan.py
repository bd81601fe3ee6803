# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of ``gb10.cluster.plan``: gathers facts and variables, and hands them to the planner, which is pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan import make_plan, read_settings
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan.settings import SettingsError, order_hosts
from ansible_collections.gb10.cluster.plugins.plugin_utils._recipes import RecipeError, load_recipe

#: Options of the task, each also a variable gb10_<option> (docs/contracts.md, section 7).
OPTIONS = (
    "group",
    "head",
    "recipe",
    "recipe_dirs",
    "recipe_overrides",
    "backend",
    "api_host",
    "api_port",
    "api_key",
    "reclaim",
    "consent",
    "accept",
    "ulimits",
)
DEFAULT_RECIPE = "qwen3.5-122b-a10b-fp8"
#: Where the API key comes from if no variable has it.
KEY_VARIABLE = "GB10_API_KEY"


def plain(value: Any) -> Any:
    """A copy of what Ansible hands out (lazy containers, tagged text) in Python's own types, so that nothing of Ansible enters the plan."""
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, str):
        return str(value)
    return value


def gather_facts(hostvars: Mapping[str, Any], hosts: list[str]) -> dict[str, Any]:
    """``ansible_facts.gb10`` of each host, None where there are none."""
    found: dict[str, Any] = {}
    for host in hosts:
        facts = (hostvars[host].get("ansible_facts") or {}).get("gb10")
        found[host] = plain(facts) if isinstance(facts, Mapping) else None
    return found


def recipe_directories(variables: Mapping[str, Any], sources: list[str]) -> list[str]:
    """Where recipes of the user are looked for: recipes/ beside each inventory, then gb10_recipe_dirs.

    Raises SettingsError if gb10_recipe_dirs is no list of text.
    """
    own = variables.get("gb10_recipe_dirs") or []
    if not isinstance(own, list) or not all(isinstance(entry, str) for entry in own):
        raise SettingsError(f"gb10_recipe_dirs is {own!r}; it has to be a list of directories.")
    beside = [os.path.join(source if os.path.isdir(source) else os.path.dirname(source), "recipes") for source in sources]
    return list(dict.fromkeys([*beside, *(os.path.expanduser(entry) for entry in own)]))


def build(
    variables: Mapping[str, Any], groups: Mapping[str, list[str]], hostvars: Mapping[str, Any], sources: list[str], base: str
) -> dict[str, Any]:
    """The plan from what Ansible knows. ``variables`` have their full names, ``sources`` are inventories, ``base`` is where paths start.

    Raises SettingsError and RecipeError, whose text is made for the user.
    """
    group = variables.get("gb10_group") or "gb10"
    overrides = variables.get("gb10_recipe_overrides") or {}
    name = variables.get("gb10_recipe") or DEFAULT_RECIPE
    for variable, value, kind in (("gb10_group", group, str), ("gb10_recipe", name, str), ("gb10_recipe_overrides", overrides, dict)):
        if not isinstance(value, kind):
            raise SettingsError(f"{variable} is {value!r}; it has to be {'text' if kind is str else 'a mapping'}.")
    hosts = order_hosts(groups.get(group) or [], variables.get("gb10_head"), group)
    recipe = load_recipe(name, recipe_directories(variables, sources), overrides, base)
    return make_plan(gather_facts(hostvars, hosts), recipe, read_settings(variables, recipe))


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs on the controller alone: nothing is copied to a node, nothing is changed anywhere, with or without check mode."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of the task: ``ansible_facts.gb10_plan``, or ``failed`` with one message."""
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        unknown = sorted(set(self._task.args) - set(OPTIONS))
        if unknown:
            return {**result, "failed": True, "msg": f"gb10.cluster.plan has no option {', '.join(unknown)}. It has: {', '.join(OPTIONS)}."}
        try:
            plan = build(
                self._variables(task_vars),
                {name: [str(host) for host in hosts] for name, hosts in task_vars.get("groups", {}).items()},
                task_vars.get("hostvars", {}),
                [str(source) for source in task_vars.get("ansible_inventory_sources") or []],
                os.getcwd(),
            )
        except (SettingsError, RecipeError) as error:
            return {**result, "failed": True, "msg": str(error)}
        return {**result, "ansible_facts": {"gb10_plan": plan}}

    def _variables(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """The variables by their full names: an option of the task wins over the variable. Of the API key, only whether there is one."""
        found: dict[str, Any] = {}
        for option in OPTIONS:
            name = f"gb10_{option}"
            if option in self._task.args:
                found[name] = plain(self._task.args[option])
            elif name in task_vars:
                found[name] = plain(self._templar.template(task_vars[name]))
        found["gb10_api_key"] = bool(found.get("gb10_api_key") or os.environ.get(KEY_VARIABLE))
        return found
