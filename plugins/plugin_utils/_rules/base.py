# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule is, and the register of all rules.

A rule is a pure function from a context to the cases it found. Its decorator carries what is the same for every case (id, severity, one
sentence, source), so that the documented table of rules is made from the code. Two things are decided here for all rules:

* ``several``: the rule is about what nodes do with each other, so it says nothing about a deployment on one node.
* ``explained_by``: rules that name the cause of what this one sees. Where one of them speaks of the same node, this one is silent: one
  finding a fault. A cause that the user accepted explains nothing away any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .context import Context, Node

SEVERITIES = ("block", "warn", "info")


@dataclass(frozen=True)
class Case:
    """One case that a rule found. ``nodes`` are host names; the three sentences end with a full stop; ``evidence`` are keys of the facts."""

    nodes: tuple[str, ...]
    observed: str
    expected: str
    remedy: str
    evidence: tuple[str, ...] = ()


Check = Callable[[Context], Iterator[Case]]
NodeCheck = Callable[[Context, Node], "Case | None"]


@dataclass(frozen=True)
class Rule:
    """A rule: ``id`` is ``topic.what``, ``source`` a URL or a page of these docs."""

    id: str
    severity: str
    summary: str
    source: str
    check: Check
    several: bool = False
    explained_by: tuple[str, ...] = ()

    def findings(self, context: Context) -> Iterator[dict[str, Any]]:
        """The rule's findings, in the shape of docs/contracts.md section 5."""
        for each in self.check(context) if context.several or not self.several else ():
            yield {
                "id": self.id,
                "severity": self.severity,
                "nodes": list(each.nodes),
                "observed": each.observed,
                "expected": each.expected,
                "remedy": each.remedy,
                "evidence": list(each.evidence),
                "source": self.source,
                "accepted": self.id in context.settings.accept,
            }


RULES: dict[str, Rule] = {}


def rule(
    id_: str, severity: str, summary: str, *, source: str, several: bool = False, explained_by: tuple[str, ...] = ()
) -> Callable[[Check], Check]:
    """Register the decorated function as a rule.

    Raises ValueError on an unknown severity, an id without a topic, or an id that is taken: mistakes of the programmer.
    """
    if severity not in SEVERITIES or id_.count(".") != 1 or id_ in RULES:
        raise ValueError(f"a rule needs a free id 'topic.what' and a severity of {SEVERITIES}, got {id_!r} and {severity!r}")

    def register(check: Check) -> Check:
        RULES[id_] = Rule(id_, severity, summary, source, check, several, explained_by)
        return check

    return register


def node_rule(
    id_: str, severity: str, summary: str, *, source: str, several: bool = False, explained_by: tuple[str, ...] = ()
) -> Callable[[NodeCheck], NodeCheck]:
    """Register a function that looks at one node that answered, and says at most one thing about it."""

    def register(check: NodeCheck) -> NodeCheck:
        def over_nodes(context: Context) -> Iterator[Case]:
            for node in context.reachable:
                found = check(context, node)
                if found is not None:
                    yield found

        over_nodes.__doc__ = check.__doc__
        rule(id_, severity, summary, source=source, several=several, explained_by=explained_by)(over_nodes)
        return check

    return register


def case(node: Node, observed: str, expected: str, remedy: str, *evidence: str) -> Case:
    """A case of one node."""
    return Case((node.name,), observed, expected, remedy, evidence)


def table() -> str:
    """All rules as a Markdown table, by id: what the documentation shows."""
    rows = [
        f"| `{each.id}` | {each.severity} | {'several' if each.several else 'any'} | {each.summary} | {_link(each.source)} |"
        for _, each in sorted(RULES.items())
    ]
    return "\n".join(["| id | severity | nodes | what it means | source |", "| --- | --- | --- | --- | --- |", *rows]) + "\n"


def _link(source: str) -> str:
    """A source as a link. Pages of these docs are linked from within docs/."""
    return f"[report]({source})" if source.startswith("https://") else f"[{source}]({source.removeprefix('docs/')})"


def evaluate(context: Context, only: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """The findings of all rules (or of those named), what blocks first, then by id and nodes: same input, same order."""
    chosen = RULES.values() if only is None else [RULES[id_] for id_ in only]
    order = {node.name: node.rank for node in context.nodes}
    found = [finding for each in chosen for finding in each.findings(context)]
    speaks = {(finding["id"], node) for finding in found if not finding["accepted"] for node in finding["nodes"]}
    return sorted(
        (finding for finding in found if not _explained(finding, speaks)),
        key=lambda f: (SEVERITIES.index(f["severity"]), f["id"], [order.get(n, len(order)) for n in f["nodes"]], f["observed"]),
    )


def _explained(finding: dict[str, Any], speaks: set[tuple[str, str]]) -> bool:
    """Whether the cause of a finding is named by others on each of its nodes."""
    causes = RULES[finding["id"]].explained_by
    return bool(causes) and all(any((cause, node) in speaks for cause in causes) for node in finding["nodes"])
