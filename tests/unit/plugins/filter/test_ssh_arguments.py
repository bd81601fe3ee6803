# SPDX-License-Identifier: GPL-3.0-or-later
"""The jump, spelled out for OpenSSH."""

from __future__ import annotations

import shlex

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.cluster.plugins.filter.ssh_arguments import ssh_arguments

TRUST = ["-o", "StrictHostKeyChecking=accept-new", "-o", "UserKnownHostsFile=/k/known_hosts"]


def test_a_node_without_jump_gets_only_the_host_key_rules() -> None:
    assert shlex.split(ssh_arguments({}, "/k/known_hosts")) == TRUST


def test_the_jump_brings_its_own_user_port_and_key() -> None:
    jump = {
        "inventory_hostname": "head",
        "ansible_host": "192.0.2.1",
        "ansible_port": 2222,
        "ansible_user": "aurora",
        "ansible_ssh_private_key_file": "/k/a key",
    }
    words = shlex.split(ssh_arguments(jump, "/k/known_hosts"))
    assert words[:4] == TRUST
    name, _, command = words[5].partition("=")
    assert name == "ProxyCommand"
    assert shlex.split(command) == [
        *[
            "ssh",
            *TRUST,
            "-o",
            "BatchMode=yes",
            "-o",
            "ConnectTimeout=15",
            "-p",
            "2222",
            "-l",
            "aurora",
            "-i",
            "/k/a key",
            "-W",
            "[%h]:%p",
            "192.0.2.1",
        ]
    ]


def test_a_percent_sign_of_ours_is_not_expanded_by_openssh() -> None:
    words = shlex.split(ssh_arguments({"inventory_hostname": "head"}, "/k/100%/known_hosts"))
    assert "/k/100%%/known_hosts" in words[5]
    assert words[5].endswith(" head")


def test_a_chain_of_jumps_is_refused_by_name() -> None:
    with pytest.raises(AnsibleFilterError, match="head is a jump host and itself has gb10_jump: gate"):
        ssh_arguments({"inventory_hostname": "head", "gb10_jump": "gate"}, "/k/known_hosts")
