# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ladder as a role climbs it, in Ansible itself: two hosts that have rails and no RDMA, as in a lab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugin_utils" / "ladder"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "modules"))

from ansible_collections.gb10.cluster.plugins.action.link_ladder import ARGUMENT_SPEC
from ansible_collections.gb10.cluster.plugins.modules import link_ladder
from bench_node import DOCKER, torch
from climbing import HEAD, WORKER, deployed, pair
from conftest import read_sample
from module_runner import program

READY = "{{ dict(ranks | zip(ranks | map('extract', hostvars) | map(attribute='ready'))) }}"
RESULTS = "{{ dict(ranks | zip(ranks | map('extract', hostvars) | map(attribute='measured', default={}))) }}"
STEP = """
- name: "{{ step.title }}"
  gb10.cluster.link_bench:
    test: "{{ step.nodes[inventory_hostname].test }}"
    measure: "{{ step.nodes[inventory_hostname].measure | default(omit) }}"
    links: "{{ step.nodes[inventory_hostname].links | default(omit) }}"
    seconds: "{{ step.nodes[inventory_hostname].seconds | default(omit) }}"
    amount: "{{ step.nodes[inventory_hostname].amount | default(omit) }}"
    container: "{{ step.nodes[inventory_hostname].container | default(omit) }}"
    rank: "{{ step.nodes[inventory_hostname].rank | default(omit) }}"
    world_size: "{{ step.nodes[inventory_hostname].world_size | default(omit) }}"
    head: "{{ step.nodes[inventory_hostname].head | default(omit) }}"
    memory: 0  # of the machine of the test; a role gives step.nodes[inventory_hostname].memory
  register: bench
  ignore_errors: true
  when: inventory_hostname in step.nodes

- name: Remember what came of it
  ansible.builtin.set_fact:
    measured: "{{ measured | default({}) | combine({step.id: bench}) }}"
  when: inventory_hostname in step.nodes
"""
PLAY = """
- hosts: gb10
  gather_facts: false
  vars:
    ranks: "{{ ansible_facts['gb10_plan'].ranks }}"
  tasks:
    - name: Know the nodes and the plan
      ansible.builtin.set_fact:
        gb10: "{{ lookup('ansible.builtin.file', inventory_dir ~ '/' ~ inventory_hostname ~ '.json') | from_json }}"
        gb10_plan: "{{ lookup('ansible.builtin.file', inventory_dir ~ '/plan.json') | from_json }}"
        cacheable: true

    - name: See what the nodes have for the benchmarks
      gb10.cluster.link_bench:
        test: perftest_client
      check_mode: true
      register: ready

    - name: Plan the ladder
      gb10.cluster.link_ladder:
        state: planned
        ready: "READY"
      run_once: true
      register: ladder

    - name: Climb it
      ansible.builtin.include_tasks: step.yml
      loop: "{{ ladder.steps }}"
      loop_control:
        loop_var: step
        label: "{{ step.title }}"

    - name: Judge it
      gb10.cluster.link_ladder:
        ready: "READY"
        results: "RESULTS"
      run_once: true
      register: judged

    - name: Keep what came of it
      ansible.builtin.copy:
        content: "{{ {'ladder': judged.ladder, 'steps': ladder.steps, 'changed': judged.changed} | to_json }}"
        dest: "{{ inventory_dir }}/result.json"
        mode: "0600"
      run_once: true
      check_mode: false
""".replace("READY", READY).replace("RESULTS", RESULTS)


