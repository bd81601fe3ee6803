# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables: those that the recipe adds to what we set ourselves, and those of containers that run already.

The recipe's are the same on every rank, which is why names of HCAs and interfaces in them are looked up on each node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import AddressValueError, IPv4Address
from typing import Any

from .base import Case, case, node_rule, rule
from .context import Context, Node, listing
from .variables import GID_INDEX, bad_interfaces, empty, gid_index, unknown_hcas, wrong_gids

_OVERRIDE = "gb10_recipe_overrides (environment)"


def _own(context: Context) -> Mapping[str, Any]:
    """What the recipe sets."""
    environment: Mapping[str, Any] = context.recipe["environment"]
    return environment


def _all(context: Context) -> tuple[str, ...]:
    """The names of all nodes."""
    return tuple(node.name for node in context.nodes)


def _rails(context: Context, node: Node) -> dict[str, list[str]]:
    """The netdevs of the node's rails that have their address already, and that address."""
    return {rail.netdev: [rail.address] for rail in context.fabric.rails.get(node.name, ()) if rail.action == "adopt"}


@rule(
    "environment.empty",
    "block",
    "The recipe sets a variable of the network to nothing, which is not the same as leaving it out.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/pull/125",
    several=True,
)
def empty_value(context: Context) -> Iterator[Case]:
    """Variables without a value: NCCL reads an empty GID index as 0, which is a link-local address, and hangs."""
    names = empty(_own(context))
    if names:
        yield Case(
            _all(context),
            f"The recipe sets {listing(names)} to empty text.",
            "A variable has a value, or is left out: NCCL reads empty text as 0.",
            f"Take {listing(names)} out of the recipe's environment.",
        )


@node_rule(
    "environment.gid_wrong",
    "block",
    "The recipe pins a GID index that is wrong on a node.",
    source="https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/pull/26",
    several=True,
)
def gid_wrong(context: Context, node: Node) -> Case | None:
    """Each node with an HCA on which the pinned index is not the RoCE v2 address of the rail: one number does not fit all."""
    hcas = wrong_gids(_own(context), node, _rails(context, node))
    if not hcas:
        return None
    index = gid_index(_own(context))
    return case(
        node,
        f"The recipe sets {GID_INDEX} to {index}, which on {listing(hcas)} of {node.name} is not the RoCE v2 GID of the rail's address.",
        f"{GID_INDEX} is left out, and NCCL finds the GID of each HCA; the index moves with every address that is added.",
        f"Take {GID_INDEX} out of the recipe's environment.",
        "fabric.ports",
    )


@rule(
    "environment.gid_pinned",
    "info",
    "The recipe pins a GID index.",
    source="https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/issues/38",
    several=True,
    explained_by=("environment.gid_wrong",),
)
def gid_pinned(context: Context) -> Iterator[Case]:
    """A pinned index that is right today. Guides disagree on it; the table is written anew at each boot and each address."""
    index = gid_index(_own(context))
    if index is not None:
        yield Case(
            _all(context),
            f"The recipe sets {GID_INDEX} to {index}.",
            f"{GID_INDEX} is left out, and NCCL finds the GID of each HCA.",
            "Nothing has to be done as long as it is right on every HCA, which is checked at each run.",
        )


@node_rule(
    "environment.hca_missing",
    "block",
    "The recipe names an HCA that a node does not have.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/pull/95",
    several=True,
)
def hca_missing(context: Context, node: Node) -> Case | None:
    """Each node that lacks an HCA of NCCL_IB_HCA in the recipe, read as NCCL reads it."""
    value = str(_own(context).get("NCCL_IB_HCA") or "")
    hcas = [str(row["hca"]) for row in node.rows("fabric.ports") if row.get("hca")]
    missing = unknown_hcas(value, hcas) if hcas else []
    if not missing:
        return None
    return case(
        node,
        f"The recipe's NCCL_IB_HCA ({value}) names {listing(missing)}; {node.name} has {listing(hcas)}.",
        "NCCL_IB_HCA names HCAs of the rank's own rails, which differ from node to node.",
        "Take NCCL_IB_HCA out of the recipe's environment: it is set for each rank from its rails.",
        "fabric.ports",
    )


@node_rule(
    "environment.interface_missing",
    "block",
    "The recipe names an interface that a node does not have, or that has no address there.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/4",
    several=True,
)
def interface_missing(context: Context, node: Node) -> Case | None:
    """Each node on which an interface of the recipe's variables cannot be used: Gloo ends with `Unable to find address for`."""
    own = {name: value for name, value in _own(context).items() if value not in (None, "")}
    for variable, value, fault in bad_interfaces(own, node):
        if any(rail.netdev == value for rail in context.fabric.rails.get(node.name, ())):
            continue  # it gets its address from us
        return case(
            node,
            f"The recipe sets {variable} to {value}, which {fault} on {node.name} (it has {listing(sorted(node.interfaces()))}).",
            "An interface that a variable names exists on every rank, and has an address.",
            f"Take {variable} out of the recipe's environment: it is set for each rank from its rails.",
            "fabric.ports",
            "fabric.interfaces",
        )
    return None


@rule(
    "environment.host_ip",
    "block",
    "The recipe gives all ranks one address of their own.",
    source="https://github.com/vllm-project/vllm/pull/43095",
    several=True,
)
def host_ip(context: Context) -> Iterator[Case]:
    """VLLM_HOST_IP or the like in the recipe: `Every node should have a unique IP address`, or a loopback that nobody reaches."""
    names = sorted(name for name in _own(context) if name in ("VLLM_HOST_IP", "HOST_IP", "RAY_NODE_IP_ADDRESS") and _is_address(_own(context)[name]))
    if names:
        yield Case(
            _all(context),
            f"The recipe sets {listing(f'{name} to {_own(context)[name]}' for name in names)} on every rank.",
            "Each rank has its own fabric address there.",
            f"Take {listing(names)} out of the recipe's environment: it is set for each rank.",
        )


