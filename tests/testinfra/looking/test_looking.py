"""What a user sees of runs that only look or stop at bad input, with each ansible-core at hand, on what the scenario `site` left in the lab.

Nothing here changes a node, so that two of them may run at once.
"""

from __future__ import annotations

import subprocess
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playing import CONSENT, ENVIRONMENTS, ROOT, assert_clean, fingerprints, play, recap

Look = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module", autouse=True)
def unchanged_nodes() -> Iterator[None]:
    before = fingerprints()
    yield
    assert fingerprints() == before


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """As `play`, with connections and reports of its own: another worker may look at the same time."""
    sessions = tempfile.mkdtemp(prefix="gb10-")
    reports = tmp_path_factory.mktemp("reports")

    def run(environment: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return play(environment, *arguments, "-e", f"gb10_report_dir={reports}", sessions=sessions)

    return run


@pytest.mark.parametrize("playbook", ["recon.yml", "site.yml"])
def test_check_mode_succeeds_without_a_warning(look: Look, environment: str, playbook: str) -> None:
    run = look(environment, playbook, "--check", *CONSENT)
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    assert "gb10-ray" in run.stdout, "the command of each rank is shown"
    assert "VLLM_HOST_IP" in run.stdout, "and its environment"


def test_status_is_one_screen(look: Look, environment: str) -> None:
    run = look(environment, "gb10.cluster.status")
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)


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


def test_unknown_recipe(look: Look, environment: str) -> None:
    run = look(environment, "site.yml", "-e", "gb10_recipe=lab-tiny-qwen")
    assert_one_error(run, "lab-tiny-qwen", "lab-tiny-qwen3", "qwen3.5-122b-a10b-fp8")


def test_worker_that_does_not_answer(look: Look, tmp_path: Path) -> None:
    """With the newest ansible-core alone: waiting for nobody takes its time."""
    run = look(ENVIRONMENTS[-1], "-i", inventory(tmp_path, worker="192.168.200.99"), "site.yml", *CONSENT)
    assert_one_error(run, "node.unreachable", "spark-worker", "Nothing was changed")


def test_jump_host_that_is_not_in_the_inventory(look: Look, tmp_path: Path) -> None:
    run = look(ENVIRONMENTS[-1], "-i", inventory(tmp_path, jump="spark-haed"), "site.yml", *CONSENT)
    assert_one_error(run, "spark-haed", "gb10_jump")


def test_inventory_without_the_group(look: Look, environment: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("sparks: {hosts: {spark-head: {ansible_host: 172.30.180.10}}}\n")
    assert_one_error(look(environment, "-i", str(path), "site.yml"), "gb10_group", str(path))


def test_malformed_inventory(look: Look, environment: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("gb10:\n  hosts: [spark-head\n")
    assert_one_error(look(environment, "-i", str(path), "site.yml"), str(path))


def test_wrong_type_of_a_variable(look: Look, environment: str) -> None:
    assert_one_error(look(environment, "site.yml", "-e", "gb10_api_port=eighty"), "gb10_api_port", "eighty")


def test_secrets_appear_nowhere(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GB10_API_KEY", "sk-test-4f1c9d7e")
    run = look(ENVIRONMENTS[-1], "site.yml", "--check", "-vv", *CONSENT)
    assert "Keep the API key where only root reads it" in run.stdout
    assert "sk-test-4f1c9d7e" not in run.stdout
