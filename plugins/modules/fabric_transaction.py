#!/usr/bin/python
# Copyright (c) 2026 the gb10.cluster authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give the rails of a node their addresses, in a transaction that the node takes back unless it is confirmed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_transaction
short_description: Give the rails of a node their addresses, in a transaction that the node takes back unless it is confirmed
version_added: 0.1.0
description:
  - Writes C(/etc/netplan/60-gb10-fabric.yaml) and applies it to the links in it alone, with C(networkctl reconfigure) or C(nmcli connection up),
    whoever looks after them. No service is restarted, C(netplan apply) is never run, and files of others are not touched.
  - The change is a transaction. A timer on the node itself takes it back unless the controller comes back over a new connection and confirms
    it. A unit takes it back at boot if the node is restarted before that.
    Interrupted at any point, the node ends in the old or in the new state, and the next run says in which.
  - Refuses before anything is changed if a file of netplan, NetworkManager or networkd that is not ours claims one of the links, or if one of
    them carries the session.
options:
  state:
    description:
      - With V(present), our file holds exactly the O(rails). With V(absent), there is no file of ours, and the links are as they were before.
    type: str
    choices: [present, absent]
    default: present
  rails:
    description:
      - All links that are to have their address from our file, those of earlier runs as well. A link that is not in here any more is given back.
      - Not used with O(state=absent).
    type: list
    elements: dict
    default: []
    suboptions:
      netdev:
        description:
          - Name of the network interface.
        type: str
        required: true
      address:
        description:
          - IPv4 address with its prefix, such as V(192.168.200.12/24).
        type: str
        required: true
      mtu:
        description:
          - MTU in bytes.
        type: int
        default: 9000
  management:
    description:
      - What carries the session, as in the fact RV(gb10.cluster.gb10_facts#module:ansible_facts.gb10.fabric.ssh).
        It is never changed, and its address is watched while the rails change.
      - By default, what the module sees of its own SSH session.
    type: dict
    suboptions:
      interface:
        description:
          - Name of the network interface.
        type: str
      address:
        description:
          - The node's own address on it.
        type: str
        required: true
      peer:
        description:
          - Not used; it is here so that the fact can be given as it is.
        type: str
  revert_after:
    description:
      - Seconds after which the node takes the change back if nobody has confirmed it. At least 15 more than O(watch).
    type: int
    default: 60
  watch:
    description:
      - Seconds that the management address may be missing after a change. Shorter absences are kept, a longer one takes the change back.
        Every change takes at least this long.
    type: float
    default: 5.0
  phase:
    description:
      - Internal. V(apply) makes the change and leaves it to the timer, V(confirm) keeps it.
    type: str
    choices: [apply, confirm]
    default: apply
  token:
    description:
      - Internal. Names one run of the task, so that it confirms no other one's change.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
    description: Says what would be in the file and which commands would run, and changes nothing.
  diff_mode:
    support: full
    description: Shows the file before and after.
  platform:
    platforms: posix
    support: full
    description: Nodes with netplan 0.105 or newer, and systemd 250 or newer.
  action:
    support: full
    description: Has an action plugin on the controller that drops the connection and confirms over a new one.
  async:
    support: none
    description: The connection is a part of the transaction.
author:
  - The gb10.cluster engineers (@gb10)
notes:
  - Needs root, so C(become) must be true.
  - The journal of a change is in C(/var/lib/gb10/fabric), readable by root only.
"""

EXAMPLES = r"""
- name: Give the rails their addresses
  gb10.cluster.fabric_transaction:
    rails:
      - netdev: enp1s0f1np1
        address: 192.168.200.12/24
      - netdev: enP2p1s0f1np1
        address: 192.168.201.12/24
        mtu: 9000
    management: "{{ ansible_facts['gb10'].fabric.ssh }}"
  become: true

- name: Give them back
  gb10.cluster.fabric_transaction:
    state: absent
    management: "{{ ansible_facts['gb10'].fabric.ssh }}"
  become: true
"""

RETURN = r"""
state:
  description: Where the node is, V(new) as asked for, or V(old) as it was.
  returned: always
  type: str
  sample: new
commands:
  description: The commands that ran, or in check mode would run. The last ones may depend on what the others leave.
  returned: always
  type: list
  elements: list
  sample: [[netplan, generate], [networkctl, reload], [networkctl, reconfigure, enP2p1s0f1np1]]
messages:
  description: What else there is to know, one sentence each, such as that an earlier change was reverted, and when.
  returned: always
  type: list
  elements: str
diff:
  description: Our file before and after.
  returned: when it was looked at
  type: dict
  contains:
    before:
      description: The text before.
      type: str
    after:
      description: The text after.
      type: str
reverts_at:
  description: When the node takes the change back unless it is confirmed, by its own clock.
  returned: when a change could not be confirmed
  type: str
  sample: "2026-11-30 15:01:00 UTC"
"""

import os
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.node import Node
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import ARGUMENT_SPEC, Busy, Paths, Refused, Undone, problems
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.transaction import Transaction
from ansible_collections.gb10.cluster.plugins.module_utils._runner import LiveRunner


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    wrong = problems(module.params)
    if wrong:
        module.fail_json(msg=f"The rails cannot be changed like this: {'; '.join(wrong)}.", state="old", messages=[], commands=[])
    if os.geteuid() != 0:
        module.fail_json(msg="Addresses are given by root. Set become: true on this task.", state="old", messages=[], commands=[])
    try:
        # Not the module's own: with pipelining Ansible would warn that it makes one.
        with tempfile.TemporaryDirectory(prefix="gb10-fabric-") as scratch:
            result = run(module, scratch)
    except OSError as error:
        module.fail_json(msg=f"{error.filename or 'The node'}: {error.strerror}. Nothing was changed.", state="old", messages=[], commands=[])
    if "msg" in result:
        module.fail_json(**result)
    module.exit_json(**result)


def run(module: AnsibleModule, scratch: str) -> dict[str, Any]:
    """The result; one with a message is a failure."""
    paths = Paths()
    transaction = Transaction(Node(LiveRunner(module), paths, scratch), paths, module.params)
    try:
        return transaction.apply(module.check_mode) if module.params["phase"] == "apply" else transaction.confirm()
    except (Refused, Undone) as error:
        return transaction.result(msg=str(error), busy=isinstance(error, Busy), state="old")


if __name__ == "__main__":
    main()
