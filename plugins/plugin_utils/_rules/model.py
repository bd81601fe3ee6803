# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model in the Hugging Face cache of every node, and the disk it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Case, rule
from .context import Context, Node, listing, sized

#: Besides what is written: room for logs, compiled kernels and the file system itself (bytes).
HEADROOM = 2 * 2**30


def cached_revision(node: Node, repo: str, revision: str) -> Mapping[str, Any] | None:
    """The revision of that repository in the node's cache, complete or not."""
    for row in node.rows("models.repositories"):
        if row.get("repo") == repo:
            for entry in row.get("revisions") or []:
                if isinstance(entry, Mapping) and entry.get("revision") == revision:
                    return entry
    return None


@rule("model.missing", "info", "A node does not have the model yet.", source="docs/contracts.md")
def missing(context: Context) -> Iterator[Case]:
    """Each node that gets the model, and how."""
    for node in context.reachable:
        action = context.work[node.name]["model"]["action"]
        if action in ("download", "copy"):
            size = sized(int(context.model["size"]))
            how = "downloaded" if action == "download" else f"sent from {context.model['source']} over the fabric"
            yield Case(
                (node.name,),
                f"{node.name} does not have all of {context.model['repo']} at the recipe's revision: it is {how} ({size} in all).",
                "Every node has the whole model.",
                "Nothing has to be done.",
                ("models.repositories",),
            )


@rule("model.incomplete", "warn", "A node has a part of the model.", source="https://github.com/spark-arena/sparkrun/issues/4")
def incomplete(context: Context) -> Iterator[Case]:
    """Each node whose cache has the pinned revision and not all of it, or nobody knows."""
    repo, revision = str(context.model["repo"]), str(context.model["revision"])
    for node in context.reachable:
        entry = cached_revision(node, repo, revision)
        if entry is not None and not entry.get("complete"):
            lacking = [str(name) for name in entry.get("missing") or []]
            shown = [*lacking[:3], *([f"{len(lacking) - 3} more files"] if len(lacking) > 3 else [])]
            unread = entry.get("complete") is None
            what = f"lacks {listing(shown)}" if shown else "has an index that cannot be read" if unread else "is incomplete"
            yield Case(
                (node.name,),
                f"{repo} on {node.name} {what}.",
                "Every file that the model's index names is there.",
                "Nothing has to be done: what is missing is fetched, what is there is kept.",
                ("models.repositories",),
            )


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
