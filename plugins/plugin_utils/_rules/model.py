# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model in the Hugging Face cache of every node: how much of it is there, at which revision, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Case, case, node_rule, rule
from .context import Context, Node, listing, sized

#: Share of the memory that weights may take: more leaves too little beside them, and beyond the second no room at all.
_LARGE, _TOO_LARGE = 0.6, 0.85


def repository(node: Node, repo: str) -> Mapping[str, Any] | None:
    """The repository in the node's cache."""
    return next((row for row in node.rows("models.repositories") if row.get("repo") == repo), None)


def cached_revision(node: Node, repo: str, revision: str) -> Mapping[str, Any] | None:
    """The revision of that repository in the node's cache, complete or not."""
    entries = (repository(node, repo) or {}).get("revisions") or []
    return next((entry for entry in entries if isinstance(entry, Mapping) and entry.get("revision") == revision), None)


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


@node_rule(
    "model.misnamed",
    "warn",
    "The model is in a folder whose name Hugging Face does not look for.",
    source="https://github.com/spark-arena/sparkrun/issues/291",
)
def misnamed(context: Context, node: Node) -> Case | None:
    """Each node with a folder like ``models--org-name``: only ``models--org--name`` is found, the rest is loaded again."""
    repo = str(context.model["repo"])
    if repository(node, repo) is not None:
        return None
    like = [str(row.get("repo")) for row in node.rows("models.repositories") if row.get("repo") != repo and _plain(row.get("repo")) == _plain(repo)]
    if not like:
        return None
    hub = f"{context.work[node.name]['model']['cache']}/hub"
    there = f"models--{like[0].replace('/', '--')}"
    return case(
        node,
        f"{hub}/{there} of {node.name} looks like {repo}, but Hugging Face looks for models--{repo.replace('/', '--')}.",
        "A model's folder is named models--organisation--name.",
        f"If it is the model, on {node.name}: `mv {hub}/{there} {hub}/models--{repo.replace('/', '--')}`; then it is not fetched again.",
        "models.repositories",
    )


def _plain(repo: object) -> str:
    """A repository's name without what may be wrong in a folder's name."""
    return "".join(letter for letter in str(repo).lower() if letter.isalnum())


@rule(
    "model.revision_differs",
    "info",
    "The nodes have different revisions of the model.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4.1-Flash-EXL3-2x-DGX-Sparks/issues/14",
    several=True,
)
def revision_differs(context: Context) -> Iterator[Case]:
    """What `main` is on each node, where they differ. The recipe's revision is the one that is served."""
    found = {}
    for node in context.reachable:
        main = ((repository(node, str(context.model["repo"])) or {}).get("refs") or {}).get("main")
        if main is not None:
            found[node.name] = str(main)
    if len(set(found.values())) > 1:
        seen = listing(f"{name} {revision[:12]}" for name, revision in found.items())
        yield Case(
            tuple(found),
            f"main of {context.model['repo']} is another revision on each node: {seen}.",
            f"Every rank loads the same revision: {str(context.model['revision'])[:12]}, which the recipe names.",
            "Nothing has to be done: the recipe's revision is brought to every node.",
            ("models.repositories",),
        )


@node_rule(
    "model.too_large",
    "block",
    "The weights alone fill the unified memory of a node.",
    source="https://github.com/NVIDIA/NemoClaw/pull/6770",
)
def too_large(context: Context, node: Node) -> Case | None:
    """Each node whose share of the weights leaves no room for anything else, whoever holds memory now."""
    return _size(context, node, _TOO_LARGE, "leave no room for a KV cache and the system", "")


@node_rule(
    "model.large",
    "warn",
    "The weights take more than 60 % of the unified memory of a node.",
    source="https://github.com/NVIDIA/NemoClaw/pull/6770",
    explained_by=("model.too_large",),
)
def large(context: Context, node: Node) -> Case | None:
    """Each node whose share of the weights is large: it was served, and machines froze under load with it."""
    consequence = "leave little for the KV cache and for what the engine takes at its start"
    return _size(context, node, _LARGE, consequence, ", or lower --max-model-len and --max-num-seqs and watch the memory")


def _size(context: Context, node: Node, limit: float, consequence: str, otherwise: str) -> Case | None:
    """The case where a rank's weights are more than this share of the node's memory."""
    total, share = node.number("memory.total"), int(context.model["size"]) / context.world_size
    if total is None or share <= limit * total:
        return None
    return case(
        node,
        f"A rank's share of {context.model['repo']} is {sized(share)} of {sized(total)} of {node.name}: the weights {consequence}.",
        f"Weights take at most {limit:.0%} of a node's memory.",
        f"Spread the model over more nodes, choose a smaller quantization of it{otherwise}.",
        "memory.total",
    )
