# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine image on every node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import gpu
from .base import Case, case, node_rule, rule
from .context import Context, Node, listing
from .versions import requirement_met, version

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


@rule(
    "image.differs",
    "warn",
    "Nodes have different images under one name.",
    source="https://github.com/eugr/spark-vllm-docker/issues/327",
    several=True,
)
def differs(context: Context) -> Iterator[Case]:
    """The image that containers use, where two nodes have it and it is certainly not the same."""
    held = [(node, image) for node in context.reachable if (image := find_image(node, str(context.image["run"]))) is not None]
    if len(held) < 2:
        return
    first, reference = held[0]
    others = [node for node, image in held[1:] if _same(reference, image) is False]
    if others:
        stores = "" if all(store(node) == store(first) for node in others) else " (by its content: their image stores differ, and so would ids)"
        yield Case(
            (first.name, *(node.name for node in others)),
            f"{context.image['run']} on {listing(node.name for node in others)} is not the image that {first.name} has under this name{stores}.",
            "Every node has the same image, by digest or by layers.",
            f"Nothing has to be done: the image of {first.name} is sent there again.",
            ("docker.images", "docker.store"),
        )


@rule(
    "image.store_differs",
    "info",
    "The nodes keep images in different stores, so one image has two ids.",
    source="https://github.com/spark-arena/sparkrun/issues/152",
    several=True,
)
def store_differs(context: Context) -> Iterator[Case]:
    """Docker's two image stores: ids say nothing across them, digests and layers do."""
    stores = {node.name: kind for node in context.reachable if (kind := store(node)) is not None}
    if len(set(stores.values())) > 1:
        seen = listing(f"{name} {kind}" for name, kind in stores.items())
        yield Case(
            tuple(stores),
            f"The nodes keep images in different stores: {seen}.",
            "Images are compared by digest, else by layers, never by id.",
            "Nothing has to be done.",
            ("docker.store", "docker.storage_driver"),
        )


def store(node: Node) -> str | None:
    """Docker's image store on the node; the containerd store has a driver of its own name."""
    kind = node.get("docker.store")
    if kind is None and (driver := node.get("docker.storage_driver")) is not None:
        kind = "containerd" if driver == "overlayfs" else driver
    return None if kind is None else str(kind)


def find_image(node: Node, name: str) -> dict[str, Any] | None:
    """The image that has this tag, or this digest (``repository@sha256:…``, by its digest alone), on the node."""
    digest = name.partition("@")[2]
    tag = name if digest or ":" in name.rpartition("/")[2] else f"{name}:latest"
    for image in node.rows("docker.images"):
        if tag in (image.get("tags") or []) or (digest and digest in _digests(image)):
            return dict(image)
    return None


def same_image(a: Node, b: Node, name: str) -> bool:
    """Whether both nodes have the same image under that name. Where facts cannot tell, yes: whoever copies compares layers again."""
    here, there = find_image(a, name), find_image(b, name)
    return here is not None and there is not None and _same(here, there) is not False


def _same(here: Mapping[str, Any], there: Mapping[str, Any]) -> bool | None:
    """By a digest in common, else by layers; None if neither can tell.

    A different id is no sign: the two stores give one image two ids. The same id is one, whatever else is known.
    """
    if (here.get("id") is not None and here.get("id") == there.get("id")) or set(_digests(here)) & set(_digests(there)):
        return True
    layers = here.get("layers"), there.get("layers")
    return None if None in layers else layers[0] == layers[1]


def _digests(image: Mapping[str, Any]) -> list[str]:
    """The digests of an image, without repositories."""
    rows = image.get("digests")
    return [str(row).partition("@")[2] for row in rows] if isinstance(rows, (list, tuple)) else []


def _present(context: Context, node: Node) -> Mapping[str, Any] | None:
    """The image that the node's containers are made of, or what it is derived from, if it is there already."""
    names = dict.fromkeys(str(context.image[key]) for key in ("run", "pull", "reference"))
    return next((image for name in names if (image := find_image(node, name)) is not None), None)


def _environment(context: Context, node: Node) -> Mapping[str, Any]:
    """What the present image says about the driver it needs, empty if it says nothing or is not there."""
    environment = (_present(context, node) or {}).get("environment")
    return environment if isinstance(environment, Mapping) else {}


