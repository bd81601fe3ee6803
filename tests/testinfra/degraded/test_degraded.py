"""Machines with one fault each (molecule/lab/profiles/degraded-*): recon finds that fault, and no other."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playing import ENVIRONMENTS, ROOT, assert_clean, play

#: The folder of the SSH connections of now, and which machines there are now.
sessions: list[str] = []
current: list[str] = []


def costs_its_timeout_once(head: dict[str, Any]) -> None:
    assert {name for name, probe in head["unread"].items() if probe["status"] == "timeout"} >= {"nvidia_smi"}
    assert head["seconds"] < 2 * 10, "the bound of one probe, not one after the other"
    assert head["memory"]["total"] > 119 * 1024**3, "everything else is known"


@dataclass(frozen=True)
class Case:
    """Two machines by their profiles, the findings that two idle Sparks do not have, those of theirs that are gone, what else the head shows."""

    machines: tuple[str, str]
    found: set[str]
    gone: set[str] = field(default_factory=set)
    arguments: tuple[str, ...] = ()
    head: Callable[[dict[str, Any]], None] = lambda head: None


PINNED = ("-e", json.dumps({"gb10_recipe_overrides": {"environment": {"NCCL_IB_GID_INDEX": "3"}}}))
CASES = {
    # What depends on the nodes being reachable or on the fabric being there is gone with them.
    "one twin down": Case(("spark", "degraded-twin-down"), {"fabric.twin_down"}, gone={"fabric.twin_without_address"}),
    "unequal MTU": Case(("spark", "degraded-mtu"), {"fabric.mtu_mismatch"}),
    "GID drift, nothing pinned": Case(("spark", "degraded-gid"), {"fabric.gid_differs"}),
    "GID drift, index pinned": Case(("spark", "degraded-gid"), {"environment.gid_pinned", "environment.gid_wrong"}, arguments=PINNED),
    "nvidia-smi hangs": Case(("degraded-smi-hangs", "spark"), {"gpu.unreachable"}, head=costs_its_timeout_once),
    "kernel with KHO": Case(("degraded-kho", "spark"), {"kernel.kho_cma"}),
    "half a model": Case(("degraded-half-model", "spark"), {"model.incomplete"}),
    "no cable, hot-plug": Case(("degraded-uncabled", "spark"), {"fabric.no_rail", "node.unreachable"}, gone={"fabric.twin_without_address"}),
}


def lab(*arguments: str) -> str:
    run = subprocess.run(["python3", "molecule/lab/lab.py", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def machines(head: str, worker: str) -> None:
    if current == [head, worker]:
        return
    lab("reset", "--head", head, "--worker", worker)
    current[:] = head, worker
    # A connection that is kept open would go on waiting for the machine that was there before.
    sessions.append(tempfile.mkdtemp(prefix="gb10-"))


def findings(report: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in report["findings"]}


def survey(folder: Path, *arguments: str) -> dict[str, Any]:
    run = play(ENVIRONMENTS[0], "recon.yml", "-e", f"gb10_report_dir={folder}", *arguments, sessions=sessions[-1])
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


@pytest.fixture(scope="module")
def idle_report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    machines("spark", "spark")
    yield survey(tmp_path_factory.mktemp("idle"))
    machines("spark-used", "spark")


@pytest.fixture(scope="module")
def idle(idle_report: dict[str, Any]) -> set[str]:
    return findings(idle_report)


def test_two_idle_sparks_block_nothing(idle_report: dict[str, Any]) -> None:
    assert idle_report["ok"]
    assert {finding["id"] for finding in idle_report["findings"] if finding["severity"] == "warn"} == {"fabric.twin_without_address"}


@pytest.mark.parametrize("name", CASES)
def test_one_fault_is_found_and_no_other(name: str, idle: set[str], tmp_path: Path) -> None:
    case = CASES[name]
    machines(*case.machines)
    report = survey(tmp_path, *case.arguments)
    assert findings(report) - idle == case.found
    assert idle - findings(report) <= case.gone | {"model.missing"}
    remedies = [finding["remedy"] for finding in report["findings"] if finding["id"] in case.found and finding["severity"] != "info"]
    assert all(len(remedy) > 20 for remedy in remedies)
    case.head(report["nodes"]["spark-head"])


def test_a_stale_docker_group_is_told_from_a_missing_one(idle: set[str], tmp_path: Path) -> None:
    machines("degraded-docker-group", "spark")
    missing = survey(tmp_path)
    assert findings(missing) - idle == {"docker.group"}
    # The connection of that run is still open, with the groups of then.
    lab("exec", "spark-head", "--", "gpasswd", "--add", "aurora", "docker")
    stale = survey(tmp_path)
    assert findings(stale) - idle == {"docker.session_stale"}


def test_a_single_spark_needs_no_cable(idle: set[str], tmp_path: Path) -> None:
    machines("degraded-uncabled", "spark")
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        "gb10:\n  hosts:\n    spark-head: {ansible_host: 172.30.180.10}\n  vars:\n    ansible_user: aurora\n"
        "    ansible_ssh_private_key_file: ~/.cache/gb10-cluster/lab/id_ed25519\n"
        "    ansible_ssh_common_args: \"{{ {} | gb10.cluster.ssh_arguments('/dev/null') }}\"\n"
        f"    gb10_recipe: {ROOT}/inventories/lab/recipes/lab-tiny-qwen3.yml\n    gb10_accept: [platform.architecture]\n"
    )
    report = survey(tmp_path, "-i", str(inventory), "-e", '{"gb10_recipe_overrides": {"nodes": 1, "tensor_parallel": 1}}')
    assert not {finding for finding in findings(report) if finding.startswith("fabric.")}
    assert report["ok"]
