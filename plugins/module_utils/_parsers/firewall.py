# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether something filters what comes in: ufw, nftables, iptables."""

from __future__ import annotations

import re

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_ENABLED = re.compile(r"^ENABLED=[\"']?(?P<value>yes|no)[\"']?\s*$", re.MULTILINE | re.IGNORECASE)
_STATUS = re.compile(r"^Status: (?P<status>active|inactive)\s*$", re.MULTILINE)
_RULESET = re.compile(r"^\s*(?:table|chain) \S+", re.MULTILINE)
_CHAIN = re.compile(r"^\s*chain (?P<name>\S+) \{\s*$")
_INPUT = re.compile(r"\bhook input\b")
_REFUSES = re.compile(r"\b(?:drop|reject)\b")
_JUMP = re.compile(r"\b(?:jump|goto) (?P<name>[\w.-]+)")
_IPTABLES = re.compile(r"^-[PANI] [\w.-]+(?: .*)?$")


def parse_ufw_conf(text: str) -> bool:
    """/etc/ufw/ufw.conf, which everybody may read: `ufw enable` writes into it"""
    match = _ENABLED.search(text.replace("\r\n", "\n"))
    if match is None:
        raise ParseError("/etc/ufw/ufw.conf", text.strip().partition("\n")[0])
    return match.group("value").lower() == "yes"


def parse_ufw_status(text: str) -> bool:
    match = _STATUS.search(text.replace("\r\n", "\n"))
    if match is None:
        raise ParseError("ufw status", text.strip().partition("\n")[0])
    return match.group("status") == "active"


def parse_nft(text: str) -> tuple[str, ...]:
    """`nft list ruleset`: the chains on the way in that refuse anything, or jump to one that does. No rules at all is an answer."""
    if text.strip() and not _RULESET.search(text):
        raise ParseError("nft list ruleset", text.strip().partition("\n")[0])
    chains: dict[str, list[str]] = {}
    name = None
    for line in text.splitlines():
        head = _CHAIN.match(line)
        if head is not None:
            name = head.group("name")
            chains.setdefault(name, [])
        elif name is not None:
            chains[name].append(line)
            if line.strip() == "}":
                name = None
        elif line.strip() and not re.match(
            r"^\s*(?:table|set|map|flowtable|ct|#|\}|type|flags|elements|counter|quota|limit|size|auto-merge|timeout)", line
        ):
            raise ParseError("nft list ruleset", line)
    first = [name for name, lines in chains.items() if any(_INPUT.search(line) for line in lines)]
    return tuple(name for name in first if _refuses(name, chains))


def _refuses(first: str, chains: dict[str, list[str]]) -> bool:
    waiting, visited = [first], set()
    while waiting:
        name = waiting.pop()
        if name in visited:
            continue
        visited.add(name)
        for line in chains.get(name, ()):
            if _REFUSES.search(line.partition("#")[0]):
                return True
            waiting += [match.group("name") for match in _JUMP.finditer(line)]
    return False


def reduce_nft(text: str) -> str:
    """Chains, hooks, jumps and verdicts: no addresses, no comments, no sets."""
    kept = []
    depth_of_chain = False
    for line in text.splitlines():
        if _CHAIN.match(line):
            depth_of_chain = True
            kept.append(line)
        elif depth_of_chain and line.strip() == "}":
            depth_of_chain = False
            kept.append(line)
        elif depth_of_chain:
            words = re.findall(r"type filter hook \w+|policy \w+|\b(?:jump|goto) [\w.-]+|\b(?:drop|reject)\b", line.partition("#")[0])
            if words:
                kept.append("\t\t" + " ".join(words))
    return "".join(f"{line}\n" for line in kept)


def parse_iptables(text: str) -> bool:
    """`iptables -S INPUT`: a policy or a rule that refuses"""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if not _IPTABLES.match(line):
            raise ParseError("iptables -S", line)
    if not lines:
        raise ParseError("iptables -S", "")
    return any(re.search(r"^-P INPUT DROP|-j (?:DROP|REJECT|ufw-|nixos-fw)", line) for line in lines)
