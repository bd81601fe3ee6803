"""From Ray to vLLM's own multi-node backend, a variable away, and from there to an image that gets its Ray on the head."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import AuthenticationError, OpenAI
from playing import CONSENT, ENVIRONMENTS, ROOT, assert_clean, play, recap
from testinfra.host import Host

MP = [*CONSENT, "-e", "gb10_backend=mp"]
KEY = "sk-test-2b8e6c0a91"
QUESTION: Any = [{"role": "user", "content": "Hello"}]


def client(key: str = KEY) -> OpenAI:
    return OpenAI(base_url="http://172.30.180.10:8000/v1", api_key=key, timeout=120, max_retries=0)


@pytest.fixture(scope="module")
def first_run() -> Iterator[str]:
    """With a key for the API, as its owner sets one, from here to the end."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GB10_API_KEY", KEY)
        run = play(ENVIRONMENTS[0], "site.yml", *MP)
        assert run.returncode == 0, run.stdout
        yield run.stdout


def test_the_switch_succeeds_without_a_warning(first_run: str) -> None:
    assert_clean(first_run)


def test_each_rank_runs_vllm_and_none_runs_ray(first_run: str, nodes: dict[str, Host]) -> None:
    for node in nodes.values():
        names = node.check_output("docker ps --all --filter label=gb10.deployment --format '{{.Names}}'").split()
        assert names == ["gb10-vllm"]
        assert not node.file("/etc/systemd/system/gb10-ray.service").exists
        assert node.check_output("systemctl is-active gb10-vllm.service") == "active"


def test_both_ranks_answer_together(first_run: str) -> None:
    answer = client().chat.completions.create(model="tiny-qwen3", messages=QUESTION, max_tokens=64)
    assert str(answer.choices[0].message.content).endswith("both ranks took part.")


def test_nobody_is_answered_without_the_key(first_run: str) -> None:
    for key in ("none", KEY[:-1]):
        with pytest.raises(AuthenticationError):
            client(key).models.list()


def test_the_key_is_in_no_output_argument_log_or_report(first_run: str, nodes: dict[str, Host]) -> None:
    reports = [path for path in (ROOT / "reports").rglob("*") if path.is_file()]
    assert reports
    assert KEY not in first_run
    assert not [path for path in reports if KEY.encode() in path.read_bytes()]
    for node in nodes.values():
        assert KEY not in node.check_output("ps -eww -o args; docker logs gb10-vllm 2>&1; sudo journalctl --boot --no-pager")
        assert node.check_output("sudo stat --format %a:%U /etc/gb10/vllm.env") == "600:root"


def test_a_second_run_changes_nothing(first_run: str) -> None:
    run = play(ENVIRONMENTS[0], "site.yml", *MP)
    assert run.returncode == 0, run.stdout
    assert all(count["changed"] == 0 for count in recap(run.stdout).values()), run.stdout


# ---- and back to Ray, from an image that has none: as published images are of late ----------------------------------------------------

PLAIN = {"image": {"reference": "172.30.180.2:5000/gb10-lab/engine:0.32.0", "ray": "derive", "ray_version": "2.58.0"}}
DERIVED = [*CONSENT, "-e", json.dumps({"gb10_recipe_overrides": PLAIN})]


@pytest.fixture(scope="module")
def derived_run(first_run: str) -> Iterator[str]:
    run = play(ENVIRONMENTS[0], "site.yml", *DERIVED)
    assert run.returncode == 0, run.stdout
    yield run.stdout


def test_an_image_with_ray_is_derived_on_the_head_and_sent(derived_run: str, nodes: dict[str, Host]) -> None:
    assert_clean(derived_run)
    images = {node.check_output("docker ps --filter label=gb10.deployment --format '{{.Image}}'") for node in nodes.values()}
    used = {name for listed in images for name in listed.split()}
    assert len(used) == 1, images
    assert used.pop().startswith("gb10/lab-tiny-qwen3-ray:")
    ids = {node.check_output("docker inspect -f '{{.Image}}' gb10-ray") for node in nodes.values()}
    assert len(ids) == 1, "the worker has the head's image"


def test_the_derived_image_serves(derived_run: str) -> None:
    answer = client().chat.completions.create(model="tiny-qwen3", messages=QUESTION, max_tokens=64)
    assert str(answer.choices[0].message.content).endswith("both ranks took part.")
