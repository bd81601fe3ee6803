# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every container of a rank gets in its environment, and why.

Values are host facts of the rank, never of the group: names and addresses differ from machine to machine
(https://github.com/vllm-project/vllm/pull/40991).
"""

from __future__ import annotations

from .._rules.context import Fabric, Node, Recipe

#: Where Hugging Face's files are inside a container, whatever the image believes.
HF_HOME = "/root/.cache/huggingface"
#: Where the cluster's token is: on each rank, where role ray puts it for root alone, and inside its containers.
RAY_TOKEN = "/etc/gb10/ray-token"
RAY_TOKEN_INSIDE = "/run/gb10/ray-token"


def rank_environment(node: Node, recipe: Recipe, fabric: Fabric, backend: str) -> dict[str, str]:
    """The environment of one rank, sorted by name. The recipe's own variables win, since its author asked for them."""
    environment = _common(recipe)
    if node.name in fabric.meeting:
        environment.update(_fabric(node, fabric))
    if backend == "ray":
        environment.update(_ray())
    environment.update({str(key): str(value) for key, value in recipe["environment"].items()})
    return dict(sorted(environment.items()))


def server_environment(rank: dict[str, str], ray_address: str) -> dict[str, str]:
    """The environment of the API server beside Ray: the rank's, without what belongs to the rank's own network.

    vLLM hands the server's variables on to the workers of all ranks, and its older Ray executor overwrites theirs: with the head's names
    of HCAs and interfaces here, the workers would look for devices that they do not have. The worker of rank 0 takes them from Ray's own
    container (vllm/ray/ray_env.py; https://github.com/spark-arena/sparkrun/pull/137). VLLM_HOST_IP is never handed on.
    """
    own = {name: value for name, value in rank.items() if not name.startswith(_PER_RANK_PREFIXES)}
    return dict(sorted({**own, "RAY_ADDRESS": ray_address}.items()))


_PER_RANK_PREFIXES = ("NCCL_", "GLOO_", "TP_SOCKET_", "UCX_")


def _common(recipe: Recipe) -> dict[str, str]:
    """What holds with and without a fabric."""
    return {
        "HF_HOME": HF_HOME,
        "HF_HUB_CACHE": f"{HF_HOME}/hub",
        # The model is there, verified: serving must neither need nor ask the network.
        "HF_HUB_OFFLINE": "1",
        # No telemetry.
        "DO_NOT_TRACK": "1",
        "VLLM_NO_USAGE_STATS": "1",
        # vLLM gives up after 600 s otherwise, in the middle of loading
        # (https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/pull/19).
        "VLLM_ENGINE_READY_TIMEOUT_S": str(recipe["health_timeout"]),
    }


def _fabric(node: Node, fabric: Fabric) -> dict[str, str]:
    """What ties a rank to its rails, and to where the ranks find each other.

    NCCL_IB_GID_INDEX is absent on purpose: the index differs between nodes and moves with every address that is added; NCCL finds it
    (https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/pull/125).
    """
    netdev, address = fabric.meeting[node.name]
    environment = {
        # Fail loudly where RDMA does not work, instead of falling to TCP at a tenth of the bandwidth.
        "NCCL_NET": "IB",
        # Bootstrap and control traffic on the rail (a ring has none that all share), not on whatever has the default route (Wi-Fi, on some
        # machines). One name each: Gloo and the others take no list. https://github.com/spark-arena/sparkrun/pull/219
        "NCCL_SOCKET_IFNAME": netdev,
        "GLOO_SOCKET_IFNAME": netdev,
        "TP_SOCKET_IFNAME": netdev,
        "UCX_NET_DEVICES": netdev,
        # What vLLM tells others about where it is, and asks Ray for: must equal Ray's own address of the node.
        # https://github.com/eugr/spark-vllm-docker/issues/227
        "VLLM_HOST_IP": address,
    }
    hcas = fabric.hcas(node.name)
    if hcas:
        # Both twins of the cabled port, and nothing else; "=" is NCCL's mark for exact names, without it they are prefixes.
        # https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
        environment["NCCL_IB_HCA"] = "=" + ",".join(hcas)
    return {**environment, **(_RING if fabric.topology == "ring" else {})}


#: In a ring of cables each port leads to one rank only: NCCL must take the port whose subnet is the peer's, and must not make one of two.
#: It can since 2.30; a net plugin that some images carry cannot. https://github.com/eugr/spark-vllm-docker/blob/main/docs/NETWORKING.md
_RING = {"NCCL_IB_SUBNET_AWARE_ROUTING": "1", "NCCL_IB_MERGE_NICS": "0", "NCCL_NET_PLUGIN": "none"}


def _ray() -> dict[str, str]:
    """What Ray needs on unified memory, and that it asks for a token."""
    return {
        # Whoever reaches Ray's ports may run anything on the ranks. Ray knows tokens since 2.52 and wants one from 2.61 on; an older one
        # does not look. https://docs.ray.io/en/latest/ray-security/token-auth.html
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": RAY_TOKEN_INSIDE,
        # Ray's memory monitor counts page cache and what the GPU holds, and kills workers while they load. It must be off on every node:
        # https://github.com/ray-project/ray/issues/39723
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
