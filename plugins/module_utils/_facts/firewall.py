# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether something on the node filters what comes in, and what the ConnectX-7's hotplug does"""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Noted, Probe, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.firewall import (
    parse_iptables,
    parse_nft,
    parse_ufw_conf,
    parse_ufw_status,
    reduce_nft,
)
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NOT_RECORDED

_UFW = "/etc/ufw/ufw.conf"
_HOTPLUG = "/sys/bus/platform/devices/MTKP0001:00"
_HOTPLUG_FILE = "/etc/nvidia/cx7-hotplug-enabled"
_DENIED = ("not permitted", "permission denied", "need to be root", "must be root")
_IPTABLES_CHAIN = "INPUT"


def probes() -> tuple[Probe, ...]:
    return (probe("firewall", "fabric", _firewall), probe("hotplug", "fabric", _hotplug))


def _firewall(node: Node) -> dict[str, Any] | Noted:
    """ufw's own switch is for all to read; the rules themselves are shown to root only."""
    conf = node.file(_UFW)
    if conf.content is not None:
        enabled = parse_ufw_conf(conf.content)
        if enabled:
            return {"kind": "ufw", "active": _status(node)}
        return _rules(node, "ufw")
    return _rules(node, None)


def _status(node: Node) -> bool:
    """What is switched on is active, unless ufw itself says that it failed."""
    try:
        result = node.run("ufw", "status")
    except Unavailable:
        return True
    return parse_ufw_status(result.stdout) if result.rc == 0 else True


def _rules(node: Node, kind: str | None) -> dict[str, Any] | Noted:
    """Rules of somebody else's. `kind` is what manages them by name, if anything does."""
    for tool, argv in (("nftables", ("nft", "list", "ruleset")), ("iptables", ("iptables", "-S", "INPUT"))):
        try:
            result = node.run(*argv, reduce=reduce_nft if tool == "nftables" else None)
        except Unavailable as error:
            if NOT_RECORDED in str(error):
                raise
            continue
        if result.rc == 0:
            if tool == "iptables":
                active = parse_iptables(result.stdout)
            else:
                refusing = parse_nft(result.stdout)
                active = bool(refusing)
                # iptables of today keeps its rules in nftables, under its own old names.
                tool = "iptables" if set(refusing) == {_IPTABLES_CHAIN} else tool
            return {"kind": kind if kind and not active else tool, "active": active}
        if any(word in (result.stderr + result.stdout).lower() for word in _DENIED):
            if kind == "ufw":  # switched off; other rules are not the rule
                return Noted({"kind": kind, "active": False}, f"{argv[0]}: only root may list the rules; ufw is switched off")
            return Noted({"kind": tool}, f"{argv[0]}: only root may list the rules")
        raise Failed(f"{argv[0]}: {complaint(result)}")
    if kind:
        return {"kind": kind, "active": False}
    raise Unavailable("neither ufw nor nft nor iptables: not found")


def _hotplug(node: Node) -> dict[str, bool]:
    """DGX OS switches the adapter off while no cable is plugged in; then there is no port to be seen, which is healthy."""
    platform = node.exists(f"{_HOTPLUG}/uevent")
    if platform is None:
        raise Unavailable(f"{_HOTPLUG}: not in the recording")
    switch, cable = (_switch(node.read(f"{_HOTPLUG}/pcie_hotplug/{name}")) for name in ("hotplug_enabled", "debug_state"))
    # The driver tells of cables, and its handler does something about it where the file is there.
    signs = (switch, node.exists(_HOTPLUG_FILE))
    enabled: bool | None = platform and False not in signs
    if enabled and True not in signs:
        enabled = None  # neither could be read
    return known(platform=platform, enabled=enabled, cable=cable)  # type: ignore[no-any-return]


def _switch(text: str | None) -> bool | None:
    return {"1": True, "0": False}.get((text or "").strip())
