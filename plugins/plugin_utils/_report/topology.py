# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as a drawing: each node with its cages and twins, the cables or the switch between them, the endpoint. Wide, or narrow for a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import count

from .lines import dig
from .links import Cable, Cage, address_words, cables, cages, port_state, sentence, shape, speed_words
from .nodes import product
from .recon import order
from .shapes import Box, Drawing, Mark, Path, Text, curve, fit, line

WIDE, NARROW = 1000.0, 340.0
_PAD = 16.0
_INSET = 10.0
_HEADER = 92.0
_CAGE_HEADER, _ROW, _LINE = 30.0, 44.0, 17.0
# Below this width the MTU has a line of its own.
_SLIM = 280.0
_ENDPOINT = 46.0
_LEAD = 26.0
_PAIR = 330.0
_BAR = 40.0
_ROOM = 64.0
_SPINE = 30.0

Document = Mapping[str, Any]


def topology(document: Document, narrow: bool = False) -> Drawing | None:
    """The drawing; None where there is no node at all."""
    hosts = order(document)
    if not hosts:
        return None
    drawing = Drawing(NARROW if narrow else WIDE, 0.0, _title(hosts), sentence(document))
    if len(hosts) == 1:
        _one(drawing, document, hosts[0])
    elif len(hosts) == 2:
        (_pair_narrow if narrow else _pair_wide)(drawing, document, hosts)
    else:
        (_row_narrow if narrow else _row_wide)(drawing, document, hosts)
    return drawing


def _title(hosts: Sequence[str]) -> str:
    how = {1: "one node, no fabric", 2: "two nodes and the cable between them"}
    return f"Topology: {how.get(len(hosts), count(len(hosts), 'node') + ' on one fabric')}"


def _one(drawing: Drawing, document: Document, host: str) -> None:
    width, x = min(drawing.width - 2, 460.0), 1.0
    top = _endpoint(drawing, document, x, 1, width)
    drawing.boxes.append(_box(document, host, x, top, width, _HEADER))
    _heading(drawing, document, host, x, top, width)
    drawing.height = top + _HEADER + 2


def _pair_wide(drawing: Drawing, document: Document, hosts: Sequence[str]) -> None:
    top = _endpoint(drawing, document, 1, 1, _PAIR)
    height = _height(document, hosts, _PAIR)
    xs = (1.0, WIDE - _PAIR - 1)
    centres = [_node(drawing, document, host, x, top, _PAIR, height) for host, x in zip(hosts, xs, strict=True)]
    left, right = xs[0] + _PAIR, xs[1]
    for cable in _known(document, hosts):
        start, end = (centres[side].get(number, top + height / 2) for side, number in enumerate((cable.left[1], cable.right[1])))
        drawing.paths.append(Path(curve((left - _INSET, start), (right + _INSET, end)), "cable", dashed=not cable.certain))
        middle, y = (left + right) / 2, (start + end) / 2
        drawing.texts.append(Text(middle, y - 14, cable.label, "label", "middle"))
        drawing.texts.append(Text(middle, y + 24, cable.note, "small", "middle"))
        if not cable.certain:
            drawing.texts.append(Text(middle, y + 42, "no common subnet", "small", "middle"))
    if not cables(document):
        y = top + height / 2
        drawing.paths.append(Path(line((left, y), (right, y)), "cable", dashed=True))
        drawing.texts.append(Text((left + right) / 2, y - 14, _nothing(document, hosts), "label", "middle"))
    drawing.height = top + height + 2


def _pair_narrow(drawing: Drawing, document: Document, hosts: Sequence[str]) -> None:
    gap, width = 96.0, NARROW - 2
    top = _endpoint(drawing, document, 1, 1, width)
    height = _height(document, hosts, width)
    _node(drawing, document, hosts[0], 1, top, width, height)
    _node(drawing, document, hosts[1], 1, top + height + gap, width, height)
    start, end = top + height, top + height + gap
    found = _known(document, hosts)
    for number, cable in enumerate(found):
        x = 26.0 + number * 156
        drawing.paths.append(Path(line((x, start), (x, end)), "cable", dashed=not cable.certain))
        room = 134.0 if len(found) > 1 else 280.0
        for step, text in enumerate((f"cage {cable.left[1]} to cage {cable.right[1]}", f"{cable.label}, {cable.note}", _doubt(cable))):
            if text:
                drawing.texts.append(Text(x + 14, start + 32 + 20 * step, fit(text, room, 12), "small"))
    if not found:
        drawing.paths.append(Path(line((26, start), (26, end)), "cable", dashed=True))
        drawing.texts.append(Text(40, start + gap / 2 + 4, _nothing(document, hosts), "small"))
    drawing.height = end + height + 2


