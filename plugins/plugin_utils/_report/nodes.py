# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One block a node: what it is, who holds its memory, its rails, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import GIB, count, gib, listing, size

from .lines import Line, dig, labelled

_SHOWN_HOLDERS = 5
_SMALL = 0.05 * GIB
# Page cache is worth a word from this share of the memory on: it is free on demand, yet tools that look at free memory trip over it.
_MUCH_CACHE = 0.1


def node_block(host: str, node: Mapping[str, Any] | None, plan: Mapping[str, Any] | None) -> Iterator[Line]:
    """All lines of a node."""
    yield heading(host, node, plan)
    if node is None:
        yield Line("  did not answer", "block")
        return
    yield from labelled("system", system(node))
    yield from labelled("GPU", gpu(node.get("gpu")))
    yield from memory_lines(node)
    yield from rail_lines(node.get("ports"))
    yield from labelled("docker", docker_words(node.get("docker")))
    yield from labelled("model", model_words(node.get("models"), plan))
    yield from labelled("disk", disk_words(node))
    for entry in node.get("deployments") or []:
        yield from labelled("found", f"{entry.get('kind', 'a deployment')} in {entry.get('path', '?')}")
    yield from _unread(node.get("unread") or {})


def heading(host: str, node: Mapping[str, Any] | None, plan: Mapping[str, Any] | None) -> Line:
    rank = dig(plan, f"nodes.{host}.rank") if "." not in host else (dig(plan, "nodes", {}).get(host) or {}).get("rank")
    parts = [host]
    if rank is not None:
        parts.append(f"rank {rank}{', head' if dig(plan, 'head') == host else ''}")
    if node is not None:
        parts.append(product(node.get("product") or {}))
    return Line(" · ".join(part for part in parts if part), "title")


def product(record: Mapping[str, Any]) -> str:
    name = str(record.get("product") or record.get("family") or "").replace("_", " ")
    vendor = str(record.get("vendor") or "")
    if vendor and vendor.split()[0].lower() not in name.lower():
        name = f"{vendor} {name}".strip()
    release = record.get("dgx_release")
    notes = [f"DGX OS {release}"] if release else []
    if record.get("gb10") is False:
        notes.append("not a GB10")
    return f"{name} ({', '.join(notes)})" if notes and name else name or ", ".join(notes)


def system(node: Mapping[str, Any]) -> str:
    parts = [str(node.get("os") or "unknown system")]
    if node.get("kernel"):
        parts.append(f"kernel {node['kernel']}" + (f" ({node['machine']})" if node.get("machine") else ""))
    return ", ".join(parts)


def gpu(record: Mapping[str, Any] | None) -> str:
    """One sentence; presence, and what is known beside it."""
    if record is None:
        return "could not be read"
    if not record.get("present"):
        return "none found"
    devices = record.get("devices") or []
    names = [str(device.get("name", "GPU")) for device in devices]
    first = f"{len(names)} {names[0]}" if len(names) > 1 else "".join(names) or "present"
    parts = [first]
    parts += [f"{label} {record[key]}" for key, label in (("driver", "driver"), ("cuda", "CUDA")) if record.get(key)]
    if devices and devices[0].get("temperature") is not None:
        parts.append(f"{devices[0]['temperature']} °C")
    return ", ".join(parts)


def memory_lines(node: Mapping[str, Any]) -> Iterator[Line]:
    """104.0 of 119.6 GiB held, 15.1 left: vllm_node 98.0, vllm_embeddings 4.0, reranker 2.0."""
    memory, rows = node.get("memory") or {}, node.get("workloads")
    total, available = memory.get("total"), memory.get("available")
    if total is None:
        yield from labelled("memory", "could not be read")
        return
    left = "" if available is None else f", {available / GIB:.1f} left"
    held = [row for row in rows or [] if row.get("memory", 0) >= _SMALL]
    if held:
        amount = sum(row["memory"] for row in held)
        text = f"{amount / GIB:.1f} of {gib(total)} held{left}: {holders(held)}"
        occupied = available is not None and available < total / 2
        yield from labelled("memory", text, style="warn" if occupied and not all(row.get("managed") for row in held) else "")
    elif rows is None:
        used = "" if available is None else f"{(total - available) / GIB:.1f} of "
        yield from labelled("memory", f"{used}{gib(total)} in use{left}; by whom could not be read")
    else:
        yield from labelled("memory", f"{gib(total)}{left}, held by no workload")
    cache = memory.get("cached", 0) + memory.get("buffers", 0)
    if cache > total * _MUCH_CACHE:
        yield from labelled("", f"{gib(cache)} of it are page cache, which gives way on demand")


def holders(rows: Sequence[Mapping[str, Any]]) -> str:
    """The largest first, in GiB, which the line has said before."""
    shown = [f"{holder(row)} {row['memory'] / GIB:.1f}" for row in rows[:_SHOWN_HOLDERS]]
    rest = rows[_SHOWN_HOLDERS:]
    if rest:
        shown.append(f"{len(rest)} more {sum(row['memory'] for row in rest) / GIB:.1f}")
    return ", ".join(shown)