def _is_address(value: Any) -> bool:
    """Whether a value is an IPv4 address."""
    try:
        IPv4Address(str(value))
    except AddressValueError:
        return False
    return True


@rule(
    "environment.no_rdma",
    "warn",
    "The recipe turns RDMA off.",
    source="https://corti.com/serving-nemotron-super-120b-with-a-1m-token-context-on-a-2-node-dgx-spark-cluster/",
    several=True,
)
def no_rdma(context: Context) -> Iterator[Case]:
    """NCCL_NET=Socket or NCCL_IB_DISABLE=1: it works, at a tenth of the bandwidth."""
    own = _own(context)
    off = [f"NCCL_NET to {own['NCCL_NET']}"] if str(own.get("NCCL_NET", "IB")).lower() == "socket" else []
    off += ["NCCL_IB_DISABLE to 1"] if str(own.get("NCCL_IB_DISABLE", "0")) == "1" else []
    if off:
        yield Case(
            _all(context),
            f"The recipe sets {listing(off)}: NCCL uses TCP, at a tenth of the bandwidth.",
            "Ranks talk by RDMA.",
            f"Take it out of {_OVERRIDE} once the fabric works.",
        )


@rule(
    "environment.ray_monitor",
    "warn",
    "The recipe turns Ray's memory monitor on, which ends workers while they load.",
    source="https://github.com/MiaAI-Lab/GLM-5.3-Flash-NVFP4-Dual-DGX-Spark/pull/2",
)
def ray_monitor(context: Context) -> Iterator[Case]:
    """A refresh interval in the recipe: the monitor counts page cache and the GPU's memory, and reaches its threshold at 40 to 80 % of the load."""
    value = _own(context).get("RAY_memory_monitor_refresh_ms")
    if value is not None and str(value) != "0" and context.settings.backend == "ray":
        yield Case(
            _all(context),
            f"The recipe sets RAY_memory_monitor_refresh_ms to {value}.",
            "Ray's memory monitor is off on every node: on unified memory it counts cached files, and ends the workers.",
            "Take it out of the recipe's environment: 0 is set for every rank.",
        )


@rule(
    "environment.allocator",
    "info",
    "The recipe sets PyTorch's allocator. Reports disagree on what helps.",
    source="https://github.com/vllm-project/vllm/issues/55569",
)
def allocator(context: Context) -> Iterator[Case]:
    """PYTORCH_CUDA_ALLOC_CONF in the recipe: expandable segments helped in one report, and not in its follow-up."""
    names = [name for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF") if name in _own(context)]
    if names:
        yield Case(
            _all(context),
            f"The recipe sets {names[0]} to {_own(context)[names[0]]}.",
            "Nothing is set by default: what helped one user did not help another.",
            "Nothing has to be done.",
        )


@rule(
    "environment.unexpanded",
    "warn",
    "A value in the recipe looks like a shell variable, and no shell reads it.",
    source="https://github.com/spark-arena/sparkrun/issues/132",
)
def unexpanded(context: Context) -> Iterator[Case]:
    """``$NAME`` in environment or arguments: it reaches the engine as it is written."""
    texts = [f"{name}={value}" for name, value in _own(context).items()] + [str(each) for each in context.recipe["engine_arguments"]]
    found = [text for text in texts if "${" in text or any(word[:1] == "$" and word[1:2].isalpha() for word in text.replace("=", " ").split())]
    if found:
        yield Case(
            _all(context),
            f"The recipe has {listing(found)}.",
            "Values are literal: they are handed to the container as they are, without a shell.",
            "Write the value itself into the recipe.",
        )


@node_rule(
    "environment.container",
    "info",
    "A running container has network variables that do not fit its node.",
    source="https://github.com/spark-arena/sparkrun/issues/275",
)
def container(context: Context, node: Node) -> Case | None:
    """Each node with running containers whose variables name an HCA or interface that is not there, or a GID that is wrong or empty."""
    hcas = [str(row["hca"]) for row in node.rows("fabric.ports") if row.get("hca")]
    ports = [row for row in node.rows("fabric.ports") if row.get("addresses")]
    addressed = {str(row["netdev"]): [str(entry.get("address")) for entry in row["addresses"]] for row in ports}
    faults = []
    for row in node.rows("docker.containers"):
        environment = row.get("environment")
        if not row.get("running") or not isinstance(environment, Mapping):
            continue
        seen = [f"{variable}={value} {fault}" for variable, value, fault in bad_interfaces(environment, node)]
        missing = unknown_hcas(str(environment.get("NCCL_IB_HCA") or ""), hcas) if hcas else []
        seen += [f"NCCL_IB_HCA names {listing(missing)}, which {'are' if len(missing) > 1 else 'is'} not there"] if missing else []
        seen += [f"{name} is empty" for name in empty(environment)]
        wrong = wrong_gids(environment, node, addressed)
        seen += [f"{GID_INDEX}={environment.get(GID_INDEX)} is wrong on {listing(wrong)}"] if wrong else []
        faults += [f"{row.get('name')}: {listing(seen)}"] if seen else []
    if not faults:
        return None
    return case(
        node,
        f"Variables of running containers do not fit {node.name} ({'; '.join(faults)}).",
        "Names of interfaces and HCAs in a container are those of its node, and nothing is set to empty text.",
        "Nothing has to be done here; it is why that container hangs, if it does.",
        "docker.containers",
        "fabric.ports",
    )
