# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that turns a jump host's variables into OpenSSH arguments."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: ssh_arguments
short_description: OpenSSH arguments for a node, through its jump host where it has one
version_added: 0.1.0
author: The gb10.cluster engineers
description:
  - Gives the value for C(ansible_ssh_common_args). The jump is data (C(gb10_jump), the inventory name of another node), so that the jump's
    address, user, port and key are written once, at the jump itself.
  - C(ProxyJump) would ignore the known_hosts file and the key that Ansible uses for the jump itself, so the jump is spelled out as a
    C(ProxyCommand).
  - Host keys are accepted at first sight and checked from then on.
positional: _input
options:
  _input:
    description: The variables of the jump host (C(hostvars[gb10_jump])), or an empty mapping for a node that is reached directly.
    type: dict
    required: true
  known_hosts:
    description: The known_hosts file of this project on the controller.
    type: path
    required: true
"""

EXAMPLES = r"""
ansible_ssh_common_args: "{{ (hostvars[gb10_jump] if gb10_jump is defined else {}) | gb10.cluster.ssh_arguments(gb10_known_hosts) }}"
"""

RETURN = r"""
_value:
  description: Arguments for OpenSSH, quoted as for a shell.
  type: str
"""


def ssh_arguments(jump: Mapping[str, Any], known_hosts: str) -> str:
    """Arguments for ``ssh``, ``scp`` and ``sftp``: host key checking against C(known_hosts), and the way through C(jump)."""
    trust = ["-o", "StrictHostKeyChecking=accept-new", "-o", f"UserKnownHostsFile={known_hosts}"]
    if not jump:
        return shlex.join(trust)
    name = jump.get("inventory_hostname", "the jump host")
    if jump.get("gb10_jump"):
        raise AnsibleFilterError(
            f"{name} is a jump host and itself has gb10_jump: {jump['gb10_jump']}. "
            f"One jump is supported: give {name} an address that is reached directly."
        )
    command = ["ssh", *trust, "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]
    if jump.get("ansible_port"):
        command += ["-p", str(jump["ansible_port"])]
    if jump.get("ansible_user"):
        command += ["-l", str(jump["ansible_user"])]
    if jump.get("ansible_ssh_private_key_file"):
        command += ["-i", str(jump["ansible_ssh_private_key_file"])]
    address = str(jump.get("ansible_host") or name)
    # OpenSSH expands % in a ProxyCommand: what is ours is doubled, %h and %p are its own.
    ours = " ".join(shlex.quote(word).replace("%", "%%") for word in command)
    return shlex.join([*trust, "-o", f"ProxyCommand={ours} -W '[%h]:%p' {shlex.quote(address)}"])


class FilterModule:
    """Filters of gb10.cluster."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """The names under which templates find them."""
        return {"ssh_arguments": ssh_arguments}
