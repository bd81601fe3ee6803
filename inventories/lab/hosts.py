#!/usr/bin/env python3
"""Inventory of the lab (molecule/lab): the emulated twin on this machine.

A script and not a plain file for one reason: with the lab down its addresses belong to nobody, or to somebody else's network. Then it
lists no node and says why, so that the run ends before anything is sent anywhere.
"""

from __future__ import annotations

import json
import socket

GATEWAY = "172.30.180.1"
HEAD = "172.30.180.10"
DOWN = "The lab is not up: {}. To start it: make lab. For your own machines: -i inventories/twin/hosts.yml (fill in their addresses there first)."


def why_down() -> str | None:
    """The reason why the lab cannot be used, None if it can. Sends nothing unless the lab's network is on this very machine."""
    with socket.socket() as probe:
        try:
            probe.bind((GATEWAY, 0))
        except OSError:
            return f"its network ({GATEWAY}) does not exist on this machine"
    try:
        socket.create_connection((HEAD, 22), timeout=3).close()
    except OSError as error:
        return f"spark-head ({HEAD}) does not answer ({error.strerror or error})"
    return None


def main() -> None:
    """Prints the inventory; of a lab that is down, the reason in place of the nodes."""
    hostvars = {
        "spark-head": {"ansible_host": HEAD},
        "spark-worker": {"ansible_host": "192.168.200.13", "gb10_jump": "spark-head"},
    }
    reason = why_down()
    if reason is None:
        inventory = {"_meta": {"hostvars": hostvars}, "gb10": {"hosts": list(hostvars)}}
    else:
        inventory = {"_meta": {"hostvars": {}}, "all": {"vars": {"gb10_inventory_note": DOWN.format(reason)}}, "gb10": {"hosts": []}}
    print(json.dumps(inventory))


if __name__ == "__main__":
    main()
