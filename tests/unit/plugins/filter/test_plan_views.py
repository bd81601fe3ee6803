# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles read off the plan and the facts."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.cluster.plugins.filter.plan_views import blocking, owned_rails, rail_bytes, reclaim_record, ufw_unopened


def finding(name: str, severity: str = "block", accepted: bool = False) -> dict[str, object]:
    return {"id": name, "severity": severity, "accepted": accepted, "nodes": ["spark-head"], "observed": f"{name} seen.", "remedy": f"Mend {name}."}


def test_only_what_blocks_and_is_not_accepted_is_named() -> None:
    text = blocking(
        {"findings": [finding("memory.occupied"), finding("platform.architecture", accepted=True), finding("memory.swap", "info")]},
        "Stopped, because:",
    )
    assert text.splitlines() == ["Stopped, because:", "  memory.occupied on spark-head: memory.occupied seen. Mend memory.occupied."]


def test_both_kinds_of_counters_count_and_only_those_of_the_rails() -> None:
    ports = [
        {"netdev": "enp1s0f1np1", "rx_bytes": 1, "tx_bytes": 20, "rdma_rx_bytes": 300, "rdma_tx_bytes": 4000},
        {"netdev": "enP2p1s0f1np1", "rx_bytes": 50000, "tx_bytes": 0},
        {"netdev": "enp1s0f0np0", "rx_bytes": 7_000_000, "tx_bytes": 0},
    ]
    assert rail_bytes({"fabric": {"ports": ports}}, [{"netdev": "enp1s0f1np1"}, {"netdev": "enP2p1s0f1np1"}]) == 54321


def test_the_record_holds_what_a_restart_needs_and_no_environment() -> None:
    container = {
        "name": "vllm_node",
        "id": "abc",
        "image": "vllm-node:latest",
        "image_id": "sha256:1",
        "restart_policy": "always",
        "labels": {"token": "x"},
    }
    assert json.loads(reclaim_record(container)) == {
        "name": "vllm_node", "id": "abc", "image": "vllm-node:latest", "image_id": "sha256:1", "restart_policy": "always",
    }  # fmt: skip


RAILS = [
    {"netdev": "enp1s0f1np1", "address": "192.168.200.12", "prefix": 24, "mtu": 9000, "action": "adopt"},
    {"netdev": "enP2p1s0f1np1", "address": "192.168.201.12", "prefix": 24, "mtu": 9000, "action": "adopt"},
    {"netdev": "enp1s0f0np0", "address": "192.168.202.12", "prefix": 24, "mtu": 9000, "action": "configure"},
]
OURS = "network: {version: 2, ethernets: {enP2p1s0f1np1: {addresses: [192.168.201.12/24], mtu: 9000}}}"


def test_our_file_keeps_the_rails_of_earlier_runs_and_gets_the_new_ones() -> None:
    assert [rail["netdev"] for rail in owned_rails(RAILS, OURS)] == ["enP2p1s0f1np1", "enp1s0f0np0"]
    assert owned_rails(RAILS, "") == [{"netdev": "enp1s0f0np0", "address": "192.168.202.12/24", "mtu": 9000}]
    assert owned_rails(RAILS[:1], OURS) == [], "what is no rail any more is given back"
    assert owned_rails(RAILS[:2], OURS.replace("201.12", "201.99")) == [], "an address that somebody changed is not ours any more"


@pytest.mark.parametrize("text", ["network: [", "- a list", "network: {ethernets: {a: x}}"])
def test_a_file_that_is_not_what_we_wrote_is_one_sentence(text: str) -> None:
    with pytest.raises(AnsibleFilterError, match="60-gb10-fabric"):
        owned_rails(RAILS, text)


OPEN = [{"netdev": "enp1s0f1np1", "subnet": "192.168.200.0/24"}, {"netdev": "enP2p1s0f1np1", "subnet": "192.168.201.0/24"}]
FIRST = {"interface": "enp1s0f1np1", "from_ip": "192.168.200.0/24"}
SECOND = {"interface": "enP2p1s0f1np1", "from_ip": "192.168.201.0/24"}


@pytest.mark.parametrize(
    ("added", "missing"),
    [
        (["Added user rules (see 'ufw status' for running firewall):", "(None)"], [FIRST, SECOND]),
        (["ufw allow 22/tcp"], [FIRST | {"insert": 0}, SECOND | {"insert": 0}]),
        # A rule for IPv6 alone is nothing that one for IPv4 could stand before.
        (["ufw deny from 2001:db8::/32"], [FIRST, SECOND]),
        (["ufw deny to fe80::1 port 22"], [FIRST, SECOND]),
        (["ufw allow 22/tcp", "ufw allow in on enp1s0f1np1 from 192.168.200.0/24"], [SECOND | {"insert": 0}]),
        (["ufw allow in on enP2p1s0f1np1 from 192.168.201.0/24 comment 'the owner's, not ours'"], [FIRST | {"insert": 0}]),
        # What lets in less or elsewhere is not the rule.
        (["ufw allow in on enp1s0f1np1 from 192.168.200.0/24 to any port 22"], [FIRST | {"insert": 0}, SECOND | {"insert": 0}]),
        (["ufw deny in on enp1s0f1np1 from 192.168.200.0/24"], [FIRST | {"insert": 0}, SECOND | {"insert": 0}]),
        (
            [
                "ufw allow in on enp1s0f1np1 from 192.168.200.0/24 comment 'gb10.cluster'",
                "ufw allow in on enP2p1s0f1np1 from 192.168.201.0/24 comment 'gb10.cluster'",
            ],
            [],
        ),
    ],
)
def test_only_rails_that_ufw_does_not_let_in_are_opened(added: list[str], missing: list[dict[str, object]]) -> None:
    assert ufw_unopened(OPEN, added) == missing
