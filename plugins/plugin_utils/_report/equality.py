# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What should be the same on all nodes: a row a point. What is not known on a node is null there, and never called equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import count, listing

from .lines import Line, dig, paragraph

Facts = Mapping[str, Any]
Value = str | None

# Nodes are read at different moments, some only after others, and a tool that hangs holds a node's answer back: only what is beyond
# this many seconds is said to be another time.
CLOCK_MARGIN = 120
# Recordings that are this many seconds apart were not taken by one run.
ONE_RUN = 3600
_ABSENT = "not there"


def equality(facts: Mapping[str, Facts | None], plan: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """All rows, always the same and in the same order. `equal` is false where two known values differ, null where one is missing."""
    ranks = [host for host in dig(plan, "ranks", []) if host in facts]
    hosts = [*ranks, *(host for host in facts if host not in ranks)]
    known = {host: entry if (entry := facts[host]) and "unreachable" not in entry else {} for host in hosts}
    rows = [_row(what, {host: value(known[host]) for host in hosts}) for what, value in _PLAIN.items()]
    rows.append(_row("image", _images(known, plan)))
    rows.append(_row("model revision", {host: _revision(entry, plan) for host, entry in known.items()}))
    rows.append(_row("MTU of the rails", {host: _mtu(entry, (dig(plan, "nodes", {}).get(host) or {}).get("rails")) for host, entry in known.items()}))
    rows.append(_clock(known))
    return rows


def _row(what: str, values: Mapping[str, Value]) -> dict[str, Any]:
    different = len({value for value in values.values() if value is not None}) > 1
    return {"what": what, "values": dict(values), "equal": False if different else None if None in values.values() else True}


def _at(path: str) -> Callable[[Facts], Value]:
    def value(facts: Facts) -> Value:
        found = dig(facts, path)
        return None if found is None else str(found)

    return value


def _firmware(facts: Facts) -> Value:
    """Of the ConnectX functions, which share it; two if one cage's update has not been activated."""
    found = sorted({str(port["firmware"]) for port in dig(facts, "fabric.ports", []) if port.get("firmware")})
    return listing(found) or None


_PLAIN: dict[str, Callable[[Facts], Value]] = {
    "driver": _at("gpu.driver"),
    "kernel": _at("kernel.release"),
    "OS": _at("os.name"),
    "DGX OS": _at("identity.dgx_release"),
    "OTA version": _at("identity.ota_version"),
    "BIOS": _at("identity.bios_version"),
    "ConnectX firmware": _firmware,
    "Docker": _at("docker.version"),
    "image store": _at("docker.store"),
    "container toolkit": _at("docker.toolkit"),
    "Python": _at("python.version"),
}


def _images(known: Mapping[str, Facts], plan: Mapping[str, Any] | None) -> dict[str, Value]:
    """The plan's image: by a digest that all share, else by its layers. Ids are no measure: the two image stores number one image differently."""
    names = [str(dig(plan, f"image.{key}")) for key in ("run", "pull", "reference") if dig(plan, f"image.{key}")]
    found = {host: _image(dig(entry, "docker.images"), names) for host, entry in known.items()}
    there = [image for image in found.values() if image]
    digests = [_digests(image) for image in there]
    common = sorted(set.intersection(*digests)) if digests else []
    by_digest = all(digests)
    values: dict[str, Value] = {}
    for host, image in found.items():
        if not image:
            # An empty record: the images are known, and this one is not among them.
            values[host] = None if image is None or not names else _ABSENT
        elif by_digest:
            values[host] = common[0] if common else min(_digests(image))
        else:
            values[host] = image.get("layers")
    return values


def _image(images: Sequence[Mapping[str, Any]] | None, names: Sequence[str]) -> Mapping[str, Any] | None:
    if images is None:
        return None
    for name in names:
        digest = name.partition("@")[2]
        for image in images:
            if name in (image.get("tags") or []) or (digest and digest in _digests(image)):
                return image
    return {}


def _digests(image: Mapping[str, Any]) -> set[str]:
    return {str(digest).partition("@")[2] for digest in image.get("digests") or []} - {""}


def _revision(facts: Facts, plan: Mapping[str, Any] | None) -> Value:
    """The plan's revision of its model, and whether all of it is there."""
    repo, wanted = dig(plan, "model.repo"), dig(plan, "model.revision")
    repositories = dig(facts, "models.repositories")
    if repo is None or repositories is None:
        return None
    rows = [entry for row in repositories if row.get("repo") == repo for entry in row.get("revisions") or []]
    row = next((entry for entry in rows if wanted in (None, entry.get("revision"))), None)
    if row is None:
        return _ABSENT
    if row.get("complete") is None:
        return None
    return f"{str(row.get('revision'))[:12]} {'complete' if row['complete'] else 'incomplete'}"


def _mtu(facts: Facts, rails: Sequence[Mapping[str, Any]] | None) -> Value:
    """Of the plan's rails, else of the ports with a link."""
    names = {rail.get("netdev") for rail in rails or []}
    ports = [port for port in dig(facts, "fabric.ports", []) if (port.get("netdev") in names if names else port.get("carrier"))]
    return listing([str(mtu) for mtu in sorted({port["mtu"] for port in ports if port.get("mtu")})]) or None


def _clock(known: Mapping[str, Facts]) -> dict[str, Any]:
    """Seconds from the first node's clock. Recordings of different days say nothing about each other; those of one run do."""
    epochs = {host: dig(entry, "time.epoch") for host, entry in known.items()}
    read = [epoch for epoch in epochs.values() if epoch is not None]
    if read and max(read) - min(read) > ONE_RUN and any(entry.get("source") == "recording" for entry in known.values()):
        epochs = dict.fromkeys(known)
    first = next((epoch for epoch in epochs.values() if epoch is not None), 0)
    offsets = {host: None if epoch is None else round(epoch - first) for host, epoch in epochs.items()}
    there = [offset for offset in offsets.values() if offset is not None]
    apart = bool(there) and max(there) - min(there) > CLOCK_MARGIN
    values = {host: None if offset is None else _offset(offset) for host, offset in offsets.items()}
    return {"what": "clock", "values": values, "equal": False if apart else None if None in offsets.values() else True}


def _offset(seconds: int) -> str:
    """Of a smaller one nobody knows whether the clocks differ or the moments of the two looks."""
    return f"{seconds:+d} s" if abs(seconds) > CLOCK_MARGIN else f"within {CLOCK_MARGIN} s"


def equality_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    """One sentence: what differs, with values; the rest only counted."""
    rows = document.get("equality") or []
    if not rows or sum(1 for node in document["nodes"].values() if node) < 2:
        return
    different = [row for row in rows if row["equal"] is False]
    same, unknown = (sum(1 for row in rows if row["equal"] is state) for state in (True, None))
    rest = [f"{count(same, 'point')} {'is' if same == 1 else 'are'} equal"] if same else []
    rest += [f"{count(unknown, 'point')} {'is' if unknown == 1 else 'are'} not known on every node"] if unknown else []
    if different:
        told = "; ".join(f"{row['what']} ({_told(row['values'])})" for row in different)
        yield from paragraph(f"The nodes differ in {told}. {_sentence(rest)}".strip(), style="warn")
    else:
        yield from paragraph(f"The nodes do not differ in what is known: {listing(rest)}.")


def _sentence(parts: Sequence[str]) -> str:
    return f"Of the rest, {listing(parts)}." if parts else ""


def _told(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{host} {brief(value) if value is not None else 'not known'}" for host, value in values.items())


def brief(value: str) -> str:
    """A digest as people say it: its first twelve digits."""
    name, separator, digits = value.partition(":")
    return digits[:12] if separator and name == "sha256" else value
