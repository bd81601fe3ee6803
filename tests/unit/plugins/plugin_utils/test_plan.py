# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: ranks, environments, containers, image and model, for 1, 2, 3, 4 and 8 nodes."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan import make_plan, read_settings
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan.containers import spec_hash
from ansible_collections.gb10.cluster.plugins.plugin_utils._recipes import load_recipe
from builders import CACHE, GIB, HEAD, WORKER, Facts, Plan, cabled, container, ids, plan, row, spark, twin, used_head, worker, workload
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = {"schema", "ok", "recipe", "backend", "ranks", "head", "world_size", "endpoint", "model", "image", "topology", "trust"}
KEYS |= {"nodes", "findings"}
NODE_KEYS = {"rank", "reachable", "management_address", "fabric_address", "rails", "memory", "image", "model"}
NODE_KEYS |= {"reclaim", "environment", "containers", "obsolete", "ssh", "firewall", "wires"}
CONTAINER_KEYS = {"name", "role", "image", "entrypoint", "command", "environment", "labels", "volumes", "devices", "capabilities", "ulimits"}
CONTAINER_KEYS |= {"shm_size", "ipc_mode", "pid_mode", "network_mode", "gpus", "action"}
REVISION = "a099dee70ccfcd8d5dda56aaa0b60cb8ecadabc9"


def containers(made: Plan, node: str) -> dict[str, Any]:
    """A node's containers by their names."""
    return {entry["name"]: entry for entry in made["nodes"][node]["containers"]}


def option(command: list[str], name: str) -> str:
    """The value of an option of a command."""
    return command[command.index(name) + 1]


def as_running(facts: dict[str, Facts | None], made: Plan) -> dict[str, Facts | None]:
    """The facts after the plan was made true: its containers run and hold memory, image and model are there."""
    after = deepcopy(facts)
    for name, node in made["nodes"].items():
        fact = after[name]
        assert fact is not None
        fact["docker"]["images"] = [{"id": "sha256:1", "tags": [made["image"]["run"]], "digests": [], "size": 1}]
        repository = {"repo": made["model"]["repo"], "revisions": [{"revision": made["model"]["revision"], "complete": True, "size": 1}]}
        fact["models"]["repositories"] = [repository]
        for rail in node["rails"]:
            for entry in fact["fabric"]["ports"]:
                if entry["netdev"] == rail["netdev"]:
                    entry.update(mtu=rail["mtu"], addresses=[{"address": rail["address"], "prefix": rail["prefix"], "scope": "global"}])
        for planned in node["containers"]:
            fact["docker"]["containers"].append(container(planned["name"], labels=planned["labels"], image=planned["image"]))
        fact["workloads"].append(workload("gb10-ray", 100 * GIB, managed=True))
        fact["memory"]["available"] -= 100 * GIB
    head = after[made["head"]]
    assert head is not None
    head["services"]["listening"] += [{"address": made["endpoint"]["host"], "port": 8000}, {"address": "0.0.0.0", "port": 6379}]
    return after


def test_the_shape_is_the_contracts() -> None:
    made = plan(twin())
    assert set(made) == KEYS
    for node in made["nodes"].values():
        assert set(node) == NODE_KEYS
        for entry in node["containers"]:
            assert set(entry) == CONTAINER_KEYS
    assert set(made["findings"][0]) == {"id", "severity", "nodes", "observed", "expected", "remedy", "evidence", "source", "accepted"}
    assert made["schema"] == 1
    assert made["ok"]


