# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docker: the engine and the way to it, its images, containers and volumes"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Probe, Seen, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import DockerFacts, known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.account import parse_group, parse_id
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.docker import (
    Container,
    Engine,
    Image,
    parse_containers,
    parse_ids,
    parse_images,
    parse_info,
    parse_volumes,
    reduce_inspect,
)
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nvidia import parse_toolkit_mode, parse_toolkit_version
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.process import parse_cgroups, parse_memory_stat
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.systemctl import Unit
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NO_SUCH_FILE

_SOCKET = "/var/run/docker.sock"
_GROUP = "docker"
_NO_GROUP = 2  # getent's exit code
_TOOLKIT_CONFIGURATION = "/etc/nvidia-container-runtime/config.toml"
_UNIT = "docker.service"
# A container or image may go away between the listing and the look at it.
_GONE = ("no such object", "no such container", "no such image")


@dataclass(frozen=True)
class Held:
    """A container and the memory it holds in host terms: anonymous and shared pages, without the page cache."""

    container: Container
    memory: int | None  # bytes


def probes() -> tuple[Probe, ...]:
    return (
        probe("docker_info", "docker disk", _engine),
        probe("docker_containers", "docker workloads", _containers),
        probe("docker_images", "docker", _images),
        probe("docker_volumes", "docker", lambda node: parse_volumes(node.output("docker", "volume", "ls", "--format", "{{json .}}"))),
        probe("docker_socket", "docker", _socket),
        probe("docker_group", "docker", _group),
        probe("container_toolkit", "docker", lambda node: parse_toolkit_version(node.output("nvidia-ctk", "--version"))),
        probe("container_toolkit_mode", "docker", lambda node: parse_toolkit_mode(node.require(_TOOLKIT_CONFIGURATION))),
    )


def _socket(node: Node) -> dict[str, Any]:
    result = node.run("find", "-L", _SOCKET, "-maxdepth", "0", "-printf", "exists", "-writable", "-printf", " accessible")
    words = result.stdout.split()
    if not words and NO_SUCH_FILE not in result.stderr:
        raise Failed(complaint(result))
    return {"path": _SOCKET, "exists": bool(words), "accessible": "accessible" in words}


def _group(node: Node) -> dict[str, bool]:
    """A group joined after the login counts for the account, but not for the session. With sudo the session is another one."""
    result = node.run("getent", "group", _GROUP)
    if result.rc == _NO_GROUP:
        return {"exists": False, "member": False, "in_session": False}
    if result.rc != 0:
        raise Failed(f"getent: {complaint(result)}")
    identity = parse_id(node.output("id"))
    user = node.environment().get("SUDO_USER")
    member = (user or identity.user) in parse_group(result.stdout)
    in_session = _GROUP in identity.groups
    if user:
        return {"exists": True, "member": member}
    # A primary group does not name its members.
    return {"exists": True, "member": member or in_session, "in_session": in_session}


def _engine(node: Node) -> Engine:
    result = node.run("docker", "info", "--format", "{{json .}}")
    if not result.stdout.strip():
        raise Failed(complaint(result))
    engine = parse_info(result.stdout)
    if engine.error or engine.version is None:
        raise Failed(engine.error or complaint(result))
    return engine


def _containers(node: Node) -> list[Held]:
    ids = parse_ids(node.output("docker", "ps", "--all", "--quiet", "--no-trunc"))
    return [Held(container, _memory(node, container)) for container in parse_containers(_inspect(node, "container", ids))]


def _memory(node: Node, container: Container) -> int | None:
    """From the cgroup, where memory that processes share counts once."""
    cgroups = node.read(f"/proc/{container.pid}/cgroup") if container.pid else None
    if not cgroups:
        return None
    for cgroup in parse_cgroups(cgroups):
        if cgroup.controllers and "memory" not in cgroup.controllers:
            continue
        mount = "/sys/fs/cgroup/memory" if cgroup.controllers else "/sys/fs/cgroup"
        text = node.read(f"{mount}{cgroup.path.rstrip('/')}/memory.stat")
        if text:
            try:
                return parse_memory_stat(text)
            except ParseError:
                continue  # a version 2 root beside version 1 controllers
    return None


def _images(node: Node) -> tuple[Image, ...]:
    ids = parse_ids(node.output("docker", "image", "ls", "--quiet", "--no-trunc"))
    return parse_images(_inspect(node, "image", ids))


def _inspect(node: Node, kind: str, ids: tuple[str, ...]) -> str:
    if not ids:
        return "[]"
    result = node.run("docker", kind, "inspect", *ids, reduce=reduce_inspect)
    if result.rc != 0 and not any(word in result.stderr.lower() for word in _GONE):
        raise Failed(complaint(result))
    return result.stdout


def docker_facts(seen: Seen) -> DockerFacts:
    units: tuple[Unit, ...] = seen.get("systemctl") or ()
    around = {
        "unit": next((unit.active for unit in units if unit.name == _UNIT), None),
        "socket": seen.get("docker_socket"),
        "group": seen.get("docker_group"),
        "toolkit": seen.get("container_toolkit"),
        "toolkit_mode": seen.get("container_toolkit_mode"),
    }
    engine: Engine | None = seen.get("docker_info")
    if engine is None:
        reason = seen.reason("docker_info")
        return known(available=False, reason=reason, **around)  # type: ignore[no-any-return]
    images, containers, volumes = seen.get("docker_images"), seen.get("docker_containers"), seen.get("docker_volumes")
    facts: DockerFacts = known(
        available=True,
        **around,
        store=engine.store,
        version=engine.version,
        root_dir=engine.root_dir,
        storage_driver=engine.storage_driver,
        runtimes=list(engine.runtimes),
        images=None if images is None else [_plain(image) for image in sorted(images, key=lambda entry: (entry.tags, entry.id))],
        containers=None if containers is None else [_container(held.container) for held in sorted(containers, key=lambda held: held.container.name)],
        volumes=None if volumes is None else [_plain(volume) for volume in sorted(volumes, key=lambda entry: entry.name)],
    )
    return facts


def _plain(record: Any) -> dict[str, Any]:
    """A record as JSON knows it: lists for tuples, nothing for None."""
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(record).items()}
    return known(**fields)  # type: ignore[no-any-return]


def _container(container: Container) -> dict[str, Any]:
    fact = _plain(container)
    del fact["command"]  # arguments may hold secrets
    fact["host"] = known(**fact["host"])
    return fact
