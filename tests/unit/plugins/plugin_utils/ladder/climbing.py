# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy pair that is deployed, and what link_bench returns of it. Tests change what they are about."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ansible_collections.gb10.cluster.plugins.plugin_utils._ladder import judge, make_steps
from builders import HEAD, WORKER, plan, row, twin
from builders import port as make_port

Json = dict[str, Any]
Change = Callable[[Json], None]


def pair() -> Json:
    """Facts of two Sparks on one cable, with all that a rung looks at."""
    return _ready(deepcopy(twin()))


def ring() -> Json:
    """Three of them in a ring, each cable two rails of its own: 10.<cable>.<twin>.<number>."""
    facts: Json = deepcopy(row(3))
    for number, cables in enumerate(((1, 3), (2, 1), (3, 2))):
        ends = [make_port(cage, twin_, f"10.{cable}.{twin_}.{number + 1}") for cage, cable in enumerate(cables) for twin_ in (0, 1)]
        facts[f"spark-{number}"]["fabric"]["ports"] = ends
    return _ready(facts)


def _ready(facts: Json) -> Json:
    for of_node in facts.values():
        for port in of_node["fabric"]["ports"]:
            if port["carrier"]:
                address = port["addresses"][0]["address"]
                gids = [{"index": 2, "type": "RoCE v1", "gid": "::ffff:0", "address": address}]
                port.update(active_mtu=4096, pcie={"width": 4, "width_max": 4, "speed": 32.0})
                port["gids"] = [*gids, {"index": 3, "type": "RoCE v2", "gid": "::ffff:0", "address": address}]
    return facts


def port(facts: Json, host: str, number: int) -> Json:
    """The facts of a rail's end."""
    found: Json = facts[host]["fabric"]["ports"][number]
    return found


def deployed(facts: Json) -> Json:
    """The plan for these facts once the image is on every node."""
    made = plan(facts)
    for node in made["nodes"].values():
        node["image"] = {"action": "none"}
    return made


def healthy(step: Json, host: str) -> Json:
    """What link_bench returns for this step on a healthy pair."""
    options = step["nodes"][host]
    answer: Json = {"changed": False, "ran": True, "missing": False, "links": []}
    if options["test"] == "ping":
        answer["links"] = [{**link, "transmitted": 3, "received": 3, "round_trip": 0.4} for link in options["links"]]
    elif options["test"] == "nccl":
        runs = [{"size": 4096, "seconds": 2.6e-05, "busbw": 0.16}, {"size": 256000000, "seconds": 0.0118, "busbw": 21.7}]
        reduced = {"transport": "ib", "channels": {"IB": 32}, "devices": ["rocep1s0f1", "roceP2p1s0f1"], "warnings": []}
        answer["collective"] = {"rank": options["rank"], "nccl": "2.28.3+cuda13.0", "torch": "2.9.1", "correct": True, "runs": runs, **reduced}
    else:
        numbers = {"latency": 1.47} if options["measure"] == "latency" else {"bandwidth": 97.3 if step["rail"] is None else 111.6}
        client = options["test"] == "perftest_client"
        answer["links"] = [{"hca": link["hca"], "port": link["port"], **(numbers if client else {})} for link in options["links"]]
    return answer


class Climb:
    """A ladder that was climbed: facts, plan and results to change, then the rungs."""

    def __init__(self, facts: Json | None = None) -> None:
        self.facts = facts or pair()
        self.plan = deployed(self.facts)
        self.ready: Json = {}
        self.steps = [step.to_dict() for step in make_steps(self.plan, self.facts)]
        self.results: Json = {host: {} for host in self.plan["ranks"]}
        for step in self.steps:
            for host in step["nodes"]:
                self.results[host][step["id"]] = healthy(step, host)

    def change(self, name: str, change: Change, host: str | None = None, rail: int | str | None = "any") -> Climb:
        """Change the results of all steps of a name, on one host or all."""
        for step in self.steps:
            if step["name"] == name and (rail == "any" or step["rail"] == rail):
                for each in step["nodes"]:
                    if host in (None, each):
                        change(self.results[each][step["id"]])
        return self

    def judged(self) -> Json:
        return judge(self.plan, self.facts, self.results, self.ready)

    def rungs(self, name: str) -> list[Json]:
        return [rung for rung in self.judged()["rungs"] if rung["name"] == name]

    def rung(self, name: str, rail: int | None = None, first: str | None = None) -> Json:
        """The one rung of a name and rail, whose first node is that one."""
        found = [rung for rung in self.rungs(name) if rung["rail"] == rail and first in (None, rung["nodes"][0])]
        assert len(found) == 1, found
        return found[0]


def links(**values: Any) -> Change:
    """Every link of a result gets these values; None removes one."""

    def change(result: Json) -> None:
        for link in result["links"]:
            link.update(values)
            for name in [name for name, value in values.items() if value is None]:
                del link[name]

    return change


def collective(busbw: float | None = None, **values: Any) -> Change:
    """The all-reduce of a rank gets this bus bandwidth (GB/s) and these values; None removes one."""

    def change(result: Json) -> None:
        found = result["collective"]
        if busbw is not None:
            found["runs"][-1]["busbw"] = busbw
        found.update(values)
        for name in [name for name, value in values.items() if value is None]:
            del found[name]

    return change


def absent(reason: str, remedy: str = "") -> Change:
    """Nothing was measured."""

    def change(result: Json) -> None:
        result.clear()
        result.update(ran=False, reason=reason, remedy=remedy)

    return change


def assert_sentences(rungs: list[Mapping[str, Any]]) -> None:
    """Every rung says what it saw, what it expected, and, where something is wrong, what to do and who says so."""
    for rung in rungs:
        assert set(rung) == {"name", "rail", "nodes", "observed", "expected", "verdict", "remedy", "source"}
        assert rung["observed"].endswith(".") and rung["expected"].endswith("."), rung
        assert rung["nodes"]
        if rung["verdict"] in ("warn", "fail"):
            assert rung["source"].startswith("https://"), rung


__all__ = ["HEAD", "WORKER", "Climb", "absent", "assert_sentences", "collective", "deployed", "healthy", "links", "pair", "port", "row"]