def _doubt(cable: Cable) -> str:
    return "" if cable.certain else "no common subnet"


def _nothing(document: Document, hosts: Sequence[str]) -> str:
    """Why there is no cable to draw."""
    return "no link seen" if all(cages(document["nodes"].get(host)) is not None for host in hosts) else "cable not known"


def _known(document: Document, hosts: Sequence[str]) -> list[Cable]:
    """The cables, from the first of these hosts to the second."""
    return [cable for cable in cables(document) if cable.left[0] == hosts[0]]


def _row_wide(drawing: Drawing, document: Document, hosts: Sequence[str]) -> None:
    """Up to four in a row over the fabric; more than four on both sides of it."""
    columns = len(hosts) if len(hosts) <= 4 else ceil(len(hosts) / 2)
    upper, lower = hosts[:columns], hosts[columns:]
    space = 20.0
    width = (WIDE - 2 - space * (columns - 1)) / columns
    top = _endpoint(drawing, document, 1, 1, max(width, 300))
    height = _height(document, hosts, width)
    bar = top + height + _ROOM
    drawing.boxes.append(Box(1, bar, WIDE - 2, _BAR, "fabric"))
    drawing.texts.append(Text(WIDE / 2, bar + _BAR / 2 + 5, fit(f"fabric: {shape(document)}", WIDE - 40, 13), "label", "middle"))
    for row, y, edge, far in ((upper, top, top + height, bar), (lower, bar + _BAR + _ROOM, bar + _BAR + _ROOM, bar + _BAR)):
        for column, host in enumerate(row):
            x = 1 + column * (width + space)
            _node(drawing, document, host, x, y, width, height)
            _uplinks(drawing, document, host, x, width, edge, far)
    drawing.height = bar + _BAR + (_ROOM + height if lower else 0) + 2


def _uplinks(drawing: Drawing, document: Document, host: str, x: float, width: float, edge: float, far: float) -> None:
    """A line for each cage with a link; a dashed one where a node has none."""
    found = cages(document["nodes"].get(host)) or []
    up = [cage for cage in found if cage.state == "up"]
    for number, cage in enumerate(up):
        at = x + width * (number + 1) / (len(up) + 1)
        drawing.paths.append(Path(line((at, edge), (at, far)), "cable"))
        room, words = width / (len(up) + 1), f"cage {cage.number}, {_speed(cage)}"
        words = words if fit(words, room, 12) == words else f"cage {cage.number}"
        drawing.texts.append(Text(at + 8, (edge + far) / 2 + 4, fit(words, room, 12), "small"))
    if not up:
        at = x + width / 2
        drawing.paths.append(Path(line((at, edge), (at, far)), "cable", dashed=True))
        drawing.texts.append(Text(at + 8, (edge + far) / 2 + 4, "no link" if found else "not known", "small"))


def _speed(cage: Cage) -> str:
    return next((f"{port['speed'] / 1000:.0f} Gb/s" for port in cage.ports if port.get("speed")), "link")


def _row_narrow(drawing: Drawing, document: Document, hosts: Sequence[str]) -> None:
    """One below the other, the fabric a spine beside them."""
    top = _endpoint(drawing, document, 1, 1, NARROW - 2)
    drawing.boxes.append(Box(1, top, NARROW - 2, _BAR, "fabric"))
    drawing.texts.append(Text(NARROW / 2, top + _BAR / 2 + 4, fit(f"fabric: {shape(document)}", NARROW - 20, 13), "label", "middle"))
    y, last = top + _BAR + 18, top + _BAR
    for host in hosts:
        height = _height(document, [host], NARROW - _SPINE - 1)
        centres = _node(drawing, document, host, _SPINE, y, NARROW - _SPINE - 1, height)
        found = cages(document["nodes"].get(host)) or []
        up = [cage for cage in found if cage.state == "up"]
        ends = [centres[cage.number] for cage in up] or [y + height / 2]
        drawing.paths += [Path(line((12, end), (_SPINE + (_INSET if up else 0), end)), "cable", dashed=not up) for end in ends]
        last = max(last, *ends)
        y += height + 18
    drawing.paths.append(Path(line((12, top + _BAR), (12, last)), "cable"))
    drawing.height = y


