# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans with chosen findings, pages as the search API returns them, and the question whose answer the tests look at."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from ansible_collections.gb10.cluster.plugins.plugin_utils._search import Exa, community
from ansible_collections.gb10.cluster.plugins.plugin_utils._search import subject as subjects
from builders import HEAD, WORKER
from search_server import KEY

TODAY = date(2026, 11, 30)
REPO = "Qwen/Qwen3.5-122B-A10B-FP8"


def finding(id_: str, severity: str = "", **changes: Any) -> dict[str, Any]:
    rule = subjects.RULES.get(id_)
    texts = dict.fromkeys(("observed", "expected", "remedy"), "A sentence.")
    known = {"severity": severity or rule.severity, "source": rule.source} if rule else {"severity": severity, "source": ""}
    return {"id": id_, "nodes": [HEAD], **texts, "evidence": [], "accepted": False, **known, **changes}


def planned(*ids: str, repo: str = REPO, **changes: Any) -> dict[str, Any]:
    recipe = {"name": "mine", "nodes": 2, "sources": ["https://github.com/eugr/spark-vllm-docker"]}
    return {"ranks": [HEAD, WORKER], "recipe": recipe, "model": {"repo": repo}, "findings": [finding(id_) for id_ in ids], **changes}


def ask(plan_: dict[str, Any] | None, endpoint: str, key: str = KEY, timeout: float = 10, limit: int = 8, **options: Any) -> dict[str, Any]:
    block, omitted = community(plan_, Exa(key, endpoint, timeout, TODAY, **options), limit, TODAY)
    assert KEY not in json.dumps([block, omitted])
    return {**block, "omitted": omitted}


def page(url: str, **changes: Any) -> dict[str, Any]:
    """A result with the fields of the API's reference."""
    fields = {"id": url, "url": url, "title": "A title", "publishedDate": "2026-11-01T01:36:32.547Z", "author": None, "highlights": ["A highlight."]}
    return {**fields, **changes}
