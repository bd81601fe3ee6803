"""The outside world: a container with a real registry, the model hub and a wheel index."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from . import push
from .config import (
    CACHE,
    ENGINE_TAGS,
    LAB_DIR,
    LABEL,
    MODELS,
    NETWORK,
    OUTSIDE,
    OUTSIDE_ADDRESS,
    REGISTRY,
    REGISTRY_DATA,
    STATE,
    WHEELS,
)
from .docker import docker, inspect
from .images import ensure_outside_image
from .nodes import Files
from .shell import LabError, passthrough, run, say, step, wait_for

PUSHED = STATE / "pushed.json"
BUILD = LAB_DIR / "engine" / "build.sh"
HUB = LAB_DIR / "hub"


def _code() -> tuple[dict[str, bytes], str]:
    """Every file that the container gets from this checkout, and one digest of all of them."""
    found = {path.name: path.read_bytes() for path in sorted((LAB_DIR / "outside").iterdir()) if path.is_file()}
    for path in sorted(HUB.rglob("*")) if HUB.is_dir() else []:
        if path.is_file() and "__pycache__" not in path.parts:
            found[f"hub/{path.relative_to(HUB)}"] = path.read_bytes()
    total = hashlib.sha256()
    for name, content in found.items():
        total.update(name.encode() + b"\0" + content + b"\0")
    return found, total.hexdigest()[:16]


def _send_code(code: dict[str, bytes]) -> None:
    files = Files()
    for name, content in code.items():
        files.add(f"/srv/lab/{name}", content)
    files.send(OUTSIDE)


def ensure_outside() -> list[str]:
    """Make, start or renew the container; returns what was done, in words."""
    image = ensure_outside_image()
    code, digest = _code()
    marker = STATE / "outside.digest"
    found = inspect("container", OUTSIDE)
    if found is not None and LABEL not in found["Config"]["Labels"]:
        raise LabError(f"a container named {OUTSIDE} exists that is not the lab's: remove it or rename it")
    if found is not None and found["Config"]["Image"] != image:
        docker("rm", "-f", "-v", OUTSIDE)
        found = None
    done: list[str] = []
    for folder in (REGISTRY_DATA, MODELS, WHEELS):
        folder.mkdir(parents=True, exist_ok=True)
    if found is None:
        docker(
            "create", "--name", OUTSIDE, "--hostname", OUTSIDE, "--label", LABEL, "--network", NETWORK,
            "--ip", OUTSIDE_ADDRESS, "--sysctl", "net.ipv4.ip_forward=1", "-v", f"{REGISTRY_DATA}:/srv/registry",
            "-v", f"{MODELS}:/srv/models:ro", "-v", f"{WHEELS}:/srv/wheels:ro",
            image, "python3", "-u", "/srv/lab/supervisor.py",
        )  # fmt: skip
        marker.unlink(missing_ok=True)
    new_code = not marker.exists() or marker.read_text() != f"{digest} {_container_id()}"
    if new_code:
        _send_code(code)
        marker.write_text(f"{digest} {_container_id()}")
    if found is None or not found["State"]["Running"]:
        docker("start", OUTSIDE)
        done.append(f"{OUTSIDE} was started")
    elif new_code:
        docker("kill", "--signal", "HUP", OUTSIDE)
        done.append(f"{OUTSIDE} got new hub code")
    if done:
        wait_for("the registry of the outside world", lambda: _answers(5000, "/v2/"), 30)
        if (HUB / "__main__.py").exists():
            wait_for("the hub of the outside world", lambda: _answers(8080, "/"), 30)
        else:
            say("The hub server (molecule/lab/hub) is not there yet: nothing answers on port 8080 for now.")
    return done


def _container_id() -> str:
    found = inspect("container", OUTSIDE)
    return str(found["Id"])[:12] if found else ""


def _answers(port: int, path: str) -> bool:
    """Whether anything that speaks HTTP answers there, whatever it says."""
    connection = http.client.HTTPConnection(OUTSIDE_ADDRESS, port, timeout=3)
    try:
        connection.request("HEAD", path)
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def registry_has(tag: str) -> bool:
    """Whether the registry holds this tag."""
    name, version = tag.split(":")
    return push.exists(name, version)


def _pushed() -> dict[str, str]:
    if not PUSHED.exists():
        return {}
    recorded: dict[str, str] = json.loads(PUSHED.read_text())
    return recorded


def _image_id(tag: str) -> str | None:
    found = inspect("image", tag)
    return str(found["Id"]) if found else None


def ensure_engine_built() -> None:
    """Build the engine images, the tiny model and the wheels where any is missing or made from another tree than this one."""
    environment = {"GB10_LAB_CACHE": str(CACHE)}
    if passthrough(["bash", str(BUILD), "--check"], env=environment) == 0:
        return
    with step("Building the engine image, the tiny model and the wheels (some minutes, once)"):
        if passthrough(["bash", str(BUILD)], env=environment) != 0:
            raise LabError(f"{BUILD.name} failed: see above")


def ensure_engine_pushed() -> list[str]:
    """Put the engine images into the registry, once for each image id."""
    pushed = _pushed()
    ids = {tag: _image_id(tag) for tag in ENGINE_TAGS}
    stale = [tag for tag, image_id in ids.items() if image_id and not (pushed.get(tag) == image_id and registry_has(tag))]
    if not stale:
        return []
    archive = CACHE / "tmp" / "engine.tar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with step(f"Putting {' and '.join(stale)} into the lab's registry"):
        try:
            docker("save", "-o", str(archive), *stale, timeout=900)
            # Whoever saved it (root, for a user outside of the group docker) is the only one who may read it.
            run(["chown", f"{os.getuid()}:{os.getgid()}", str(archive)], root=True)
            push.push_archive(archive)
        finally:
            run(["rm", "-f", str(archive)], root=True)
    PUSHED.write_text(json.dumps({**pushed, **{tag: ids[tag] for tag in stale}}, indent=2))
    return [f"{tag} was put into the registry {REGISTRY}" for tag in stale]


def remove_outside(*, with_data: bool, remove_tree: Callable[[Path], None]) -> None:
    """Remove the container; with its data the registry forgets what was pushed."""
    docker("rm", "-f", "-v", OUTSIDE, check=False)
    (STATE / "outside.digest").unlink(missing_ok=True)
    if with_data:
        PUSHED.unlink(missing_ok=True)
        for folder in (REGISTRY_DATA, MODELS, WHEELS):
            remove_tree(folder)


def free_space_ok(gigabytes: float = 12) -> bool:
    """Whether the cache's disk has room for the images of both nodes."""
    CACHE.mkdir(parents=True, exist_ok=True)
    return shutil.disk_usage(CACHE).free > gigabytes * 1e9