def _endpoint(drawing: Drawing, document: Document, x: float, y: float, width: float) -> float:
    """The endpoint over the head, which is the first node; where the nodes begin."""
    url = dig(document, "plan.endpoint.url")
    if not url:
        return y
    drawing.boxes.append(Box(x, y, width, _ENDPOINT, "endpoint"))
    drawing.texts.append(Text(x + _PAD, y + 19, "endpoint", "small"))
    drawing.texts.append(Text(x + _PAD, y + 36, fit(str(url), width - 2 * _PAD, 13, mono=True), "mono"))
    middle = x + 36
    drawing.paths.append(Path(line((middle, y + _ENDPOINT), (middle, y + _ENDPOINT + _LEAD)), "lead"))
    return y + _ENDPOINT + _LEAD


def _height(document: Document, hosts: Sequence[str], width: float) -> float:
    """Of the tallest of these nodes."""
    return max(_HEADER + _cages_height(cages(document["nodes"].get(host)), width) for host in hosts)


def _cages_height(found: Sequence[Cage] | None, width: float) -> float:
    return sum(_cage_height(cage, width) + 12 for cage in found) + 4 if found else _ROW


def _cage_height(cage: Cage, width: float) -> float:
    return _CAGE_HEADER + _row_height(width) * len(cage.ports) + 4


def _row_height(width: float) -> float:
    return _ROW + _LINE if width < _SLIM else _ROW


def _box(document: Document, host: str, x: float, y: float, width: float, height: float) -> Box:
    return Box(x, y, width, height, "node", dashed=document["nodes"].get(host) is None)


def _heading(drawing: Drawing, document: Document, host: str, x: float, y: float, width: float) -> None:
    node, plan = document["nodes"].get(host), document.get("plan") or {}
    room = width - 2 * _PAD
    rank = (dig(plan, "nodes", {}).get(host) or {}).get("rank")
    role = "not in the plan" if rank is None else f"rank {rank}{', head' if plan.get('head') == host else ''}"
    what = "did not answer" if node is None else product(node.get("product") or {}) or "unknown product"
    drawing.texts.append(Text(x + _PAD, y + 32, fit(host, room, 18), "name"))
    drawing.texts.append(Text(x + _PAD, y + 54, role, "note"))
    drawing.texts.append(Text(x + _PAD, y + 74, fit(what, room, 13), "note"))


def _node(drawing: Drawing, document: Document, host: str, x: float, y: float, width: float, height: float) -> dict[int, float]:
    """A node's box and all in it; the middle of each cage."""
    drawing.boxes.append(_box(document, host, x, y, width, height))
    _heading(drawing, document, host, x, y, width)
    node = document["nodes"].get(host)
    found, centres = cages(node), {}
    at = y + _HEADER
    for cage in found or []:
        tall = _cage_height(cage, width)
        _cage(drawing, cage, x + _INSET, at, width)
        centres[cage.number] = at + tall / 2
        at += tall + 12
    if node is not None and not found:
        words = "ports could not be read" if found is None else "no ConnectX-7 port is visible"
        drawing.texts.append(Text(x + _PAD, at + 18, fit(words, width - 2 * _PAD, 12), "small"))
    return centres


def _cage(drawing: Drawing, cage: Cage, x: float, y: float, outer: float) -> None:
    """`outer` is the width of the node around it."""
    width = outer - 2 * _INSET
    words = {"up": "link up", "down": "no link", "unknown": "link not known"}[cage.state]
    drawing.boxes.append(Box(x, y, width, _cage_height(cage, outer), "cage", dashed=cage.state != "up"))
    drawing.texts.append(Text(x + 12, y + 20, f"cage {cage.number}", "label"))
    drawing.texts.append(Text(x + width - 12, y + 20, words, "small", "end"))
    for number, port in enumerate(cage.ports):
        at = y + _CAGE_HEADER + number * _row_height(outer)
        state = speed_words(port)
        drawing.marks.append(Mark(x + 18, at + 12, port_state(port)))
        drawing.texts.append(Text(x + 32, at + 16, fit(str(port.get("netdev", "?")), width - 48 - len(state) * 6.5, 12, mono=True), "mono"))
        drawing.texts.append(Text(x + width - 12, at + 16, state, "small", "end"))
        mtu = [f"MTU {port['mtu']}"] if port.get("mtu") else []
        parts = [address_words(port), *mtu] if outer < _SLIM else [" · ".join([address_words(port), *mtu])]
        for step, text in enumerate(parts, 1):
            drawing.texts.append(Text(x + 32, at + 16 + step * _LINE, fit(text, width - 44, 12, mono=True), "mono"))
