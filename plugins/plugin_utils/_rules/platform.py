# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kind of machine a node is, and what a role of ours needs on it."""

from __future__ import annotations

from collections.abc import Iterator

from .base import Case, case, node_rule, rule
from .context import Context, Node, listing, sized
from .versions import version


@rule(
    "platform.architecture",
    "block",
    "A node is not aarch64: images and recipes are made for GB10.",
    source="https://github.com/mmartial/ComfyUI-Nvidia-Docker/issues/96",
)
def architecture(context: Context) -> Iterator[Case]:
    """Each node of another architecture."""
    for node in context.reachable:
        machine = node.get("kernel.machine")
        if machine is not None and machine != "aarch64":
            yield Case(
                (node.name,),
                f"{node.name} is {machine}.",
                "Every node is aarch64, as a GB10 is.",
                "Take this host out of the group; if the image of your recipe is made for it, accept this: "
                """-e '{"gb10_accept": ["platform.architecture"]}'.""",
                ("kernel.machine",),
            )


@rule("platform.not_gb10", "warn", "A node does not say that it is a GB10.", source="docs/contracts.md")
def not_gb10(context: Context) -> Iterator[Case]:
    """Each node that neither by product family nor by GPU is a GB10."""
    for node in context.reachable:
        if node.get("identity.gb10") is False:
            product = node.get("identity.product") or "a machine of unknown make"
            yield Case(
                (node.name,),
                f"{node.name} is {product}, not a GB10.",
                "Every node is a DGX Spark or one of its twins.",
                "Check the inventory. Memory needs and measured numbers of the recipes hold for GB10 only.",
                ("identity.gb10", "identity.product"),
            )


@rule(
    "python.requests_missing",
    "block",
    "The node's Python lacks the requests package that the container modules need.",
    source="https://docs.ansible.com/ansible/latest/collections/community/docker/docsite/scenario_guide.html",
)
def requests_missing(context: Context) -> Iterator[Case]:
    """Each node whose Python cannot import requests."""
    for node in context.reachable:
        if node.get("python.requests") is False:
            python = node.get("python.executable") or "its Python"
            yield Case(
                (node.name,),
                f"{python} on {node.name} has no package requests.",
                "The Python that Ansible uses on the node can import requests.",
                f"On {node.name}: `sudo apt-get install python3-requests`.",
                ("python.requests",),
            )


#: The oldest Python that modules run on.
_OLDEST_PYTHON = (3, 9)


@node_rule(
    "python.too_old",
    "block",
    "The node's Python is too old for the modules.",
    source="https://docs.ansible.com/ansible/latest/reference_appendices/release_and_maintenance.html",
)
def too_old(context: Context, node: Node) -> Case | None:
    """Each node whose Python is older than 3.9."""
    found = version(node.get("python.version"))
    if found is None or found[:2] >= _OLDEST_PYTHON:
        return None
    return case(
        node,
        f"{node.get('python.executable') or 'Python'} on {node.name} is {node.get('python.version')}.",
        "The Python that Ansible uses on the node is 3.9 or newer.",
        f"Set ansible_python_interpreter of {node.name} to a newer one, such as /usr/bin/python3 of Ubuntu 24.04.",
        "python.version",
    )


@node_rule(
    "limits.memlock",
    "info",
    "Sessions on the node may lock little memory, so RDMA tools fail there outside of containers.",
    source="https://github.com/eugr/spark-vllm-docker/issues/389",
    several=True,
)
def memlock(context: Context, node: Node) -> Case | None:
    """Each node whose session has a small limit. Containers of ours have a limit of their own."""
    limit = node.number("limits.memlock")
    if limit is None or limit == -1 or limit >= 2**30:
        return None
    return case(
        node,
        f"A session on {node.name} may lock {sized(limit)} of memory.",
        "RDMA locks its buffers; containers of ours have no limit, tools like ib_write_bw on the machine itself have this one.",
        f"Only to run such tools: a file in /etc/security/limits.d on {node.name} with `* - memlock unlimited`, then log in again.",
        "limits.memlock",
    )


@node_rule(
    "service.not_enabled",
    "warn",
    "Docker does not start at boot, so nothing is served after a reboot.",
    source="https://github.com/NVIDIA/NemoClaw/issues/4886",
)
def not_enabled(context: Context, node: Node) -> Case | None:
    """Each node whose Docker service is disabled. Masked or static units are somebody's decision, and said as well."""
    for row in node.rows("services.units"):
        if row.get("name") == "docker.service" and row.get("enabled") in ("disabled", "masked"):
            return case(
                node,
                f"docker.service of {node.name} is {row.get('enabled')}.",
                "Docker starts at boot.",
                f"On {node.name}: `sudo systemctl {'unmask' if row.get('enabled') == 'masked' else 'enable'} docker`.",
                "services.units",
            )
    return None


@node_rule(
    "service.failed",
    "warn",
    "A unit of this collection has failed.",
    source="https://github.com/eugr/spark-vllm-docker/issues/257",
)
def failed(context: Context, node: Node) -> Case | None:
    """Each node with a failed unit of ours: restarts are bounded, so that a fault is seen instead of repeated."""
    units = [
        str(row.get("name")) for row in node.rows("services.units") if str(row.get("name")).startswith("gb10-") and row.get("active") == "failed"
    ]
    if not units:
        return None
    return case(
        node,
        f"{listing(units)} of {node.name} {'have' if len(units) > 1 else 'has'} failed and is not started again by itself.",
        "Units of a deployment are active, or were stopped.",
        f"`journalctl -u {units[0]} -n 100` on {node.name} says why; deploying again, or the playbook start, starts the whole gang.",
        "services.units",
    )
