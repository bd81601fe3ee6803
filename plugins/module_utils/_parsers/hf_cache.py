# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Hugging Face cache: a listing of it, and weight indexes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_NUMBER = re.compile(r"^[0-9]{1,20}$")

# Symbolic links are followed (-L), so size, inode and kind are those of the target, and what is still a link is broken.
# Field by field: kind, size in bytes, inode, owner, path below the cache.
LISTING_FORMAT = r"%y\t%s\t%i\t%u\t%P\n"


@dataclass(frozen=True)
class Entry:
    kind: str  # f, d, l (a broken link), …
    size: int  # bytes
    inode: int
    owner: str
    path: str  # relative; "" is the cache itself


def parse_listing(text: str) -> tuple[Entry, ...]:
    """find with LISTING_FORMAT. A listing that was cut off ends without a newline."""
    if text and not text.endswith("\n"):
        raise ParseError("find", text.rpartition("\n")[2])
    entries = []
    for line in text.split("\n")[:-1]:
        fields = line.split("\t", 4)
        if len(fields) != 5 or len(fields[0]) != 1 or not all(map(_NUMBER.match, fields[1:3])):
            raise ParseError("find", line)
        entries.append(Entry(fields[0], int(fields[1]), int(fields[2]), fields[3], fields[4]))
    return tuple(entries)


def parse_index(text: str) -> tuple[str, ...]:
    """`*.index.json`: the shard files that the weight map names, sorted."""
    try:
        index = json.loads(text)
        shards = sorted({str(shard) for shard in index["weight_map"].values()})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ParseError("index.json", text) from error
    if not shards:
        raise ParseError("index.json", text)
    return tuple(shards)


def reduce_index(text: str) -> str:
    """An index with one tensor a shard: megabytes less to record, the same shards."""
    try:
        shards = parse_index(text)
    except ParseError:
        return text[:1000]
    return json.dumps({"weight_map": {str(number): shard for number, shard in enumerate(shards)}})
