# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drawing is made of: boxes, lines and texts with their places, in SVG's pixels. The page's template only writes them down."""

from __future__ import annotations

from dataclasses import dataclass, field

# Widths of a character in parts of the font size: system fonts differ, so text is cut a little early rather than late.
_SANS, _MONO = 0.56, 0.62


@dataclass(frozen=True)
class Box:
    """`kind` is its class: node, cage, endpoint, fabric."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    dashed: bool = False


@dataclass(frozen=True)
class Path:
    """A line through points, `d` as SVG has it. `kind`: cable, lead. Dashed says that there is no link or that it is not known."""

    d: str
    kind: str
    dashed: bool = False


@dataclass(frozen=True)
class Text:
    """`anchor`: start, middle, end. `kind` is its class: name, note, mono, small."""

    x: float
    y: float
    text: str
    kind: str
    anchor: str = "start"


@dataclass(frozen=True)
class Mark:
    """The sign of a port: `up` a filled disc, `down` a ring, `unknown` a dashed ring."""

    x: float
    y: float
    state: str


@dataclass
class Drawing:
    width: float
    height: float
    title: str = ""
    description: str = ""
    boxes: list[Box] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def fit(text: str, width: float, size: float, mono: bool = False) -> str:
    """The text, cut at the end where it would not fit."""
    room = max(1, int(width / (size * (_MONO if mono else _SANS))))
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def line(*points: tuple[float, float]) -> str:
    return "M" + " L".join(f"{x:g},{y:g}" for x, y in points)


def curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From left to right, flat at both ends."""
    middle = (start[0] + end[0]) / 2
    return f"M{start[0]:g},{start[1]:g} C{middle:g},{start[1]:g} {middle:g},{end[1]:g} {end[0]:g},{end[1]:g}"
