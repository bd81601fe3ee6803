# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed between two reports, as one would tell it: not what breathes (free memory, temperatures, process ids, the time)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import GIB, count, duration, gib, listing

from .equality import brief
from .lines import Line, dig, gap, labelled, paragraph

Record = Mapping[str, Any]
Change = tuple[str, str | None, str | None]

# Facts list processes from 1 GiB on. Only from this size on one has surely come or gone, and did not just grow past that line.
_LARGE = 2 * GIB
# Two clocks' worth of error: only a boot that is younger by more than this many seconds is another one.
_BOOT_MARGIN = 600
_PLAIN = {
    "kernel": "kernel",
    "OS": "os",
    "DGX OS": "product.dgx_release",
    "OTA version": "product.ota_version",
    "BIOS": "product.bios_version",
    "driver": "gpu.driver",
    "Docker": "docker.version",
    "image store": "docker.store",
    "container toolkit": "docker.toolkit",
    "Python": "python",
}
_PLANNED = {"recipe": "recipe.name", "model": "model.repo", "model revision": "model.revision", "image": "image.pull", "endpoint": "endpoint.url"}
_THERE = "there"


def compare(before: Record, after: Record) -> dict[str, Any] | None:
    """The document's `drift`. Nodes in the order of the report, of each first what it is, then its ports, then what is on it.

    None where the report before is built unlike ours: it comes from a file that anybody may have edited.
    """
    try:
        changes = [{"node": host, "what": what, "before": old, "after": new} for host, what, old, new in _changes(before, after)]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return {"since": str(before.get("generated") or ""), "changes": changes}


def _changes(before: Record, after: Record) -> Iterator[tuple[str | None, str, str | None, str | None]]:
    for host, now in after["nodes"].items():
        for change in _node(dig(before, "nodes", {}).get(host), now):
            yield (host, *change)
    old, new = before.get("plan"), after.get("plan")
    if old and new:
        for change in _plain(old, new, _PLANNED):
            yield (None, *change)
    for change in _came_and_went("finding ", _findings(before), _findings(after)):
        yield (None, *change)


def _node(old: Record | None, new: Record | None) -> Iterator[Change]:
    if old is None or new is None:
        if (old is None) != (new is None):
            yield ("answers", "no" if old is None else "yes", "no" if new is None else "yes")
        return
    yield from _boot(old, new)
    yield from _plain(old, new, _PLAIN)
    yield from _ports(old, new)
    for prefix, named in (("holder ", _holders), ("image ", _images), ("model ", _models), ("", _units)):
        there, here = named(old), named(new)
        if there is not None and here is not None:
            yield from _came_and_went(prefix, there, here, _THERE if named is _holders else None)


def _plain(old: Record, new: Record, paths: Mapping[str, str]) -> Iterator[Change]:
    """What is known both times and is not the same: a fact that could not be read has not changed."""
    for what, path in paths.items():
        there, here = dig(old, path), dig(new, path)
        if there is not None and here is not None and there != here:
            yield (what, str(there), str(here))


def _boot(old: Record, new: Record) -> Iterator[Change]:
    """Up for a shorter time than before; or booted later, where both clocks can be trusted."""
    before, now = old.get("uptime"), new.get("uptime")
    if before is None or now is None:
        return
    later = False
    if old.get("synchronized") and new.get("synchronized") and old.get("epoch") and new.get("epoch"):
        later = (new["epoch"] - now) - (old["epoch"] - before) > _BOOT_MARGIN
    if now < before or later:
        yield ("boot", f"up {_uptime(before)}", f"rebooted, up {_uptime(now)}")


