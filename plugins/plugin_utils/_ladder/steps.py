# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be measured, where, and with which options, from the plan and the facts; and what cannot be, with the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._bench.spec import MOST_BYTES, PORTS

from .base import End, Facts, Step, listing, pairs, rail_ends, ready_rails

#: Seconds that both twins run at once. Its first and last quarter are not measured.
TOGETHER = 4
#: Bytes that the all-reduce needs at most (CUDA's context, NCCL's buffers, one message), and what has to be left beside it: machines
#: have frozen with 6 GiB free (https://github.com/guardkit/dgx-spark).
COLLECTIVE_MEMORY, RESERVE = 4 * 2**30, 6 * 2**30
_VERBS = re.compile(r"/dev/infiniband/uverbs\d+")

Ready = Mapping[str, Mapping[str, Any]]


def make_steps(plan: Mapping[str, Any], facts: Mapping[str, Facts | None], ready: Ready | None = None) -> list[Step]:
    """The steps in their order. `ready`: by host, what link_bench said of perftest in check mode."""
    rails = ready_rails(rail_ends(plan, facts))
    if len(plan["ranks"]) < 2 or not rails:
        return []
    ports = free_ports(facts, max((end.rail for rail in rails for end in rail.values()), default=0) + 2)
    steps = [_ping(plan, facts, rails)]
    for client, server in pairs(plan):
        ends = [(rail[client], rail[server]) for rail in rails if client in rail and server in rail]
        alone = [_perftest("write_bandwidth", client, server, [end], plan, facts, ready, ports) for end in ends]
        together = [_perftest("write_bandwidth", client, server, ends, plan, facts, ready, ports)] if len(ends) > 1 else []
        latency = [_perftest("write_latency", client, server, [end], plan, facts, ready, ports) for end in ends]
        steps += [*alone, *together, *latency]
    return [*steps, _all_reduce(plan, facts, ports)]


def free_ports(facts: Mapping[str, Facts | None], count: int) -> list[int]:
    """The first ports of our range on which nobody listens on any node, as far as is known."""
    listening = [((of_node or {}).get("services") or {}).get("listening") or [] for of_node in facts.values()]
    taken = {row.get("port") for rows in listening for row in rows if isinstance(row, Mapping)}
    return [port for port in PORTS if port not in taken][:count]


def _absent(plan: Mapping[str, Any], facts: Mapping[str, Facts | None], hosts: tuple[str, ...]) -> str | None:
    """Why these nodes cannot be measured at all."""
    silent = [host for host in hosts if not plan["nodes"][host].get("reachable", True) or not facts.get(host) or "unreachable" in (facts[host] or {})]
    return f"{listing(silent)} did not answer" if silent else None


def _ping(plan: Mapping[str, Any], facts: Mapping[str, Facts | None], rails: Sequence[Mapping[str, End]]) -> Step:
    hosts = tuple(plan["ranks"])
    options: dict[str, Any] = {host: {"test": "ping", "links": []} for host in hosts}
    for sender, receiver in pairs(plan):
        options[sender]["links"] += [
            {"netdev": rail[sender].netdev, "address": rail[receiver].address, "mtu": rail[sender].mtu}
            for rail in rails
            if sender in rail and receiver in rail and rail[sender].mtu
        ]
    why = _absent(plan, facts, hosts)
    return Step("ping", "ping", None, "Full-size packets on every rail, both ways", hosts, {} if why else options, why)


def _perftest(
    name: str,
    client: str,
    server: str,
    ends: list[tuple[End, End]],
    plan: Mapping[str, Any],
    facts: Mapping[str, Facts | None],
    ready: Ready | None,
    ports: list[int],
) -> Step:
    """A write from the client to the server, over one rail or over all of them at once."""
    rail = ends[0][0].rail if len(ends) == 1 else None
    where = f"rail {rail}" if rail is not None else "all rails at once"
    what = "RDMA write bandwidth" if name == "write_bandwidth" else "RDMA write latency"
    title, hosts = f"{what} from {client} to {server}, {where}", (client, server)
    id_ = f"{name}:{client}:{server}:{'all' if rail is None else rail}"
    why, remedy = _no_perftest(plan, facts, hosts, ends, ready, ports)
    if why:
        return Step(id_, name, rail, title, hosts, {}, why, remedy)
    common = {"measure": "bandwidth" if name == "write_bandwidth" else "latency", "seconds": TOGETHER if rail is None else 0}
    own = [{"hca": end.hca, "gid_index": end.gid_index, "port": ports[end.rail], "address": other.address} for end, other in ends]
    far = [{"hca": other.hca, "gid_index": other.gid_index, "port": ports[other.rail]} for _end, other in ends]
    nodes = {client: {"test": "perftest_client", **common, "links": own}, server: {"test": "perftest_server", **common, "links": far}}
    return Step(id_, name, rail, title, hosts, nodes)


