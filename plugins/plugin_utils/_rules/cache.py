# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Hugging Face cache as a place: who may write to it, who is at it now, and what stopped half way."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from .base import Case, case, node_rule
from .context import Context, Node, counted, sized
from .model import repository

#: A download that grew by nothing for so long does not go on by itself, seconds.
STALLED = 15 * 60
_NETWORK = ("nfs", "fuse", "cifs", "smb", "9p", "ceph", "glusterfs", "lustre")


def _fetches(context: Context, node: Node) -> bool:
    """Whether the plan brings the model, or a part of it, to the node."""
    return context.work[node.name]["model"]["action"] in ("download", "copy")


def _repository(context: Context, node: Node) -> Mapping[str, Any]:
    """The recipe's repository in the node's cache, empty if it is not there."""
    return repository(node, str(context.model["repo"])) or {}


def _locks(context: Context, node: Node, held: bool) -> list[str]:
    """The lock files of the recipe's repository that somebody certainly holds, or certainly nobody. The facts name them below the hub."""
    hub = f"{context.work[node.name]['model']['cache']}/hub"
    rows = [lock for lock in _repository(context, node).get("locks") or [] if lock.get("held") is held]
    return [posixpath.join(hub, str(lock.get("path"))) for lock in rows]


@node_rule(
    "model.cache_unwritable",
    "block",
    "The user may not write to the cache that the model goes into.",
    source="https://github.com/av/harbor/issues/262",
)
def cache_unwritable(context: Context, node: Node) -> Case | None:
    """Each node that gets the model and whose cache refuses our user."""
    if node.get("models.writable") is not False or not _fetches(context, node):
        return None
    cache, user = context.work[node.name]["model"]["cache"], node.get("user.name") or "the user"
    owner = node.get("models.owner") or "somebody else"
    whose = f"which belongs to {owner}" if owner != user else "its own: hub in it is another user's, or the file system is read-only"
    return case(
        node,
        f"{user} may not write to {cache} of {node.name}, {whose}.",
        f"{user} may write to the cache.",
        f"On {node.name}: `sudo chown -R {user} {cache}`, or set HF_HOME of this user to another place.",
        "models.writable",
        "models.owner",
    )


@node_rule(
    "model.foreign_files",
    "warn",
    "Files of the model belong to another user.",
    source="https://github.com/huggingface/huggingface_hub/issues/1141",
    explained_by=("model.cache_unwritable",),
)
def foreign_files(context: Context, node: Node) -> Case | None:
    """Each node whose copy of the model was written by another user, as a container does that runs as root: 0600 files cannot be read."""
    count = _repository(context, node).get("foreign")
    if not isinstance(count, int) or count < 1:
        return None
    owner, cache = node.get("models.owner") or "$USER", context.work[node.name]["model"]["cache"]
    folder = f"{cache}/hub/models--{str(context.model['repo']).replace('/', '--')}"
    return case(
        node,
        f"{counted(count, 'file')} of {context.model['repo']} on {node.name} belong{'s' * (count == 1)} to another user than {owner}.",
        "All files of the model belong to the cache's owner, so that they can be read, verified and completed.",
        f"On {node.name}: `sudo chown -R {owner} {folder}`.",
        "models.repositories",
        "models.owner",
    )


@node_rule(
    "model.cache_network",
    "warn",
    "The cache is on a network or FUSE file system.",
    source="https://github.com/huggingface/huggingface_hub/issues/2399",
)
def cache_network(context: Context, node: Node) -> Case | None:
    """Each node whose cache is on a file system without sure locks: loading is slow, and caches of compiled kernels there break."""
    kind = str(node.get("models.filesystem") or "")
    if not kind.lower().startswith(_NETWORK):
        return None
    return case(
        node,
        f"{context.work[node.name]['model']['cache']} of {node.name} is on {kind}.",
        "The model is on a disk of the node; file locks do not hold on such a file system, and compiled kernels must never be shared.",
        f"Set HF_HOME on {node.name} to a directory of its own disk: the model goes there over the fabric.",
        "models.filesystem",
    )


@node_rule(
    "model.download_stalled",
    "warn",
    "A download of the model stopped half way.",
    source="https://github.com/huggingface/huggingface_hub/issues/4508",
)
def download_stalled(context: Context, node: Node) -> Case | None:
    """Each node with parts of files that have not grown for a quarter of an hour, which are still needed."""
    row = _repository(context, node)
    age, size = row.get("incomplete_age"), row.get("incomplete_size")
    if not row.get("incomplete") or not isinstance(age, (int, float)) or age < STALLED or not _fetches(context, node):
        return None
    return case(
        node,
        f"{counted(len(row['incomplete']), 'part')} of {context.model['repo']} on {node.name} ({sized(size or 0)}) "
        f"did not grow for {age / 60:.0f} minutes.",
        "A download grows or is complete.",
        f"End what still waits for it (`pgrep -af 'hf download|huggingface'` on {node.name}); the parts are kept and completed. "
        "If it stops again, HF_HUB_DISABLE_XET=1 helped others.",
        "models.repositories",
    )


@node_rule(
    "model.lock_held",
    "warn",
    "Somebody is fetching the model right now.",
    source="https://github.com/noonghunna/club-3090/issues/726",
)
def lock_held(context: Context, node: Node) -> Case | None:
    """Each node with a lock of the model that a process holds: ours would wait for it, without a limit."""
    locks = _locks(context, node, True)
    if not locks or not _fetches(context, node):
        return None
    return case(
        node,
        f"A process on {node.name} holds {counted(len(locks), 'lock')} of {context.model['repo']}, the first {locks[0]}.",
        "Nobody else fetches the model while we do.",
        f"Wait for it to end, or see who it is: `sudo fuser -v {locks[0]}` on {node.name}. Never remove a lock that is held.",
        "models.repositories",
    )


@node_rule(
    "model.lock_orphan",
    "info",
    "Locks of the model were left behind; nobody holds them.",
    source="https://github.com/noonghunna/club-3090/issues/726",
    explained_by=("model.lock_held",),
)
def lock_orphan(context: Context, node: Node) -> Case | None:
    """Each node with locks that certainly nobody holds. On a local disk they hinder nobody."""
    locks = _locks(context, node, False)
    if not locks or not _fetches(context, node):
        return None
    return case(
        node,
        f"Nobody holds {counted(len(locks), 'lock')} of {context.model['repo']} that {'are' if len(locks) > 1 else 'is'} left on {node.name}.",
        "A lock file that nobody holds is harmless on a local disk; elsewhere a download may wait for it for ever.",
        f"Nothing has to be done. If a download waits all the same, on {node.name}: `rm {locks[0]}`.",
        "models.repositories",
    )


@node_rule(
    "model.offline",
    "warn",
    "The session tells Hugging Face to stay offline, but the model has to be fetched.",
    source="https://github.com/huggingface/optimum/pull/2470",
)
def offline(context: Context, node: Node) -> Case | None:
    """The node that downloads the model, if its session sets HF_HUB_OFFLINE."""
    value = node.get("models.environment.HF_HUB_OFFLINE")
    if context.work[node.name]["model"]["action"] != "download" or str(value or "").lower() not in ("1", "true", "yes", "on"):
        return None
    return case(
        node,
        f"HF_HUB_OFFLINE={value} is set in the sessions of {node.name}, which has to fetch {context.model['repo']}.",
        "The node that fetches the model may ask the Hub; serving is offline in any case.",
        f"Take HF_HUB_OFFLINE out of the profile or /etc/environment of {node.name}.",
        "models.environment",
    )
