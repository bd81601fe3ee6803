# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report before this one: found, understood or said why not, and never lost to the new one unless it is of the same kind and nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any, NamedTuple

from ansible_collections.gb10.cluster.plugins.module_utils._words import listing

NAME = "report.json"
# A report of eight nodes has some 300 kB. What is larger by far is none.
_LARGEST = 20_000_000


class Previous(NamedTuple):
    """`document` is what can be compared with, `remark` one sentence on a file that cannot."""

    document: dict[str, Any] | None = None
    remark: str = ""


def other_kind(kind: str) -> str:
    """Where the last report of a kind goes when one of another kind takes its place."""
    return f"report-{kind}.json"


def find_previous(directory: str, kind: str, nodes: Collection[str], schema: str) -> Previous:
    """The last report of this kind and these nodes in the directory."""
    remark = ""
    for name in (NAME, other_kind(kind)):
        path = os.path.join(directory, name)
        try:
            document = read(path, schema)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            remark = remark or f"Nothing is compared with {path}: {_why(error)}."
            continue
        if set(document["nodes"]) != set(nodes):
            remark = remark or f"Nothing is compared with {path}: it is of other nodes ({listing(sorted(document['nodes'])) or 'none'})."
        elif document["kind"] == kind:
            return Previous(document, remark)
    return Previous(None, remark)


def read(path: str, schema: str) -> dict[str, Any]:
    """The report in the file; ValueError says in words what else is there."""
    if os.path.getsize(path) > _LARGEST:
        raise ValueError("it is too large for a report")
    with open(path, encoding="utf-8") as file:
        try:
            document = json.load(file)
        except UnicodeDecodeError:
            raise ValueError("it is not text in UTF-8") from None
        except (json.JSONDecodeError, RecursionError):
            raise ValueError("it is not JSON, or not all of it") from None
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise ValueError(f"it is no {schema} document")
    nodes, kind = document.get("nodes"), document.get("kind")
    if not isinstance(nodes, dict) or not isinstance(kind, str) or not isinstance(document.get("findings"), list):
        raise ValueError("it has no kind, nodes or findings")
    return document


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def put_aside(directory: str, kind: str, nodes: Collection[str], schema: str) -> str:
    """Give what stands where the new report goes another name, unless the new one is its successor; that name, or nothing."""
    path = os.path.join(directory, NAME)
    if not os.path.lexists(path):
        return ""
    name = _aside(path, kind, nodes, schema)
    if name:
        os.replace(path, os.path.join(directory, name))
    return name


def _aside(path: str, kind: str, nodes: Collection[str], schema: str) -> str:
    try:
        document = read(path, schema)
    except (OSError, ValueError):
        return _free(path)
    if set(document["nodes"]) != set(nodes):
        return _free(path)
    # A kind names a file here, and this file is anybody's.
    known = document["kind"].isidentifier()
    return "" if document["kind"] == kind else other_kind(document["kind"]) if known else _free(path)


def _free(path: str) -> str:
    """report.json.1, or the first number that nothing has."""
    number = 1
    while os.path.lexists(f"{path}.{number}"):
        number += 1
    return f"{NAME}.{number}"
