"""What the lab looks like now, for people and for programs."""

from __future__ import annotations

import json
from typing import Any

from . import cables, config, nodes, outside
from .docker import container_pid, exec_in
from .shell import say

#: Asked of a node in one go: free memory, GPU processes, containers.
PROBE = """
free -g | awk '/^Mem:/ {print $2, $7}'
systemctl is-system-running
nvidia-smi --query-compute-apps=process_name,used_memory --format=csv,noheader | tr '\\n' ';'; echo
docker ps --format '{{.Names}}' | tr '\\n' ' '; echo
"""


def facts() -> dict[str, Any]:
    """Everything that others need to know: fixed names and addresses, and the paths on this host."""
    return {
        "cache": str(config.CACHE),
        "ssh_key": str(config.KEY),
        "known_hosts": str(config.KNOWN_HOSTS),
        "user": config.USER,
        "network": config.NETWORK,
        "subnet": config.SUBNET,
        "nodes": {
            node.name: {
                "container": node.name,
                "management": node.management,
                "rail_address": node.rail_address,
                "jump": None if node.management else config.HEAD.name,
                "profile": nodes.current_profile(node),
                "running": container_pid(node.name) is not None,
            }
            for node in nodes.members()
        },
        "outside": {
            "container": config.OUTSIDE,
            "address": config.OUTSIDE_ADDRESS,
            "registry": config.REGISTRY,
            "hub": config.HUB_URL,
            "wheels": config.WHEELS_URL,
            "running": container_pid(config.OUTSIDE) is not None,
        },
        "engine_images": [f"{config.REGISTRY}/{tag}" for tag in config.ENGINE_TAGS],
        "model": config.LAB_MODEL,
        "ports": {port.netdev: {"hca": port.hca, "pci": port.pci} for port in config.PORTS},
        "cables": {state.netdev: "plugged" if state.plugged else "pulled" for state in cables.states()},
    }


def info(*, as_json: bool) -> None:
    """Print the facts."""
    found = facts()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    jump = f"ssh -i {config.KEY} -o UserKnownHostsFile={config.KNOWN_HOSTS} {config.USER}@"
    proxy = f"-o ProxyCommand='{jump}{config.HEAD.management} -W %h:%p' "
    say(f"head    {jump}{config.HEAD.management}")
    say(f"worker  {jump.replace(' aurora', ' ' + proxy + 'aurora')}{config.WORKER.rail_address}")
    say(f"outside registry {config.REGISTRY}, hub {config.HUB_URL}, wheels {config.WHEELS_URL}")
    say(f"cache   {config.CACHE}")


def status() -> int:
    """Print one screen; the exit code is 0 only while everything runs."""
    healthy = True
    for node in nodes.members():
        if container_pid(node.name) is None:
            say(f"{node.name:<14} is not running")
            healthy = False
            continue
        lines = exec_in(node.name, "sh", "-c", PROBE, check=False).stdout.splitlines()
        total_free, state, holders, containers = (*lines, "", "", "", "")[:4]
        total, _, available = total_free.partition(" ")
        where = node.management or f"{node.rail_address} through {config.HEAD.name}"
        say(f"{node.name:<14} {state}, profile {nodes.current_profile(node)}, {where}")
        say(f"{'':<14} memory {available} of {total} GiB available; held by: {holders.rstrip(';').replace(';', '; ') or 'nobody'}")
        say(f"{'':<14} containers: {containers.strip() or 'none'}")
        healthy = healthy and state == "running"
    for cable in cables.states():
        say(f"{cable.netdev:<14} {'plugged in' if cable.plugged else 'no cable'}")
    if container_pid(config.OUTSIDE) is None:
        say(f"{config.OUTSIDE:<14} is not running")
        healthy = False
    else:
        has = [tag for tag in config.ENGINE_TAGS if outside.registry_has(tag)]
        say(f"{config.OUTSIDE:<14} registry {config.REGISTRY} holds {', '.join(has) or 'no engine image yet'}")
        say(f"{'':<14} hub {config.HUB_URL}, wheels {config.WHEELS_URL}")
    if not healthy:
        say("Bring it up or mend it: python3 molecule/lab/lab.py up")
    return 0 if healthy else 1
