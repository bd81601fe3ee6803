# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages that are looked at: the reference story with all that a page can have, and the shapes that a cluster can take."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from ansible_collections.gb10.cluster.plugins.plugin_utils._report import build, page
from builders import GIB, HEAD, WORKER, hold, plan, row, spark, twin, used_head, worker

COMMANDS = {name: f"ansible-playbook {name}.yml -i inventories/twin" for name in ("recon", "site", "status", "stop", "teardown")}
COMPLETION = {"text": "Paris.", "completion_tokens": 44, "seconds": 2.03, "time_to_first_token": 0.41, "tokens_per_second": 26.9}
SCRIPT = "<script>alert(1)</script>"
LONG = "a_container_with_a_name_that_is_longer_than_any_column_would_like_20260608T0436JST"
COMMUNITY = {
    "provider": "catalogue",
    "reason": "EXA_API_KEY is not set",
    "entries": [
        {
            "title": "Two Sparks, one model",
            "url": "https://example.com/a",
            "published": "2026-09-12",
            "excerpt": "So it was. " * 20,
            "about": ["model"],
        },
        {"title": SCRIPT, "url": "javascript:alert(1)", "excerpt": SCRIPT, "about": ["memory.occupied"]},
    ],
}


def _report(facts: dict[str, Any], kind: str = "recon", results: dict[str, Any] | None = None, **extra: Any) -> dict[str, Any]:
    overrides = {"nodes": 1, "tensor_parallel": 1} if len(facts) == 1 else None
    return build(kind, facts, plan(facts, overrides), results, "2026-11-30T15:00:00+01:00", COMMANDS, True, version="0.1.0", **extra)


def everything() -> str:
    """Two nodes that differ, a machine that calls its container a script, drift, reports by others, a link that is none."""
    facts: dict[str, Any] = {HEAD: used_head(), WORKER: worker()}
    for entry in facts.values():
        entry["identity"] |= {"dgx_release": "7.2.3", "ota_version": "7.4.0", "bios_version": "5.36_0ACUM018"}
        entry["memory"] |= {"cached": 9 * GIB}
    before = _report(deepcopy(facts))
    hold(facts[HEAD], (SCRIPT, 4 * GIB), (LONG, 3 * GIB))
    facts[WORKER]["gpu"]["driver"] = "580.95.05"
    facts[WORKER]["fabric"]["ports"][0]["mtu"] = 1500
    made = _report(facts, community=COMMUNITY, previous=before)
    made["findings"].append({**made["findings"][0], "id": "test.link", "source": "javascript:alert(1)", "observed": SCRIPT})
    made["findings"].append({**made["findings"][0], "id": "test.accepted", "accepted": True})
    return page(made)


STORIES: dict[str, Callable[[], str]] = {
    "everything": everything,
    "single": lambda: page(_report({HEAD: used_head()})),
    "three": lambda: page(_report(row(3))),
    "eight": lambda: page(_report(row(8))),
    "lost": lambda: page(_report({HEAD: spark(), WORKER: None})),
    "site": lambda: page(_report(twin(), "site", {"completion": COMPLETION, "models": ["qwen"], "changes": ["vllm_node was stopped"]})),
    "status": lambda: page(_report(twin(), "status", {"msg": "http://192.0.2.10:8000/v1: connection refused."})),
}
