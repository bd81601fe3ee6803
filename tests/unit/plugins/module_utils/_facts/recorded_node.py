# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recordings made up of a few answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import gather, select
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NO_SUCH_FILE, SCHEMA, RecordedRunner

Answer = tuple[int, str, str]


def answer(stdout: str = "", rc: int = 0, stderr: str = "") -> Answer:
    return rc, stdout, stderr


def facts_from(subset: str, commands: Mapping[tuple[str, ...], Answer], files: Mapping[str, str | None], **errors: str) -> dict[str, Any]:
    """Facts of a node that gave these answers. A file that is None does not exist; `errors` is by path, with slashes as `__`."""
    entries: list[dict[str, Any]] = [
        {"kind": "command", "argv": list(argv), "rc": rc, "stdout": stdout, "stderr": stderr} for argv, (rc, stdout, stderr) in commands.items()
    ]
    for path, content in files.items():
        entries.append({"kind": "file", "path": path, **({"error": NO_SUCH_FILE} if content is None else {"content": content})})
    entries += [{"kind": "file", "path": path.replace("__", "/"), "error": error} for path, error in errors.items()]
    facts = gather(RecordedRunner({"schema": SCHEMA, "host": "x", "entries": entries}), select([subset]), 10)
    return dict(json.loads(json.dumps(facts)))
