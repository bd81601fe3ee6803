"""One stable JSON of a node: equal before and after means that nothing was changed."""

from __future__ import annotations

import json
from typing import Any

from .config import Node
from .docker import container_pid, exec_in
from .shell import LabError

#: Runs on the node. Times, counters and lifetimes move by themselves and are left out.
PROBE = r"""
import hashlib, json, os, subprocess

def out(*argv):
    return subprocess.run(argv, capture_output=True, text=True).stdout

def tree(top):
    total, count = hashlib.sha256(), 0
    for folder, folders, files in os.walk(top):
        # What a login or an Ansible connection leaves, also one that only looks.
        folders[:] = sorted(name for name in folders if name != ".ansible")
        files = [name for name in files if name not in (".bash_history", ".sudo_as_admin_successful")]
        for name in sorted(files + [f for f in folders if os.path.islink(os.path.join(folder, f))]):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            total.update(("%s %o %d:%d\0" % (path, status.st_mode, status.st_uid, status.st_gid)).encode())
            if os.path.islink(path):
                total.update(os.readlink(path).encode())
            else:
                try:
                    with open(path, "rb") as stream:
                        total.update(hashlib.sha256(stream.read()).digest())
                except OSError:
                    total.update(b"unreadable")
            count += 1
    return {"sha256": total.hexdigest(), "files": count}

def lines(text):
    return sorted(line for line in text.splitlines() if line.strip())

def addresses():
    found = []
    for link in json.loads(out("ip", "-j", "addr") or "[]"):
        name = link.get("ifname", "")
        # Docker names the ends of its own links at random.
        if name.startswith("veth"):
            continue
        found.append({
            "ifname": name, "mtu": link.get("mtu"), "operstate": link.get("operstate"),
            "addresses": sorted("%s/%s" % (a["local"], a["prefixlen"]) for a in link.get("addr_info", [])),
        })
    return sorted(found, key=lambda one: one["ifname"])

def containers():
    ids = out("docker", "ps", "-aq", "--no-trunc").split()
    if not ids:
        return []
    return sorted(
        [one["Name"].lstrip("/"), one["Id"], one["State"]["Status"], one["State"]["StartedAt"], one["Image"]]
        for one in json.loads(out("docker", "inspect", *ids) or "[]")
    )

print(json.dumps({
    "etc": tree("/etc"),
    "home": tree("/home"),
    "systemd": tree("/etc/systemd/system"),
    "netplan": tree("/etc/netplan"),
    "var_lib_gb10": tree("/var/lib/gb10"),
    "units": lines(out("systemctl", "list-unit-files", "--no-legend", "--no-pager")),
    "services": lines(out("systemctl", "list-units", "--type=service", "--state=running", "--no-legend", "--no-pager", "--plain")),
    "packages": hashlib.sha256(out("dpkg-query", "-W", "-f", "${Package} ${Version} ${Status}\n").encode()).hexdigest(),
    "containers": containers(),
    "images": lines(out("docker", "image", "ls", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}")),
    "volumes": lines(out("docker", "volume", "ls", "-q")),
    "networks": lines(out("docker", "network", "ls", "--no-trunc", "--format", "{{.Name}} {{.ID}} {{.Driver}}")),
    "addresses": addresses(),
    "routes": lines(out("ip", "-4", "route", "show")),
}))
"""


def fingerprint(node: Node) -> dict[str, Any]:
    """The fingerprint of one running node."""
    if container_pid(node.name) is None:
        raise LabError(f"{node.name} is not running: run `python3 molecule/lab/lab.py up` first")
    done = exec_in(node.name, "python3", "-", stdin=PROBE, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    return {"node": node.name, **_without_sessions(found)}


def _without_sessions(found: dict[str, Any]) -> dict[str, Any]:
    """Drop the services that come and go with a login, such as the one that looks."""
    passing = ("session-", "user@", "user-runtime-dir@", "systemd-hostnamed", "systemd-timedated", "systemd-localed", "getty@")
    found["services"] = [line for line in found["services"] if not line.startswith(passing)]
    return found
