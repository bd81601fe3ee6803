# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker: whether it answers us, and whether the names we use are free."""

from __future__ import annotations

from collections.abc import Iterator

from .base import Case, rule
from .context import Context, Node, is_managed

_DENIED = "permission denied"


def _reason(node: Node) -> str:
    """Why Docker did not answer; empty if it did or if that is unknown."""
    return str(node.get("docker.reason") or "no reason given") if node.get("docker.available") is False else ""


@rule(
    "docker.unavailable",
    "block",
    "The Docker engine does not answer.",
    source="https://github.com/NVIDIA/NemoClaw/issues/1574",
)
def unavailable(context: Context) -> Iterator[Case]:
    """Each node whose engine does not answer for another reason than missing rights."""
    for node in context.reachable:
        reason = _reason(node)
        end = "" if reason.endswith((".", "?")) else "."
        if reason and _DENIED not in reason.lower():
            yield Case(
                (node.name,),
                f"Docker does not answer on {node.name}: {reason}{end}",
                "The Docker engine runs and answers.",
                f"On {node.name}: `systemctl status docker`, then `sudo systemctl start docker`; install it if it is not there.",
                ("docker.available", "docker.reason"),
            )


@rule(
    "docker.group",
    "block",
    "The user may not talk to the Docker engine.",
    source="https://github.com/geerlingguy/internet-pi/issues/5",
)
def group(context: Context) -> Iterator[Case]:
    """Each node whose engine refuses our user, so that containers and images are unknown."""
    for node in context.reachable:
        if _DENIED in _reason(node).lower():
            user = node.get("user.name") or "the user"
            yield Case(
                (node.name,),
                f"{user} may not talk to Docker on {node.name}, so its containers and images are unknown.",
                f"{user} is in the group docker, in the session that Ansible uses.",
                f"On {node.name}: `sudo usermod -aG docker {user}`, then end open sessions (Ansible keeps one for two minutes) and run again.",
                ("docker.available", "docker.reason", "user.groups"),
            )


@rule(
    "docker.name_taken",
    "block",
    "A container that is not ours has a name that the plan uses.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/72",
)
def name_taken(context: Context) -> Iterator[Case]:
    """Each planned container whose name a foreign container has. Nothing is ever deleted that we did not create."""
    for node in context.reachable:
        for planned in context.work[node.name]["containers"]:
            existing = node.container(planned["name"])
            if existing is not None and not is_managed(existing):
                yield Case(
                    (node.name,),
                    f"{node.name} has a container {planned['name']} (image {existing.get('image')}) that this collection did not make.",
                    f"The name {planned['name']} is free, or its container carries our labels.",
                    f"On {node.name}: `docker rename {planned['name']} {planned['name']}-old`, or remove it if you do not need it.",
                    ("docker.containers",),
                )
