# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as Ansible runs it: a process of its own, with arguments as JSON."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("ansible")
from ansible_collections.gb10.cluster.plugins.module_utils._pseudonyms import Pseudonyms

ROOT = Path(__file__).resolve().parents[4]
MODULE = "ansible_collections.gb10.cluster.plugins.modules.gb10_facts"
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(collections_path: Path) -> Run:
    def run_module(environment: dict[str, str] | None = None, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {"ANSIBLE_MODULE_ARGS": {**options, "_ansible_check_mode": check, "_ansible_remote_tmp": "/tmp"}}
        child = subprocess.run(
            [sys.executable, "-m", MODULE],
            input=json.dumps(arguments),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONPATH": f"{collections_path}:{os.environ.get('PYTHONPATH', '')}", **(environment or {})},
        )
        assert child.stderr == ""
        return dict(json.loads(child.stdout))

    return run_module


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_recording(run: Run, fixtures: Path) -> None:
    result = run(recording=str(fixtures / "recordings" / "spark-idle.json"))
    assert set(result) - {"invocation", "changed"} == {"ansible_facts"}
    assert result.get("changed", False) is False
    assert result["ansible_facts"]["gb10"]["identity"]["hostname"] == "spark-aa10"


def test_this_machine(run: Run) -> None:
    facts = run(gather_subset=["kernel", "memory", "python", "user", "time"], timeout=60)["ansible_facts"]["gb10"]
    assert facts["source"] == "live"
    assert facts["root"] is (os.geteuid() == 0)
    assert facts["kernel"]["release"] == os.uname().release
    assert facts["python"]["executable"] == sys.executable
    assert facts["memory"]["total"] > 0
    assert abs(facts["time"]["epoch"] - time.time()) < 60


def test_what_it_records_is_what_it_saw(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    live = run(record=str(path), record_salt="swordfish", timeout=60)["ansible_facts"]["gb10"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    replay = run(recording=str(path))["ansible_facts"]["gb10"]
    assert replay.pop("source") == "recording"
    assert live.pop("source") == "live"
    for facts in (live, replay):
        del facts["seconds"]
        for probe in facts["probes"].values():
            del probe["seconds"]
    # All the same, but for the pseudonyms.
    expected = json.loads(Pseudonyms("swordfish").text(json.dumps(live)))
    assert [name for name in expected if replay[name] != expected[name]] == []
    assert set(replay) == set(expected)
    text = path.read_text()
    assert "swordfish" not in text
    macs = {entry["mac"] for entry in live["fabric"]["interfaces"] if "mac" in entry}
    assert {mac for mac in macs if mac in text} == set()


def test_check_mode_writes_no_recording(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    assert "ansible_facts" in run(record=str(path), check=True, gather_subset=["kernel"])
    assert not path.exists()


def test_a_tool_that_hangs_costs_its_timeout_once(run: Run, tmp_path: Path) -> None:
    tool(tmp_path, "nvidia-smi", "trap '' TERM; sleep 60")
    started = time.monotonic()
    path = tmp_path / "recording.json"
    options = {"gather_subset": ["gpu", "memory"], "timeout": 1}
    facts = run({"PATH": f"{tmp_path}:{os.environ['PATH']}"}, record=str(path), **options)["ansible_facts"]["gb10"]
    assert time.monotonic() - started < 40
    assert {facts["probes"][name]["status"] for name in ("nvidia_smi", "nvidia_smi_processes", "nvidia_smi_version")} == {"timeout"}
    assert facts["seconds"] < 20
    assert facts["memory"]["total"] > 0
    replay = run(recording=str(path), **options)["ansible_facts"]["gb10"]
    for name in ("nvidia_smi", "nvidia_smi_processes", "nvidia_smi_version"):
        assert {**replay["probes"][name], "seconds": 0} == {**facts["probes"][name], "seconds": 0}


def test_answers_of_tools_that_fail(run: Run, tmp_path: Path) -> None:
    tool(tmp_path, "nvidia-smi", "echo 'No devices were found'; exit 6")
    tool(tmp_path, "docker", "echo 'permission denied while trying to connect to the docker API' >&2; exit 1")
    tool(tmp_path, "ip", "printf 'gar\\377bage'")
    facts = run({"PATH": f"{tmp_path}:{os.environ['PATH']}"}, gather_subset=["gpu", "docker", "fabric"], timeout=60)["ansible_facts"]["gb10"]
    assert facts["gpu"]["present"] is False
    assert facts["docker"]["available"] is False
    assert facts["docker"]["reason"] == "permission denied while trying to connect to the docker API"
    assert not {"version", "images", "containers"} & set(facts["docker"])
    assert facts["probes"]["ip_addr"]["status"] == "failed"
    assert "ports" not in facts["fabric"]


def test_the_session_and_the_cache(run: Run, tmp_path: Path) -> None:
    environment = {"SSH_CONNECTION": "192.0.2.1 50000 127.0.0.1 22", "HF_HOME": str(tmp_path)}
    facts = run(environment, gather_subset=["fabric", "models"], timeout=60)["ansible_facts"]["gb10"]
    assert facts["fabric"]["ssh"] == {"interface": "lo", "address": "127.0.0.1", "peer": "192.0.2.1"}
    assert facts["models"]["cache"] == str(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gather_subset": ["hardware"]}, "gather_subset: 'hardware' is none of all, identity, os"),
        ({"recording": "/no/such/file.json"}, "/no/such/file.json: No such file or directory"),
        ({"timeout": 0}, "timeout: 0.0 is not a number of seconds above 0"),
        ({"record": "/no/such/folder/x.json", "gather_subset": ["kernel"]}, "record: /no/such/folder/x.json: No such file or directory"),
        ({"subset": "gpu"}, "Unsupported parameters"),
    ],
)
def test_bad_input_is_one_clear_error(run: Run, options: dict[str, Any], message: str) -> None:
    result = run(**options)
    assert result["failed"] is True
    assert message in result["msg"]


def test_documentation_names_every_option_and_topic() -> None:
    source = (ROOT / "plugins" / "modules" / "gb10_facts.py").read_text()
    blocks = {}
    for name in ("DOCUMENTATION", "RETURN"):
        block = re.search(rf'^{name} = r"""\n(.*?)^"""', source, re.DOTALL | re.MULTILINE)
        assert block is not None
        blocks[name] = yaml.safe_load(block[1])
    specification = set(re.findall(r'^            "(\w+)": \{"type"', source, re.MULTILINE))
    assert set(blocks["DOCUMENTATION"]["options"]) == specification
    from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import SUBSETS, Gb10

    documented = set(blocks["RETURN"]["ansible_facts"]["contains"]["gb10"]["contains"])
    assert documented == set(Gb10.__annotations__)
    assert set(SUBSETS) < documented


def test_a_recording_of_a_node_that_did_not_answer(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"schema": "gb10-recording/1", "host": "spark-worker", "unreachable": "Connection timed out", "entries": []}))
    assert run(recording=str(path))["ansible_facts"] == {"gb10": {"unreachable": "Connection timed out"}}
