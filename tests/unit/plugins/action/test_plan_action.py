# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin: in Ansible itself, as a user runs it, and its pure part without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugin_utils"))

from ansible_collections.gb10.cluster.plugins.action.plan import OPTIONS, build, gather_facts, plain, recipe_directories
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan.settings import SettingsError
from builders import HEAD, WORKER, used_head, worker

ROOT = Path(__file__).resolve().parents[4]
SECRET = "s3cr3t-of-the-api"
SILENT = "spark-silent"

#: One run of Ansible does all of these, since a run takes seconds: name, options of the task.
TASKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "options": {"api_port": 9001, "head": WORKER, "api_key": SECRET, "reclaim": []},
    "silent": {"group": "partial"},
    "beside": {"recipe": "mine"},
    "unknown recipe": {"recipe": "qwen"},
    "unknown group": {"group": "sparks"},
    "unknown key": {"recipe_overrides": {"modle": {}}},
    "unknown option": {"recpie": "x"},
}
#: Variables of the inventory.
VARIABLES = {"gb10_reclaim": "{{ [stopped] }}", "stopped": "vllm_node", "gb10_api_port": 9000}


def playbook() -> list[dict[str, Any]]:
    """Facts from files, then every plan, then what came of them into a file."""
    facts = {
        "ansible.builtin.set_fact": {
            "gb10": "{{ lookup('ansible.builtin.file', inventory_dir ~ '/' ~ inventory_hostname ~ '.json') | from_json }}",
            "cacheable": True,
        },
        "when": f"inventory_hostname != '{SILENT}'",
    }
    plans = [
        {"name": name, "gb10.cluster.plan": options, "run_once": True, "register": f"made_{i}", "ignore_errors": True}
        for i, (name, options) in enumerate(TASKS.items())
    ]
    results = "{{ {" + ", ".join(f"'{name}': made_{i}" for i, name in enumerate(TASKS)) + "} | to_json }}"
    write = {
        "ansible.builtin.copy": {"content": results, "dest": "{{ inventory_dir }}/results.json", "mode": "0600"},
        "run_once": True,
        "check_mode": False,
    }
    return [{"hosts": "all", "gather_facts": False, "tasks": [facts, *plans, write]}]


class Run:
    """What came of it: Ansible's output, and the result of each task."""

    def __init__(self, process: subprocess.CompletedProcess[str], path: Path) -> None:
        self.output = process.stdout + process.stderr
        assert process.returncode == 0, self.output
        self.results: dict[str, Any] = json.loads((path / "results.json").read_text())

    def plan(self, name: str) -> dict[str, Any]:
        """The plan of a task that did not fail."""
        assert not self.results[name].get("failed"), self.results[name]
        made: dict[str, Any] = self.results[name]["ansible_facts"]["gb10_plan"]
        return made


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, collections_path: Path) -> Run:
    path = tmp_path_factory.mktemp("plan")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "GB10_"))}
    environment |= {"ANSIBLE_COLLECTIONS_PATH": str(collections_path), "ANSIBLE_CONFIG": str(path / "ansible.cfg"), "GB10_API_KEY": SECRET}
    (path / "ansible.cfg").write_text("[defaults]\ninject_facts_as_vars = false\n")
    (path / "play.yml").write_text(yaml.safe_dump(playbook()))
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, **VARIABLES}
    groups = {"gb10": {"hosts": {HEAD: None, WORKER: None}}, "partial": {"hosts": {HEAD: None, SILENT: None}}}
    (path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups, "vars": variables}}))
    for name, facts in ((HEAD, used_head()), (WORKER, worker())):
        (path / f"{name}.json").write_text(json.dumps(facts))
    shipped = yaml.safe_load((ROOT / "plugins/plugin_utils/_recipes/qwen3.5-122b-a10b-fp8.yml").read_text())
    (path / "recipes").mkdir()
    (path / "recipes" / "mine.yml").write_text(yaml.safe_dump({**shipped, "name": "mine"}))
    command = [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts.yml", "play.yml", "-vvv", "--check"]
    return Run(subprocess.run(command, cwd=path, env=environment, capture_output=True, text=True, timeout=300, check=False), path)


def test_variables_of_the_inventory(run: Run) -> None:
    made = run.plan("plain")
    assert made["ok"]
    assert made["ranks"] == [HEAD, WORKER]
    assert made["nodes"][HEAD]["reclaim"] == ["vllm_node"]
    assert (made["endpoint"]["port"], made["endpoint"]["api_key"]) == (9000, True)
    assert run.results["plain"]["changed"] is False


def test_options_of_the_task_win_over_variables(run: Run) -> None:
    made = run.plan("options")
    assert made["endpoint"]["port"] == 9001
    assert made["ranks"] == [WORKER, HEAD]
    assert made["nodes"][HEAD]["reclaim"] == []
    assert not made["ok"]


def test_a_host_that_did_not_answer_is_a_finding(run: Run) -> None:
    made = run.plan("silent")
    assert not made["ok"]
    assert [finding["nodes"] for finding in made["findings"] if finding["id"] == "node.unreachable"] == [[SILENT]]
    assert made["nodes"][HEAD]["containers"]


def test_a_recipe_beside_the_inventory(run: Run) -> None:
    assert run.plan("beside")["recipe"]["name"] == "mine"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("unknown recipe", "There is no recipe 'qwen'."),
        ("unknown group", "The inventory has no host in the group 'sparks'."),
        ("unknown key", "unknown key modle (did you mean model?)"),
        ("unknown option", "gb10.cluster.plan has no option recpie."),
    ],
)
def test_one_clear_error(run: Run, name: str, text: str) -> None:
    result = run.results[name]
    assert result["failed"]
    assert text in result["msg"]
    assert "Traceback" not in json.dumps(result)


