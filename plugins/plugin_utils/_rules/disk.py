# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on disk for what the plan writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Case, case, node_rule, rule
from .context import Context, Node, listing, sized
from .model import cached_revision

#: Besides what is written: room for logs, compiled kernels and the file system itself (bytes).
HEADROOM = 2 * 2**30
#: An image has some hundred thousand files at most.
_INODES = 300_000


@rule(
    "disk.too_small",
    "block",
    "A disk has too little room for the model or the image.",
    source="https://github.com/eugr/spark-vllm-docker/issues/339",
)
def too_small(context: Context) -> Iterator[Case]:
    """Each file system that cannot take what the plan writes to it. Model and image may be on the same one."""
    for node in context.reachable:
        writes: dict[str, list[tuple[str, int]]] = {}
        free: dict[str, int] = {}
        for path, what, size in _writes(context, node):
            disk = _disk(node, path)
            if disk is not None and size > 0:
                mount = str(disk.get("mount") or path)
                writes.setdefault(mount, []).append((what, size))
                free[mount] = int(disk["free"])
        for mount, parts in writes.items():
            needed = sum(size for _, size in parts) + HEADROOM
            if free[mount] < needed:
                yield Case(
                    (node.name,),
                    f"{mount} of {node.name} has {sized(free[mount])} free; {listing(f'{what} needs {sized(size)}' for what, size in parts)}.",
                    f"{sized(needed)} are free on {mount}.",
                    f"Free space on {mount}: `docker system df` and `du -sh {context.work[node.name]['model']['cache']}/hub/*` on {node.name} "
                    "show the largest consumers.",
                    ("disk", "models.repositories", "docker.images"),
                )


def _disk(node: Node, path: str) -> Mapping[str, Any] | None:
    """The row of the facts' ``disk`` for a path: its own, else the deepest mount above it that was looked at. None if its room is unknown."""
    rows = [row for row in node.rows("disk") if row.get("free") is not None]
    for row in rows:
        if row.get("path") == path:
            return row
    above = [row for row in rows if f"{path}/".startswith(f"{str(row.get('mount')).rstrip('/')}/")]
    return max(above, key=lambda row: len(str(row.get("mount"))), default=None)


def _writes(context: Context, node: Node) -> Iterator[tuple[str, str, int]]:
    """What the plan writes on the node: a path, what it is, bytes."""
    work = context.work[node.name]
    if work["model"]["action"] in ("download", "copy"):
        there = cached_revision(node, str(context.model["repo"]), str(context.model["revision"]))
        yield str(work["model"]["cache"]), "the model", int(context.model["size"]) - int((there or {}).get("size") or 0)
    if work["image"]["action"] in ("pull", "pull+derive", "copy") and node.get("docker.root_dir"):
        yield str(node.get("docker.root_dir")), "the image", int(context.recipe["image"].get("size") or 0)


@node_rule(
    "disk.no_inodes",
    "block",
    "A file system has room, but can hold no more files.",
    source="https://github.com/eugr/spark-vllm-docker/issues/339",
)
def no_inodes(context: Context, node: Node) -> Case | None:
    """Each node where the plan writes to a file system with few inodes left. Some file systems have no such number, and say 0 of 0."""
    for path, what, _bytes in _writes(context, node):
        disk = _disk(node, path) or {}
        left = disk.get("inodes_free")
        if isinstance(left, int) and 0 <= left < _INODES and disk.get("filesystem") not in ("btrfs", "zfs", "overlay"):
            return case(
                node,
                f"{disk.get('mount')} of {node.name}, where {what} goes, can hold {left} more files.",
                f"There is room for {_INODES} more files.",
                f"On {node.name}: `sudo du --inodes -xd2 {disk.get('mount')} | sort -n | tail` shows where they are.",
                "disk",
            )
    return None
