# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ray_cluster_info: the question is really run, against a stand-in for the ray package behind a stand-in for docker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._ray import BEGIN, END, RayNode, lacks, parse_nodes
from ansible_collections.gb10.cluster.plugins.modules import ray_cluster_info
from module_runner import program, run_module, use_programs

HEAD, WORKER = "192.168.200.12", "192.168.200.13"

DOCKER = """#!/bin/sh
case "$1" in
  inspect) cat {here}/state; exit $(cat {here}/inspect_rc 2>/dev/null || echo 0);;
  exec) shift 3; PYTHONPATH={here} exec {python} "$@";;
  logs) cat {here}/logs >&2;;
esac
"""
RAY = """
import json, os
HERE = os.path.dirname(__file__)
def init(address, logging_level, log_to_driver):
    print("2026-11-30 15:00:00,000\\tINFO worker.py:2012 -- Connecting to existing Ray cluster")
    if os.path.exists(HERE + "/down"):
        raise ConnectionError("ray.init could not connect to any Ray runtime")
def nodes():
    looks = int(open(HERE + "/looks").read()) if os.path.exists(HERE + "/looks") else 0
    open(HERE + "/looks", "w").write(str(looks + 1))
    states = json.load(open(HERE + "/nodes.json"))
    return states[min(looks, len(states) - 1)]
"""


def node(address: str, alive: bool = True, gpus: float = 1.0) -> dict[str, Any]:
    """As ray.nodes() has it, ray 2.58, cut; a node that is dead has no resources."""
    resources = {"CPU": 2.0, "GPU": gpus, "memory": 1e11, f"node:{address}": 1.0} if alive else {}
    return {"NodeID": "83e4", "Alive": alive, "NodeManagerAddress": address, "NodeManagerHostname": "x", "Resources": resources}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program(tmp_path, "docker", DOCKER.format(here=tmp_path, python=sys.executable))
    use_programs(tmp_path, monkeypatch)
    (tmp_path / "ray.py").write_text(RAY)
    (tmp_path / "state").write_text("running\n")
    return tmp_path


Look = Callable[..., dict[str, Any]]


@pytest.fixture
def look(here: Path, capsys: pytest.CaptureFixture[str]) -> Look:
    def call(*states: list[dict[str, Any]], **arguments: Any) -> dict[str, Any]:
        (here / "nodes.json").write_text(json.dumps(states))
        return run_module(ray_cluster_info.main, capsys, **arguments)

    return call


def test_a_complete_cluster(look: Look) -> None:
    result = look([node(WORKER), node(HEAD), node("192.168.200.99", alive=False)], nodes=[HEAD, WORKER], gpus=2)
    assert (result["failed"], result["changed"], result["ready"], result["gpus_total"]) == (False, False, True, 2)
    assert [(entry["address"], entry["alive"]) for entry in result["ray_nodes"]] == [(HEAD, True), (WORKER, True), ("192.168.200.99", False)]
    assert result["ray_nodes"][0] == {"address": HEAD, "alive": True, "gpus": 1, "cpus": 2, "memory": 100000000000}


def test_waits_for_a_late_node(look: Look) -> None:
    result = look([node(HEAD)], [node(HEAD), node(WORKER)], nodes=[HEAD, WORKER], gpus=2, timeout=60)
    assert result["ready"]
    assert result["seconds"] >= 1


def test_a_missing_node_is_named(look: Look) -> None:
    result = look([node(HEAD)], nodes=[HEAD, WORKER], gpus=2, timeout=1)
    assert (result["failed"], result["ready"]) == (True, False)
    assert f"{WORKER} has not joined." in result["msg"]
    assert f"Alive: {HEAD}." in result["msg"]
    assert "What to do: on each node that is missing, docker logs gb10-ray" in result["msg"]


def test_a_look_without_expectations(look: Look) -> None:
    assert look([node(HEAD)], timeout=0)["ready"]


def test_check_mode_looks_too(look: Look) -> None:
    assert look([node(HEAD)], timeout=0, check_mode=True)["gpus_total"] == 1