def test_the_key_is_nowhere(run: Run) -> None:
    assert SECRET not in json.dumps(run.results)
    assert SECRET not in run.output


def test_nothing_is_warned_of(run: Run) -> None:
    assert "WARNING" not in run.output
    assert "DEPRECATION" not in run.output


def test_facts_are_gathered_in_pythons_own_types() -> None:
    class Text(str):
        """Text with something about it, as Ansible has."""

    given = {
        HEAD: {"ansible_facts": {"gb10": {Text("a"): (Text("b"), 1, None)}}},
        WORKER: {"ansible_facts": {}},
        "x": {},
        "y": {"ansible_facts": {"gb10": 5}},
    }
    facts = gather_facts(given, [HEAD, WORKER, "x", "y"])
    assert facts == {HEAD: {"a": ["b", 1, None]}, WORKER: None, "x": None, "y": None}
    assert type(facts[HEAD]["a"][0]) is str
    assert type(next(iter(facts[HEAD]))) is str
    assert plain(Text("z")) == "z"


def test_where_recipes_are_looked_for(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    sources = [str(inventory / "hosts.py"), str(inventory), str(tmp_path / "other.yml")]
    found = recipe_directories({"gb10_recipe_dirs": ["/srv/recipes"]}, sources)
    assert found == [str(inventory / "recipes"), str(tmp_path / "recipes"), "/srv/recipes"]
    with pytest.raises(SettingsError, match="gb10_recipe_dirs"):
        recipe_directories({"gb10_recipe_dirs": "/srv/recipes"}, [])


@pytest.mark.parametrize(("name", "value"), [("gb10_group", ["a"]), ("gb10_recipe", {}), ("gb10_recipe_overrides", "nodes=2")])
def test_values_of_the_wrong_kind(name: str, value: Any) -> None:
    if not value:
        value = 5
    with pytest.raises(SettingsError, match=f"{name} is .*; it has to be"):
        build({name: value}, {"gb10": [HEAD]}, {}, [], ".")


def test_the_documentation_has_every_option() -> None:
    text = (ROOT / "plugins/modules/plan.py").read_text()
    documentation = yaml.safe_load(text.split('DOCUMENTATION = r"""')[1].split('"""')[0])
    assert set(documentation["options"]) == set(OPTIONS)
