# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""disk, services, deployments: what else is on the node"""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed
from ansible_collections.gb10.cluster.plugins.module_utils._facts.models import cache_path
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Probe, Seen, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import Deployment, DiskFact, ServiceFacts, known
from ansible_collections.gb10.cluster.plugins.module_utils._facts.system import connecting_home
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.df import OUTPUT, Filesystem, parse_df
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.process import container_ids
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ss import Listener, parse_listeners
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.systemctl import PROPERTIES, Unit, parse_units

_DOCKER_ROOT = "/var/lib/docker"
_UNITS = ("docker.service", "containerd.service", "ssh.service", "sshd.service")
_UNIT_FOLDER = "/etc/systemd/system"

# What marks a deployment of some other tool, below the home of who connects.
_MARKS = (
    ("spark-vllm-docker", "*/launch-cluster.sh", True),
    ("spark-vllm-docker", "spark-vllm-docker*", False),
    ("vllm-run-cluster", "run_cluster.sh", False),
    ("vllm-run-cluster", "*/run_cluster.sh", True),
    ("sparkrun", ".config/sparkrun", False),
    ("dgx-spark-playbooks", "dgx-spark-playbooks", False),
)


@dataclass(frozen=True)
class Service:
    """Something that listens, and the containers that its cgroup names, the innermost first."""

    listener: Listener
    containers: tuple[str, ...]


def probes(hf_home: str | None) -> tuple[Probe, ...]:
    return (
        probe("df", "disk models", lambda node: _filesystems(node, hf_home)),
        probe("ss", "services", _listeners),
        probe("systemctl", "services docker", _units),
        probe("deployments", "deployments", _deployments),
    )


def _listeners(node: Node) -> list[Service]:
    found = parse_listeners(node.output("ss", "-ltnpH"))
    groups = {pid: node.read(f"/proc/{pid}/cgroup") or "" for pid in {entry.pid for entry in found if entry.pid is not None}}
    return [Service(entry, container_ids(groups.get(entry.pid or 0, ""))) for entry in found]


def _filesystems(node: Node, hf_home: str | None) -> list[Filesystem]:
    """A folder that is not there yet will lie where its nearest ancestor does."""
    cache = cache_path(node, hf_home)
    docker = _docker_root(node)
    paths = ["/", docker, *_ancestry(cache)]
    result = node.run("df", "--block-size=1", f"--output={OUTPUT}", *dict.fromkeys(paths))
    if not result.stdout.strip():
        raise Failed(f"df: {complaint(result)}")
    found = {entry.path: entry for entry in parse_df(result.stdout)}
    nearest = next((path for path in _ancestry(cache) if path in found), None)
    wanted = {cache: nearest, docker: docker, "/": "/"}
    return [replace(found[place], path=path) for path, place in wanted.items() if place in found]


def _docker_root(node: Node) -> str:
    """Where images lie; the engine would say it too, but not to everybody and not while it is down."""
    try:
        root = json.loads(node.read("/etc/docker/daemon.json") or "{}").get("data-root")
    except (AttributeError, ValueError):
        return _DOCKER_ROOT
    return root if isinstance(root, str) and root.startswith("/") else _DOCKER_ROOT


def _ancestry(path: str) -> list[str]:
    paths = [path]
    while paths[-1] != "/" and paths[-1]:
        paths.append(posixpath.dirname(paths[-1]))
    return [entry for entry in paths if entry]


def _units(node: Node) -> tuple[Unit, ...]:
    """Ours by their files: systemd forgets units that are neither running nor wanted."""
    ours = [posixpath.basename(path) for path in node.glob(f"{_UNIT_FOLDER}/gb10-*")]
    names = [*_UNITS, *(name for name in ours if name.endswith((".service", ".target", ".timer")))]
    return parse_units(node.output("systemctl", "show", f"--property={','.join(PROPERTIES)}", *names))


def _deployments(node: Node) -> list[Deployment]:
    home = connecting_home(node)
    found: dict[str, str] = {}
    for kind, pattern, inside in _MARKS:
        for path in node.glob(f"{home}/{pattern}"):
            found.setdefault(posixpath.dirname(path) if inside else path, kind)
    return [{"kind": kind, "path": path} for path, kind in sorted(found.items())]


def disk_facts(seen: Seen) -> list[DiskFact] | None:
    filesystems: list[Filesystem] | None = seen.get("df")
    return None if filesystems is None else [_disk(entry) for entry in filesystems]


def _disk(entry: Filesystem) -> DiskFact:
    fact: DiskFact = known(
        path=entry.path,
        mount=entry.mount,
        filesystem=entry.filesystem,
        total=entry.total,
        free=entry.free,
        inodes_free=entry.inodes_free,
    )
    return fact


def service_facts(seen: Seen) -> ServiceFacts:
    listeners: list[Service] | None = seen.get("ss")
    units: tuple[Unit, ...] | None = seen.get("systemctl")
    facts: ServiceFacts = known(
        listening=None if listeners is None else sorted(map(_listener, listeners), key=lambda entry: (entry["port"], entry["address"])),
        units=None if units is None else [known(name=unit.name, active=unit.active, sub=unit.sub, enabled=unit.enabled) for unit in units],
    )
    return facts


def _listener(service: Service) -> dict[str, Any]:
    listener = service.listener
    return known(  # type: ignore[no-any-return]
        address=listener.address,
        port=listener.port,
        pid=listener.pid,
        process=listener.process,
        container_id=service.containers[0] if service.containers else None,
    )
