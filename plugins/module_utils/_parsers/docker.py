# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docker: info, inspect of containers and images, volume ls. JSON in, records out."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, TypeVar

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_ID = re.compile(r"^(?:sha256:)?[0-9a-f]{12,64}$")
_NEVER = "0001-01-01T00:00:00Z"
_CONTAINERD = "io.containerd.snapshotter"

# The variables that a container's fact may show: how it finds its peers. Any other one may hold a secret.
_CONTAINER_VARIABLES = re.compile(r"^(?:(?:NCCL|GLOO|UCX|RAY_memory)_\w+|VLLM_HOST_IP|\w+_IFNAME)$")
# And an image's: which driver and libraries it is made for.
_IMAGE_VARIABLES = re.compile(
    r"^(?:NVIDIA_(?:REQUIRE_\w+|DISABLE_REQUIRE|DRIVER_CAPABILITIES)|CUDA_(?:DRIVER_)?VERSION|NCCL_VERSION|TORCH_CUDA_ARCH_LIST)$"
)
_KEPT = ("Id", "Name", "Image", "RestartCount", "Created", "Mounts", "Path", "RepoTags", "RepoDigests", "Size", "Architecture", "RootFS")
_KEPT_STATE = ("Status", "Running", "Pid", "ExitCode", "StartedAt")
_KEPT_HOST = (
    "RestartPolicy", "NetworkMode", "Privileged", "AutoRemove", "Memory", "ShmSize", "IpcMode", "Devices", "CapAdd", "Ulimits",
)  # fmt: skip
_WORDS = 3  # of a container's command that the engine can be told by

T = TypeVar("T")


@dataclass(frozen=True)
class Engine:
    """The daemon. `error` is set when it did not answer."""

    version: str | None
    root_dir: str | None
    storage_driver: str | None
    runtimes: tuple[str, ...]
    error: str | None
    store: str | None = None  # containerd, else the storage driver


@dataclass(frozen=True)
class Mount:
    type: str
    source: str  # a volume's name, else a path
    destination: str
    rw: bool


@dataclass(frozen=True)
class Container:
    id: str
    name: str
    image: str
    image_id: str
    state: str
    running: bool
    pid: int | None  # of the first process, while running
    exit_code: int | None  # of the last run, while not running
    restart_count: int
    restart_policy: str
    created: str
    started: str | None
    network_mode: str
    labels: Mapping[str, str]
    mounts: tuple[Mount, ...]
    ports: tuple[str, ...]
    command: tuple[str, ...]
    host: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int  # bytes
    created: str | None
    architecture: str | None
    layers: str | None  # hash of the list of layers
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Volume:
    name: str
    driver: str


