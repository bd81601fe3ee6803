# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the report and keeps it: the part of gb10.cluster.report that knows Ansible. What is said is made in plugin_utils/_report."""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.parsing.splitter import split_args
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gb10.cluster.plugins.module_utils._words import listing
from ansible_collections.gb10.cluster.plugins.plugin_utils._report import KINDS, SCHEMA, Line, build, markdown, page, terminal
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.previous import NAME, Previous, find_previous, put_aside

ARGUMENT_SPEC: dict[str, Any] = {
    "kind": {"type": "str", "choices": sorted(KINDS), "required": True},
    "results": {"type": "dict", "default": {}},
    "show_commands": {"type": "bool", "default": True},
    "dest": {"type": "path"},
    "write": {"type": "bool", "default": True},
    "facts": {"type": "dict"},
    "plan": {"type": "dict"},
    "community": {"type": "dict"},
}
# Extra variables of this run that the next command needs too; any other may be a secret.
REPEATED = ("gb10_group", "gb10_head", "gb10_recipe", "gb10_recipe_overrides", "gb10_backend", "gb10_api_host", "gb10_api_port")
CONSENTS = ("gb10_reclaim", "gb10_consent", "gb10_accept")
PLAYBOOKS = ("recon", "site", "status", "verify", "bench", "stop", "teardown")
ROOT = Path(__file__).resolve().parents[2]

display = Display()


def plain(value: Any) -> Any:
    """A copy in Python's own types of what Ansible hands out."""
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return str(value) if isinstance(value, str) else value


def collection_version() -> str:
    """As the installed collection says it, or the checkout; nothing where neither does."""
    try:
        return str(json.loads((ROOT / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        match = re.search(r"^version: *[\"']?([\w.+-]+)", (ROOT / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return ""
    return match[1] if match else ""


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
        if not (ROOT / "playbooks" / f"{name}.yml").is_file():
            continue
        names = (*REPEATED, *CONSENTS) if name in ("recon", "site") else REPEATED
        again = [kept for kept in (repeated(entry, names) for entry in extra) if kept]
        lines[name] = shlex.join(["ansible-playbook", playbook(name, directory), *where, *(word for kept in again for word in ("-e", kept))])
    return lines


def shown(directory: str) -> str:
    """The directory as the user would type it."""
    path = os.path.relpath(directory)
    return directory if path.startswith("..") else path


def keep(directory: str, document: Mapping[str, Any], texts: Mapping[str, str]) -> tuple[str, str]:
    """Write the files, each as a whole: the name that a file in the way was given, and why it failed, or nothing."""
    aside = ""
    try:
        os.makedirs(directory, exist_ok=True)
        aside = put_aside(directory, document["kind"], document["nodes"], SCHEMA)
        for name, text in texts.items():
            path = os.path.join(directory, name)
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{path}.new", path)
    except OSError as error:
        return aside, error.strerror or str(error)
    return aside, ""


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
        directory = self._directory(options, variables)
        before = find_previous(directory, options["kind"], list(facts), SCHEMA) if options["write"] else Previous()
        document = build(
            kind=options["kind"],
            facts=facts,
            plan=plan,
            results=options["results"],
            generated=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            commands=command_lines(os.getcwd(), *self._invocation()),
            show_commands=options["show_commands"],
            community=options["community"],
            previous=before.document,
            version=collection_version(),
        )
        self._print(terminal(document, bool(self._task.diff)))
        remark = before.remark
        if before.document and "drift" not in document:
            remark = f"The previous report in {shown(directory)} is not built like ours, so nothing is compared with it."
        if remark:
            display.display(f"\n{remark}", color=C.COLOR_CHANGED)
        files = self._keep(document, directory) if options["write"] else []
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

    def _directory(self, options: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
        templated = options["dest"] or str(self._templar.template(variables.get("gb10_report_dir") or "reports"))
        return os.path.abspath(os.path.expanduser(templated))

    def _keep(self, document: Mapping[str, Any], directory: str) -> list[str]:
        """Write what was said, for programs, to send to someone, to look at."""
        where = shown(directory)
        if self._task.check_mode:
            display.display(f"\nCheck mode: no report was written to {where}.", color=C.COLOR_DEBUG)
            return []
        texts = {NAME: json.dumps(document, indent=2, ensure_ascii=False) + "\n", "report.md": markdown(document), "report.html": page(document)}
        aside, reason = keep(directory, document, texts)
        if reason:
            raise AnsibleActionFail(f"The report cannot be written to {directory}: {reason}. Set gb10_report_dir to a directory of yours.")
        if aside:
            display.display(f"\nWhat was {os.path.join(where, NAME)} before is kept as {os.path.join(where, aside)}.", color=C.COLOR_DEBUG)
        display.display(f"\nThe report: {listing([os.path.join(where, name) for name in texts])}", color=C.COLOR_DEBUG)
        return [os.path.join(directory, name) for name in texts]