def test_two_nodes_with_ray() -> None:
    made = plan(twin())
    assert (made["ranks"], made["head"], made["world_size"], made["backend"]) == ([HEAD, WORKER], HEAD, 2, "ray")
    assert made["endpoint"] == {"host": "192.0.2.10", "port": 8000, "url": "http://192.0.2.10:8000/v1", "api_key": False}
    head, rank1 = containers(made, HEAD), containers(made, WORKER)
    assert set(head) == {"gb10-ray", "gb10-vllm"}
    assert set(rank1) == {"gb10-ray"}
    ray, server = head["gb10-ray"], head["gb10-vllm"]
    assert ray["command"][:2] == ["start", "--head"]
    assert {"--node-ip-address=192.168.200.12", "--port=6379", "--num-gpus=1", "--include-dashboard=false", "--block"} <= set(ray["command"])
    assert {"--address=192.168.200.12:6379", "--node-ip-address=192.168.200.13"} <= set(rank1["gb10-ray"]["command"])
    assert "--head" not in rank1["gb10-ray"]["command"]
    assert server["command"][:2] == ["serve", "Qwen/Qwen3.5-122B-A10B-FP8"]
    assert option(server["command"], "--revision") == REVISION
    assert option(server["command"], "--distributed-executor-backend") == "ray"
    assert option(server["command"], "--tensor-parallel-size") == "2"
    assert option(server["command"], "--host") == "192.0.2.10"
    assert (server["pid_mode"], server["ipc_mode"], server["shm_size"]) == ("container:gb10-ray", "container:gb10-ray", None)
    assert (ray["ipc_mode"], ray["shm_size"]) == ("shareable", "16g")
    for entry in (ray, server, rank1["gb10-ray"]):
        assert entry["volumes"] == [
            "gb10-tmp:/tmp",
            "/etc/gb10/ray-token:/run/gb10/ray-token:ro",
            f"{CACHE}/hub:/root/.cache/huggingface/hub:ro",
            "gb10-cache:/root/.cache/vllm",
        ]
        assert entry["environment"]["RAY_AUTH_MODE"] == "token"
        assert entry["environment"]["RAY_AUTH_TOKEN_PATH"] == "/run/gb10/ray-token"
        assert entry["network_mode"] == "host"
        assert entry["gpus"] is True
    assert ray["devices"] == [f"/dev/infiniband/{name}:/dev/infiniband/{name}" for name in ("rdma_cm", "uverbs0", "uverbs1")]
    assert ray["capabilities"] == ["IPC_LOCK"]
    assert ray["ulimits"] == ["memlock:-1:-1"]
    assert server["devices"] == server["capabilities"] == server["ulimits"] == []


