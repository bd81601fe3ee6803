# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""One case of a rule: what is changed on a healthy pair, and what the rule has to say about it, or that it says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from healthy import HEAD, HEALTHY_HEAD, HEALTHY_THIRD, HEALTHY_WORKER, RECORDED, THIRD, WORKER
from replay import Facts, Patch, Plan, planned, replayed

#: A model that one machine can serve.
SINGLE: Facts = {"nodes": 1, "tensor_parallel": 1, "model": {"size": 60 * 10**9}}
THREE: Facts = {"nodes": 3, "tensor_parallel": 1, "pipeline_parallel": 3}


@dataclass(frozen=True)
class Story:
    """``says`` is a regular expression that a finding of the rule has to match (observed and remedy), None where it must be quiet."""

    rule: str
    says: str | None
    head: tuple[Patch, ...]
    worker: tuple[Patch, ...]
    third: tuple[Patch, ...] | None
    alone: bool
    overrides: Facts
    settings: dict[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Facts | None]:
        """What the collectors make of the changed pair, or of the three."""
        found = {HEAD: replayed(RECORDED, *HEALTHY_HEAD, *self.head)}
        if not self.alone:
            found[WORKER] = replayed(RECORDED, *HEALTHY_WORKER, *self.worker)
        if self.third is not None:
            found[THIRD] = replayed(RECORDED, *HEALTHY_THIRD, *self.third)
        return found

    def plan(self) -> Plan:
        """The real plan for them."""
        overrides = {**(SINGLE if self.alone else {} if self.third is None else THREE), **self.overrides}
        return planned(self.facts(), overrides, **{"api_key": True, **self.settings})


def fires(
    rule: str,
    says: str,
    *head: Patch,
    worker: tuple[Patch, ...] = (),
    third: tuple[Patch, ...] | None = None,
    both: tuple[Patch, ...] = (),
    alone: bool = False,
    overrides: Facts | None = None,
    **settings: Any,
) -> Story:
    """The rule says this, with the head changed so, or the worker, or both, or a third machine beside them."""
    return Story(rule, says, (*both, *head), (*both, *worker), third, alone, overrides or {}, settings)


def quiet(
    rule: str,
    *head: Patch,
    worker: tuple[Patch, ...] = (),
    third: tuple[Patch, ...] | None = None,
    both: tuple[Patch, ...] = (),
    alone: bool = False,
    overrides: Facts | None = None,
    **settings: Any,
) -> Story:
    """The rule says nothing, although something near its fault is there."""
    return Story(rule, None, (*both, *head), (*both, *worker), third, alone, overrides or {}, settings)
