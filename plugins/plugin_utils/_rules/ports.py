# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TCP ports that the plan needs, against those that are in use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .base import Case, rule
from .context import PORTS_LABEL, Context, Listener, Node, is_managed, listing

_ANY = ("0.0.0.0", "::", "[::]", "*", "")


@rule("port.taken", "block", "A port that the plan needs is in use by another.", source="https://github.com/NVIDIA/NemoClaw/issues/8685")
def taken(context: Context) -> Iterator[Case]:
    """Each needed port that somebody else listens on, who is neither ours nor stopped by consent."""
    by_name = {node.name: node for node in context.reachable}
    for needed in context.listeners:
        node = by_name.get(needed.node)
        for row in node.rows("services.listening") if node else []:
            if node and row.get("port") == needed.port and _same_address(str(row.get("address") or ""), needed.address):
                holders = _holders(node, row)
                if not (_is_ours(node, holders, needed) or _goes(context, node, holders)):
                    yield _case(context, node, row, holders, needed)
                    break


def _case(context: Context, node: Node, row: Mapping[str, Any], holders: Sequence[Mapping[str, Any]], needed: Listener) -> Case:
    """The finding for one taken port."""
    names = [str(holder.get("name")) for holder in holders]
    process = f"{row.get('process') or 'a process'} (pid {row['pid']})" if row.get("pid") is not None else "a process of another user"
    if len(names) == 1 and not _is_guess(row, holders):
        who = f"{holders[0].get('kind')} {names[0]}"
    else:
        who = process + (f", perhaps of a container in the host's network ({listing(names)})" if names else "")
    remedy = f"See who it is with `sudo ss -ltnp 'sport = :{needed.port}'` on {node.name} and stop it"
    containers = [name for name, holder in zip(names, holders) if holder.get("kind") == "container"]
    if containers:
        value = json.dumps({"gb10_reclaim": list(dict.fromkeys([*context.settings.reclaim, containers[0]]))})
        remedy += f", or, if it is {containers[0]} and may be stopped: -e '{value}'"
    if needed.variable:
        remedy += f", or choose another port: -e {needed.variable}=PORT"
    return Case(
        (node.name,),
        f"Port {needed.port} of {node.name}, needed for {needed.purpose}, is in use by {who}.",
        f"Port {needed.port} is free on {needed.address}, or ours.",
        f"{remedy}.",
        ("services.listening",),
    )


def _same_address(listening: str, needed: str) -> bool:
    """Whether both cannot be had at once."""
    return listening in _ANY or needed in _ANY or listening == needed


def _holders(node: Node, row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Who listens: the workload or container with that pid, else the one that has the port, else all containers that could.

    Without root the pids of other users' listeners are not readable, and a container in the host's network hides who it is.
    """
    pid, port = row.get("pid"), str(row.get("port"))
    workloads = [workload for workload in node.rows("workloads") if pid is not None and pid in (workload.get("pids") or [])]
    if workloads:
        return workloads[:1]
    containers: list[Mapping[str, Any]] = [
        {**container, "kind": "container"} for container in node.rows("docker.containers") if container.get("running")
    ]
    by_pid = [container for container in containers if _runs(container, row)]
    by_port = [container for container in containers if port in _ports(container)]
    if by_pid or by_port:
        return (by_pid or by_port)[:1]
    return [container for container in containers if pid is None and container.get("network_mode") == "host"]


def _runs(container: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether what listens is a process of that container; root sees its cgroup, which names it."""
    if row.get("container_id"):
        return bool(row["container_id"] == container.get("id"))
    return row.get("pid") is not None and bool(row["pid"] == container.get("pid"))


def _is_guess(row: Mapping[str, Any], holders: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the holders are only those that could be."""
    return row.get("pid") is None and not any(str(row.get("port")) in _ports(holder) for holder in holders)


def _ports(container: Mapping[str, Any]) -> set[str]:
    """The ports of a container: those that it declares, and for one of ours those that we know it listens on."""
    declared = {str(entry).partition("/")[0] for entry in container.get("ports") or []}
    return _our_ports(container) if is_managed(container) else declared


def _our_ports(container: Mapping[str, Any]) -> set[str]:
    """The ports of a container of ours, by its label."""
    return set(str((container.get("labels") or {}).get(PORTS_LABEL, "")).split(",")) - {""}


def _is_ours(node: Node, holders: Sequence[Mapping[str, Any]], needed: Listener) -> bool:
    """Whether the listener is a container of ours, by its pid or by the ports that our running containers are labelled with."""
    if any(holder.get("managed") for holder in holders):
        return True
    ours = [container for container in node.rows("docker.containers") if container.get("running") and is_managed(container)]
    return any(str(needed.port) in _our_ports(container) for container in ours)


def _goes(context: Context, node: Node, holders: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the listener, or one of those that could be it, is stopped by the user's consent. After the stops the plan is made again."""
    return any(holder.get("name") in context.work[node.name]["reclaim"] for holder in holders)
