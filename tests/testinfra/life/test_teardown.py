"""What is left of a deployment after teardown: the model in the user's cache, the image that was pulled, and nothing else."""

from __future__ import annotations

import pytest
from playing import CONSENT, ENVIRONMENTS, assert_clean, play, recap
from testinfra.host import Host

TRACES = "/etc/gb10 /etc/systemd/system/gb10-* /etc/netplan/60-gb10-* /usr/local/lib/gb10 /var/lib/gb10 /var/log/gb10 /run/gb10 ~/.ssh/gb10_*"


@pytest.fixture(scope="module")
def torn_down() -> str:
    run = play(ENVIRONMENTS[0], "gb10.cluster.teardown", *CONSENT)
    assert run.returncode == 0, run.stdout
    return run.stdout


def test_it_ends_without_a_warning(torn_down: str) -> None:
    assert_clean(torn_down)


@pytest.mark.parametrize("name", ["spark-head", "spark-worker"])
def test_no_trace_of_ours_is_left(torn_down: str, nodes: dict[str, Host], name: str) -> None:
    node = nodes[name]
    # an unquoted glob that matches nothing stays as it is, and ls does not know it
    assert node.run(f"sudo sh -c 'ls -d {TRACES.replace('~', '/home/aurora')}' 2>/dev/null").stdout == ""
    assert node.check_output("docker ps --all --filter label=gb10.deployment --quiet") == ""
    assert node.check_output("docker volume ls --filter name=gb10 --quiet") == ""
    assert node.check_output("cat ~/.ssh/authorized_keys").count("gb10.cluster") == 0
    assert not node.interface("enP2p1s0f1np1").addresses or not any(a.startswith("192.168.201") for a in node.interface("enP2p1s0f1np1").addresses)


def test_what_was_stopped_runs_again(torn_down: str, nodes: dict[str, Host]) -> None:
    running = nodes["spark-head"].check_output("docker ps --format '{{.Names}}'").split()
    assert {"vllm_node", "vllm_embeddings", "reranker"} <= set(running)
    policy = nodes["spark-head"].check_output("docker inspect --format '{{.HostConfig.RestartPolicy.Name}}' vllm_node")
    assert policy == "unless-stopped"


@pytest.mark.parametrize("name", ["spark-head", "spark-worker"])
def test_no_image_of_ours_is_left(torn_down: str, nodes: dict[str, Host], name: str) -> None:
    tags = nodes[name].check_output("docker images --format '{{.Repository}}'").split()
    assert [tag for tag in tags if tag.startswith("gb10/")] == []


def test_the_model_is_kept(torn_down: str, nodes: dict[str, Host]) -> None:
    for node in nodes.values():
        assert node.file("/home/aurora/.cache/huggingface/hub/models--gb10-lab--tiny-qwen3/snapshots").is_directory


def test_a_second_teardown_changes_nothing(torn_down: str) -> None:
    run = play(ENVIRONMENTS[0], "gb10.cluster.teardown", *CONSENT)
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    assert all(count["changed"] == 0 for count in recap(run.stdout).values()), run.stdout
