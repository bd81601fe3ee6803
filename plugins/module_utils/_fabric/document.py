# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our netplan file as text, and netplan's files as data: with PyYAML where it is, else the plain blocks that `netplan get` prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

yaml: Any
try:
    import yaml
except ImportError:  # then netplan is asked to print its files in the one shape that `parse_blocks` reads
    yaml = None

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import Rail

HEADER = "# Written by gb10.cluster: the rails that had no address. Remove with: ansible-playbook gb10.cluster.teardown\n"
_KEY = re.compile(r"""^(?P<key>"[^"\\]*"|'[^']*'|[^\s"'\[\]{}#&*!|>%@`,-][^"'#]*?):(?:\s+(?P<value>.*))?$""")
_ERRORS: tuple[type[Exception], ...] = (ValueError, RecursionError, TypeError, AttributeError, LookupError)
if yaml is not None:
    _ERRORS += (yaml.YAMLError,)
_TOO_DEEP = 1000  # brackets; YAML's reader descends once for each


def render(rails: Iterable[Rail], renderers: Mapping[str, str]) -> str:
    """Our file. A renderer is named only for a link whose owner is not the one that netplan would choose."""
    lines = [HEADER, "network:\n", "  version: 2\n", "  ethernets:\n"]
    for rail in rails:
        lines.append(f"    {rail.netdev}:\n")
        if rail.netdev in renderers:
            lines.append(f"      renderer: {renderers[rail.netdev]}\n")
        lines += [
            f"      addresses: [{rail.address}]\n",
            f"      mtu: {rail.mtu}\n",
            "      dhcp4: false\n",
            "      dhcp6: false\n",
            "      link-local: []\n",
            "      optional: true\n",
        ]
    return "".join(lines)


def parse_ours(text: str) -> dict[str, Any]:
    """Our own file's definitions by link; never needs PyYAML."""
    try:
        links = parse_blocks(text)["network"]["ethernets"]
        return {str(name): dict(entry) for name, entry in links.items()}
    except _ERRORS as error:
        raise ParseError("our netplan file", text.partition("\n")[0]) from error


def parse_netplan(text: str) -> dict[str, Any]:
    """The `network` mapping of any netplan file, every scalar a string. Needs PyYAML."""
    if yaml is None or text.count("[") + text.count("{") > _TOO_DEEP:
        raise ParseError("netplan", text.strip().partition("\n")[0])
    try:
        return network_of(yaml.load(text, Loader=yaml.BaseLoader))
    except _ERRORS as error:
        raise ParseError("netplan", text.strip().partition("\n")[0]) from error


def network_of(document: Any) -> dict[str, Any]:
    if document is None or document == "":
        return {}
    network = document.get("network")
    if network is None or network == "":
        return {}
    if not isinstance(network, dict):
        raise ValueError(f"network is {network!r}")
    return network


@dataclass
class _Line:
    indent: int
    text: str


def parse_blocks(text: str) -> Any:
    """Mappings and lists in YAML's block style, with plain or quoted scalars, empty or flat flow lists. Anything else is a ParseError."""
    lines = []
    for raw in text.splitlines():
        stripped = raw.strip()
        if stripped and not stripped.startswith("#"):
            lines.append(_Line(len(raw) - len(raw.lstrip(" ")), stripped))
    if not lines:
        return {}
    value, rest = _block(lines, lines[0].indent)
    if rest:
        raise ParseError("netplan get", rest[0].text)
    return value


def _block(lines: list[_Line], indent: int) -> tuple[Any, list[_Line]]:
    return _sequence(lines, indent) if _is_item(lines[0]) else _mapping(lines, indent)


def _is_item(line: _Line) -> bool:
    return line.text == "-" or line.text.startswith("- ")


def _sequence(lines: list[_Line], indent: int) -> tuple[list[Any], list[_Line]]:
    items: list[Any] = []
    while lines and lines[0].indent == indent and _is_item(lines[0]):
        content = lines[0].text[1:].strip()
        if _KEY.match(content):
            # A mapping that begins on the item's own line: the rest of it is indented as its first key.
            inner = indent + len(lines[0].text) - len(content)
            value, lines = _mapping([_Line(inner, content), *lines[1:]], inner)
        else:
            value, lines = _scalar(content), lines[1:]
        items.append(value)
    return items, lines


def _mapping(lines: list[_Line], indent: int) -> tuple[dict[str, Any], list[_Line]]:
    mapping: dict[str, Any] = {}
    while lines and lines[0].indent == indent and not _is_item(lines[0]):
        match = _KEY.match(lines[0].text)
        if match is None:
            raise ParseError("netplan get", lines[0].text)
        key, text, lines = str(_scalar(match.group("key"))), match.group("value"), lines[1:]
        if text:
            mapping[key] = _scalar(text)
        elif lines and (lines[0].indent > indent or (lines[0].indent == indent and _is_item(lines[0]))):
            mapping[key], lines = _block(lines, lines[0].indent)
        else:
            mapping[key] = ""
    if lines and lines[0].indent > indent:
        raise ParseError("netplan get", lines[0].text)
    return mapping, lines


def _scalar(text: str) -> Any:
    text = re.sub(r"\s+#.*$", "", text) if text[:1] not in "\"'" else text
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1] and "\\" not in text:
        return text[1:-1]
    if text == "{}":
        return {}
    if text.startswith("[") and text.endswith("]"):
        inner = text[1:-1].strip()
        return [_scalar(part.strip()) for part in inner.split(",")] if inner else []
    if text[:1] in ("[", "{", '"', "'", "&", "*", "!", "|", ">", "%", "@", "`"):
        raise ParseError("netplan get", text)
    return text
