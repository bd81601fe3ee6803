# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recipe asks of the engine, against what unified memory and RDMA stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .base import Case, rule
from .containers import LARGE_SHM
from .context import Context, listing, sized

#: vLLM's own default is above this, and neither leaves enough for the system on unified memory.
_HIGHEST_UTILIZATION = 0.88
_MOST_BATCHED_TOKENS = 16384
#: vLLM itself gives up after so long unless it is told otherwise, seconds.
_SHORT = 600
_REMOVED = {"--swap-space": "vLLM 0.18"}
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def argument(arguments: Sequence[str], *names: str) -> str | None:
    """The value of the last of these options in engine arguments, as ``--name value`` or ``--name=value``."""
    found = None
    for i, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in names:
            found = value if equals else next(iter(arguments[i + 1 : i + 2]), None)
    return found


def number(text: str | None) -> float | None:
    """A number as vLLM reads one (``8192``, ``0.8``, ``64k``, ``64K``), None if it is none."""
    match = re.fullmatch(r"([0-9.]+)([kmgKMG]?)", text or "")
    if match is None or match.group(1).count(".") > 1 or match.group(1) == ".":
        return None
    digits, unit = match.groups()
    factor = 1000 ** "kmg".index(unit) * 1000 if unit in ("k", "m", "g") else 1024 ** "KMG".index(unit) * 1024 if unit else 1
    return float(digits) * factor


def docker_size(text: str) -> int | None:
    """Bytes of a size as Docker writes it (``16g``, ``64gb``), None if it is none."""
    match = re.fullmatch(r"([0-9.]+)\s*([bkmgt]?)i?b?", text.strip().lower())
    return int(float(match.group(1)) * _UNITS[match.group(2)]) if match and match.group(1).count(".") < 2 and match.group(1) != "." else None


def _arguments(context: Context) -> list[str]:
    """The recipe's engine arguments."""
    return [str(word) for word in context.recipe["engine_arguments"]]


def _all(context: Context) -> tuple[str, ...]:
    """The names of all nodes."""
    return tuple(node.name for node in context.nodes)


def _utilization(context: Context) -> float | None:
    """The share of memory that the engine may take, as the recipe has it."""
    return number(argument(_arguments(context), "--gpu-memory-utilization"))


@rule(
    "recipe.utilization_unset",
    "warn",
    "The recipe leaves the engine's share of memory to its default, which is too much for unified memory.",
    source="https://github.com/vllm-project/recipes/pull/632",
)
def utilization_unset(context: Context) -> Iterator[Case]:
    """No --gpu-memory-utilization: vLLM's default was made for GPUs with memory of their own. A fixed KV cache does not replace it.

    vLLM on the CPU has a variable for its KV cache instead, and takes nothing beside it.
    """
    if _utilization(context) is None and "VLLM_CPU_KVCACHE_SPACE" not in context.recipe["environment"]:
        yield Case(
            _all(context),
            f"{context.recipe['name']} sets no --gpu-memory-utilization, and vLLM's default (0.9 or 0.92) fails or freezes a GB10.",
            "The share is set: 0.75 to 0.85 on unified memory.",
            "Add --gpu-memory-utilization 0.8 to engine_arguments of the recipe.",
        )


@rule(
    "recipe.utilization_high",
    "warn",
    "The engine may take more of the unified memory than leaves room for the system.",
    source="https://github.com/vllm-project/vllm/issues/46307",
)
def utilization_high(context: Context) -> Iterator[Case]:
    """More than 0.88: what the engine takes at its start comes on top of it."""
    share = _utilization(context)
    if share is not None and share > _HIGHEST_UTILIZATION:
        yield Case(
            _all(context),
            f"{context.recipe['name']} sets --gpu-memory-utilization {share:g}.",
            f"It is at most {_HIGHEST_UTILIZATION:g} on unified memory: it is no upper bound while the engine starts, and machines froze at it.",
            "Set --gpu-memory-utilization to 0.8 in engine_arguments of the recipe.",
        )


@rule(
    "recipe.per_rank_small",
    "warn",
    "The recipe's memory need is less than what its engine takes.",
    source="https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/issues/118",
)
def per_rank_small(context: Context) -> Iterator[Case]:
    """The share of a node's memory against memory.per_rank: with less, the check whether a rank fits says yes too early."""
    share, needed = _utilization(context), int(context.recipe["memory"]["per_rank"])
    totals = {node.name: total for node in context.reachable if (total := node.number("memory.total"))}
    small = {name: share * total for name, total in totals.items() if share is not None and share * total > needed}
    if share is not None and small:
        most = max(small.values())
        yield Case(
            tuple(small),
            f"{context.recipe['name']} says that a rank needs {sized(needed)}, and lets its engine take {sized(most)} ({share:g} of a node).",
            "memory.per_rank is the engine's share of memory and some GiB for its processes.",
            f"Set memory.per_rank to {int(most) + 6 * 2**30} or more, or --gpu-memory-utilization to less.",
            ("memory.total",),
        )