def test_the_environment_of_each_rank_is_its_own() -> None:
    # The worker's cable is in its first cage: other names, the same rails.
    facts = {HEAD: spark(), WORKER: worker(fabric={**spark()["fabric"], "ports": cabled(13, cage=0)})}
    made = plan(facts)
    first, second = (made["nodes"][name]["environment"] for name in (HEAD, WORKER))
    assert first["NCCL_IB_HCA"] == "=rocep1s0f1,roceP2p1s0f1"
    assert second["NCCL_IB_HCA"] == "=rocep1s0f0,roceP2p1s0f0"
    for environment, netdev, address in ((first, "enp1s0f1np1", "192.168.200.12"), (second, "enp1s0f0np0", "192.168.200.13")):
        assert {environment[name] for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")} == {netdev}
        assert environment["VLLM_HOST_IP"] == address
        assert environment["NCCL_NET"] == "IB"
        assert environment["RAY_memory_monitor_refresh_ms"] == "0"
        assert environment["HF_HUB_OFFLINE"] == "1"
        assert environment["VLLM_ENGINE_READY_TIMEOUT_S"] == "1800"
        assert "NCCL_IB_GID_INDEX" not in environment
        assert all(environment.values())
    assert containers(made, WORKER)["gb10-ray"]["environment"] == second
    server = containers(made, HEAD)["gb10-vllm"]["environment"]
    assert not [name for name in server if name.startswith(("NCCL_", "GLOO_", "TP_", "UCX_"))]
    assert server["RAY_ADDRESS"] == "192.168.200.12:6379"
    assert server["VLLM_HOST_IP"] == "192.168.200.12"


def test_the_recipes_environment_wins() -> None:
    made = plan(twin(), {"environment": {"NCCL_DEBUG": "INFO", "VLLM_NO_USAGE_STATS": 0}})
    assert made["nodes"][WORKER]["environment"]["NCCL_DEBUG"] == "INFO"
    assert made["nodes"][WORKER]["environment"]["VLLM_NO_USAGE_STATS"] == "0"


def test_two_nodes_without_ray() -> None:
    made = plan(twin(), backend="mp")
    head, rank1 = (containers(made, name)["gb10-vllm"] for name in (HEAD, WORKER))
    for entry, rank in ((head, "0"), (rank1, "1")):
        command = entry["command"]
        assert option(command, "--nnodes") == "2"
        assert option(command, "--node-rank") == rank
        assert option(command, "--master-addr") == "192.168.200.12"
        assert option(command, "--master-port") == "29501"
        assert not [name for name in entry["environment"] if name.upper().startswith("RAY_")]
        assert entry["environment"]["NCCL_NET"] == "IB"
        assert entry["devices"]
        assert (entry["ipc_mode"], entry["pid_mode"]) == (None, None)
    assert "--headless" in rank1["command"]
    assert "--headless" not in head["command"]
    assert "--host" not in rank1["command"]
    engine = [command["command"][command["command"].index("--gpu-memory-utilization") :] for command in (head, rank1)]
    assert engine[0] == engine[1]
    assert made["image"]["derive"] is False
    assert made["image"]["run"].startswith("gb10/qwen3.5-122b-a10b-fp8:")


def test_a_single_node_needs_neither_ray_nor_fabric() -> None:
    made = plan({HEAD: spark()}, {"nodes": 1, "tensor_parallel": 1, "model": {"size": 60 * 10**9}})
    assert (made["backend"], made["ok"]) == ("mp", True)
    assert list(containers(made, HEAD)) == ["gb10-vllm"]
    entry = containers(made, HEAD)["gb10-vllm"]
    assert not {"--nnodes", "--distributed-executor-backend", "--headless"} & set(entry["command"])
    assert made["nodes"][HEAD]["fabric_address"] is None
    assert made["nodes"][HEAD]["rails"] == []
    assert not [name for name in entry["environment"] if name.startswith(("NCCL_", "GLOO_", "RAY_", "VLLM_HOST"))]
    assert entry["devices"] == []
    assert made["image"]["derive"] is False


@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize("backend", ["ray", "mp"])
def test_more_nodes(count: int, backend: str) -> None:
    made = plan(row(count), {"nodes": count, "tensor_parallel": count}, backend=backend)
    assert made["ok"]
    assert made["world_size"] == count
    assert [node["rank"] for node in made["nodes"].values()] == list(range(count))
    assert len({node["fabric_address"] for node in made["nodes"].values()}) == count
    assert len([entry for node in made["nodes"].values() for entry in node["containers"]]) == count + (backend == "ray")
    assert {node["image"]["action"] for node in made["nodes"].values()} == {"pull+derive" if backend == "ray" else "pull", "copy"}
    assert [node["model"]["action"] for node in made["nodes"].values()] == ["download"] + ["copy"] * (count - 1)


@pytest.mark.parametrize(
    ("image", "held", "action"),
    [
        ({"reference": "engine", "digest": None, "ray": "included"}, {"tags": ["engine:latest"]}, "none"),
        ({"reference": "a.example:5000/engine", "digest": None, "ray": "included"}, {"tags": ["a.example:5000/engine:latest"]}, "none"),
        ({"reference": "engine:1", "digest": None, "ray": "included"}, {"tags": ["engine:latest"]}, "pull"),
        ({"reference": "engine:1", "digest": None}, {"tags": ["engine:1"]}, "derive"),
        ({}, {"digests": ["mirror/engine@sha256:0a51ea5b4ae2dc5d81890e5173f54203d2a3ae0cfffe51b8fd2afd4391bfd967"]}, "derive"),
        ({}, {"tags": ["vllm/vllm-openai:v0.27.1"]}, "pull+derive"),
    ],
)
def test_which_image_counts_as_had(image: Facts, held: Facts, action: str) -> None:
    facts = twin()
    facts[HEAD]["docker"]["images"] = [{"id": "sha256:1", **held}]  # type: ignore[index]
    made = plan(facts, {"image": image})
    assert made["nodes"][HEAD]["image"]["action"] == action
    assert made["nodes"][WORKER]["image"]["action"] == "copy"


def test_the_image_of_the_head_replaces_another_of_the_same_name() -> None:
    run = plan(twin())["image"]["run"]
    facts = twin()
    for name, id_ in ((HEAD, "a"), (WORKER, "b")):
        facts[name]["docker"]["images"] = [{"id": id_, "tags": [run], "layers": id_}]  # type: ignore[index]
    made = plan(facts)
    assert [made["nodes"][name]["image"]["action"] for name in (HEAD, WORKER)] == ["none", "copy"]
    facts[HEAD]["docker"]["images"] = []  # type: ignore[index]
    assert plan(facts)["nodes"][WORKER]["image"]["action"] == "copy"


def test_pipeline_parallel() -> None:
    made = plan(row(4), {"nodes": 4, "tensor_parallel": 2, "pipeline_parallel": 2})
    command = containers(made, "spark-0")["gb10-vllm"]["command"]
    assert (option(command, "--tensor-parallel-size"), option(command, "--pipeline-parallel-size")) == ("2", "2")


@pytest.mark.parametrize("backend", ["ray", "mp"])
@pytest.mark.parametrize("consent", [[], ["network"]])
def test_the_second_run_changes_nothing(backend: str, consent: list[str]) -> None:
    facts = twin()
    if consent:
        for fact in facts.values():
            assert fact is not None
            # The first twin has no address, and gets one: it is rail 0 in this run already, or the next would change things.
            fact["fabric"]["ports"][0]["addresses"] = []
        facts[WORKER]["fabric"]["ssh"]["interface"] = "enP2p1s0f1np1"  # type: ignore[index]
    first = plan(facts, backend=backend, consent=consent)
    assert first["ok"]
    after = as_running(facts, first)
    if backend == "mp":
        after[HEAD]["services"]["listening"][-1]["port"] = 29501  # type: ignore[index]
    second = plan(after, backend=backend, consent=consent)
    assert second["ok"], second["findings"]
    assert ids(second) == ["api.no_key"]
    for node in second["nodes"].values():
        assert (node["image"]["action"], node["model"]["action"], node["obsolete"], node["reclaim"]) == ("none", "none", [], [])
        assert {entry["action"] for entry in node["containers"]} == {"keep"}
        assert {rail["action"] for rail in node["rails"]} == {"adopt"}


def test_a_change_replaces_the_whole_gang() -> None:
    after = as_running(twin(), plan(twin()))
    made = plan(after, {"environment": {"X": "1"}})
    assert {entry["action"] for node in made["nodes"].values() for entry in node["containers"]} == {"replace"}
    stopped = deepcopy(after)
    stopped[WORKER]["docker"]["containers"][0]["running"] = False  # type: ignore[index]
    assert {entry["action"] for node in plan(stopped)["nodes"].values() for entry in node["containers"]} == {"replace"}
    gone = deepcopy(after)
    gone[WORKER]["docker"]["containers"] = []  # type: ignore[index]
    made = plan(gone)
    assert [entry["action"] for node in made["nodes"].values() for entry in node["containers"]] == ["replace", "replace", "create"]


def test_containers_that_the_plan_no_longer_has_are_named() -> None:
    after = as_running(twin(), plan(twin()))
    made = plan(after, backend="mp")
    assert {name: node["obsolete"] for name, node in made["nodes"].items()} == {HEAD: ["gb10-ray"], WORKER: ["gb10-ray"]}


def test_the_hash_is_over_all_but_the_action() -> None:
    entry = containers(plan(twin()), HEAD)["gb10-ray"]
    assert entry["labels"]["gb10.spec"] == spec_hash(entry)
    assert spec_hash({**entry, "action": "replace"}) == spec_hash(entry)
    assert spec_hash(dict(reversed(entry.items()))) == spec_hash(entry)
    for key, value in (("image", "other"), ("shm_size", "1g"), ("labels", {**entry["labels"], "gb10.rank": "7"})):
        assert spec_hash({**entry, key: value}) != spec_hash(entry)
    assert entry["labels"] == {
        "gb10.deployment": "qwen3.5-122b-a10b-fp8",
        "gb10.role": "ray",
        "gb10.rank": "0",
        "gb10.ports": "6379",
        "gb10.spec": spec_hash(entry),
    }


def test_managed_memory_counts_as_free_and_is_never_reclaimed() -> None:
    facts = {HEAD: spark(), WORKER: worker()}
    facts[HEAD]["docker"]["containers"] = [container("gb10-ray", labels={"gb10.deployment": "x"}), container("other")]
    facts[HEAD]["workloads"] = [workload("gb10-ray", 90 * GIB, managed=True), workload("other", 8 * GIB)]
    facts[HEAD]["memory"]["available"] = 15 * GIB
    made = plan(facts, reclaim=["gb10-ray", "other"])
    assert made["nodes"][HEAD]["reclaim"] == ["other"]
    memory = made["nodes"][HEAD]["memory"]
    assert (memory["managed"], memory["reclaimed"], memory["fits"]) == (90 * GIB, 8 * GIB, True)


def test_an_unreachable_node_leaves_a_plan_for_the_others() -> None:
    made = plan({HEAD: spark(), WORKER: None})
    assert not made["ok"]
    assert made["ranks"] == [HEAD, WORKER]
    assert made["nodes"][WORKER]["reachable"] is False
    assert made["nodes"][WORKER]["containers"] == []
    assert made["nodes"][WORKER]["memory"]["fits"] is None
    assert list(containers(made, HEAD)) == ["gb10-ray", "gb10-vllm"]
    headless = plan({HEAD: None, WORKER: worker()})
    assert headless["nodes"][WORKER]["containers"] == []
    assert headless["endpoint"]["host"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({}, ("192.0.2.10", 8000, "http://192.0.2.10:8000/v1")),
        ({"api_host": "0.0.0.0", "api_port": "9000"}, ("0.0.0.0", 9000, "http://192.0.2.10:9000/v1")),
        ({"api_host": "127.0.0.1"}, ("127.0.0.1", 8000, "http://127.0.0.1:8000/v1")),
        ({"api_host": "2001:db8::1"}, ("2001:db8::1", 8000, "http://[2001:db8::1]:8000/v1")),
    ],
)
def test_the_endpoint(variables: dict[str, Any], endpoint: tuple[str, int, str]) -> None:
    made = plan(twin(), **variables)["endpoint"]
    assert (made["host"], made["port"], made["url"]) == endpoint


