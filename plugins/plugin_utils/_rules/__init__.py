# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules: facts in, findings out. One file a topic; importing this package registers all of them.

``RULES`` maps id to :class:`Rule` (the documented table is made from it by ``table()``), ``evaluate(context)`` gives the findings.
"""

from __future__ import annotations

from . import (
    cache,
    containers,
    deployment,
    disk,
    docker,
    drift,
    environment,
    fabric,
    fabric_link,
    fabric_path,
    fabric_shape,
    gpu,
    identity,
    image,
    interface,
    kernel,
    memory,
    model,
    node,
    platform,
    ports,
    recipe,
    tenants,
)
from .base import RULES, Rule, evaluate, table

__all__ = [
    "RULES",
    "Rule",
    "cache",
    "containers",
    "deployment",
    "disk",
    "docker",
    "drift",
    "environment",
    "evaluate",
    "fabric",
    "fabric_link",
    "fabric_path",
    "fabric_shape",
    "gpu",
    "identity",
    "image",
    "interface",
    "kernel",
    "memory",
    "model",
    "node",
    "platform",
    "ports",
    "recipe",
    "table",
    "tenants",
]
