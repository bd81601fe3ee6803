"""After site.yml: the cluster is what the plan said, both ranks work, and the openai client gets tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import OpenAI
from testinfra.host import Host

RAIL = "enp1s0f1np1"
FABRIC = {"spark-head": "192.168.200.12", "spark-worker": "192.168.200.13"}
COUNT = 'import json, ray; ray.init(address="auto", log_to_driver=False, logging_level="ERROR"); print("NODES", json.dumps(ray.nodes()))'


def docker(node: Host, *arguments: str) -> str:
    return str(node.check_output("docker " + " ".join(["%s"] * len(arguments)), *arguments))


@pytest.fixture(scope="module")
def client(report: dict[str, Any]) -> OpenAI:
    return OpenAI(base_url=report["plan"]["endpoint"]["url"], api_key="none", timeout=120, max_retries=0)


def test_ray_counts_both_ranks_at_their_fabric_addresses(nodes: dict[str, Host]) -> None:
    answer = docker(nodes["spark-head"], "exec", "gb10-ray", "python3", "-c", COUNT)
    alive = [node for node in json.loads(answer.split("NODES ", 1)[1]) if node["Alive"]]
    assert {node["NodeManagerAddress"] for node in alive} == set(FABRIC.values())
    assert sum(node["Resources"].get("GPU", 0) for node in alive) == 2


def test_ray_answers_nobody_without_the_clusters_token(nodes: dict[str, Host]) -> None:
    """Not even from a rank itself: the ports are the host's, the token is root's."""
    ask = f"ray health-check --address {FABRIC['spark-head']}:6379"
    wrong = "echo a-token-of-somebody-elses > /root/wrong; export RAY_AUTH_TOKEN_PATH=/root/wrong"
    answers = {
        how: nodes["spark-worker"].run("docker exec gb10-ray timeout 120 sh -c %s 2>&1", f"{how}; {ask}")
        for how in ("true", "export RAY_AUTH_MODE=disabled", wrong)
    }
    assert answers.pop("true").rc == 0
    for answer in answers.values():
        assert answer.rc == 1
        assert "InvalidAuthToken" in answer.stdout


@pytest.mark.parametrize("name", list(FABRIC))
def test_containers_run_what_the_plan_says(nodes: dict[str, Host], report: dict[str, Any], name: str) -> None:
    for planned in report["plan"]["nodes"][name]["containers"]:
        found = json.loads(docker(nodes[name], "inspect", planned["name"]))[0]
        environment = dict(item.split("=", 1) for item in found["Config"]["Env"])
        assert planned["environment"].items() <= environment.items()
        assert environment["VLLM_HOST_IP"] == FABRIC[name]
        assert found["Config"]["Entrypoint"] + found["Config"]["Cmd"] == planned["entrypoint"] + planned["command"]
        assert found["State"]["Running"]
        assert not found["HostConfig"]["Privileged"]
        assert found["HostConfig"]["RestartPolicy"]["Name"] in ("", "no")


def test_openai_client_sees_the_model_and_gets_tokens(client: OpenAI, report: dict[str, Any]) -> None:
    served = report["plan"]["model"]["served_name"]
    assert served in [model.id for model in client.models.list().data]
    answer = client.chat.completions.create(model=served, messages=[{"role": "user", "content": "Hello"}], max_tokens=64)
    assert answer.usage is not None
    assert 0 < answer.usage.completion_tokens <= 64
    # The lab's model spreads its one sentence over the ranks: without either of them it breaks (molecule/lab/engine/make_model.py).
    assert str(answer.choices[0].message.content).endswith("both ranks took part.")


def test_tokens_cross_the_rail(client: OpenAI, nodes: dict[str, Host], report: dict[str, Any]) -> None:
    def sent() -> dict[str, int]:
        return {name: int(node.check_output(f"cat /sys/class/net/{RAIL}/statistics/tx_bytes")) for name, node in nodes.items()}

    before = sent()
    client.chat.completions.create(model=report["plan"]["model"]["served_name"], messages=[{"role": "user", "content": "Hello"}], max_tokens=64)
    after = sent()
    # 2 layers x 2 all-reduces x 256 values x 4 bytes a token and direction is the least that tensor parallelism must move
    for name in before:
        assert after[name] - before[name] > 64 * 2 * 2 * 256


@pytest.mark.parametrize("name", list(FABRIC))
def test_units_are_active_and_come_back_at_boot(nodes: dict[str, Host], name: str) -> None:
    units = ["gb10-ray.service"] + (["gb10-vllm.service"] if name == "spark-head" else [])
    for unit in units:
        assert nodes[name].check_output(f"systemctl is-active {unit}") == "active"
        assert nodes[name].check_output(f"systemctl is-enabled {unit}") == "enabled"


def test_only_the_container_with_consent_was_stopped_and_is_recorded(nodes: dict[str, Host]) -> None:
    head = nodes["spark-head"]
    running = set(docker(head, "ps", "--format", "{{.Names}}").split())
    assert {"vllm_embeddings", "reranker"} <= running
    assert "vllm_node" not in running
    assert "vllm_node" in docker(head, "ps", "--all", "--format", "{{.Names}}").split(), "it was stopped, never removed"
    assert json.loads(head.check_output("cat /var/lib/gb10/reclaimed/vllm_node.json"))["name"] == "vllm_node"


def test_the_model_is_whole_on_both_ranks_and_the_users_own(nodes: dict[str, Host], report: dict[str, Any]) -> None:
    model = report["plan"]["model"]
    folder = f"/home/aurora/.cache/huggingface/hub/models--{model['repo'].replace('/', '--')}"
    sums = {}
    for name, node in nodes.items():
        snapshot = f"{folder}/snapshots/{model['revision']}"
        sums[name] = node.check_output(f"cd {snapshot} && sha256sum $(ls) | sort")
        assert node.check_output(f"find {folder} ! -user aurora") == ""
    assert sums["spark-head"] == sums["spark-worker"]
    assert ".safetensors" in sums["spark-head"]


def test_no_secret_lies_open(nodes: dict[str, Host]) -> None:
    tokens = set()
    for node in nodes.values():
        for file in ("vllm.env", "ray-token"):
            assert node.check_output("sudo stat --format %%a:%%U /etc/gb10/%s", file) == "600:root"
        tokens.add(token := node.check_output("sudo cat /etc/gb10/ray-token"))
        assert token not in node.check_output("ps -eww -o args; docker inspect $(docker ps -q); docker logs gb10-ray 2>&1")
    assert len(tokens) == 1
    assert len(tokens.pop()) == 64
