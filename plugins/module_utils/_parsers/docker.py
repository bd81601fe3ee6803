# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docker: info, inspect of containers and images, volume ls. JSON in, records out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError

_ID = re.compile(r"^(?:sha256:)?[0-9a-f]{12,64}$")
_NEVER = "0001-01-01T00:00:00Z"

T = TypeVar("T")


@dataclass(frozen=True)
class Engine:
    """The daemon. `error` is set when it did not answer."""

    version: str | None
    root_dir: str | None
    storage_driver: str | None
    runtimes: tuple[str, ...]
    error: str | None


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


@dataclass(frozen=True)
class Image:
    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int  # bytes
    created: str | None


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
        command=tuple(map(str, [row.get("Path") or "", *(row.get("Args") or ())])),
    )


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
    )


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