def holder(row: Mapping[str, Any]) -> str:
    name = str(row.get("name", "?"))
    pids = row.get("pids") or []
    return f"{name} (pid {pids[0]})" if row.get("kind") == "process" and pids else name


def rail_lines(ports: Sequence[Mapping[str, Any]] | None) -> Iterator[Line]:
    """A line for each port that is up, twins beside each other; one line for those that are not."""
    if ports is None:
        yield from labelled("rails", "could not be read")
        return
    if not ports:
        yield from labelled("rails", "no ConnectX-7 port is visible (as is normal without a cable)")
        return
    label = "rails"
    ordered = sorted(ports, key=lambda port: (port.get("cage", 9), port.get("twin", 9), port.get("netdev", "")))
    up = [port for port in ordered if port.get("carrier")]
    width = max((len(str(port.get("netdev", ""))) for port in up), default=0)
    for port in up:
        yield from labelled(label, rail(port, width), style="" if port.get("addresses") else "warn")
        label = ""
    down = [str(port.get("netdev")) for port in ordered if not port.get("carrier")]
    if down:
        yield from labelled(label, f"{listing(down)}: no link", style="" if up else "warn")


def rail(port: Mapping[str, Any], width: int) -> str:
    """A port that is up: where it leads, if anybody heard, and what is not as usual."""
    speed = port.get("speed")
    nodes = dict.fromkeys(end.partition(" ")[0] for end in port.get("leads_to") or [])
    parts = [str(port.get("netdev", "?")).ljust(width), f"→ {listing(list(nodes))}" if nodes else "up"]
    if speed:
        parts.append(f"{speed / 1000:.0f} Gb/s")
    parts.append(", ".join(port.get("addresses") or []) or "no address")
    if port.get("mtu"):
        parts.append(f"MTU {port['mtu']}")
    if port.get("hca"):
        state = str(port.get("state", "")).lower()
        parts.append(f"{port['hca']} {state}".strip() if state != "active" else str(port["hca"]))
    else:
        parts.append("no RDMA device")
    return "  ".join(parts)


def docker_words(docker: Mapping[str, Any] | None) -> str:
    if docker is None:
        return "could not be read"
    if not docker.get("available"):
        return f"not usable: {docker.get('reason', 'unknown reason')}"
    parts = [str(docker.get("version", "")) or "available"]
    if "running" in docker:
        parts.append(f"{count(docker['running'], 'container')} running")
    if "images" in docker:
        parts.append(count(docker["images"], "image"))
    return ", ".join(parts)


def model_words(models: Mapping[str, Any] | None, plan: Mapping[str, Any] | None) -> str:
    """The model that the plan wants, then how many others there are."""
    wanted = dig(plan, "model.repo")
    if models is None:
        return "the Hugging Face cache could not be read"
    rows = models.get("repositories") or []
    ours = next((row for row in rows if row.get("repo") == wanted), None)
    others = len(rows) - (1 if ours else 0)
    more = f"; {count(others, 'other model')} in {models.get('cache', 'the cache')}" if others else ""
    if wanted is None:
        return f"{count(len(rows), 'model')} in {models.get('cache', 'the cache')}"
    if ours is None:
        return f"{wanted} is not there{more}"
    return f"{wanted}: {_completeness(ours, dig(plan, 'model.revision'))}{more}"


def _completeness(row: Mapping[str, Any], revision: str | None) -> str:
    amount = size(row["size"]) if row.get("size") else "nothing"
    snapshot = next((entry for entry in row.get("revisions") or [] if entry.get("revision") == revision or revision is None), None)
    if snapshot is None:
        return f"{amount}, but not revision {str(revision)[:12]}"
    if snapshot.get("complete"):
        return f"complete, {size(snapshot.get('size') or row.get('size') or 0)}"
    missing = len(snapshot.get("missing") or [])
    notes = [f"{count(missing, 'file')} missing"] if missing else []
    if row.get("incomplete"):
        notes.append(f"{count(row['incomplete'], 'download')} not finished")
    return f"incomplete, {amount} there" + (f", {listing(notes)}" if notes else "")


def disk_words(node: Mapping[str, Any]) -> str:
    entries = [entry for entry in node.get("disk") or [] if entry.get("free") is not None]
    if not entries:
        return "could not be read"
    by_mount: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        by_mount.setdefault(str(entry.get("mount", entry.get("path"))), entry)
    shown = [f"{size(entry['free'])} of {size(entry.get('total', 0))} free on {mount}" for mount, entry in by_mount.items()]
    return ", ".join(shown)


def _unread(unread: Mapping[str, Mapping[str, Any]]) -> Iterator[Line]:
    """Tools that broke or hung; that a tool is not installed says the report file."""
    broken = [f"{name} ({entry.get('reason') or entry.get('status')})" for name, entry in unread.items() if entry.get("status") != "unavailable"]
    if broken:
        yield from labelled("unread", listing(broken), style="warn")