def _uptime(seconds: float) -> str:
    days = int(seconds // 86400)
    return count(days, "day") if days > 1 else duration(seconds)


def _ports(old: Record, new: Record) -> Iterator[Change]:
    if old.get("ports") is None or new.get("ports") is None:
        return
    there, here = ({str(port.get("netdev")): port for port in record["ports"]} for record in (old, new))
    yield from _came_and_went("port ", dict.fromkeys(there, _THERE), dict.fromkeys(here, _THERE))
    firmware: dict[tuple[str, str], None] = {}
    for name in sorted(there.keys() & here.keys()):
        before, now = there[name], here[name]
        if before.get("firmware") and now.get("firmware") and before["firmware"] != now["firmware"]:
            firmware[before["firmware"], now["firmware"]] = None
        for what, value in _PORT.items():
            first, second = value(before), value(now)
            if first is not None and second is not None and first != second:
                yield (f"{what} of {name}", first, second)
    for first, second in firmware:
        yield ("ConnectX firmware", first, second)


_PORT: dict[str, Callable[[Record], str | None]] = {
    "link": lambda port: None if port.get("carrier") is None else "up" if port["carrier"] else "no link",
    "speed": lambda port: f"{port['speed'] / 1000:.0f} Gb/s" if port.get("speed") else None,
    "addresses": lambda port: listing(sorted(port["addresses"])) or "none" if port.get("addresses") is not None else None,
    "MTU": lambda port: str(port["mtu"]) if port.get("mtu") else None,
}


def _holders(node: Record) -> dict[str, str] | None:
    """Who holds memory, by name: several processes of one name are one holder."""
    if node.get("workloads") is None:
        return None
    held: dict[str, float] = {}
    for row in node["workloads"]:
        if row.get("kind") != "process" or row.get("memory", 0) >= _LARGE:
            held[str(row.get("name"))] = held.get(str(row.get("name")), 0) + row.get("memory", 0)
    return {name: gib(amount) for name, amount in held.items()}


def _images(node: Record) -> dict[str, str] | None:
    rows = dig(node, "docker.image_list")
    return None if rows is None else {str(row["name"]): brief(str(row.get("content") or _THERE)) for row in rows}


def _models(node: Record) -> dict[str, str] | None:
    rows = dig(node, "models.repositories")
    if rows is None:
        return None
    return {str(row["repo"]): listing(sorted(_revision(entry) for entry in row["revisions"])) or "no revision" for row in rows}


def _revision(entry: Record) -> str:
    state = {True: "complete", False: "incomplete"}.get(entry.get("complete"), "")  # type: ignore[arg-type]
    return f"{str(entry.get('revision'))[:12]} {state}".strip()


def _units(node: Record) -> dict[str, str] | None:
    rows = node.get("units")
    return None if rows is None else {str(row["name"]): str(row.get("active")) for row in rows if str(row.get("name", "")).startswith("gb10-")}


def _findings(document: Record) -> dict[str, str]:
    """A finding is known by its id and where it is; how grave it is may change."""
    told = {}
    for finding in document.get("findings") or []:
        where = listing([str(node) for node in finding.get("nodes") or []])
        name = f"{finding['id']} on {where}" if where else str(finding["id"])
        told[name] = f"{finding.get('severity')}{', accepted' if finding.get('accepted') else ''}"
    return told


def _came_and_went(prefix: str, there: Mapping[str, str], here: Mapping[str, str], same: str | None = None) -> Iterator[Change]:
    """By name, sorted. With `same` the values are only said where one came or went, and are not compared."""
    for name in sorted(there.keys() | here.keys()):
        before, now = there.get(name), here.get(name)
        if (before is None) != (now is None) or (same is None and before != now):
            yield (f"{prefix}{name}", before, now)


def moment(text: str) -> str:
    """2026-11-29T10:00:00+01:00 as 2026-11-29 10:00."""
    return text.replace("T", " ")[:16] or "an unknown time"


def drift_lines(document: Mapping[str, Any], full: bool) -> Iterator[Line]:
    """A short block, or one line that says how many changes there are and how to see them."""
    record = document.get("drift")
    if not record:
        return
    changes, since = record["changes"], moment(record["since"])
    yield gap()
    if not changes:
        yield Line(f"Since {since}: no change worth telling.", "dim")
    elif not full:
        yield from paragraph(f"Since {since}: {count(len(changes), 'change')}; --diff shows {'it' if len(changes) == 1 else 'them'}.")
    else:
        yield Line(f"Since {since} ({count(len(changes), 'change')})", "title")
        for change in changes:
            where = f"{change['node']}: " if change["node"] else ""
            yield from labelled(sign(change), f"{where}{change['what']}{told(change)}", width=2)


def sign(change: Record) -> str:
    """+ what came, - what went, ~ what is another."""
    return "+" if change["before"] is None else "-" if change["after"] is None else "~"


def told(change: Record) -> str:
    """` is new (98.0 GiB)`, ` is gone (98.0 GiB)`, `: 580.126 → 580.142`."""
    before, after = change["before"], change["after"]
    if before is None:
        return " is new" + (f" ({after})" if after not in (None, _THERE) else "")
    if after is None:
        return " is gone" + (f" ({before})" if before != _THERE else "")
    return f": {before} → {after}"
