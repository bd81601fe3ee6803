# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recipe asks for, and the environment variables of the recipe and of containers that run."""

from __future__ import annotations

from typing import Any

from healthy import HCAS, RAILS, address, container, containers, gids
from replay import GIB, Facts, answers, unrecorded
from stories import SINGLE, Story, fires, quiet

SHIPPED = ["--max-model-len", "262144", "--gpu-memory-utilization", "0.8", "--max-num-batched-tokens", "8192"]
PINNED = {"NCCL_IB_GID_INDEX": "3"}
#: One address more before the rail's own: the index moves.
MOVED = gids(HCAS[0], "192.168.200.12", first=4)


def sets(**environment: Any) -> Facts:
    """The recipe adds these variables."""
    return {"environment": environment}


def asks(*arguments: str, **more: Any) -> Facts:
    """The recipe has these engine arguments."""
    return {"engine_arguments": list(arguments), **more}


def runs(*env: str, running: bool = True) -> Any:
    """A container of somebody else has these variables."""
    return containers(container(env=env, running=running))


ENVIRONMENT: list[Story] = [
    fires("environment.empty", "sets NCCL_IB_GID_INDEX to empty text", overrides=sets(NCCL_IB_GID_INDEX="")),
    quiet("environment.empty", overrides=sets(VLLM_LOGGING_PREFIX="")),
    quiet("environment.empty", overrides={**SINGLE, **sets(NCCL_IB_GID_INDEX="")}, alone=True),
    fires("environment.gid_wrong", "NCCL_IB_GID_INDEX to 3, which on rocep1s0f1 of spark-head is not the RoCE v2", MOVED, overrides=sets(**PINNED)),
    # Another address came first: index 3 is one of IPv4 as well, but not the rail's.
    fires("environment.gid_wrong", "on rocep1s0f1 of spark-head", gids(HCAS[0], "169.254.77.3", "192.168.200.12"), overrides=sets(**PINNED)),
    fires("environment.gid_wrong", "to 2, which on rocep1s0f1 and roceP2p1s0f1 of", overrides=sets(NCCL_IB_GID_INDEX=2)),
    quiet("environment.gid_wrong", overrides=sets(**PINNED)),
    quiet("environment.gid_wrong", MOVED),
    # NCCL uses another HCA only.
    quiet("environment.gid_wrong", MOVED, overrides=sets(NCCL_IB_HCA="=roceP2p1s0f1:1", **PINNED)),
    quiet("environment.gid_wrong", MOVED, overrides=sets(NCCL_IB_HCA="^rocep1s0f1", **PINNED)),
    fires("environment.gid_pinned", "sets NCCL_IB_GID_INDEX to 3", overrides=sets(**PINNED)),
    quiet("environment.gid_pinned", MOVED, worker=(gids(HCAS[0], "192.168.200.13", first=4),), overrides=sets(**PINNED)),
    quiet("environment.gid_pinned", overrides=sets(NCCL_IB_GID_INDEX=-1)),
    fires(
        "environment.hca_missing",
        r"NCCL_IB_HCA \(=mlx5_0,rocep1s0f1\) names mlx5_0; spark-head has",
        overrides=sets(NCCL_IB_HCA="=mlx5_0,rocep1s0f1"),
    ),
    quiet("environment.hca_missing", overrides=sets(NCCL_IB_HCA="roce")),
    quiet("environment.hca_missing", overrides=sets(NCCL_IB_HCA="=rocep1s0f1:1,roceP2p1s0f1:1")),
    quiet("environment.hca_missing", overrides=sets(NCCL_IB_HCA="^mlx5_0")),
    fires(
        "environment.interface_missing",
        "sets GLOO_SOCKET_IFNAME to eth0, which does not exist on spark-head",
        overrides=sets(GLOO_SOCKET_IFNAME="eth0"),
    ),
    fires("environment.interface_missing", "to wlP9s9, which has no IPv4 address", overrides=sets(NCCL_SOCKET_IFNAME="wlP9s9")),
    quiet(
        "environment.interface_missing",
        overrides=sets(GLOO_SOCKET_IFNAME=RAILS[0], NCCL_SOCKET_IFNAME="=enp1s0f1np1,eth0", UCX_NET_DEVICES="rocep1s0f1:1"),
    ),
    quiet("environment.interface_missing", overrides=sets(NCCL_SOCKET_IFNAME="^docker,lo", UCX_NET_DEVICES="all")),
    quiet(
        "environment.interface_missing",
        answers("ip", "-j", "-s", "addr", rc=1),
        worker=(answers("ip", "-j", "-s", "addr", rc=1),),
        overrides=sets(GLOO_SOCKET_IFNAME="eth0"),
    ),
    # It gets its address from us.
    quiet(
        "environment.interface_missing",
        both=(address(RAILS[1]), gids(HCAS[1])),
        overrides=sets(GLOO_SOCKET_IFNAME=RAILS[1]),
        consent=["network"],
    ),
    fires("environment.host_ip", "VLLM_HOST_IP to 127.0.0.1 on every rank", overrides=sets(VLLM_HOST_IP="127.0.0.1")),
    quiet("environment.host_ip", overrides=sets(VLLM_HOST_IP="auto")),
    quiet("environment.host_ip", overrides={**SINGLE, **sets(VLLM_HOST_IP="127.0.0.1")}, alone=True),
    fires("environment.no_rdma", "NCCL_NET to Socket and NCCL_IB_DISABLE to 1", overrides=sets(NCCL_NET="Socket", NCCL_IB_DISABLE=1)),
    quiet("environment.no_rdma", overrides=sets(NCCL_NET="IB", NCCL_IB_DISABLE="0")),
    fires("environment.ray_monitor", "RAY_memory_monitor_refresh_ms to 250", overrides=sets(RAY_memory_monitor_refresh_ms=250)),
    quiet("environment.ray_monitor", overrides=sets(RAY_memory_monitor_refresh_ms="0")),
    quiet("environment.ray_monitor", overrides=sets(RAY_memory_monitor_refresh_ms=250), backend="mp"),
    fires("environment.allocator", "PYTORCH_CUDA_ALLOC_CONF to expandable", overrides=sets(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")),
    quiet("environment.allocator", overrides=sets(PYTORCH_NO_CUDA_MEMORY_CACHING="0")),
    fires("environment.unexpanded", r"has NODE=\$NODE_IP", overrides=sets(NODE="$NODE_IP")),
    fires("environment.unexpanded", r"--seed=\$\{SEED\}", overrides=asks(*SHIPPED, "--seed=${SEED}")),
    quiet("environment.unexpanded", overrides=sets(PRICE="5$", PATTERN="^a$")),
    fires("environment.container", "vllm_node: GLOO_SOCKET_IFNAME=eth0 does not exist", runs("GLOO_SOCKET_IFNAME=eth0")),
    fires("environment.container", "NCCL_IB_HCA names mlx5_0, which is not there", runs("NCCL_IB_HCA=mlx5_0")),
    fires("environment.container", "NCCL_IB_GID_INDEX is empty", runs("NCCL_IB_GID_INDEX=")),
    fires("environment.container", "NCCL_IB_GID_INDEX=5 is wrong on roceP2p1s0f1 and", runs("NCCL_IB_GID_INDEX=5")),
    quiet("environment.container", runs("GLOO_SOCKET_IFNAME=enp1s0f1np1", "NCCL_IB_HCA==rocep1s0f1", "NCCL_IB_GID_INDEX=3")),
    quiet("environment.container", runs("GLOO_SOCKET_IFNAME=eth0", running=False)),
    quiet(
        "environment.container",
        runs("NCCL_IB_GID_INDEX=5", "NCCL_IB_HCA=mlx5_0"),
        unrecorded("/sys/class/infiniband"),
        answers("rdma", "-j", "link", out="[]"),
    ),
]

RECIPE: list[Story] = [
    fires("recipe.utilization_unset", "sets no --gpu-memory-utilization", overrides=asks("--max-model-len", "8192")),
    quiet("recipe.utilization_unset", overrides=asks("--gpu-memory-utilization=0.75")),
    quiet("recipe.utilization_unset", overrides={**asks("--max-model-len", "8192"), **sets(VLLM_CPU_KVCACHE_SPACE="1")}),
    fires("recipe.utilization_high", "sets --gpu-memory-utilization 0.92", overrides=asks("--gpu_memory_utilization", "0.92")),
    quiet("recipe.utilization_high", overrides=asks("--gpu-memory-utilization", "0.88")),
    quiet("recipe.utilization_high", overrides=asks("--max-model-len", "8192")),
    fires("recipe.per_rank_small", r"a rank needs 60.0 GiB, and lets its engine take 97.3 GiB", overrides={"memory": {"per_rank": 60 * GIB}}),
    quiet("recipe.per_rank_small", overrides={"memory": {"per_rank": 100 * GIB}}),
    quiet("recipe.per_rank_small", overrides={"memory": {"per_rank": 60 * GIB}, **asks("--max-model-len", "8192")}),
    fires("recipe.batched_tokens", "sets --max-num-batched-tokens 65536", overrides=asks(*SHIPPED, "--max-num-batched-tokens", "64K")),
    quiet("recipe.batched_tokens", overrides=asks(*SHIPPED, "--max-num-batched-tokens", "16384")),
    quiet("recipe.batched_tokens", overrides=asks("--gpu-memory-utilization", "0.8", "--max-num-batched-tokens", "auto")),
    fires("recipe.shm_large", "container.shm_size to 64gb", overrides={"container": {"shm_size": "64gb"}}),
    quiet("recipe.shm_large", overrides={"container": {"shm_size": "16384m"}}),
    quiet("recipe.shm_large", overrides={"container": {"shm_size": "plenty"}}),
    fires("recipe.memlock", r"ulimits \(nofile:1048576\) do not let them lock", ulimits=["nofile:1048576"]),
    fires("recipe.memlock", r"ulimits \(none\)", overrides={"container": {"ulimits": []}}),
    quiet("recipe.memlock", ulimits=["memlock:unlimited"]),
    quiet("recipe.memlock", overrides={**SINGLE, "container": {"ulimits": []}}, alone=True),
    fires("recipe.timeout_short", "waits 300 s for the first completion", overrides={"health_timeout": 300}),
    quiet("recipe.timeout_short", overrides={"health_timeout": 300, "model": {"size": 8 * 10**9}}),
    fires("recipe.flag_removed", "--swap-space, which is gone since vLLM 0.18", overrides=asks(*SHIPPED, "--swap-space", "4")),
    quiet("recipe.flag_removed", overrides=asks(*SHIPPED, "--cpu-offload-gb", "4")),
]

CASES = [*ENVIRONMENT, *RECIPE]
