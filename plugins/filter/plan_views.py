# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that read the plan for the roles."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError

#: What ``ufw show added`` appends to a rule that somebody commented, and how it names an IPv6 address.
_COMMENT = re.compile(r" comment '.*'$")
_IPV6_ONLY = re.compile(r" (from|to) [^ ]*:")


def blocking(plan: Mapping[str, Any], lead: str) -> str:
    """One message, after the words of ``lead``, that names what blocks the plan and the remedy of each.

    Shape: ``gb10_plan`` of docs/contracts.md in, text of one paragraph a finding out.
    """
    findings = [f for f in plan["findings"] if f["severity"] == "block" and not f.get("accepted")]
    lines = [f"{f['id']} on {', '.join(f['nodes'])}: {f['observed']} {f['remedy']}" for f in findings]
    return f"{lead}\n" + "\n".join(f"  {line}" for line in lines)


def rail_bytes(facts: Mapping[str, Any], rails: Iterable[Mapping[str, Any]]) -> int:
    """Bytes that went in and out over the rails of a node since boot, by the netdevs' and the HCAs' counters together.

    RDMA bypasses the netdev's counters, sockets do not touch the HCA's: the sum grows with either.
    Shapes: ``gb10`` facts and ``nodes[].rails`` of the plan (docs/contracts.md).
    """
    names = {rail["netdev"] for rail in rails}
    ports = [port for port in facts["fabric"]["ports"] if port["netdev"] in names]
    counters = ("rx_bytes", "tx_bytes", "rdma_rx_bytes", "rdma_tx_bytes")
    return sum(int(port.get(counter, 0)) for port in ports for counter in counters)


def owned_rails(rails: Iterable[Mapping[str, Any]], own_file: str) -> list[dict[str, Any]]:
    """The rails whose addresses our netplan file is to hold: those that this run configures, and of the others those that it holds already.

    Shapes: ``nodes[].rails`` of the plan and the text of /etc/netplan/60-gb10-fabric.yaml (empty: there is none) in, options of
    fabric_transaction out. A file that cannot be read as YAML is an AnsibleFilterError.
    """
    try:
        links = ((yaml.safe_load(own_file) or {}).get("network") or {}).get("ethernets") or {}
        held = {(str(name), str(address)) for name, link in links.items() for address in link.get("addresses") or []}
    except (AttributeError, yaml.YAMLError) as error:
        raise AnsibleFilterError(f"Our own file /etc/netplan/60-gb10-fabric.yaml is not what we wrote; mend or remove it: {error}") from error
    wanted = [(rail, f"{rail['address']}/{rail['prefix']}") for rail in rails]
    return [
        {"netdev": rail["netdev"], "address": address, "mtu": rail["mtu"]}
        for rail, address in wanted
        if rail["action"] == "configure" or (str(rail["netdev"]), address) in held
    ]


def ufw_unopened(rails: Iterable[Mapping[str, Any]], added: Iterable[str]) -> list[dict[str, Any]]:
    """The rails that ufw does not let in yet, each as a rule before all others, so that none that refuses more comes first.

    Shapes: ``nodes[].firewall.open`` of the plan and the lines of ``ufw show added`` (man ufw) in, options of community.general.ufw out:
    ``interface``, ``from_ip`` and, where ufw has a rule for IPv4 to stand before, ``insert``. A rule of somebody else's that says the same
    stays theirs, and nothing is added to it.
    """
    rules = [_COMMENT.sub("", line.strip()) for line in added if line.startswith("ufw ")]
    place = {"insert": 0} if any(not _IPV6_ONLY.search(rule) for rule in rules) else {}
    missing = [rail for rail in rails if f"ufw allow in on {rail['netdev']} from {rail['subnet']}" not in rules]
    return [{"interface": rail["netdev"], "from_ip": rail["subnet"], **place} for rail in missing]


def reclaim_record(container: Mapping[str, Any]) -> str:
    """What is kept of a container that is stopped to free memory: enough to start it again as it was.

    Shape: one of ``docker.containers`` of the facts (docs/contracts.md) in, JSON text out.
    """
    kept = ("name", "id", "image", "image_id", "restart_policy")
    return json.dumps({key: container.get(key) for key in kept}, indent=2, sort_keys=True) + "\n"


class FilterModule:
    """Filters of gb10.cluster."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which templates find them."""
        return {
            "blocking": blocking,
            "owned_rails": owned_rails,
            "rail_bytes": rail_bytes,
            "reclaim_record": reclaim_record,
            "ufw_unopened": ufw_unopened,
        }
