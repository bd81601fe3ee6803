# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search in Ansible itself: on the controller, without a connection, in check mode too, and the key nowhere to be seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.cluster.plugins.action.community_search import ARGUMENT_SPEC
from ansible_collections.gb10.cluster.plugins.modules import community_search

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugin_utils"))

from builders import HEAD, WORKER, plan, used_head, worker
from search_server import KEY, Api, serving

SPOKEN = {"url": "https://github.com/vllm-project/vllm/issues/7", "title": "Seen elsewhere", "publishedDate": None}
Play = dict[str, Any]


@pytest.fixture
def server() -> Iterator[tuple[str, Api]]:
    with serving() as served:
        served[1].results = lambda query: [SPOKEN]
        yield served


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ansible.cfg").write_text("")
    (tmp_path / "plan.json").write_text(json.dumps(plan({HEAD: used_head(), WORKER: worker()})))
    # 192.0.2.0/24 answers nobody: a task that connects fails.
    hosts = {"gb10": {"hosts": {HEAD: {"ansible_host": "192.0.2.10"}, WORKER: {"ansible_host": "192.0.2.11"}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts))
    return tmp_path


def play(project: Path, collections: Path, options: Play, *arguments: str, key: str = KEY, planned: bool = True, expect: int = 0) -> tuple[Play, str]:
    """The result of the task, and all that was said."""
    read = "{{ lookup('ansible.builtin.file', inventory_dir ~ '/plan.json') | from_json }}"
    tasks: list[Play] = [{"ansible.builtin.set_fact": {"gb10_plan": read, "cacheable": True}}] if planned else []
    tasks.append({"gb10.cluster.community_search": options, "run_once": True, "register": "found"})
    copy = {"content": "{{ found }}", "dest": str(project / "found.json")}
    tasks.append({"ansible.builtin.copy": copy, "delegate_to": "localhost", "run_once": True, "check_mode": False})
    (project / "play.yml").write_text(yaml.safe_dump([{"hosts": "gb10", "gather_facts": False, "tasks": tasks}]))
    environment = {name: value for name, value in os.environ.items() if name != "EXA_API_KEY" and not name.lower().endswith("_proxy")}
    environment |= {"ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_CONFIG": str(project / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment |= {"EXA_API_KEY": key} if key else {}
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "hosts.yml", "play.yml", "-vvv", *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode == expect, said
    assert "[WARNING]" not in said
    assert "DEPRECAT" not in said
    assert KEY not in said
    return json.loads((project / "found.json").read_text()) if not expect else {}, said


@pytest.mark.parametrize("arguments", [(), ("--check",)], ids=["run", "check"])
def test_what_others_say_without_a_connection(project: Path, collections_path: Path, server: tuple[str, Api], arguments: tuple[str, ...]) -> None:
    endpoint, api = server
    found, _said = play(project, collections_path, {}, "-e", f"gb10_recon_search_endpoint={{{{ '{endpoint}' }}}}", *arguments)
    assert (found["changed"], found["failed"], found["omitted"]) == (False, False, [])
    assert found["community"]["provider"] == "exa"
    assert found["community"]["entries"] == [
        {"title": SPOKEN["title"], "url": SPOKEN["url"], "excerpt": "", "about": ["model", "memory.occupied"], "score": 0.65}
    ]
    assert {headers["x-api-key"] for headers in api.headers} == {KEY}
    assert KEY not in json.dumps(found)
    assert "spark-" not in json.dumps(api.requests)


def test_without_a_key_the_catalogue(project: Path, collections_path: Path, server: tuple[str, Api]) -> None:
    endpoint, api = server
    found, _said = play(project, collections_path, {"endpoint": endpoint, "limit": 1}, key="")
    assert found["community"]["provider"] == "catalogue"
    assert found["community"]["reason"] == "EXA_API_KEY is not set"
    assert [entry["about"] for entry in found["community"]["entries"]] == [["memory.occupied"]]
    assert api.requests == []


def test_another_hub_and_a_plan_of_the_task(project: Path, collections_path: Path, server: tuple[str, Api]) -> None:
    endpoint, api = server
    options = {"endpoint": endpoint, "timeout": 5, "plan": json.loads((project / "plan.json").read_text())}
    found, _said = play(project, collections_path, options, "-e", "gb10_hf_endpoint=https://hub.example.com", planned=False)
    assert found["omitted"] == ["The model was not asked about: its name may not be a public one."]
    assert api.requests
    assert "Qwen" not in json.dumps(api.requests)


def test_an_option_out_of_bounds_is_one_clear_error(project: Path, collections_path: Path) -> None:
    _found, said = play(project, collections_path, {"timeout": 0}, expect=2)
    assert "timeout is 0; it has to be between 1 and 120 seconds." in said


def test_documentation_is_true() -> None:
    documented = yaml.safe_load(community_search.DOCUMENTATION)["options"]
    assert sorted(documented) == sorted(ARGUMENT_SPEC)
    for name, option in ARGUMENT_SPEC.items():
        assert {field: documented[name].get(field) for field in ("type", "default")} == {field: option.get(field) for field in ("type", "default")}
    assert all(entry["gb10.cluster.community_search"] is None or entry["run_once"] for entry in yaml.safe_load(community_search.EXAMPLES)[1:])
    assert sorted(yaml.safe_load(community_search.RETURN)) == ["community", "omitted"]
