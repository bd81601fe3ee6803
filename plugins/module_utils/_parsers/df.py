# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""df --block-size=1 --output=fstype,size,avail,iavail,target,file"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

OUTPUT = "fstype,size,avail,iavail,target,file"
_LINE = re.compile(
    r"^(?P<fstype>\S+)\s+(?P<size>[0-9]{1,20}|-)\s+(?P<avail>-?[0-9]{1,20}|-)\s+(?P<iavail>[0-9]{1,20}|-)\s+(?P<target>/.*?|-)\s+(?P<file>/.*)$"
)


@dataclass(frozen=True)
class Filesystem:
    path: str  # as asked
    mount: str
    filesystem: str
    total: int | None  # bytes
    free: int | None  # bytes that this user may take
    inodes_free: int | None


def parse_df(text: str) -> tuple[Filesystem, ...]:
    filesystems = []
    for line in text.splitlines()[1:]:
        if not line.strip():
            continue
        match = _LINE.match(line)
        if match is None:
            raise ParseError("df", line)
        numbers = [None if match.group(name) == "-" else int(match.group(name)) for name in ("size", "avail", "iavail")]
        filesystems.append(Filesystem(match.group("file").rstrip(), match.group("target"), match.group("fstype"), *numbers))
    return tuple(filesystems)
