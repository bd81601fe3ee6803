# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Hugging Face cache while something is downloaded into it: unfinished files and locks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

# Field by field: time of the last change in seconds since the epoch, inode, path below the hub.
DOWNLOAD_FORMAT = r"%T@\t%i\t%P\n"
_TIME = re.compile(r"^-?[0-9]{1,15}(?:\.[0-9]{1,12})?$")
_NUMBER = re.compile(r"^[0-9]{1,20}$")


@dataclass(frozen=True)
class Download:
    changed: float  # seconds since the epoch
    inode: int
    path: str  # below the hub


def parse_downloads(text: str) -> tuple[Download, ...]:
    """find with DOWNLOAD_FORMAT. A listing that was cut off ends without a newline."""
    if text and not text.endswith("\n"):
        raise ParseError("find", text.rpartition("\n")[2])
    downloads = []
    for line in text.split("\n")[:-1]:
        fields = line.split("\t", 2)
        if len(fields) != 3 or not _TIME.match(fields[0]) or not _NUMBER.match(fields[1]):
            raise ParseError("find", line)
        downloads.append(Download(float(fields[0]), int(fields[1]), fields[2]))
    return tuple(downloads)