def _no_perftest(
    plan: Mapping[str, Any],
    facts: Mapping[str, Facts | None],
    hosts: tuple[str, str],
    ends: list[tuple[End, End]],
    ready: Ready | None,
    ports: list[int],
) -> tuple[str | None, str]:
    """Why it cannot be measured, and what to do about it."""
    absent = _absent(plan, facts, hosts)
    if absent:
        return absent, ""
    for host in hosts:
        devices = ((facts[host] or {}).get("fabric") or {}).get("devices")
        if devices is not None and not any(_VERBS.fullmatch(str(device)) for device in devices):
            return f"{host} has no /dev/infiniband/uverbs device", f"Load the driver on {host}: `sudo modprobe -a mlx5_ib ib_uverbs`."
    # In the order of ranks, so that both directions give one and the same sentence.
    lacking = [(host, said) for host in plan["ranks"] if host in hosts and (said := (ready or {}).get(host) or {}).get("missing")]
    if lacking:
        reason = lacking[0][1].get("reason")
        same = [host for host, said in lacking if said.get("reason") == reason]
        return f"on {listing(same)}, {reason}", str(lacking[0][1].get("remedy") or "")
    for end in (end for both in ends for end in both):
        if not end.hca:
            return f"the HCA of {end} is not known", ""
        if end.gid_index is None:
            return f"{end.hca} has no RoCE v2 GID of {end.address} on {end.node}, or its GIDs could not be read", "See the rung `link`."
    if len(ports) <= max(end.rail for end, _other in ends):
        return f"no TCP port from {PORTS[0]} to {PORTS[-1]} is free on all nodes", ""
    return None, ""


def _all_reduce(plan: Mapping[str, Any], facts: Mapping[str, Facts | None], ports: list[int]) -> Step:
    """The engine's own image, devices and environment, on every rank at once."""
    hosts, title = tuple(plan["ranks"]), "NCCL all-reduce over all ranks, in the engine's image"
    why, remedy = _no_all_reduce(plan, facts, hosts, ports)
    if why:
        return Step("all_reduce", "all_reduce", None, title, hosts, {}, why, remedy)
    head = plan["nodes"][plan["head"]]["fabric_address"]
    nodes = {}
    for rank, host in enumerate(hosts):
        spec = plan["nodes"][host]["containers"][0]
        container = {"image": spec["image"], "environment": dict(spec["environment"]), "devices": list(spec["devices"])}
        container |= {"capabilities": list(spec["capabilities"]), "ulimits": list(spec["ulimits"])}
        if spec.get("shm_size"):
            container["shm_size"] = spec["shm_size"]
        nodes[host] = {
            "test": "nccl",
            "rank": rank,
            "world_size": len(hosts),
            "container": container,
            "head": {"address": head, "port": ports[-1]},
            "amount": MOST_BYTES,
            "memory": COLLECTIVE_MEMORY + RESERVE,
        }
    return Step("all_reduce", "all_reduce", None, title, hosts, nodes)


def _no_all_reduce(plan: Mapping[str, Any], facts: Mapping[str, Facts | None], hosts: tuple[str, ...], ports: list[int]) -> tuple[str | None, str]:
    absent = _absent(plan, facts, hosts)
    if absent:
        return absent, ""
    for host in hosts:
        node = plan["nodes"][host]
        if not node.get("containers"):
            return f"the plan has no container for {host}", "Mend what blocks the plan: recon.yml says what it is."
        if (node.get("image") or {}).get("action") != "none":
            return f"{host} does not have the image {node['containers'][0]['image']} yet", "Deploy first: site.yml."
        available = ((facts[host] or {}).get("memory") or {}).get("available")
        if available is None:
            return f"how much memory {host} has free is not known", ""
        if available < COLLECTIVE_MEMORY + RESERVE:
            needed = (COLLECTIVE_MEMORY + RESERVE) // 2**30
            return (
                f"{host} has {available / 2**30:.1f} GiB of memory free, {needed} GiB are needed so that it cannot freeze",
                "Stop the server for a moment (stop.yml), or let it take less (--gpu-memory-utilization); then measure again.",
            )
    if not ports:
        return f"no TCP port from {PORTS[0]} to {PORTS[-1]} is free on all nodes", ""
    return None, ""
