# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ends of a support bundle: `pack` makes one from fetched recordings and the plan, `read` says which nodes one holds."""

from __future__ import annotations

import json
import os
import platform
import shlex
import tempfile
from collections.abc import Mapping
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.release import __version__ as core_version
from ansible.utils.display import Display
from ansible_collections.gb10.cluster.plugins.module_utils._redact import redact_text
from ansible_collections.gb10.cluster.plugins.module_utils._words import size
from ansible_collections.gb10.cluster.plugins.plugin_utils._support import SCHEMA, BundleError, pack, read

from .plan import plain
from .report import playbook

display = Display()

ARGUMENT_SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["packed", "read"], "required": True},
    "path": {"type": "path", "required": True},
    "recordings": {"type": "path"},
    "workspace": {"type": "path"},
}
#: What of the user's settings makes the plan what it is. The recipe is in the bundle; the API key never is.
VARIABLES = ("gb10_backend", "gb10_api_host", "gb10_api_port", "gb10_reclaim", "gb10_consent", "gb10_accept", "gb10_ulimits")


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core comes without types
    """Runs on the controller alone."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(
            ARGUMENT_SPEC, required_if=[("state", "packed", ("recordings",)), ("state", "read", ("workspace",))]
        )
        options = plain(options)
        if options["state"] == "packed":
            return {**result, **self._pack(options["path"], options["recordings"], task_vars or {})}
        return {**result, **self._read(options["path"], options["workspace"])}

    def _read(self, path: str, workspace: str) -> dict[str, Any]:
        try:
            bundle = read(os.path.abspath(path), workspace)
        except BundleError as error:
            return {"changed": False, "failed": True, "msg": str(error)}
        variables = {name: value for name, value in bundle.variables.items() if name in VARIABLES}
        if bundle.recipe:
            variables["gb10_recipe"] = bundle.recipe
        with open(os.path.join(workspace, "variables.json"), "w", encoding="utf-8") as stream:
            json.dump(variables, stream)
        nodes = [{"name": node.name, "recording": node.path} for node in bundle.nodes]
        return {"changed": False, "nodes": nodes}

    def _pack(self, path: str, recordings: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        facts = variables.get("ansible_facts") or {}
        plan = plain(facts.get("gb10_plan"))
        if not plan:
            raise AnsibleActionFail("There is no plan (ansible_facts.gb10_plan): run gb10.cluster.plan before the bundle is packed.")
        if self._task.check_mode:
            return {"changed": False, "path": path, "skipped": True, "msg": f"Check mode: {path} was not written."}
        texts, unreachable = {}, {}
        for name in plan["ranks"]:
            file = os.path.join(recordings, f"{name}.json")
            if os.path.isfile(file):
                with open(file, encoding="utf-8") as stream:
                    texts[name] = stream.read()
            else:
                gb10 = plain((variables["hostvars"][name].get("ansible_facts") or {}).get("gb10")) or {}
                unreachable[name] = redact_text(str(gb10.get("unreachable", "it was not recorded")))
        settings = {name: plain(self._templar.template(variables[name])) for name in VARIABLES if name in variables}
        versions = {"ansible-core": core_version, "python": platform.python_version(), "bundle": SCHEMA}
        content = pack(texts, unreachable, plan["ranks"], plan["recipe"], settings, versions)
        _write(path, content)
        self._tell(os.path.relpath(path) if not os.path.relpath(path).startswith("..") else path, len(content), unreachable)
        return {"changed": True, "path": path, "nodes": sorted(texts), "missing": unreachable, "size": len(content)}

    @staticmethod
    def _tell(shown: str, amount: int, unreachable: Mapping[str, str]) -> None:
        """What the user does with it next."""
        display.display(f"\nThe support bundle: {shown} ({size(amount)}). Tokens, serial numbers, MAC and public addresses are pseudonyms in it.")
        for name, reason in unreachable.items():
            display.display(f"  Without {name}: {reason}", color=C.COLOR_WARN)
        display.display("  To look at it before you give it away, and to see what its reader sees:", color=C.COLOR_DEBUG)
        display.display(f"    tar -xzOf {shlex.quote(shown)} | less", color=C.COLOR_SKIP)
        display.display(f"    ansible-playbook {playbook('recon', os.getcwd())} -e gb10_recordings={shlex.quote(shown)}", color=C.COLOR_SKIP)


def _write(path: str, content: bytes) -> None:
    """Write the file as a whole, readable by its owner only."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except OSError as error:
        raise AnsibleActionFail(
            f"The support bundle cannot be written to {path}: {error.strerror}. Set gb10_report_dir to a directory of yours."
        ) from error
