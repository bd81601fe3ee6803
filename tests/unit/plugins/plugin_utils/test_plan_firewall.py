# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails are opened in a firewall that is active, by consent, each to its own subnet; everything else is left to its owner."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.commands import rank_lines
from builders import HEAD, WORKER, Facts, Plan, cabled, ids, plan, port, row, spark, twin

CONSENT = {"consent": ["firewall"]}
RAILS = [{"netdev": "enp1s0f1np1", "subnet": "192.168.200.0/24"}, {"netdev": "enP2p1s0f1np1", "subnet": "192.168.201.0/24"}]


def guarded(facts: dict[str, Facts | None], *names: str, **firewall: Any) -> dict[str, Facts | None]:
    """These nodes have such a firewall."""
    for name in names:
        facts[name]["fabric"]["firewall"] = firewall  # type: ignore[index]
    return facts


def told(made: Plan, node: str) -> str:
    """What the report says that is done on the node."""
    return "\n".join(line.text for line in rank_lines(made["nodes"][node]))


@pytest.mark.parametrize("kind", ["ufw", "iptables"])
def test_with_consent_each_rail_is_opened_to_its_own_subnet(kind: str) -> None:
    made = plan(guarded(twin(), WORKER, active=True, kind=kind), **CONSENT)
    assert made["nodes"][WORKER]["firewall"] == {"kind": kind, "open": RAILS}
    assert made["nodes"][HEAD]["firewall"] == {"kind": None, "open": []}
    assert "fabric.firewall" not in ids(made)
    assert f"{kind} lets 192.168.200.0/24 in on enp1s0f1np1 (you allowed it)" in told(made, WORKER)
    assert "lets" not in told(made, HEAD)


@pytest.mark.parametrize(
    ("firewall", "consent", "kind"),
    [
        ({"active": True, "kind": "ufw"}, [], "ufw"),
        ({"active": True, "kind": "ufw"}, ["network"], "ufw"),
        ({"active": True, "kind": "nftables"}, ["firewall"], "nftables"),
        ({"active": False, "kind": "ufw"}, ["firewall"], None),
        # Only root could have said whether it refuses anything.
        ({"kind": "iptables"}, ["firewall"], None),
        ({}, ["firewall"], None),
    ],
)
def test_nothing_is_opened(firewall: Facts, consent: list[str], kind: str | None) -> None:
    made = plan(guarded(twin(), WORKER, **firewall), consent=consent)
    assert made["nodes"][WORKER]["firewall"] == {"kind": kind, "open": []}
    assert ("fabric.firewall" in ids(made)) == (firewall.get("active") is True)
    assert "lets" not in told(made, WORKER)


def test_one_node_has_no_rails_to_open() -> None:
    made = plan(guarded({HEAD: spark()}, HEAD, active=True, kind="ufw"), {"nodes": 1, "tensor_parallel": 1}, **CONSENT)
    assert made["nodes"][HEAD]["firewall"] == {"kind": "ufw", "open": []}


def test_a_node_that_did_not_answer() -> None:
    made = plan({HEAD: spark(), WORKER: None}, **CONSENT)
    assert made["nodes"][WORKER]["firewall"] == {"kind": None, "open": []}


def test_rails_that_get_their_addresses_in_the_same_run_are_opened_too() -> None:
    facts = twin()
    for number, name in enumerate((HEAD, WORKER)):
        facts[name]["fabric"]["ports"] = cabled(12 + number, second=None)  # type: ignore[index]
    made = plan(guarded(facts, HEAD, WORKER, active=True, kind="ufw"), consent=["network", "firewall"])
    for node in made["nodes"].values():
        assert [rail["action"] for rail in node["rails"]] == ["adopt", "configure"]
        assert node["firewall"]["open"] == RAILS


def test_a_subnet_of_another_size() -> None:
    facts = twin()
    for number, name in enumerate((HEAD, WORKER)):
        facts[name]["fabric"]["ports"] = [port(1, 0, f"10.20.30.{13 + number}", prefix=29)]  # type: ignore[index]
    made = plan(guarded(facts, WORKER, active=True, kind="ufw"), **CONSENT)
    assert made["nodes"][WORKER]["firewall"]["open"] == [{"netdev": "enp1s0f1np1", "subnet": "10.20.30.8/29"}]


def test_where_the_ranks_meet_beside_the_rails_is_never_ours_to_open() -> None:
    # A ring of three: cage 0 of each is joined to cage 1 of the next, and no network of the rails is common to all.
    facts = guarded(row(3), "spark-0", active=True, kind="ufw")
    for number in range(3):
        cables = [f"10.{number}.0.1", f"10.{(number - 1) % 3}.0.2"]
        facts[f"spark-{number}"]["fabric"]["ports"] = [port(cage, 0, cables[cage]) for cage in (0, 1)]  # type: ignore[index]
    overrides = {"nodes": 3, "tensor_parallel": 1, "pipeline_parallel": 3}

    refused = plan(facts, overrides)
    assert refused["topology"] == "ring"
    (said,) = [finding["remedy"] for finding in refused["findings"] if finding["id"] == "fabric.firewall"]
    assert said.startswith(
        """Let the rails be opened: -e '{"gb10_consent": ["firewall"]}'. Or by hand on spark-0: `sudo ufw allow in on enp1s0f0np0"""
    )

    allowed = plan(facts, overrides, **CONSENT)
    assert [entry["subnet"] for entry in allowed["nodes"]["spark-0"]["firewall"]["open"]] == ["10.0.0.0/24", "10.2.0.0/24"]
    (said,) = [finding["remedy"] for finding in allowed["findings"] if finding["id"] == "fabric.firewall"]
    assert said == (
        "The ranks find each other at enP7s7 of spark-0, which is yours to open: "
        "`sudo ufw allow in on enP7s7 from 192.0.2.11`; `sudo ufw allow in on enP7s7 from 192.0.2.12`."
    )
