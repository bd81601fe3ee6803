# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner: facts of all nodes, a recipe and what the user asked for in, the plan of docs/contracts.md out.

Pure: no clock, no environment, no file, no ansible. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Interface
from typing import Any

from .._rules import evaluate
from .._rules.context import Budget, Context, Fabric, Facts, Node, Recipe, Settings, held, is_managed
from .addressing import read_addresses
from .containers import Rank, listeners, mp_containers, obsolete, ray_containers, settle
from .environment import rank_environment
from .firewall import plan_firewall
from .rails import plan_fabric
from .sources import model_cache, node_image, node_model, plan_image, plan_model
from .trust import node_ssh, plan_trust

SCHEMA = 1


def make_plan(facts: Mapping[str, Facts | None], recipe: Recipe, settings: Settings) -> dict[str, Any]:
    """The plan for the hosts of ``facts``, whose order is the order of ranks; a host that did not answer has None.

    Shapes: ``facts`` maps a host to ``ansible_facts.gb10``, ``recipe`` is validated, the result is ``gb10_plan``; all of docs/contracts.md.
    Raises ValueError if there is no host at all.
    """
    if not facts:
        raise ValueError("a plan needs at least one host")
    nodes = tuple(Node(name, rank, facts[name]) for rank, name in enumerate(facts))
    backend = settings.backend if len(nodes) > 1 else "mp"
    fabric = plan_fabric(nodes, "network" in settings.consent) if len(nodes) > 1 else Fabric()
    addresses = {node.name: fabric.meeting.get(node.name, ("", None))[1] for node in nodes}
    image, model = plan_image(recipe, backend), plan_model(recipe, [node.name for node in nodes])
    endpoint = _endpoint(nodes[0], settings)
    work = {node.name: _work(node, nodes[0], recipe, settings, fabric, backend, image, model) for node in nodes}
    planned = _containers(nodes, addresses, recipe, settings, work, backend, str(image["run"]), endpoint["host"])
    settle(planned, nodes)
    for node in nodes:
        work[node.name]["containers"] = planned[node.name]
        work[node.name]["obsolete"] = obsolete(node, planned[node.name])
    context = Context(
        nodes=nodes,
        recipe=recipe,
        settings=settings,
        fabric=fabric,
        budgets={node.name: _budget(node, recipe, settings) for node in nodes},
        image=image,
        model=model,
        work=work,
        listeners=listeners(nodes[0].name, addresses[nodes[0].name], endpoint["host"], backend, settings),
    )
    findings = evaluate(context)
    return {
        "schema": SCHEMA,
        "ok": not any(finding["severity"] == "block" and not finding["accepted"] for finding in findings),
        "recipe": _plain(recipe),
        "backend": backend,
        "ranks": [node.name for node in nodes],
        "head": nodes[0].name,
        "world_size": context.world_size,
        "endpoint": endpoint,
        "model": model,
        "image": image,
        "topology": fabric.topology,
        "trust": plan_trust(nodes[0]),
        "nodes": {node.name: {**work[node.name], "memory": context.budgets[node.name].as_plan()} for node in nodes},
        "findings": findings,
    }


def _work(
    node: Node,
    head: Node,
    recipe: Recipe,
    settings: Settings,
    fabric: Fabric,
    backend: str,
    image: Mapping[str, Any],
    model: Mapping[str, Any],
) -> dict[str, Any]:
    """``nodes.*`` of the plan, still without containers and memory."""
    meeting = fabric.meeting.get(node.name)
    rails = fabric.rails.get(node.name, ())
    return {
        "rank": node.rank,
        "reachable": node.reachable,
        "management_address": management_address(node),
        "fabric_address": meeting[1] if meeting else None,
        "rails": [rail.as_plan() for rail in rails],
        "wires": [
            {"netdev": netdev, "ends": [{"node": other, "netdev": far} for other, far in ends]}
            for netdev, ends in fabric.wires.get(node.name, {}).items()
        ],
        "firewall": plan_firewall(node, rails, settings),
        "ssh": node_ssh(node, plan_trust(head), next((rail.address for rail in rails if head.name in rail.peers), None)),
        "image": node_image(node, head, image) if node.reachable else {"action": "none"},
        "model": node_model(node, model) if node.reachable else {"action": "none", "cache": None},
        "reclaim": consented_stops(node, settings),
        "environment": rank_environment(node, recipe, fabric, backend) if node.reachable else {},
        "containers": [],
        "obsolete": [],
    }


