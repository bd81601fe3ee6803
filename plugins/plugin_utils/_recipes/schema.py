# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recipe has to be, checked by Ansible's own argument validator: typed, with defaults, and with errors that name the key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "description": {"type": "str", "required": True},
    "model": {
        "type": "dict",
        "required": True,
        "options": {
            "repo": {"type": "str", "required": True},
            "revision": {"type": "str", "required": True},
            "served_name": {"type": "str", "required": True},
            "size": {"type": "int", "required": True},
            "active_bytes_per_token": {"type": "int"},
        },
    },
    "image": {
        "type": "dict",
        "required": True,
        "options": {
            "reference": {"type": "str", "required": True},
            "digest": {"type": "str"},
            "ray": {"type": "str", "choices": ["included", "derive"], "required": True},
            "ray_version": {"type": "str"},
            "size": {"type": "int"},
        },
        "required_if": [("ray", "derive", ("ray_version",))],
    },
    "nodes": {"type": "int", "required": True},
    "tensor_parallel": {"type": "int", "required": True},
    "pipeline_parallel": {"type": "int", "default": 1},
    "backend": {"type": "str", "choices": ["ray", "mp"], "default": "ray"},
    "engine_arguments": {"type": "list", "elements": "str", "default": []},
    "environment": {"type": "dict", "default": {}},
    "container": {
        "type": "dict",
        "apply_defaults": True,
        "options": {
            "shm_size": {"type": "str", "default": "16g"},
            "ulimits": {"type": "list", "elements": "str", "default": ["memlock:-1:-1"]},
        },
    },
    "memory": {"type": "dict", "required": True, "options": {"per_rank": {"type": "int", "required": True}}},
    "health_timeout": {"type": "int", "default": 1800},
    "acceptance": {
        "type": "dict",
        "required": True,
        "options": {
            "prompt": {"type": "str", "required": True},
            "max_tokens": {"type": "int", "default": 32},
            "request": {"type": "dict", "default": {}},
        },
    },
    "measured": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "what": {"type": "str", "required": True},
            "value": {"type": "float", "required": True},
            "unit": {"type": "str", "required": True},
            "source": {"type": "str", "required": True},
        },
    },
    "sources": {"type": "list", "elements": "str", "default": []},
}

#: The planner sets these itself: in a recipe they would fight it.
_OURS = (
    *("--host", "--port", "--served-model-name", "--revision", "--headless", "--api-key"),
    *("--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--distributed-executor-backend"),
    *("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port"),
)


class RecipeError(ValueError):
    """A recipe was not found, or is not one."""


def check_recipe(content: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The recipe with types and defaults applied. ``origin`` names it in errors.

    Raises RecipeError with every fault found, in one message.
    """
    result = ArgumentSpecValidator(_SPEC).validate(dict(content))
    unknown = sorted(key if isinstance(key, str) else ".".join(key) for key in result.unsupported_parameters)
    faults = [f"unknown key {key}{_like(key)}" for key in unknown]
    faults += [message.rstrip(".") for message in result.error_messages if ". Supported parameters include" not in message]
    recipe: dict[str, Any] = result.validated_parameters
    if not faults:
        faults = _faults(recipe)
    if faults:
        raise RecipeError(f"{origin} is not a recipe: {'; '.join(faults)}.")
    return recipe


def _like(key: str) -> str:
    """The known keys most like an unknown one, which is a dotted path."""
    *parents, last = key.split(".")
    known: Mapping[str, Any] = _SPEC
    for parent in parents:
        known = known.get(parent, {}).get("options", {})
    close = get_close_matches(last, sorted(known), n=1, cutoff=0.5)
    return f" (did you mean {'.'.join([*parents, *close])}?)" if close else ""


def _faults(recipe: Mapping[str, Any]) -> list[str]:
    """What types cannot say."""
    faults = []
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", recipe["name"]):
        faults.append(f"name {recipe['name']!r} may only have lower-case letters, digits, '.', '_' and '-' (it becomes part of an image's name)")
    if not re.fullmatch(r"[0-9a-f]{40}", recipe["model"]["revision"]):
        faults.append(f"model.revision {recipe['model']['revision']!r} is not a full commit hash of 40 hex digits, so it may move")
    if recipe["image"]["digest"] and not re.fullmatch(r"sha256:[0-9a-f]{64}", recipe["image"]["digest"]):
        faults.append(f"image.digest {recipe['image']['digest']!r} is not 'sha256:' and 64 hex digits")
    positive = {
        "nodes": recipe["nodes"],
        "tensor_parallel": recipe["tensor_parallel"],
        "pipeline_parallel": recipe["pipeline_parallel"],
        "model.size": recipe["model"]["size"],
        "memory.per_rank": recipe["memory"]["per_rank"],
        "health_timeout": recipe["health_timeout"],
        "acceptance.max_tokens": recipe["acceptance"]["max_tokens"],
    }
    faults += [f"{key} is {value}, it has to be positive" for key, value in positive.items() if value < 1]
    ours = [argument for argument in recipe["engine_arguments"] if argument.partition("=")[0] in _OURS]
    faults += [f"engine_arguments has {argument}, which is set from the plan" for argument in ours]
    return faults


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` merged over ``base``, mappings key by key, everything else (lists too) replaced."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
