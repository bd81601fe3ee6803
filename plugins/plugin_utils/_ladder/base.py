# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ladder is made of: the ends of rails, the steps that measure something, and the rungs that say what it is worth.

Everything here is a value. What is not known is None, and never taken for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

PASS, WARN, FAIL, SKIPPED = "pass", "warn", "fail", "skipped"
#: From the best to the worst. What was not proved is worse than what was, and better than what is wrong.
ORDER = (PASS, SKIPPED, WARN, FAIL)

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Rung:
    """One thing that was to be proved. `rail` counts the plan's rails from 0, None where it is about all of them; all else are sentences."""

    name: str
    rail: int | None
    nodes: tuple[str, ...]
    observed: str
    expected: str
    verdict: str
    remedy: str = ""
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "nodes": list(self.nodes)}


@dataclass(frozen=True)
class End:
    """A node's end of a rail. `port` are its facts, empty if there are none; `configured`: the plan found it working, and need not make it."""

    node: str
    rail: int
    netdev: str
    hca: str | None
    address: str
    mtu: int | None
    configured: bool = True
    port: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gid_index(self) -> int | None:
        """The index of the RoCE v2 GID that carries the rail's address; None if there is none, or if GIDs are not known."""
        for gid in self.port.get("gids") or []:
            if gid.get("type") == "RoCE v2" and gid.get("address") == self.address:
                return int(gid["index"])
        return None

    def __str__(self) -> str:
        return f"{self.netdev} of {self.node}"


@dataclass(frozen=True)
class Step:
    """What the nodes in `nodes` do at the same time: options of gb10.cluster.link_bench, by host. `skipped` says why it is not done."""

    id: str
    name: str
    rail: int | None
    title: str
    hosts: tuple[str, ...]
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    skipped: str | None = None
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "hosts": list(self.hosts), "nodes": {host: dict(options) for host, options in self.nodes.items()}}


def rail_ends(plan: Mapping[str, Any], facts: Mapping[str, Facts | None]) -> list[dict[str, End]]:
    """The rails of the plan in the order of their numbers, each with its ends by host, in the order of ranks."""
    found: dict[int, dict[str, End]] = {}
    for host in plan["ranks"]:
        for rail in plan["nodes"][host].get("rails") or []:
            found.setdefault(int(rail["number"]), {})[host] = _end(host, int(rail["number"]), rail, facts.get(host))
    return [found[number] for number in sorted(found) if len(found[number]) > 1]


def _end(host: str, number: int, rail: Mapping[str, Any], facts: Facts | None) -> End:
    ports = ((facts or {}).get("fabric") or {}).get("ports") or []
    port: Mapping[str, Any] = next((row for row in ports if row.get("netdev") == rail["netdev"]), {})
    return End(host, number, str(rail["netdev"]), rail.get("hca"), str(rail["address"]), rail.get("mtu"), rail.get("action") != "configure", port)


def ready_rails(rails: Sequence[Mapping[str, End]]) -> list[Mapping[str, End]]:
    """Those that can be measured: configured at every end."""
    return [rail for rail in rails if all(end.configured for end in rail.values())]


def pairs(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Both directions between the head and each other rank; in a ring between all ranks, since each cable is a way of its own."""
    ranks, ring = plan["ranks"], plan.get("topology") == "ring"
    joined = [(one, other) for one, other in combinations(ranks, 2) if ring or plan["head"] in (one, other)]
    return [way for one, other in joined for way in ((one, other), (other, one))]


def worst(verdicts: Iterable[str]) -> str:
    """The worst verdict; of nothing, that nothing was proved."""
    return max(verdicts, key=ORDER.index, default=SKIPPED)


def sentence(text: str) -> str:
    """Text as a sentence: with a capital letter and a full stop. The name of a device or a node in front stays as it is."""
    text = text.strip()
    if text.partition(" ")[0].isalpha():
        text = f"{text[0].upper()}{text[1:]}"
    return text if not text or text[-1] in ".!?" else f"{text}."


def listing(words: Sequence[str]) -> str:
    """a, b and c."""
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} and {words[-1]}"
