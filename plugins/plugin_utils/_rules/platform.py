# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kind of machine a node is, and what a role of ours needs on it."""

from __future__ import annotations

from collections.abc import Iterator

from .base import Case, rule
from .context import Context, sized


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
    "kernel.kho_cma",
    "block",
    "The kernel keeps memory from RDMA: kexec handover reserved it, and registering buffers fails.",
    source="https://github.com/NVIDIA/NV-Kernels/pull/591",
)
def kho_cma(context: Context) -> Iterator[Case]:
    """Each node of several with more contiguous memory free than there is. Keyed on the mechanism, so that a mended kernel passes."""
    for node in context.reachable if context.several else ():
        total, free = node.number("memory.cma_total"), node.number("memory.cma_free")
        if total is not None and free is not None and free > total:
            yield Case(
                (node.name,),
                f"CmaFree ({sized(free)}) of {node.name} is more than CmaTotal ({sized(total)}), kernel {node.get('kernel.release') or 'unknown'}.",
                "CmaFree is at most CmaTotal. Otherwise NCCL fails late with `ibv_reg_mr_iova2 ... Cannot allocate memory`.",
                f"On {node.name}, boot a kernel of the 6.17 series, or add kho=off to the kernel command line, and reboot.",
                ("memory.cma_free", "memory.cma_total", "kernel.release"),
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
                f"sudo apt-get install python3-requests on {node.name}.",
                ("python.requests",),
            )
