"""What a user sees of the playbooks, with each ansible-core at hand, on the deployment that the scenario `site` left in the lab."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from playing import CONSENT, ENVIRONMENTS, ROOT, assert_clean, fingerprints, play, recap


@pytest.fixture(params=ENVIRONMENTS, ids=lambda path: Path(path).name.rsplit("-", 1)[0])
def environment(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def unchanged_nodes() -> Iterator[None]:
    before = fingerprints()
    yield
    assert fingerprints() == before


def test_a_second_run_changes_nothing_and_warns_of_nothing(environment: str) -> None:
    run = play(environment, "site.yml", *CONSENT)
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    counts = recap(run.stdout)
    assert set(counts) >= {"spark-head", "spark-worker"}
    assert all(count["changed"] == 0 and count["failed"] == 0 for count in counts.values()), run.stdout


@pytest.mark.parametrize("playbook", ["recon.yml", "site.yml"])
def test_check_mode_succeeds_without_a_warning(environment: str, playbook: str, unchanged_nodes: None) -> None:
    run = play(environment, playbook, "--check", *CONSENT)
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    assert "gb10-ray" in run.stdout, "the command of each rank is shown"
    assert "VLLM_HOST_IP" in run.stdout, "and its environment"


def test_status_is_one_screen(environment: str) -> None:
    run = play(environment, "gb10.cluster.status")
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)


def test_the_ladder_proves_what_it_can_and_says_what_it_cannot(environment: str, tmp_path: Path, unchanged_nodes: None) -> None:
    run = play(environment, "gb10.cluster.verify", "-e", f"gb10_report_dir={tmp_path}")
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    rungs = json.loads((tmp_path / "report.json").read_text())["results"]["ladder"]["rungs"]
    verdicts = {(rung["name"], rung["verdict"]) for rung in rungs}
    assert {("ping", "pass"), ("link", "pass")} <= verdicts
    # There is no RDMA and no GPU in the lab: that is said, and nothing of it passes.
    assert {verdict for name, verdict in verdicts if name not in ("ping", "link")} == {"skipped"}
    assert all(rung["observed"] and rung["expected"] for rung in rungs)
    assert "The fabric, from the wire upwards" in run.stdout


BROKEN_STEP = """
- hosts: spark-head
  gather_facts: false
  vars:
    __verify_step: {id: broken, nodes: {spark-head: {test: no_such_test}}}
    __verify_measured: {}
  tasks:
    - ansible.builtin.include_role: {name: gb10.cluster.verify, tasks_from: ladder_step}
    - ansible.builtin.assert: {that: __verify_measured.broken.failed}
"""


def test_a_rung_that_breaks_is_handed_to_the_ladder_as_a_failure(environment: str, tmp_path: Path) -> None:
    playbook = tmp_path / "broken.yml"
    playbook.write_text(BROKEN_STEP)
    run = play(environment, str(playbook))
    assert run.returncode == 0, run.stdout


JUMP = "ansible_ssh_common_args: \"{{ (hostvars[gb10_jump] if gb10_jump is defined else {}) | gb10.cluster.ssh_arguments('/dev/null') }}\""
INVENTORY = f"""
gb10:
  hosts:
    spark-head: {{ansible_host: 172.30.180.10}}
    spark-worker: {{ansible_host: WORKER, gb10_jump: JUMP}}
  vars:
    ansible_user: aurora
    ansible_ssh_private_key_file: ~/.cache/gb10-cluster/lab/id_ed25519
    {JUMP}
    gb10_recipe: {ROOT}/inventories/lab/recipes/lab-tiny-qwen3.yml
    gb10_accept: [platform.architecture]
"""


def inventory(folder: Path, worker: str = "192.168.200.13", jump: str = "spark-head") -> str:
    path = folder / "hosts.yml"
    path.write_text(textwrap.dedent(INVENTORY).replace("WORKER", worker).replace("JUMP", jump))
    return str(path)


def assert_one_error(run: subprocess.CompletedProcess[str], *words: str) -> None:
    assert run.returncode != 0, run.stdout
    assert run.stdout.count("\nfatal: ") + run.stdout.count("[ERROR]: ") <= 2, run.stdout
    assert "Traceback" not in run.stdout, run.stdout
    assert not any(count["changed"] for count in recap(run.stdout).values())
    for word in words:
        assert word in run.stdout, f"{word!r} is missing in:\n{run.stdout}"


def test_unknown_recipe(environment: str, unchanged_nodes: None) -> None:
    run = play(environment, "site.yml", "-e", "gb10_recipe=lab-tiny-qwen")
    assert_one_error(run, "lab-tiny-qwen", "lab-tiny-qwen3", "qwen3.5-122b-a10b-fp8")


def test_worker_that_does_not_answer(tmp_path: Path, unchanged_nodes: None) -> None:
    """With the newest ansible-core alone: waiting for nobody takes its time."""
    run = play(ENVIRONMENTS[-1], "-i", inventory(tmp_path, worker="192.168.200.99"), "site.yml", *CONSENT)
    assert_one_error(run, "node.unreachable", "spark-worker", "Nothing was changed")


def test_jump_host_that_is_not_in_the_inventory(environment: str, tmp_path: Path, unchanged_nodes: None) -> None:
    run = play(environment, "-i", inventory(tmp_path, jump="spark-haed"), "site.yml", *CONSENT)
    assert_one_error(run, "spark-haed", "gb10_jump")


def test_inventory_without_the_group(environment: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("sparks: {hosts: {spark-head: {ansible_host: 172.30.180.10}}}\n")
    assert_one_error(play(environment, "-i", str(path), "site.yml"), "gb10_group", str(path))


def test_malformed_inventory(environment: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("gb10:\n  hosts: [spark-head\n")
    assert_one_error(play(environment, "-i", str(path), "site.yml"), str(path))


def test_wrong_type_of_a_variable(environment: str, unchanged_nodes: None) -> None:
    assert_one_error(play(environment, "site.yml", "-e", "gb10_api_port=eighty"), "gb10_api_port", "eighty")


def test_secrets_appear_nowhere(environment: str) -> None:
    """With a key in the environment that is not the endpoint's the run fails, and says so without saying the key."""
    os.environ["GB10_API_KEY"] = "sk-test-4f1c9d7e"
    try:
        run = play(environment, "site.yml", "--check", "-vv", *CONSENT)
    finally:
        del os.environ["GB10_API_KEY"]
    assert "sk-test-4f1c9d7e" not in run.stdout
