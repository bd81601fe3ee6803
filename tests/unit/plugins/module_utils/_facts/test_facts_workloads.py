# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.docker import Held
from ansible_collections.gb10.cluster.plugins.module_utils._facts.gpu import GpuUser
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Outcome, Seen
from ansible_collections.gb10.cluster.plugins.module_utils._facts.workloads import workload_facts
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.docker import Container
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nvidia_smi import GpuProcess
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.process import Process

ID = "a" * 64
GIB = 1024**3


def container(name: str = "vllm_node", image: str = "vllm-node", command: tuple[str, ...] = ("sleep", "infinity"), **labels: str) -> Container:
    return Container(ID, name, image, "sha256:1", "running", True, 100, None, 0, "no", "2026", None, "host", labels, (), (), command)


def seen(
    held: list[Held] | None = None,
    users: list[GpuUser] | None = None,
    processes: tuple[Process, ...] | None = (),
    **statuses: str,
) -> Seen:
    values: dict[str, Any] = {"docker_containers": held, "nvidia_smi_processes": users, "ps": processes}
    return Seen({name: Outcome(statuses.get(name, "ok"), 0.0, value) for name, value in values.items()})


def test_the_cgroup_names_the_container() -> None:
    user = GpuUser(GpuProcess(200, "VLLM::EngineCore", 98 * GIB), (ID,))
    (workload,) = workload_facts(seen([Held(container(), GIB)], [user])) or []
    assert (workload["name"], workload["gpu_memory"], workload["rss"], workload["pids"]) == ("vllm_node", 98 * GIB, GIB, [200])


def test_of_nested_containers_the_one_that_docker_knows() -> None:
    user = GpuUser(GpuProcess(200, "python", GIB), ("b" * 64, ID))
    (workload,) = workload_facts(seen([Held(container(), 0)], [user])) or []
    assert workload["kind"] == "container"


def test_descent_tells_where_the_cgroup_does_not() -> None:
    processes = (Process(200, 150, GIB, "python", ()), Process(150, 100, GIB, "sh", ()), Process(100, 1, GIB, "tini", ()))
    user = GpuUser(GpuProcess(200, "python", 5 * GIB), ())
    (workload,) = workload_facts(seen([Held(container(), None)], [user], processes)) or []
    assert (workload["kind"], workload["gpu_memory"], workload["rss"]) == ("container", 5 * GIB, 3 * GIB)


def test_a_loop_of_parents_ends() -> None:
    processes = (Process(200, 201, GIB, "a", ()), Process(201, 200, GIB, "b", ()))
    workloads = workload_facts(seen([Held(container(), 0)], [], processes)) or []
    assert {workload["name"] for workload in workloads} == {"vllm_node", "a", "b"}


def test_processes_without_a_container() -> None:
    users = [
        GpuUser(GpuProcess(300, "/usr/local/bin/llama-server", 24 * GIB), ()),
        GpuUser(GpuProcess(301, "VLLM::EngineCore", 60 * GIB), ("c" * 64,)),  # of a container that is gone: an orphan
    ]
    processes = (Process(300, 1, GIB, "llama-server", ()), Process(302, 1, 2 * GIB, "rsync", ()), Process(303, 1, 10, "sh", ()))
    workloads = workload_facts(seen([], users, processes)) or []
    assert [(entry["name"], entry["kind"], entry.get("engine"), entry["pids"]) for entry in workloads] == [
        ("VLLM::EngineCore", "process", "vllm", [301]),
        ("llama-server", "process", "llama.cpp", [300]),
        ("rsync", "process", None, [302]),
    ]
    assert "memory" not in workloads[0]  # its rss is not known: 60 GiB would be a guess


def test_memory_is_absent_when_a_part_of_it_is_not_known() -> None:
    user = GpuUser(GpuProcess(200, "python", None), (ID,))
    (workload,) = workload_facts(seen([Held(container(), GIB)], [user])) or []
    assert "gpu_memory" not in workload and "memory" not in workload
    assert workload["rss"] == GIB


def test_nvidia_smi_failed() -> None:
    (workload,) = workload_facts(seen([Held(container(), GIB)], None, nvidia_smi_processes="timeout")) or []
    assert "gpu_memory" not in workload


def test_nobody_could_say() -> None:
    assert workload_facts(seen(None, None, None)) is None
    assert str(Unavailable("x")) == "x"


def test_without_a_gpu_nobody_uses_one() -> None:
    outcomes = dict(seen([Held(container(), GIB)], None).outcomes)
    outcomes["nvidia_smi"] = Outcome("ok", 0.0, ())
    (workload,) = workload_facts(Seen(outcomes)) or []
    assert (workload["gpu_memory"], workload["memory"]) == (0, GIB)


@pytest.mark.parametrize(
    ("name", "image", "command", "engine"),
    [
        ("vllm_node", "vllm-node", ("sleep", "infinity"), "vllm"),
        ("reranker", "vllm/vllm-openai:v0.17.1", ("sh", "-c"), "vllm"),
        ("gb10-ray", "vllm/vllm-openai:v0.27.1", ("ray", "start", "--head"), "ray"),
        ("sglang_node", "lmsysorg/sglang:spark", ("python3",), "sglang"),
        ("trtllm-multinode", "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc5", ("sh", "-c"), "trtllm"),
        ("chat", "ollama/ollama", ("/bin/ollama", "serve"), "ollama"),
        ("x", "ghcr.io/ggml-org/llama.cpp:server-cuda", ("/app/llama-server",), "llama.cpp"),
        ("workbench-proxy", "traefik:v3.6.1", ("traefik",), None),
        ("array-db", "postgres:16", ("postgres",), None),
    ],
)
def test_engines(name: str, image: str, command: tuple[str, ...], engine: str | None) -> None:
    (workload,) = workload_facts(seen([Held(container(name, image, command), 0)], [])) or []
    assert workload.get("engine") == engine


def test_what_we_made_is_managed() -> None:
    (workload,) = workload_facts(seen([Held(container(**{"gb10.deployment": "x"}), 0)], [])) or []
    assert workload["managed"] is True
