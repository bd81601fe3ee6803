"""A thin layer over the docker client of the host."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from typing import Any

from .config import LABEL
from .shell import LabError, run


@lru_cache(maxsize=1)
def _needs_root() -> bool:
    """Whether the engine answers only to root (a user outside the docker group)."""
    if run(["docker", "version"], check=False, timeout=30).returncode == 0:
        return False
    if run(["docker", "version"], root=True, check=False, timeout=30).returncode == 0:
        return True
    raise LabError("no docker engine answers: run molecule/lab/host.sh first")


def docker(*args: str, check: bool = True, timeout: float = 120, stdin: str | bytes | None = None) -> subprocess.CompletedProcess[str]:
    """Run one docker command on the host's engine."""
    return run(["docker", *args], root=_needs_root(), check=check, timeout=timeout, stdin=stdin)


def docker_argv(*args: str) -> list[str]:
    """The same command for a pipe or the user's own terminal, to be run as root."""
    return ["docker", *args]


def inspect(kind: str, name: str) -> dict[str, Any] | None:
    """The description of one object, or None where there is none."""
    done = docker(kind, "inspect", name, check=False)
    if done.returncode != 0:
        return None
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found[0] if found else None


def container_pid(name: str) -> int | None:
    """The pid of a running container's first process as the host sees it."""
    found = inspect("container", name)
    if found is None or not found["State"]["Running"]:
        return None
    return int(found["State"]["Pid"])


def exec_in(name: str, *argv: str, check: bool = True, timeout: float = 60, stdin: str | bytes | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program inside a lab container as its root."""
    interactive = ["-i"] if stdin is not None else []
    return docker("exec", *interactive, name, *argv, check=check, timeout=timeout, stdin=stdin)


@lru_cache(maxsize=1)
def bounding_set_lacks_resource() -> bool:
    """Whether this host's root is without CAP_SYS_RESOURCE (bit 24), as inside some virtual machines and CI runners."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("CapBnd:"):
                return not int(line.split()[1], 16) >> 24 & 1
    return False


@lru_cache(maxsize=1)
def privilege_flags(image: str) -> tuple[str, ...]:
    """The flags that make a container a machine: --privileged where the host allows it, else all it can give.

    Probed, not guessed: an engine may refuse --privileged although its client is root.
    """
    if docker("run", "--rm", "--privileged", "--network", "none", "--entrypoint", "/bin/true", image, check=False).returncode == 0:
        return ("--privileged",)
    flags = ["--cap-add", "ALL", "--device-cgroup-rule", "a *:* rwm"]
    if bounding_set_lacks_resource():
        flags += ["--cap-drop", "SYS_RESOURCE"]
    for option in ("seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"):
        flags += ["--security-opt", option]
    return tuple(flags)


def labelled(kind: str) -> list[str]:
    """The names or ids of all containers, volumes, networks or images that carry the lab's label."""
    listing = {
        "container": ("ps", "-aq"),
        "volume": ("volume", "ls", "-q"),
        "network": ("network", "ls", "-q"),
        "image": ("image", "ls", "-q"),
    }[kind]
    found = docker(*listing, "--filter", f"label={LABEL}").stdout.split()
    return list(dict.fromkeys(found))