def test_a_container_that_does_not_run(look: Look, here: Path) -> None:
    (here / "state").write_text("exited\n")
    (here / "logs").write_text("2026-11-30T15:00:00Z ValueError: Malformed host: \n2026-11-30T15:00:01Z bye\n")
    result = look([node(HEAD)], nodes=[HEAD], timeout=0)
    assert "The container gb10-ray is exited." in result["msg"]
    assert "The first error in its log: ValueError: Malformed host:" in result["msg"]
    assert "ray_nodes" not in result


def test_no_such_container(look: Look, here: Path) -> None:
    program(here, "docker", "#!/bin/sh\necho 'Error: No such container: nowhere' >&2\nexit 1\n")
    assert "There is no container nowhere." in look([], container="nowhere", timeout=0)["msg"]


def test_ray_that_does_not_answer(look: Look, here: Path) -> None:
    (here / "down").touch()
    result = look([node(HEAD)], timeout=0)
    assert "Ray does not answer in gb10-ray: ConnectionError: ray.init could not connect to any Ray runtime" in result["msg"]


def test_docker_that_may_not_be_used(look: Look, here: Path) -> None:
    program(here, "docker", "#!/bin/sh\necho 'permission denied while trying to connect to the Docker daemon socket' >&2\nexit 1\n")
    result = look([node(HEAD)], timeout=60)
    assert "Ray cannot be asked: permission denied while trying" in result["msg"]


ALIVE = [RayNode(HEAD, True, 1, 2, 0), RayNode(WORKER, True, 1, 2, 0)]


@pytest.mark.parametrize(
    ("nodes", "expected", "gpus", "words"),
    [
        (ALIVE, [HEAD, WORKER], 2, []),
        (ALIVE, [], None, []),
        (ALIVE[:1], [HEAD, WORKER], 2, [f"{WORKER} has not joined."]),
        ([], [HEAD, WORKER], 2, [f"{HEAD} and {WORKER} have not joined."]),
        ([ALIVE[0], RayNode(WORKER, False, 0, 0, 0)], [HEAD, WORKER], 2, [f"{WORKER} has not joined (was there and died)."]),
        ([*ALIVE, RayNode("192.0.2.7", True, 1, 2, 0)], [HEAD, WORKER], 3, ["192.0.2.7 joined and is not planned"]),
        ([*ALIVE, ALIVE[1]], [HEAD, WORKER], 3, [f"{WORKER} joined twice"]),
        ([ALIVE[0], RayNode(WORKER, True, 0, 2, 0)], [HEAD, WORKER], 2, ["Ray counts 1 GPU where 2 are expected"]),
        ([ALIVE[0], RayNode("192.0.2.7", True, 1, 2, 0)], [HEAD, WORKER], 2, [f"{WORKER} has not joined.", "192.0.2.7 joined and is not planned"]),
    ],
)
def test_what_a_cluster_lacks(nodes: list[RayNode], expected: list[str], gpus: int | None, words: list[str]) -> None:
    found = lacks(nodes, expected, gpus)
    assert len(found) == len(words)
    for sentence, word in zip(found, words):
        assert word in sentence


@pytest.mark.parametrize(
    "text",
    [
        "",
        "some log",
        f"{BEGIN}[",
        f"{BEGIN}[]",
        f"{END}{BEGIN}",
        f"{BEGIN}nonsense{END}",
        f'{BEGIN}[{{"address": "x"}}]{END}',
        f"{BEGIN}7{END}",
    ],
)
def test_what_is_no_answer(text: str) -> None:
    with pytest.raises(ParseError):
        parse_nodes(text)


def test_the_answer_is_found_between_other_output() -> None:
    answer = '[{"address": "a", "alive": true, "gpus": 1.0, "cpus": 2, "memory": 3.5}]'
    assert parse_nodes(f"log\n{BEGIN}{answer}{END}\nmore log") == [RayNode("a", True, 1, 2, 3)]
