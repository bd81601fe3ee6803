# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the report and keeps it: the part of gb10.cluster.report that knows Ansible. What is said is made in plugin_utils/_report."""

from __future__ import annotations

import datetime
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.parsing.splitter import split_args
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gb10.cluster.plugins.module_utils._words import listing
from ansible_collections.gb10.cluster.plugins.plugin_utils._report import KINDS, Line, build, markdown, terminal

ARGUMENT_SPEC: dict[str, Any] = {
    "kind": {"type": "str", "choices": sorted(KINDS), "required": True},
    "results": {"type": "dict", "default": {}},
    "show_commands": {"type": "bool", "default": True},
    "dest": {"type": "path"},
    "write": {"type": "bool", "default": True},
    "facts": {"type": "dict"},
    "plan": {"type": "dict"},
}
# Extra variables of this run that the next command needs too; any other may be a secret.
REPEATED = ("gb10_group", "gb10_head", "gb10_recipe", "gb10_recipe_overrides", "gb10_backend", "gb10_api_host", "gb10_api_port")
CONSENTS = ("gb10_reclaim", "gb10_consent", "gb10_accept")
PLAYBOOKS = ("recon", "site", "status", "verify", "stop", "teardown")

display = Display()


def plain(value: Any) -> Any:
    """A copy in Python's own types of what Ansible hands out."""
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return str(value) if isinstance(value, str) else value


def playbook(name: str, directory: str) -> str:
    """How this user calls a playbook: a file of the working directory, or its name in the collection."""
    for path in (f"{name}.yml", f"playbooks/{name}.yml"):
        if os.path.isfile(os.path.join(directory, path)):
            return path
    return f"gb10.cluster.{name}"


def repeated(entry: str, names: Sequence[str]) -> str | None:
    """What of one `-e` may be said again: a file's name, or the variables with these names; None if nothing."""
    if entry.startswith("@"):
        return entry
    if entry.lstrip().startswith("{"):
        try:
            record = {name: value for name, value in json.loads(entry).items() if name in names}
        except ValueError:
            # YAML, whose variables we would have to take apart to tell a secret from the rest.
            return None
        return json.dumps(record) if record else None
    pairs = [pair for pair in split_args(entry) if pair.partition("=")[0] in names]
    return " ".join(pairs) or None


def command_lines(directory: str, inventories: Sequence[str], extra: Sequence[str]) -> dict[str, str]:
    """The command line of each playbook, with the inventory and those variables of this run that it needs again."""
    where: list[str] = []
    for inventory in inventories:
        shown = os.path.relpath(inventory, directory) if os.path.isabs(inventory) else inventory
        where += ["-i", inventory if shown.startswith("..") else shown]
    lines = {}
    for name in PLAYBOOKS:
        names = (*REPEATED, *CONSENTS) if name in ("recon", "site") else REPEATED
        again = [kept for kept in (repeated(entry, names) for entry in extra) if kept]
        lines[name] = shlex.join(["ansible-playbook", playbook(name, directory), *where, *(word for kept in again for word in ("-e", kept))])
    return lines


def write(directory: str, texts: Mapping[str, str]) -> str:
    """Write the files, each as a whole; why it failed, or nothing."""
    try:
        os.makedirs(directory, exist_ok=True)
        for name, text in texts.items():
            path = os.path.join(directory, name)
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{path}.new", path)
    except OSError as error:
        return error.strerror or str(error)
    return ""


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core comes without types
    """Gathers what is known, has it drawn, prints and writes it."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENT_SPEC)
        options = plain(options)
        variables = task_vars or {}
        plan = options["plan"] or plain((variables.get("ansible_facts") or {}).get("gb10_plan"))
        facts = options["facts"] or self._facts(variables, plan)
        document = build(
            kind=options["kind"],
            facts=facts,
            plan=plan,
            results=options["results"],
            generated=datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
            commands=command_lines(os.getcwd(), *self._invocation()),
            show_commands=options["show_commands"],
        )
        self._print(terminal(document))
        files = self._keep(document, options, variables)
        return {**result, "changed": False, "ok": document["ok"], "files": files}

    def _facts(self, variables: Mapping[str, Any], plan: Mapping[str, Any] | None) -> dict[str, Any]:
        """Of the hosts of the plan, else of those of the play."""
        hosts = plan["ranks"] if plan else variables.get("ansible_play_hosts_all") or []
        hostvars = variables.get("hostvars", {})
        return {str(host): plain((hostvars[host].get("ansible_facts") or {}).get("gb10")) for host in hosts if host in hostvars}

    @staticmethod
    def _invocation() -> tuple[list[str], list[str]]:
        """The inventories and extra variables of this run's command line; no inventory where it is the configured one."""
        inventories = [str(entry) for entry in context.CLIARGS.get("inventory") or ()]
        if inventories == [str(entry) for entry in C.DEFAULT_HOST_LIST]:
            inventories = []
        return inventories, [str(entry) for entry in context.CLIARGS.get("extra_vars") or ()]

    @staticmethod
    def _print(lines: Sequence[Line]) -> None:
        colors = {
            "title": C.COLOR_HIGHLIGHT,
            "ok": C.COLOR_OK,
            "warn": C.COLOR_CHANGED,
            "block": C.COLOR_ERROR,
            "dim": C.COLOR_DEBUG,
            "command": C.COLOR_SKIP,
        }
        for line in lines:
            display.display(line.text, color=colors.get(line.style))

    def _keep(self, document: Mapping[str, Any], options: Mapping[str, Any], variables: Mapping[str, Any]) -> list[str]:
        if not options["write"]:
            return []
        templated = self._templar.template(variables.get("gb10_report_dir") or "reports")
        directory = os.path.abspath(os.path.expanduser(options["dest"] or str(templated)))
        shown = os.path.relpath(directory)
        where = directory if shown.startswith("..") else shown
        if self._task.check_mode:
            display.display(f"\nCheck mode: no report was written to {where}.", color=C.COLOR_DEBUG)
            return []
        texts = {"report.json": json.dumps(document, indent=2, ensure_ascii=False) + "\n", "report.md": markdown(document)}
        reason = write(directory, texts)
        if reason:
            raise AnsibleActionFail(f"The report cannot be written to {directory}: {reason}. Set gb10_report_dir to a directory of yours.")
        display.display(f"\nThe report: {listing([os.path.join(where, name) for name in texts])}", color=C.COLOR_DEBUG)
        return [os.path.join(directory, name) for name in texts]
