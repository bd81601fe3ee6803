# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether recipe, nodes and GPUs fit each other, and how the endpoint is protected."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .base import Case, rule
from .context import Context, counted


@rule(
    "deployment.world_size",
    "block",
    "Tensor parallel times pipeline parallel is not the number of GPUs.",
    source="https://github.com/gpustack/gpustack/issues/5779",
)
def world_size(context: Context) -> Iterator[Case]:
    """The recipe's ranks against the GPUs of all nodes. Only judged where the GPUs of every node are known."""
    counts = [len(node.rows("gpu.devices")) for node in context.nodes]
    if not all(counts):
        return
    tensor, pipeline = context.recipe["tensor_parallel"], context.recipe["pipeline_parallel"]
    gpus = sum(counts)
    if context.world_size != gpus:
        value = json.dumps({"gb10_recipe_overrides": {"nodes": len(counts), "tensor_parallel": gpus, "pipeline_parallel": 1}})
        yield Case(
            tuple(node.name for node in context.nodes),
            f"{context.recipe['name']} makes {context.world_size} ranks (tensor parallel {tensor}, pipeline parallel {pipeline}); "
            f"the group has {counted(len(counts), 'node')} with {counted(gpus, 'GPU')} in all.",
            "Every GPU is one rank.",
            f"Name {counted(int(context.recipe['nodes']), 'node')} in the group, choose another recipe, "
            f"or another split (memory needs then differ): -e '{value}'.",
            ("gpu.devices",),
        )


@rule("deployment.nodes", "warn", "The recipe was made for another number of nodes.", source="docs/contracts.md")
def nodes(context: Context) -> Iterator[Case]:
    """The recipe's number of nodes against the group's."""
    wanted, there = int(context.recipe["nodes"]), len(context.nodes)
    if wanted != there:
        yield Case(
            tuple(node.name for node in context.nodes),
            f"{context.recipe['name']} was made for {wanted} node{'s' * (wanted != 1)}, the group has {there}.",
            "The memory need and the measured numbers of the recipe hold for its own number of nodes.",
            f"Use {wanted} nodes, or set nodes, tensor_parallel and memory.per_rank in gb10_recipe_overrides to what you measured.",
        )


@rule(
    "deployment.backend",
    "info",
    "One node needs no Ray.",
    source="https://github.com/spark-arena/sparkrun/issues/141",
)
def backend(context: Context) -> Iterator[Case]:
    """A single node is served without Ray, whatever the recipe says."""
    if len(context.nodes) == 1 and context.settings.backend == "ray":
        yield Case(
            (context.nodes[0].name,),
            "One node is served by vLLM alone, without Ray.",
            "Ray takes memory and gives nothing on one node.",
            "Nothing has to be done.",
        )


@rule("api.no_key", "info", "The endpoint asks no client for a key.", source="https://docs.vllm.ai/en/stable/usage/security/")
def no_key(context: Context) -> Iterator[Case]:
    """No gb10_api_key: whoever reaches the address may use the model."""
    if not context.settings.api_key and context.nodes:
        yield Case(
            (context.nodes[0].name,),
            "The endpoint will answer everyone who can reach its address.",
            "Clients need a key wherever others are in the same network.",
            "Set GB10_API_KEY in the environment, or gb10_api_key in a vault.",
        )
