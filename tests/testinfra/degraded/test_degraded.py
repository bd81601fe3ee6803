"""Machines with one fault each (molecule/lab/profiles/degraded-*): recon finds that fault, and no other."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playing import ENVIRONMENTS, ROOT, assert_clean, play

SESSIONS: list[str] = []
IDLE = ("spark", "spark")
# Head, worker, further arguments, the findings that two idle Sparks do not have.
CASES = {
    "one twin down": (("spark", "degraded-twin-down"), [], {"fabric.twin_down"}),
    "unequal MTU": (("spark", "degraded-mtu"), [], {"fabric.mtu_mismatch"}),
    "GID drift, nothing pinned": (("spark", "degraded-gid"), [], {"fabric.gid_differs"}),
    "GID drift, index pinned": (
        ("spark", "degraded-gid"),
        ["-e", json.dumps({"gb10_recipe_overrides": {"environment": {"NCCL_IB_GID_INDEX": "3"}}})],
        {"environment.gid_pinned", "environment.gid_wrong"},
    ),
    "nvidia-smi hangs": (("degraded-smi-hangs", "spark"), [], {"gpu.unreachable"}),
    "kernel with KHO": (("degraded-kho", "spark"), [], {"kernel.kho_cma"}),
    "half a model": (("degraded-half-model", "spark"), [], {"model.incomplete"}),
    "no cable, hot-plug": (("degraded-uncabled", "spark"), [], {"fabric.no_rail", "node.unreachable"}),
}
# What depends on the nodes being reachable or on the fabric being there, and is gone with them.
GONE = {"no cable, hot-plug": {"fabric.twin_without_address"}, "one twin down": {"fabric.twin_without_address"}}


def lab(*arguments: str) -> str:
    run = subprocess.run(["python3", "molecule/lab/lab.py", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def machines(head: str, worker: str) -> None:
    lab("reset", "--head", head, "--worker", worker)
    # A connection that is kept open would go on waiting for the machine that was there before.
    SESSIONS.append(tempfile.mkdtemp(prefix="gb10-"))


def findings(report: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in report["findings"]}


def survey(folder: Path, *arguments: str) -> dict[str, Any]:
    run = play(ENVIRONMENTS[0], "recon.yml", "-e", f"gb10_report_dir={folder}", *arguments, sessions=SESSIONS[-1])
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    machines(*IDLE)
    yield findings(survey(tmp_path_factory.mktemp("idle")))
    machines("spark-used", "spark")


def test_two_idle_sparks_block_nothing(idle: set[str], tmp_path: Path) -> None:
    report = survey(tmp_path)
    assert report["ok"]
    assert {finding["id"] for finding in report["findings"] if finding["severity"] == "warn"} == {"fabric.twin_without_address"}


@pytest.mark.parametrize("case", CASES)
def test_one_fault_is_found_and_no_other(case: str, idle: set[str], tmp_path: Path) -> None:
    profiles, arguments, expected = CASES[case]
    machines(*profiles)
    report = survey(tmp_path, *arguments)
    assert findings(report) - idle == expected
    assert idle - findings(report) <= GONE.get(case, set()) | {"model.missing"}
    remedies = [finding["remedy"] for finding in report["findings"] if finding["id"] in expected and finding["severity"] != "info"]
    assert all(len(remedy) > 20 for remedy in remedies)


def test_a_hung_nvidia_smi_costs_its_timeout_once(idle: set[str], tmp_path: Path) -> None:
    machines("degraded-smi-hangs", "spark")
    report = survey(tmp_path)
    head = report["nodes"]["spark-head"]
    assert {name for name, probe in head["unread"].items() if probe["status"] == "timeout"} >= {"nvidia_smi"}
    assert head["seconds"] < 2 * 10, "the bound of one probe, not one after the other"
    assert head["memory"]["total"] > 119 * 1024**3, "everything else is known"


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
