# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of text with a style, and the ways to break them."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

WIDTH = 100
# What is to be pasted stays in one piece: -e '…' and `short commands`.
WHOLE = re.compile(r"-e '[^']{1,80}'|`[^`]{1,60}`")
_BLANK = "\x00"


class Line(NamedTuple):
    """A line for the terminal. `style`: title, ok, warn, block, dim, command or nothing; whoever prints it knows the colours."""

    text: str
    style: str = ""


def dig(record: Mapping[str, Any] | None, path: str, default: Any = None) -> Any:
    """`dig(facts, "memory.total")`: the value, or the default where any part of the way is missing or null."""
    value: Any = record
    for key in path.split("."):
        if not isinstance(value, Mapping) or value.get(key) is None:
            return default
        value = value[key]
    return value


def paragraph(text: str, indent: int = 0, first: str = "", style: str = "") -> Iterator[Line]:
    """Text wrapped at the width. `first` stands before the first line, within the indent."""
    start = first.ljust(indent)
    for part in WHOLE.sub(lambda match: match[0].replace(" ", _BLANK), text).split("\n"):
        wrapped = textwrap.wrap(part, WIDTH - indent, break_long_words=False, break_on_hyphens=False) or [""]
        for piece in wrapped:
            yield Line((start + piece.replace(_BLANK, " ")).rstrip(), style)
            start = " " * indent


def labelled(label: str, text: str, indent: int = 2, style: str = "", width: int = 10) -> Iterator[Line]:
    """A line like `  memory    104.0 of 119.6 GiB held`, its continuation below the text."""
    yield from paragraph(text, indent + width, " " * indent + label, style)


def shell(argv: Sequence[str], indent: int = 0, style: str = "command") -> Iterator[Line]:
    """A command as one can paste it: broken with backslashes between words, an option kept with its value."""
    words = [shlex.quote(word) for word in argv]
    groups: list[str] = []
    for position, word in enumerate(words):
        value = position > 0 and not word.startswith("-") and words[position - 1].startswith("-") and "=" not in words[position - 1]
        if value and groups and groups[-1] == words[position - 1]:
            groups[-1] += f" {word}"
        else:
            groups.append(word)
    current = ""
    margin = indent
    for group in groups:
        if current and margin + len(current) + 1 + len(group) > WIDTH - 2:
            yield Line(f"{' ' * margin}{current} \\", style)
            current, margin = group, indent + 4
        else:
            current = f"{current} {group}".strip()
    yield Line(f"{' ' * margin}{current}", style)


def columns(words: Sequence[str], indent: int) -> Iterator[Line]:
    """Words one after the other, two blanks apart, broken only between them."""
    current = ""
    for word in words:
        if current and indent + len(current) + 2 + len(word) > WIDTH:
            yield Line(" " * indent + current)
            current = word
        else:
            current = f"{current}  {word}" if current else word
    if current:
        yield Line(" " * indent + current)


def gap() -> Line:
    return Line("")
