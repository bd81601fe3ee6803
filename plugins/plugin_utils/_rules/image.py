# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine image on every node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Case, rule
from .context import Context, Node, listing

_MOVING = ("latest", "nightly", "main", "dev")


@rule("image.missing", "info", "A node does not have the image yet.", source="docs/contracts.md")
def missing(context: Context) -> Iterator[Case]:
    """Each node that gets the image, and how."""
    for node in context.reachable:
        action = context.work[node.name]["image"]["action"]
        how = {
            "pull": f"{context.image['pull']} is pulled",
            "derive": f"{context.image['run']} is made from {context.image['reference']}",
            "pull+derive": f"{context.image['pull']} is pulled and {context.image['run']} made from it",
            "copy": f"{context.image['run']} comes from {context.model['source']} over the fabric",
        }.get(action)
        if how:
            yield Case(
                (node.name,),
                f"{node.name} does not have the image yet: {how}.",
                "Every node has the same image.",
                "Nothing has to be done.",
                ("docker.images",),
            )


@rule("image.differs", "warn", "Nodes have different images under one name.", source="https://github.com/eugr/spark-vllm-docker/issues/327")
def differs(context: Context) -> Iterator[Case]:
    """The image that containers use, where two nodes have it and it is not the same.

    Ids differ between Docker's two image stores for one and the same image, so with different stores only digests can tell.
    """
    held = [(node, image) for node in context.reachable if (image := find_image(node, str(context.image["run"]))) is not None]
    if len(held) < 2:
        return
    first, reference = held[0]
    others = [node.name for node, image in held[1:] if not _same(first, reference, node, image)]
    if others:
        yield Case(
            (first.name, *others),
            f"{context.image['run']} on {listing(others)} is not the image that {first.name} has under this name.",
            "Every node has the same image.",
            f"Nothing has to be done: the image of {first.name} is sent there again. It is one of two if the nodes' image stores differ.",
            ("docker.images", "docker.storage_driver"),
        )


def find_image(node: Node, name: str) -> dict[str, Any] | None:
    """The image that has this tag, or this digest (``repository@sha256:…``, by its digest alone), on the node."""
    digest = name.partition("@")[2]
    tag = name if digest or ":" in name.rpartition("/")[2] else f"{name}:latest"
    for image in node.rows("docker.images"):
        if tag in (image.get("tags") or []) or (digest and digest in _digests(image)):
            return dict(image)
    return None


def same_image(a: Node, b: Node, name: str) -> bool:
    """Whether both nodes have the same image under that name, as far as facts can tell (layers are compared later)."""
    here, there = find_image(a, name), find_image(b, name)
    return here is not None and there is not None and _same(a, here, b, there)


def _same(a: Node, here: dict[str, Any], b: Node, there: dict[str, Any]) -> bool:
    """One id, or one digest in common, or stores whose ids cannot be compared."""
    common = set(_digests(here)) & set(_digests(there))
    return bool(here.get("id") == there.get("id") or common or a.get("docker.storage_driver") != b.get("docker.storage_driver"))


def _digests(image: Mapping[str, Any]) -> list[str]:
    """The digests of an image, without repositories."""
    rows = image.get("digests")
    return [str(row).partition("@")[2] for row in rows] if isinstance(rows, (list, tuple)) else []


@rule("image.moving_tag", "warn", "The recipe's image has a tag that moves.", source="https://github.com/eugr/spark-vllm-docker/issues/296")
def moving_tag(context: Context) -> Iterator[Case]:
    """An image named latest, nightly and so on, without a digest: tomorrow it is another."""
    image = context.recipe["image"]
    reference = str(image["reference"])
    tag = reference.rpartition("/")[2].partition(":")[2] or "latest"
    if not image.get("digest") and tag.split("-")[-1] in _MOVING:
        yield Case(
            tuple(node.name for node in context.nodes),
            f"{reference} may be another image tomorrow.",
            "An image is named by a digest or by a tag that stays.",
            "Set image.digest in the recipe to what `docker pull` prints.",
        )
