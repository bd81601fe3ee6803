# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule is, and the register of all rules.

A rule is a pure function from a context to the cases it found. Its decorator carries what is the same for every case (id, severity, one
sentence, source), so that the documented table of rules is made from the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .context import Context

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


@dataclass(frozen=True)
class Rule:
    """A rule: ``id`` is ``topic.what``, ``source`` a URL or a page of these docs."""

    id: str
    severity: str
    summary: str
    source: str
    check: Check

    def findings(self, context: Context) -> Iterator[dict[str, Any]]:
        """The rule's findings, in the shape of docs/contracts.md section 5."""
        for case in self.check(context):
            yield {
                "id": self.id,
                "severity": self.severity,
                "nodes": list(case.nodes),
                "observed": case.observed,
                "expected": case.expected,
                "remedy": case.remedy,
                "evidence": list(case.evidence),
                "source": self.source,
                "accepted": self.id in context.settings.accept,
            }


RULES: dict[str, Rule] = {}


def rule(id_: str, severity: str, summary: str, *, source: str) -> Callable[[Check], Check]:
    """Register the decorated function as a rule.

    Raises ValueError on an unknown severity, an id without a topic, or an id that is taken: mistakes of the programmer.
    """
    if severity not in SEVERITIES or id_.count(".") != 1 or id_ in RULES:
        raise ValueError(f"a rule needs a free id 'topic.what' and a severity of {SEVERITIES}, got {id_!r} and {severity!r}")

    def register(check: Check) -> Check:
        RULES[id_] = Rule(id_, severity, summary, source, check)
        return check

    return register


def table() -> str:
    """All rules as a Markdown table, by id: what the documentation shows."""
    rows = [f"| `{each.id}` | {each.severity} | {each.summary} | {_link(each.source)} |" for _, each in sorted(RULES.items())]
    return "\n".join(["| id | severity | what it means | source |", "| --- | --- | --- | --- |", *rows]) + "\n"


def _link(source: str) -> str:
    """A source as a link. Pages of these docs are linked from within docs/."""
    return f"[report]({source})" if source.startswith("https://") else f"[{source}]({source.removeprefix('docs/')})"


def evaluate(context: Context, only: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """The findings of all rules (or of those named), what blocks first, then by id and nodes: same input, same order."""
    chosen = RULES.values() if only is None else [RULES[id_] for id_ in only]
    order = {node.name: node.rank for node in context.nodes}
    found = [finding for each in chosen for finding in each.findings(context)]
    return sorted(
        found,
        key=lambda f: (SEVERITIES.index(f["severity"]), f["id"], [order.get(n, len(order)) for n in f["nodes"]], f["observed"]),
    )