def _containers(
    nodes: Sequence[Node],
    addresses: Mapping[str, str | None],
    recipe: Recipe,
    settings: Settings,
    work: Mapping[str, Mapping[str, Any]],
    backend: str,
    image: str,
    host: str,
) -> dict[str, list[dict[str, Any]]]:
    """The containers of each node. A rank of several that has no fabric address, or whose head has none, cannot be told what to run."""
    head = addresses[nodes[0].name]
    planned: dict[str, list[dict[str, Any]]] = {}
    for node in nodes:
        address = addresses[node.name]
        planned[node.name] = []
        if not node.reachable or (len(nodes) > 1 and (address is None or head is None)):
            continue
        rank = Rank(node, address, dict(work[node.name]["environment"]), model_cache(node))
        if backend == "ray":
            planned[node.name] = ray_containers(rank, str(head), recipe, settings, image, host)
        else:
            planned[node.name] = mp_containers(rank, head, len(nodes), recipe, settings, image, host)
    return planned


def _budget(node: Node, recipe: Recipe, settings: Settings) -> Budget:
    """The node's unified memory. What containers of ours hold counts as free for us: they are kept or replaced, never added to."""
    stops = set(consented_stops(node, settings))
    managed = reclaimed = 0
    for row in node.rows("workloads"):
        size = held(row) or 0
        if row.get("managed"):
            managed += size
        elif row.get("kind") == "container" and row.get("name") in stops:
            reclaimed += size
    return Budget(
        total=node.number("memory.total"),
        available=node.number("memory.available"),
        managed=managed,
        reclaimed=reclaimed,
        needed=int(recipe["memory"]["per_rank"]),
    )


def consented_stops(node: Node, settings: Settings) -> list[str]:
    """Containers of others that run on the node and that the user listed in gb10_reclaim, in the user's order. Never ours."""
    running = {str(row.get("name")) for row in node.rows("docker.containers") if row.get("running") and not is_managed(row)}
    return [name for name in dict.fromkeys(settings.reclaim) if name in running]


def management_address(node: Node) -> str | None:
    """The address at which our session arrives; on the controller itself, that of the default route's interface."""
    address = node.get("fabric.ssh.address")
    if address:
        return str(address)
    by_interface = {str(row.get("name")): list(read_addresses(row)) for row in node.rows("fabric.interfaces")}
    default = [str(row.get("interface")) for row in node.rows("fabric.routes") if row.get("destination") == "default"]
    candidates: list[IPv4Interface] = [found for name in [*default, *sorted(by_interface)] for found in by_interface.get(name, [])]
    return next((str(found.ip) for found in candidates if not found.is_loopback), None)


def _endpoint(head: Node, settings: Settings) -> dict[str, Any]:
    """Where the API listens, and the URL for clients. Bound to one address unless the user asks for more."""
    management = management_address(head)
    host = settings.api_host or management or "127.0.0.1"
    reached = (management or "127.0.0.1") if host in ("0.0.0.0", "::") else host
    shown = f"[{reached}]" if ":" in reached else reached
    return {"host": host, "port": settings.api_port, "url": f"http://{shown}:{settings.api_port}/v1", "api_key": settings.api_key}


def _plain(value: Any) -> Any:
    """A copy made of dicts, lists and scalars only."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value