@rule(
    "recipe.batched_tokens",
    "warn",
    "The engine plans for very large batches, whose buffers come on top of its share of memory.",
    source="https://github.com/AEON-7/vllm-dflash/issues/1",
)
def batched_tokens(context: Context) -> Iterator[Case]:
    """More than 16384 batched tokens: 65536 froze a machine."""
    tokens = number(argument(_arguments(context), "--max-num-batched-tokens"))
    if tokens is not None and tokens > _MOST_BATCHED_TOKENS:
        yield Case(
            _all(context),
            f"{context.recipe['name']} sets --max-num-batched-tokens {tokens:.0f}.",
            f"It is at most {_MOST_BATCHED_TOKENS} on unified memory.",
            "Set --max-num-batched-tokens to 8192 in engine_arguments of the recipe.",
        )


@rule(
    "recipe.shm_large",
    "warn",
    "The recipe asks for much shared memory, which is unified memory too.",
    source="https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/issues/31",
)
def shm_large(context: Context) -> Iterator[Case]:
    """More than 16 GiB of /dev/shm in a container."""
    text = str(context.recipe["container"]["shm_size"])
    size = docker_size(text)
    if size is not None and size > LARGE_SHM:
        yield Case(
            _all(context),
            f"{context.recipe['name']} sets container.shm_size to {text}.",
            f"Shared memory is at most {sized(LARGE_SHM)}: what is in it is taken from the model.",
            "Set container.shm_size to 16g in the recipe.",
        )


@rule(
    "recipe.memlock",
    "info",
    "Containers have a limit on the memory that they may lock.",
    source="https://github.com/eugr/spark-vllm-docker/issues/389",
    several=True,
)
def memlock(context: Context) -> Iterator[Case]:
    """Ulimits without an unlimited memlock. The capability IPC_LOCK, which ranks with RDMA have, lifts the limit for root, and for no other user."""
    ulimits = context.settings.ulimits if context.settings.ulimits is not None else context.recipe["container"]["ulimits"]
    if not any(re.fullmatch(r"memlock[:=](-1|unlimited)(:(-1|unlimited))?", str(limit)) for limit in ulimits):
        yield Case(
            _all(context),
            f"The containers' ulimits ({listing(map(str, ulimits)) or 'none'}) do not let them lock memory without a limit.",
            "memlock is -1: RDMA locks its buffers, and an engine that is not root fails late with `ibv_reg_mr ... Cannot allocate memory`.",
            "Nothing has to be done for an image that runs as root; else add memlock:-1:-1 to container.ulimits of the recipe, or to gb10_ulimits.",
        )


@rule(
    "recipe.timeout_short",
    "warn",
    "The recipe gives up before a large model can be loaded.",
    source="https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/pull/19",
)
def timeout_short(context: Context) -> Iterator[Case]:
    """Less than ten minutes for more than 60 GB of weights a rank: reading and compiling take longer."""
    timeout, share = int(context.recipe["health_timeout"]), int(context.recipe["model"]["size"]) / context.world_size
    if timeout <= _SHORT and share > 60e9:
        yield Case(
            _all(context),
            f"{context.recipe['name']} waits {timeout} s for the first completion, with {sized(share)} of weights a rank.",
            "There is time to read the weights and to compile: half an hour for a model of this size.",
            "Set health_timeout of the recipe to 1800 or more.",
        )


@rule(
    "recipe.flag_removed",
    "warn",
    "The recipe uses an argument that engines have no more.",
    source="https://github.com/unslothai/unsloth-zoo/issues/1210",
)
def flag_removed(context: Context) -> Iterator[Case]:
    """Arguments that were removed: the engine ends with `unrecognized arguments`."""
    found = sorted({word.partition("=")[0] for word in _arguments(context)} & set(_REMOVED))
    if found:
        yield Case(
            _all(context),
            f"{context.recipe['name']} uses {listing(f'{name}, which is gone since {_REMOVED[name]}' for name in found)}.",
            "Every argument is one that the image's engine knows.",
            f"Take {listing(found)} out of engine_arguments.",
        )
