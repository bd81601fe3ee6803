# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU: whether there is one, and whether it answers. How much memory it has is another question (it is unified)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .base import Case, rule
from .context import Context, Node


@rule("gpu.absent", "block", "A node has no GPU.", source="https://github.com/unslothai/unsloth/issues/10691")
def absent(context: Context) -> Iterator[Case]:
    """Each node that says it has none."""
    for node in context.reachable:
        if node.get("gpu.present") is False:
            yield Case(
                (node.name,),
                f"{node.name} has no GPU that its driver could find.",
                "Every node has a GB10.",
                f"Run `nvidia-smi -L` on {node.name}; if it says that no device was found, look at `dmesg | grep -i nvrm` and reboot the machine.",
                ("gpu.present",),
            )


@rule(
    "gpu.unreachable",
    "block",
    "There is a GPU, but the driver does not answer.",
    source="https://github.com/Start9Labs/start-technologies/pull/3693",
)
def unreachable(context: Context) -> Iterator[Case]:
    """Each node with a GPU of which nothing can be learnt: a hung nvidia-smi, a driver that does not match its library."""
    for node in context.reachable:
        reason = failed_probe(node)
        present = node.get("gpu.present")
        if (present is True and not node.rows("gpu.devices")) or (present is None and reason):
            yield Case(
                (node.name,),
                f"The GPU of {node.name} does not answer: {reason or 'no device is listed'}.",
                "nvidia-smi lists the GPU within its time limit.",
                f"Run `nvidia-smi` on {node.name}. A driver that was updated under a running system needs a reboot, and so does one that hangs.",
                ("gpu.present", "gpu.devices", "probes"),
            )


def failed_probe(node: Node) -> str | None:
    """Why a probe of nvidia-smi failed, None if none did."""
    probes = node.get("probes")
    if isinstance(probes, Mapping):
        for name, row in sorted(probes.items()):
            if "nvidia" in str(name) and isinstance(row, Mapping) and row.get("status") in ("failed", "timeout"):
                return f"{name} {row.get('status')} ({row.get('reason') or 'no reason given'})"
    return None