def test_without_a_session_the_default_routes_address_is_the_management_address() -> None:
    facts = twin()
    del facts[HEAD]["fabric"]["ssh"]  # type: ignore[index]
    assert plan(facts)["nodes"][HEAD]["management_address"] == "192.0.2.10"


def test_a_plan_needs_a_host() -> None:
    recipe = load_recipe("qwen3.5-122b-a10b-fp8", [])
    with pytest.raises(ValueError, match="at least one host"):
        make_plan({}, recipe, read_settings({}, recipe))


def test_the_variables_of_the_user_reach_the_containers() -> None:
    made = plan(twin(), ulimits=[])
    assert containers(made, WORKER)["gb10-ray"]["ulimits"] == []


def test_the_key_of_the_api_is_not_in_the_plan() -> None:
    made = plan(twin(), api_key="s3cr3t")
    assert made["endpoint"]["api_key"] is True
    assert "s3cr3t" not in json.dumps(made)


@given(st.permutations(["a", "b", "c"]), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_same_input_same_bytes(names: list[str], count: int) -> None:
    hosts = names[:count]
    facts = {host: spark(20 + i, f"192.0.2.{20 + i}") for i, host in enumerate(sorted(hosts))}
    ordered = {host: facts[host] for host in hosts}
    overrides = {"nodes": count, "tensor_parallel": count}
    before = json.dumps(ordered)
    first, second = (json.dumps(plan(deepcopy(ordered), overrides)) for _ in range(2))
    assert first == second
    assert json.loads(first)["ranks"] == hosts
    plan(ordered, overrides)
    assert json.dumps(ordered) == before


@given(st.dictionaries(st.sampled_from(sorted(spark())), st.just(None), max_size=6))
@settings(max_examples=60, deadline=None)
def test_whatever_is_missing_is_said_and_never_fatal(missing: dict[str, None]) -> None:
    facts = {HEAD: used_head(), WORKER: worker()}
    for key in missing:
        del facts[HEAD][key]
    made = plan(facts)
    json.dumps(made)
    if {"memory", "gpu", "fabric", "docker", "kernel", "models", "disk", "services", "python"} & set(missing):
        assert "node.facts_incomplete" in ids(made, "block")


def test_the_head_reaches_the_other_ranks_over_the_fabric_and_checks_their_keys() -> None:
    made = plan(twin())
    head, worker = (made["nodes"][name] for name in made["ranks"])
    assert head["ssh"] is None
    assert worker["ssh"]["destination"].endswith("@" + worker["fabric_address"])
    assert made["trust"]["key"] in worker["ssh"]["command"]
    assert f"UserKnownHostsFile={made['trust']['known_hosts']}" in worker["ssh"]["command"]
    assert {"StrictHostKeyChecking=yes", "Ciphers=^aes128-gcm@openssh.com"} <= set(worker["ssh"]["command"])
