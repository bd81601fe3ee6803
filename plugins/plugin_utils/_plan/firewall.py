# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rails are opened in a node's firewall. Only by consent, and only in one whose rules can be added to from outside.

An nftables ruleset of somebody's own cannot: a packet that one chain accepts is still refused by the next, so the rule would have to go into a
file that is not ours. There it stays a finding with its commands (fabric.firewall).
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Interface
from typing import Any

from .._rules.context import Node, Rail, Settings

#: The firewalls that role fabric can open.
OPENED = ("ufw", "iptables")


def plan_firewall(node: Node, rails: Sequence[Rail], settings: Settings) -> dict[str, Any]:
    """``nodes.*.firewall`` of the plan: the firewall that is active, None if none is or nobody knows, and what it will let in.

    A rail is opened as a whole, to its own subnet alone: Ray, NCCL and the ranks' store choose ports as they start.
    """
    kind = node.get("fabric.firewall.kind") if node.get("fabric.firewall.active") is True else None
    consented = "firewall" in settings.consent and kind in OPENED
    return {"kind": kind, "open": [{"netdev": rail.netdev, "subnet": _subnet(rail)} for rail in rails if consented]}


def _subnet(rail: Rail) -> str:
    """The network of the rail's address."""
    return str(IPv4Interface(f"{rail.address}/{rail.prefix}").network)
