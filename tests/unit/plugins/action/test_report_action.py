# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in Ansible itself: facts of a play in, a screen and three files out, nothing in check mode; what changed since the last time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.cluster.plugins.action import report
from ansible_collections.gb10.cluster.plugins.action.report import PLAYBOOKS, ROOT, collection_version, command_lines, playbook, repeated

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugin_utils"))

from builders import HEAD, WORKER, plan, used_head, worker

SECRET = "open-sesame-to-the-api"


def play(directory: Path, collections: Path, *arguments: str, expect: int = 0) -> str:
    """Run the playbook; its output."""
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "hosts.yml", "site.yml", *arguments]
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_NOCOLOR": "1",
    }
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, done.stdout + done.stderr
    assert "[WARNING]" not in done.stderr
    assert "DEPRECAT" not in done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    facts = {HEAD: used_head(), WORKER: worker()}
    for host, entry in facts.items():
        (tmp_path / f"{host}.json").write_text(json.dumps(entry))
    (tmp_path / "ansible.cfg").write_text("")
    (tmp_path / "plan.json").write_text(json.dumps(plan(facts)))
    hosts = {"gb10": {"hosts": {host: {"ansible_connection": "local"} for host in facts}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts))
    read = "{{{{ lookup('ansible.builtin.file', inventory_dir ~ '/{}.json') | from_json }}}}"
    gathered = {"gb10": read.format("' ~ inventory_hostname ~ '"), "gb10_plan": read.format("plan"), "cacheable": True}
    tasks = [{"ansible.builtin.set_fact": gathered}, {"gb10.cluster.report": {"kind": "recon"}, "run_once": True, "register": "said"}]
    tasks.append({"ansible.builtin.debug": {"msg": "files={{ said.files | length }} ok={{ said.ok }} changed={{ said.changed }}"}, "run_once": True})
    (tmp_path / "site.yml").write_text(yaml.safe_dump([{"hosts": "gb10", "gather_facts": False, "tasks": tasks}]))
    return tmp_path


def test_a_screen_and_three_files(project: Path, collections_path: Path) -> None:
    out = play(project, collections_path, "-e", f"gb10_api_key={SECRET} gb10_recipe=qwen3.5-122b-a10b-fp8", "-e", "gb10_report_dir={{ 'here' }}/r")
    assert "spark-head · rank 0, head · NVIDIA DGX Spark" in out
    assert "spark-worker · rank 1" in out
    assert "✗ memory.occupied on spark-head" in out
    assert "\nThe report: here/r/report.json, here/r/report.md and here/r/report.html\n" in out
    assert "files=3 ok=False changed=False" in out
    # The inventory and the recipe of this run are said again, the key is not.
    assert "    ansible-playbook site.yml -i hosts.yml -e gb10_recipe=qwen3.5-122b-a10b-fp8 \\" in out
    assert "ok=3    changed=0" in out
    document = json.loads((project / "here" / "r" / "report.json").read_text())
    assert (document["schema"], document["kind"], document["ok"]) == ("gb10-report/1", "recon", False)
    assert document["nodes"][HEAD]["memory"]["total"] > 0
    text = (project / "here" / "r" / "report.md").read_text()
    assert text.startswith("# What was found: Qwen/Qwen3.5-122B-A10B-FP8\n")
    html = (project / "here" / "r" / "report.html").read_text()
    assert html.startswith("<!DOCTYPE html>")
    assert "vllm_node" in html
    assert SECRET not in out + text + html + json.dumps(document)
    assert sorted(os.listdir(project / "here" / "r")) == ["report.html", "report.json", "report.md"]
    assert document["version"] == collection_version()
    assert "Since" not in out


def test_check_mode_says_all_and_writes_nothing(project: Path, collections_path: Path) -> None:
    before = sorted(os.listdir(project))
    out = play(project, collections_path, "--check")
    assert "✗ memory.occupied on spark-head" in out
    assert "Check mode: no report was written to reports." in out
    assert "files=0 ok=False changed=False" in out
    assert sorted(os.listdir(project)) == before


def change(project: Path) -> None:
    """Between two runs somebody stopped a container and updated the kernel."""
    facts = json.loads((project / f"{HEAD}.json").read_text())
    facts["kernel"]["release"] = "7.0.0-1019-nvidia"
    facts["workloads"] = [row for row in facts["workloads"] if row["name"] != "reranker"]
    (project / f"{HEAD}.json").write_text(json.dumps(facts))


