# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image and model: where they come from, and what each node has to do to have them.

Both come from outside once, to the head; the other ranks get them over the fabric.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from .._rules.context import Node, Recipe
from .._rules.image import find_image, same_image
from .._rules.model import cached_revision


def plan_image(recipe: Recipe, backend: str) -> dict[str, Any]:
    """``image`` of the plan. What containers run has a name that says all that went into it, so a moved tag cannot slip in."""
    image = recipe["image"]
    reference, digest = str(image["reference"]), image.get("digest")
    pull = f"{_repository(reference)}@{digest}" if digest else reference
    derive = backend == "ray" and image["ray"] == "derive"
    dockerfile = _dockerfile(pull, str(image["ray_version"])) if derive else None
    run = reference
    if derive:
        run = f"gb10/{recipe['name']}-ray:{_short_hash(pull, str(image['ray_version']), dockerfile or '')}"
    elif digest:
        run = f"gb10/{recipe['name']}:{_short_hash(pull)}"
    return {
        "reference": reference,
        "pull": pull,
        "run": run,
        "derive": derive,
        "ray_version": image["ray_version"] if derive else None,
        "dockerfile": dockerfile,
    }


def _repository(reference: str) -> str:
    """A reference without its tag. A registry's port is no tag: ``host:5000/name`` stays as it is."""
    head, slash, last = reference.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _short_hash(*parts: str) -> str:
    """Twelve hex digits over all parts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _dockerfile(base: str, ray_version: str) -> str:
    """The image with Ray in it. Published engine images have none of late (https://github.com/NVIDIA/dgx-spark-playbooks/issues/109).

    pip where the image has it, else uv. PIP_INDEX_URL is the only build argument; an index without TLS is meant as it is written, so pip
    is told to trust it. The last command proves that what was installed starts.
    """
    return f"""\
FROM {base}
ARG PIP_INDEX_URL
RUN case "$PIP_INDEX_URL" in http://*) host=${{PIP_INDEX_URL#http://}}; export PIP_TRUSTED_HOST="${{host%%/*}}" ;; esac; \\
    if python3 -m pip --version >/dev/null 2>&1; then \\
      PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install --no-cache-dir ray=={ray_version}; \\
    else \\
      uv pip install --system --break-system-packages --no-cache ${{PIP_INDEX_URL:+--default-index "$PIP_INDEX_URL"}} ray=={ray_version}; \\
    fi && ray --version
"""


def node_image(node: Node, head: Node | None, image: Mapping[str, Any]) -> dict[str, Any]:
    """``nodes.*.image`` of the plan: what has to happen for ``image.run`` to be on the node."""
    run = str(image["run"])
    here = find_image(node, run) is not None
    if node.rank == 0:
        if here:
            return {"action": "none"}
        if not image["derive"]:
            return {"action": "pull"}
        return {"action": "derive" if find_image(node, str(image["pull"])) is not None else "pull+derive"}
    return {"action": "none" if here and head is not None and same_image(head, node, run) else "copy"}


def plan_model(recipe: Recipe, ranks: Sequence[str]) -> dict[str, Any]:
    """``model`` of the plan; ``size`` in bytes, ``source`` is the rank that others copy from."""
    model = recipe["model"]
    return {
        "repo": str(model["repo"]),
        "revision": str(model["revision"]),
        "served_name": str(model["served_name"]),
        "size": int(model["size"]),
        "source": ranks[0],
    }


def node_model(node: Node, model: Mapping[str, Any]) -> dict[str, Any]:
    """``nodes.*.model`` of the plan: what has to happen for the pinned revision to be complete on the node."""
    entry = cached_revision(node, str(model["repo"]), str(model["revision"]))
    complete = entry is not None and bool(entry.get("complete"))
    action = "none" if complete else "download" if node.name == model["source"] else "copy"
    return {"action": action, "cache": model_cache(node)}


def model_cache(node: Node) -> str:
    """HF_HOME on the node: as the facts have it, else where Hugging Face puts it by default."""
    return str(node.get("models.cache") or f"{node.get('user.home') or '/root'}/.cache/huggingface")