class Run:
    """What came of it: Ansible's output, and the ladder."""

    def __init__(self, path: Path, collections: Path, *options: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "GB10_"))}
        environment |= {"ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_CONFIG": str(path / "ansible.cfg")}
        environment["PATH"] = f"{path / 'bin'}{os.pathsep}{environment['PATH']}"
        command = [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts.yml", "play.yml", *options]
        done = subprocess.run(command, cwd=path, env=environment, capture_output=True, text=True, timeout=300, check=False)
        self.output = done.stdout + done.stderr
        assert done.returncode == 0, self.output
        self.result: dict[str, Any] = json.loads((path / "result.json").read_text())
        self.rungs = self.result["ladder"]["rungs"]

    def verdicts(self) -> dict[str, set[str]]:
        return {rung["name"]: {each["verdict"] for each in self.rungs if each["name"] == rung["name"]} for rung in self.rungs}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both hosts on this machine: a ping that answers, an engine image whose torch has no CUDA, and no perftest."""
    path = tmp_path_factory.mktemp("ladder")
    here = path / "bin"
    here.mkdir()
    (here / "ping.out").write_text(read_sample("ping/full_size.txt"))
    program(here, "ping", f"#!/bin/sh\ncat {here}/ping.out\n")
    program(here, "docker", DOCKER.format(here=here, python=sys.executable))
    (here / "log").write_text("")
    torch(here, cuda="None")
    facts = pair()
    (path / "plan.json").write_text(json.dumps(deployed(facts)))
    for host, of_node in facts.items():
        (path / f"{host}.json").write_text(json.dumps(of_node))
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"gb10": {"hosts": {HEAD: None, WORKER: None}, "vars": variables}}
    (path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    (path / "ansible.cfg").write_text("[defaults]\ninject_facts_as_vars = false\n")
    (path / "play.yml").write_text(PLAY)
    (path / "step.yml").write_text(STEP)
    return path


@pytest.fixture(scope="module")
def run(machine: Path, collections_path: Path) -> Run:
    return Run(machine, collections_path)


def test_what_can_be_proved_is_and_the_rest_is_skipped_aloud(run: Run) -> None:
    skipped = {"skipped"}
    assert run.verdicts() == {
        "ping": {"pass"},
        "link": {"pass"},
        "write_bandwidth": skipped,
        "write_latency": skipped,
        "all_reduce": skipped,
    }
    ladder = run.result["ladder"]
    assert (ladder["verdict"], run.result["changed"]) == ("skipped", False)
    assert ladder["summary"] == "Proved: ping and link; not proved: write_bandwidth, write_latency and all_reduce."


def test_the_reasons_are_said(run: Run) -> None:
    said = {rung["name"]: rung["observed"] for rung in run.rungs if rung["verdict"] == "skipped"}
    # Which of the two it lacks depends on the machine of the test.
    both = "Not measured: on spark-head and spark-worker, "
    assert said["write_bandwidth"] in (f"{both}ib_write_bw is not installed.", f"{both}there is no /dev/infiniband/uverbs*.")
    assert said["all_reduce"] == "Not measured: on spark-head, torch 2.9.1 of this image is built without CUDA."


def test_perftest_was_not_waited_for(run: Run) -> None:
    assert {step["name"] for step in run.result["steps"] if step["nodes"]} == {"ping", "all_reduce"}


def test_nothing_is_warned_of(run: Run) -> None:
    assert "WARNING" not in run.output
    assert "DEPRECATION" not in run.output


def test_check_mode_measures_and_passes_nothing(machine: Path, collections_path: Path) -> None:
    (machine / "bin" / "calls").unlink(missing_ok=True)
    checked = Run(machine, collections_path, "--check")
    assert checked.verdicts()["ping"] == {"skipped"}
    assert "check mode measures nothing" in next(rung for rung in checked.rungs if rung["name"] == "ping")["observed"]
    assert checked.result["ladder"]["verdict"] == "skipped"
    assert not (machine / "bin" / "calls").exists()


def test_nodes_that_would_wait_for_each_other(machine: Path, collections_path: Path) -> None:
    with pytest.raises(AssertionError, match="Ansible runs on 1 of 2 nodes at a time, the ladder needs all at once: use --forks 2 or more"):
        Run(machine, collections_path, "--forks", "1")


def test_the_documentation_is_true() -> None:
    documented = yaml.safe_load(link_ladder.DOCUMENTATION)["options"]
    assert sorted(documented) == sorted(ARGUMENT_SPEC)
    for name, option in ARGUMENT_SPEC.items():
        for field in ("type", "default", "choices"):
            assert documented[name].get(field) == option.get(field), f"{name}: {field}"
    assert yaml.safe_load(link_ladder.EXAMPLES)
    assert set(yaml.safe_load(link_ladder.RETURN)) == {"steps", "ladder"}