def test_what_changed_since_the_last_report(project: Path, collections_path: Path) -> None:
    play(project, collections_path)
    first = json.loads((project / "reports" / "report.json").read_text())
    change(project)
    # Check mode compares as well, and leaves the last report where it is.
    out = play(project, collections_path, "--check")
    assert re.search(r"\nSince 20\d\d-\d\d-\d\d \d\d:\d\d: 2 changes; --diff shows them\.\n", out)
    assert json.loads((project / "reports" / "report.json").read_text()) == first
    out = play(project, collections_path, "--diff")
    assert "  ~ spark-head: kernel: 6.17.0-1014-nvidia → 7.0.0-1019-nvidia\n  - spark-head: holder reranker is gone (3.0 GiB)\n" in out
    document = json.loads((project / "reports" / "report.json").read_text())
    assert document["drift"]["since"] == first["generated"]
    assert len(document["drift"]["changes"]) == 2
    assert "no change worth telling" in play(project, collections_path)
    assert sorted(os.listdir(project / "reports")) == ["report.html", "report.json", "report.md"]


def test_a_file_that_is_no_report_is_said_and_kept(project: Path, collections_path: Path) -> None:
    (project / "reports").mkdir()
    (project / "reports" / "report.json").write_text("half a repo")
    out = play(project, collections_path, "--check")
    assert "it is not JSON, or not all of it." in out
    assert os.listdir(project / "reports") == ["report.json"]
    out = play(project, collections_path)
    assert "What was reports/report.json before is kept as reports/report.json.1." in out
    assert (project / "reports" / "report.json.1").read_text() == "half a repo"
    assert json.loads((project / "reports" / "report.json").read_text())["kind"] == "recon"


def test_a_report_that_is_built_otherwise_is_said_and_replaced(project: Path, collections_path: Path) -> None:
    play(project, collections_path)
    document = json.loads((project / "reports" / "report.json").read_text())
    document["nodes"][HEAD]["ports"] = "none"
    (project / "reports" / "report.json").write_text(json.dumps(document))
    out = play(project, collections_path)
    assert "The previous report in reports is not built like ours, so nothing is compared with it." in out
    assert "Since" not in out


def test_a_directory_that_cannot_be_written_is_one_clear_error(project: Path, collections_path: Path) -> None:
    (project / "file").touch()
    out = " ".join(play(project, collections_path, "-e", "gb10_report_dir=file/r", expect=2).split())
    assert "The report cannot be written to" in out
    assert "Set gb10_report_dir to a directory of yours." in out


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        ("gb10_recipe=x", "gb10_recipe=x"),
        ("gb10_recipe=x gb10_hf_token=y", "gb10_recipe=x"),
        ("gb10_hf_token=y", None),
        ("@mine.yml", "@mine.yml"),
        ('{"gb10_recipe": "x", "gb10_api_key": "y"}', '{"gb10_recipe": "x"}'),
        ('{"gb10_api_key": "y"}', None),
        ("{gb10_recipe: x}", None),
        ("gb10_recipe='a b'", "gb10_recipe='a b'"),
    ],
)
def test_what_of_this_run_is_said_again(entry: str, kept: str | None) -> None:
    assert repeated(entry, ("gb10_recipe",)) == kept


def test_command_lines(tmp_path: Path) -> None:
    (tmp_path / "site.yml").touch()
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "status.yml").touch()
    assert [playbook(name, str(tmp_path)) for name in ("site", "status", "stop")] == ["site.yml", "playbooks/status.yml", "gb10.cluster.stop"]
    lines: dict[str, Any] = command_lines(str(tmp_path), [str(tmp_path / "inv"), "/elsewhere/inv"], ['{"gb10_reclaim": ["a"]}'])
    assert lines["site"] == """ansible-playbook site.yml -i inv -i /elsewhere/inv -e '{"gb10_reclaim": ["a"]}'"""
    assert lines["status"] == "ansible-playbook playbooks/status.yml -i inv -i /elsewhere/inv"
    assert command_lines(str(tmp_path), [], [])["site"] == "ansible-playbook site.yml"


def test_only_playbooks_that_there_are_are_offered(tmp_path: Path) -> None:
    there = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    assert set(command_lines(str(tmp_path), [], [])) == set(PLAYBOOKS) & there


def test_the_version_is_that_of_the_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert collection_version() == yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    monkeypatch.setattr(report, "ROOT", tmp_path)
    assert collection_version() == ""
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": "9.8.7"}}))
    assert collection_version() == "9.8.7"