@node_rule(
    "image.architecture",
    "block",
    "The image that is there was made for another processor.",
    source="https://github.com/mmartial/ComfyUI-Nvidia-Docker/issues/96",
)
def architecture(context: Context, node: Node) -> Case | None:
    """Each node whose image would end with `exec format error`."""
    image = _present(context, node)
    machine = {"aarch64": "arm64", "x86_64": "amd64"}.get(str(node.get("kernel.machine")))
    made_for = None if image is None else image.get("architecture")
    if machine is None or made_for is None or made_for == machine:
        return None
    return case(
        node,
        f"{context.image['reference']} on {node.name} is made for {made_for}, the machine is {machine}.",
        f"The image is made for {machine}; otherwise containers end with `exec format error`.",
        f"On {node.name}: `docker image rm {context.image['run']}`, then `docker pull --platform linux/{machine} {context.image['pull']}`.",
        "docker.images",
        "kernel.machine",
    )


@node_rule(
    "image.driver_unmet",
    "block",
    "The image refuses to start with the node's driver.",
    source="https://github.com/NVIDIA/NemoClaw/issues/4658",
    explained_by=("gpu.driver_mismatch",),
)
def driver_unmet(context: Context, node: Node) -> Case | None:
    """Each node whose image has a requirement (NVIDIA_REQUIRE_CUDA) that its driver certainly does not meet."""
    environment = _environment(context, node)
    requirement = str(environment.get("NVIDIA_REQUIRE_CUDA") or "")
    disabled = str(environment.get("NVIDIA_DISABLE_REQUIRE") or "").lower() in ("1", "true")
    if disabled or requirement_met(requirement, version(gpu.driver(node)), version(node.get("gpu.cuda"))):
        return None
    return case(
        node,
        f"{context.image['reference']} asks for {requirement.split()[0]}; "
        f"{node.name} has driver {gpu.driver(node)} with CUDA {node.get('gpu.cuda')}.",
        "The driver meets what the image asks for (NVIDIA_REQUIRE_CUDA), or the container does not start.",
        "Name an image that was made for this driver in gb10_recipe_overrides (image.reference and image.digest). "
        "The driver of a DGX OS comes with its updates only.",
        "docker.images",
        "gpu.driver",
        "gpu.cuda",
    )


@node_rule(
    "image.driver_newer",
    "warn",
    "The image was built for a newer driver.",
    source="https://github.com/eugr/spark-vllm-docker/issues/266",
    explained_by=("image.driver_unmet", "gpu.driver_mismatch"),
)
def driver_newer(context: Context, node: Node) -> Case | None:
    """Each node whose driver is of an older branch than the one that the image names."""
    built_for, loaded = _environment(context, node).get("CUDA_DRIVER_VERSION"), gpu.driver(node)
    wanted, have = version(built_for), version(loaded)
    if wanted is None or have is None or wanted[0] <= have[0]:
        return None
    return case(
        node,
        f"{context.image['reference']} was built for driver {built_for} or later, {node.name} has {loaded}.",
        "The driver is at least of the branch that the image was built for; some images bring what they need for an older one.",
        "If the engine ends with `cuda driver combination` or `unsupported display driver`, choose an older image; "
        "the driver of a DGX OS comes with its updates only.",
        "docker.images",
        "gpu.driver",
    )


@node_rule(
    "image.cuda_newer",
    "info",
    "The image has a newer CUDA than the driver.",
    source="https://github.com/Blackwellboy/model-serving-minefield",
    explained_by=("image.driver_unmet", "image.driver_newer", "gpu.driver_mismatch"),
)
def cuda_newer(context: Context, node: Node) -> Case | None:
    """Each node whose driver has an older CUDA than the image. Reports disagree: images that bring the driver's part with them work."""
    inside, outside = _environment(context, node).get("CUDA_VERSION"), node.get("gpu.cuda")
    wanted, have = version(inside), version(outside)
    if wanted is None or have is None or wanted[:2] <= have[:2]:
        return None
    return case(
        node,
        f"{context.image['reference']} has CUDA {inside}, the driver of {node.name} has {outside}.",
        "Kernels that are compiled at run time need a driver as new as the compiler, or the compatibility libraries in the image.",
        "Nothing has to be done, unless the engine ends with cudaErrorUnsupportedPtxVersion (222): then choose an image with the driver's CUDA.",
        "docker.images",
        "gpu.cuda",
    )


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


@rule(
    "image.no_digest",
    "info",
    "The recipe names its image by a tag alone.",
    source="https://github.com/eugr/spark-vllm-docker/issues/246",
    explained_by=("image.moving_tag",),
)
def no_digest(context: Context) -> Iterator[Case]:
    """An image without a digest: a tag that stays today may be pushed again, with another NCCL in it."""
    image = context.recipe["image"]
    if not image.get("digest"):
        yield Case(
            tuple(node.name for node in context.nodes),
            f"{image['reference']} is named by a tag alone.",
            "An image is named by its digest, so that every node has the same one at any time.",
            "Set image.digest in the recipe to what `docker pull` prints.",
        )