def _load(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ParseError(source, text.strip()) from error


def _records(text: str, source: str, build: Callable[[dict[str, Any]], T]) -> tuple[T, ...]:
    rows = _load(text, source) if text.strip() else []
    if not isinstance(rows, list):
        raise ParseError(source, text.strip())
    records = []
    for row in rows:
        try:
            records.append(build(row))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ParseError(source, str(row)) from error
    return tuple(records)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def parse_info(text: str) -> Engine:
    """`docker info --format '{{json .}}'`: it prints an object even when there is no daemon to ask."""
    info = _load(text, "docker info")
    if not isinstance(info, dict):
        raise ParseError("docker info", text.strip())
    errors = info.get("ServerErrors")
    runtimes = info.get("Runtimes")
    return Engine(
        version=_text(info.get("ServerVersion")),
        root_dir=_text(info.get("DockerRootDir")),
        storage_driver=_text(info.get("Driver")),
        runtimes=tuple(sorted(map(str, runtimes))) if isinstance(runtimes, dict) else (),
        error="; ".join(map(str, errors)) if isinstance(errors, list) and errors else None,
        store="containerd" if _CONTAINERD in json.dumps(info.get("DriverStatus")) else _text(info.get("Driver")),
    )


def parse_ids(text: str) -> tuple[str, ...]:
    """`docker ps -aq --no-trunc`, `docker image ls -q --no-trunc`: each once, in order."""
    ids: dict[str, None] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        if not _ID.match(line.strip()):
            raise ParseError("docker ls --quiet", line)
        ids[line.strip()] = None
    return tuple(ids)


def parse_containers(text: str) -> tuple[Container, ...]:
    """`docker inspect` of containers"""
    return _records(text, "docker inspect", _container)


def _container(row: dict[str, Any]) -> Container:
    state, config, host = row["State"], row["Config"], row["HostConfig"]
    running = bool(state["Running"])
    exposed = set(config.get("ExposedPorts") or ()) | set((row.get("NetworkSettings") or {}).get("Ports") or ())
    started = _text(state.get("StartedAt"))
    return Container(
        id=str(row["Id"]),
        name=str(row["Name"]).lstrip("/"),
        image=str(config["Image"]),
        image_id=str(row["Image"]),
        state=str(state["Status"]),
        running=running,
        pid=int(state["Pid"]) or None,
        exit_code=None if running else int(state["ExitCode"]),
        restart_count=int(row.get("RestartCount") or 0),
        restart_policy=str((host.get("RestartPolicy") or {}).get("Name") or "no"),
        created=str(row["Created"]),
        started=None if started == _NEVER else started,
        network_mode=str(host.get("NetworkMode") or "default"),
        labels={str(name): str(value) for name, value in (config.get("Labels") or {}).items()},
        mounts=tuple(map(_mount, row.get("Mounts") or ())),
        ports=tuple(sorted(map(str, exposed))),
        command=tuple(map(str, [row.get("Path") or "", *(row.get("Args") or ())]))[:_WORDS],
        host=_host(host),
        environment=_environment(config, _CONTAINER_VARIABLES),
    )


def _host(host: Mapping[str, Any]) -> dict[str, Any]:
    """What the container may do with its host. Sizes in bytes; -1: no limit."""
    limits = {limit["Name"]: int(limit["Soft"]) for limit in host.get("Ulimits") or ()}
    return {
        "privileged": bool(host.get("Privileged")),
        "auto_remove": bool(host.get("AutoRemove")),
        "memory_limit": int(host.get("Memory") or 0),
        "shm_size": int(host.get("ShmSize") or 0) or None,
        "ipc_mode": _text(host.get("IpcMode")),
        "devices": sorted(str(device["PathOnHost"]) for device in host.get("Devices") or ()),
        "capabilities": sorted(str(name).upper().replace("CAP_", "", 1) for name in host.get("CapAdd") or ()),
        "memlock": limits.get("memlock"),
    }


def _environment(config: Mapping[str, Any], wanted: re.Pattern[str]) -> dict[str, str]:
    variables = (str(entry).partition("=") for entry in config.get("Env") or ())
    return {name: value for name, _separator, value in sorted(variables) if wanted.match(name)}


def _mount(row: dict[str, Any]) -> Mount:
    kind = str(row["Type"])
    source = row.get("Name") if kind == "volume" else row.get("Source")
    return Mount(kind, str(source or ""), str(row["Destination"]), bool(row["RW"]))


def parse_images(text: str) -> tuple[Image, ...]:
    """`docker image inspect`"""
    return _records(text, "docker image inspect", _image)


def _image(row: dict[str, Any]) -> Image:
    return Image(
        id=str(row["Id"]),
        tags=tuple(sorted(map(str, row.get("RepoTags") or ()))),
        digests=tuple(sorted(map(str, row.get("RepoDigests") or ()))),
        size=int(row["Size"]),
        created=_text(row.get("Created")),
        architecture=_text(row.get("Architecture")),
        layers=_layers((row.get("RootFS") or {}).get("Layers")),
        environment=_environment(row.get("Config") or {}, _IMAGE_VARIABLES),
    )


def _layers(layers: Any) -> str | None:
    """The same content has the same layers, whichever store keeps it and whatever id that gives it."""
    return "sha256:" + hashlib.sha256("\n".join(map(str, layers)).encode("utf-8", "replace")).hexdigest() if layers else None


def reduce_inspect(text: str) -> str:
    """Of containers and images what a record is made of: not the command's arguments, not variables of the user's own."""
    try:
        rows = json.loads(text)
        return json.dumps([_reduced(row) for row in rows]) + "\n"
    except (AttributeError, TypeError, ValueError):
        return text[:1000]


def _reduced(row: dict[str, Any]) -> dict[str, Any]:
    config = row.get("Config") or {}
    variables = [entry for entry in config.get("Env") or () if _wanted(str(entry).partition("=")[0])]
    kept = {**{name: config[name] for name in ("Image", "Labels", "ExposedPorts") if name in config}, "Env": variables}
    reduced = {name: row[name] for name in _KEPT if name in row}
    if row.get("Args"):
        reduced["Args"] = row["Args"][: _WORDS - 1]
    if row.get("State"):
        reduced["State"] = {name: row["State"][name] for name in _KEPT_STATE if name in row["State"]}
    if row.get("HostConfig"):
        reduced["HostConfig"] = {name: row["HostConfig"][name] for name in _KEPT_HOST if name in row["HostConfig"]}
    if row.get("NetworkSettings"):
        reduced["NetworkSettings"] = {"Ports": row["NetworkSettings"].get("Ports")}
    return {**reduced, "Config": kept}


def _wanted(name: str) -> bool:
    return bool(_CONTAINER_VARIABLES.match(name) or _IMAGE_VARIABLES.match(name))


def parse_volumes(text: str) -> tuple[Volume, ...]:
    """`docker volume ls --format '{{json .}}'`: an object a line"""
    volumes = []
    for line in text.splitlines():
        if line.strip():
            row = _load(line, "docker volume ls")
            try:
                volumes.append(Volume(str(row["Name"]), str(row["Driver"])))
            except (KeyError, TypeError) as error:
                raise ParseError("docker volume ls", line) from error
    return tuple(volumes)
