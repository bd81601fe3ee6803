# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether we know the nodes at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .base import Case, rule
from .context import Context, Node, listing
from .gpu import failed_probe

#: Facts without which a deployment cannot be judged: what a reader calls them, and the probes that they come from.
_NEEDED = {
    "memory.available": ("the available memory", ("meminfo",)),
    "memory.total": ("the total memory", ("meminfo",)),
    "workloads": ("who holds memory", ("docker_containers", "nvidia_smi_processes", "ps")),
    "gpu.present": ("whether there is a GPU", ("nvidia_smi", "nvidia_proc")),
    "docker.available": ("whether Docker answers", ("docker_info",)),
    "kernel.machine": ("the architecture", ("kernel",)),
    "python.requests": ("whether Python has the requests package", ("python",)),
    "models.repositories": ("the models in the Hugging Face cache", ("hf_cache",)),
    "services.listening": ("the ports in use", ("ss",)),
    "disk": ("the free disk space", ("df",)),
}
#: Needed only where nodes talk to each other.
_NEEDED_BY_SEVERAL = {
    "fabric.ports": ("the ports of the fabric", ("ip_addr",)),
    "fabric.interfaces": ("the addresses", ("ip_addr",)),
    "fabric.routes": ("the routes", ("ip_route",)),
}
#: So many probes are named in a sentence.
_SHOWN = 4


@rule(
    "node.unreachable",
    "block",
    "A host of the group gave no facts.",
    source="https://github.com/spark-arena/sparkrun/issues/67",
)
def unreachable(context: Context) -> Iterator[Case]:
    """Each host without facts. The plan is still made for the others."""
    for node in context.nodes:
        if not node.reachable:
            yield Case(
                (node.name,),
                f"{node.name} did not answer, so nothing is known about it{_reason(node)}.",
                "Every host of the group answers over SSH.",
                f"Try `ansible {node.name} -m ansible.builtin.ping -vvv`; look at ansible_host, ansible_user and gb10_jump of {node.name} "
                "in the inventory, and whether the machine is on.",
            )


def _reason(node: Node) -> str:
    """What the connection said, in brackets, where it said anything."""
    reason = node.get("unreachable")
    return f" ({reason})" if reason else ""


@rule(
    "node.facts_incomplete",
    "block",
    "A fact that the plan needs could not be read.",
    source="https://github.com/llamastash/llamastash/issues/59",
)
def facts_incomplete(context: Context) -> Iterator[Case]:
    """A missing fact is unknown, never fine: each node with what is missing and the probes that failed."""
    for node in context.reachable:
        needed = {**_NEEDED, **(_NEEDED_BY_SEVERAL if context.several else {})}
        if failed_probe(node) is not None:
            needed.pop("gpu.present")  # gpu.unreachable says more about it
        if node.get("docker.available") is False:
            needed.pop("workloads")  # the findings about Docker say why
        missing = {path: entry for path, entry in needed.items() if node.get(path) is None}
        if missing:
            asked = {name for _, names in missing.values() for name in names}
            yield Case(
                (node.name,),
                f"Unknown on {node.name}: {listing(words for words, _ in missing.values())}. {_probes(node, asked)}",
                "Every fact that a decision depends on is known.",
                f"Run `ansible {node.name} -m gb10.cluster.gb10_facts` and mend what its probes name, then run again.",
                tuple(missing),
            )


def _probes(node: Node, asked: set[str]) -> str:
    """A sentence about why: the probes that were asked for it and gave nothing, without those whose tool is merely not there if others failed."""
    probes = node.get("probes")
    rows = {name: row for name, row in sorted(probes.items()) if isinstance(row, Mapping)} if isinstance(probes, Mapping) else {}
    silent = {name: row for name, row in rows.items() if name in asked and row.get("status") != "ok"}
    failed = {name: row for name, row in silent.items() if row.get("status") in ("failed", "timeout")}
    shown = failed or silent
    if not shown:
        return "No probe says why."
    words = [f"{name} {row.get('status')} ({row.get('reason') or 'no reason given'})" for name, row in shown.items()]
    return f"Probes: {'; '.join(words[:_SHOWN])}{f'; and {len(words) - _SHOWN} more' if len(words) > _SHOWN else ''}."
