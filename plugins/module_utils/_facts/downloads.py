# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Downloads into the Hugging Face cache that are under way or were given up"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, complaint
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.hf_downloads import DOWNLOAD_FORMAT, Download, parse_downloads
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.process import parse_locks
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NO_SUCH_FILE

_CLOCK = "/proc/self/stat"
_LOCKS = ".locks/models--"


@dataclass(frozen=True)
class Downloads:
    """Of the whole cache, with the clock of the node that they are on."""

    now: float  # seconds since the epoch
    files: tuple[Download, ...]
    locked: frozenset[int] | None  # inodes; None: nobody could say


def look(node: Node, cache: str) -> Downloads:
    """Unfinished files and lock files. The entry of find's own process is as old as this question, and so the clock that ages count by."""
    hub = f"{cache}/hub"
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", hub)
    result = node.run(
        "find", "-L", _CLOCK, hub, "(", "-path", _CLOCK, "-o", "-name", "*.incomplete",
        "-o", "-path", f"{pattern}/.locks/*.lock", ")", "-printf", DOWNLOAD_FORMAT,
    )  # fmt: skip
    if not result.stdout and NO_SUCH_FILE not in result.stderr:
        raise Failed(complaint(result))
    clock = [entry for entry in parse_downloads(result.stdout) if not entry.path]
    files = tuple(entry for entry in parse_downloads(result.stdout) if entry.path)
    return Downloads(clock[0].changed if clock else 0.0, files, _locked(node) if files else None)


def _locked(node: Node) -> frozenset[int] | None:
    text = node.read("/proc/locks")
    try:
        return None if text is None else parse_locks(text)
    except ParseError:
        return None


def of_repository(downloads: Downloads | None, folder: str, finished: Iterable[str]) -> dict[str, Any]:
    """`finished`: names of the blobs that are there. A lock of such a one that nobody holds is only a leftover: the Hub's client deletes none."""
    if downloads is None:
        return {}
    ages = [_age(downloads, entry) for entry in downloads.files if entry.path.startswith(f"{folder}/") and entry.path.endswith(".incomplete")]
    prefix, blobs = f"{_LOCKS}{folder[len('models--') :]}/", set(finished)
    locks = []
    for entry in sorted(downloads.files, key=lambda one: one.path):
        if entry.path.startswith(prefix):
            held = None if downloads.locked is None else entry.inode in downloads.locked
            if held or posixpath.basename(entry.path)[: -len(".lock")] not in blobs:
                locks.append(known(path=entry.path, held=held, age=_age(downloads, entry)))
    return known(incomplete_age=min(ages) if ages else None, locks=locks)  # type: ignore[no-any-return]


def _age(downloads: Downloads, entry: Download) -> float:
    return round(max(downloads.now - entry.changed, 0.0), 1)
