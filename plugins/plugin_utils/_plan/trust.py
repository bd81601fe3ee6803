# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the head reaches the other ranks over the fabric, to hand on image and model.

The head has a key pair of its own for this; only its public half travels (role fabric).
"""

from __future__ import annotations

from typing import Any

from .._rules.context import Node


def plan_trust(head: Node) -> dict[str, str]:
    """``trust`` of the plan: files on the head, in the user's ``~/.ssh``."""
    folder = f"{head.get('user.home') or '/root'}/.ssh"
    return {"key": f"{folder}/gb10_ed25519", "known_hosts": f"{folder}/gb10_known_hosts"}


def node_ssh(node: Node, trust: dict[str, str], address: str | None) -> dict[str, Any] | None:
    """``nodes.*.ssh`` of the plan: the ssh command by which the head reaches the node at ``address``, and as whom; None for the head itself."""
    if node.rank == 0 or address is None:
        return None
    options = ["-i", trust["key"], "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={trust['known_hosts']}", "-o", "StrictHostKeyChecking=yes"]
    # Image and model go through it: the processor has instructions for this cipher, and none for ssh's own first choice (man ssh_config).
    options += ["-o", "Ciphers=^aes128-gcm@openssh.com"]
    return {"command": ["ssh", *options], "destination": f"{node.get('user.name') or 'root'}@{address}"}
