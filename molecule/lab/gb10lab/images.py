"""The lab's images: a node with systemd, the outside world, and a tiny one for foreign containers.

A stock base image is used where a registry answers, else the distribution of the host itself is installed into a
folder with debootstrap, from the mirror that the host's own package manager uses.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from .config import CACHE, LAB_DIR, LABEL, REGISTRY
from .docker import docker, docker_argv, inspect
from .shell import LabError, pipe, run, say, step

STOCK_BASE = "debian:bookworm"
NODE_FILES = LAB_DIR / "node"


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def packages() -> list[str]:
    """The package names of node/packages.txt."""
    lines = (NODE_FILES / "packages.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def node_image() -> str:
    """The node image's tag; it changes with what goes into the image, so an old one is never taken for a new one."""
    parts = [(NODE_FILES / name).read_bytes() for name in ("packages.txt", "provision.sh", "boot")]
    return f"gb10-lab/node:{_digest(*parts)}"


def outside_image() -> str:
    """The outside world's tag: a node image with a registry server in it."""
    return f"gb10-lab/outside:{node_image().split(':')[1]}"


def tiny_image() -> str:
    """An image of one static program, for containers that only have to be there."""
    return "gb10-lab/tiny:1"


def _os_release() -> dict[str, str]:
    pairs = (line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return {key: value.strip('"') for key, value in pairs}


def _mirror(suite: str) -> tuple[str, str]:
    """The URI and components of ``suite`` in this host's apt sources (both formats), so that no host is named here."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for path in (p for p in files if p.suffix in (".list", ".sources") and p.is_file()):
        text = path.read_text(errors="replace")
        if path.suffix == ".list":
            for line in text.splitlines():
                words = [word for word in line.split() if not word.startswith(("[", "signed-by=", "arch=")) and word != "]"]
                if len(words) > 3 and words[0] == "deb" and words[2] == suite:
                    return words[1], ",".join(words[3:])
            continue
        for stanza in text.split("\n\n"):
            lines = [line for line in stanza.splitlines() if ":" in line and not line.startswith(("#", " "))]
            field = {key.lower(): value.split() for key, value in (line.split(":", 1) for line in lines)}
            if "deb" in field.get("types", []) and suite in field.get("suites", []) and field.get("uris"):
                return field["uris"][0], ",".join(field.get("components", ["main"]))
    raise LabError(f"no apt source of this host has the suite {suite}: the node image cannot be made")


def _discard(rootfs: Path) -> None:
    """Remove a root file system, also one that an aborted debootstrap left with its /proc still mounted."""
    with open("/proc/self/mounts", encoding="utf-8") as table:
        inside = [line.split()[1] for line in table if line.split()[1].startswith(f"{rootfs}/")]
    for target in reversed(inside):
        run(["umount", "-l", target], root=True, check=False)
    run(["rm", "-rf", "--one-file-system", str(rootfs)], root=True, timeout=300)


def _bootstrap(image: str) -> None:
    """Install the host's own distribution into a folder and import it as an image."""
    release = _os_release()
    suite = release.get("VERSION_CODENAME", "")
    if release.get("ID") not in ("debian", "ubuntu") or not suite:
        raise LabError("no registry answers and this host is neither Debian nor Ubuntu: the node image cannot be made")
    mirror, components = _mirror(suite)
    rootfs = CACHE / "tmp" / "rootfs"
    log = CACHE / "log" / "debootstrap.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    _discard(rootfs)
    rootfs.parent.mkdir(parents=True, exist_ok=True)
    debs = CACHE / "debs"
    debs.mkdir(parents=True, exist_ok=True)
    command = [
        "debootstrap", "--variant=minbase", f"--components={components}", f"--cache-dir={debs}",
        f"--include={','.join(packages())}", suite, str(rootfs), mirror,
    ]  # fmt: skip
    with step(f"Installing {suite} into the node image (about a minute)"):
        done = run(command, root=True, check=False, timeout=1800)
        log.write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            raise LabError(f"debootstrap failed, see {log}: {done.stdout.strip().splitlines()[-1:]}")
    with step("Importing it into docker"):
        pipe(
            ["tar", "--numeric-owner", "--one-file-system", "-C", str(rootfs), "-c", "."],
            docker_argv("import", "-", image),
        )
    _discard(rootfs)


def _container_build(base: str, image: str, script: str, files: list[tuple[Path, str]], *, network: str, changes: list[str]) -> None:
    """Make an image by running a script in a container and committing it: needs no builder of any version."""
    worker = f"gb10-lab-build-{os.getpid()}"
    create = ["create", "--name", worker, "--label", LABEL, "--network", network]
    docker(*create, base, "/bin/sh", "-ec", script)
    try:
        for source, target in files:
            docker("cp", str(source), f"{worker}:{target}")
        done = docker("start", "-a", worker, check=False, timeout=1800)
        if done.returncode != 0:
            raise LabError(f"the image {image} could not be made:\n" + "\n".join((done.stdout + done.stderr).splitlines()[-12:]))
        flags = [flag for change in [*changes, f"LABEL {LABEL}=image"] for flag in ("--change", change)]
        docker("commit", *flags, worker, image, timeout=600)
    finally:
        docker("rm", "-f", worker, check=False)


def _base() -> tuple[str, str]:
    """A base image and the shell line that brings its packages (nothing where debootstrap already has)."""
    done = docker("pull", "-q", STOCK_BASE, check=False, timeout=300) if _registry_answers() else None
    if done is not None and done.returncode == 0:
        wanted = " ".join(packages())
        return STOCK_BASE, f"apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends {wanted}\n"
    image = f"gb10-lab/base:{_digest(*(p.encode() for p in packages()), _os_release().get('VERSION_CODENAME', '').encode())}"
    if inspect("image", image) is None:
        _bootstrap(image)
    return image, ""


def _registry_answers() -> bool:
    """Ask for a manifest only, within seconds: a filtered network may let the question hang."""
    try:
        return docker("manifest", "inspect", STOCK_BASE, check=False, timeout=15).returncode == 0
    except LabError:
        return False


def ensure_node_image() -> str:
    """Make the node image unless it is there."""
    image = node_image()
    if inspect("image", image) is not None:
        return image
    base, install = _base()
    with step("Making the node image"):
        script = f"{install}sh /tmp/provision.sh\nrm -f /tmp/provision.sh\n"
        _container_build(
            base,
            image,
            script,
            [(NODE_FILES / "provision.sh", "/tmp/provision.sh"), (NODE_FILES / "boot", "/usr/sbin/spark-boot")],
            network="host" if install else "none",
            changes=['CMD ["/usr/sbin/spark-boot"]', "ENV container=docker"],
        )
    _forget_older("gb10-lab/node", image)
    return image


def _forget_older(repository: str, image: str) -> None:
    """Remove the images that an edit of the recipe has replaced; one that a container still uses stays for now."""
    found = docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository).stdout.split()
    for old in found:
        if old != image:
            docker("image", "rm", old, check=False)


def ensure_outside_image() -> str:
    """Make the image of the outside world (a registry server) unless it is there."""
    image = outside_image()
    if inspect("image", image) is not None:
        return image
    script = (
        "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends docker-registry\n"
        "rm -rf /var/lib/apt/lists/*\n"
    )
    with step("Making the image of the outside world (registry, hub, wheels)"):
        _container_build(ensure_node_image(), image, script, [], network="host", changes=['CMD ["/bin/true"]'])
    return image


def ensure_tiny_image() -> str:
    """Make the tiny image from the static busybox of the node image unless it is there."""
    image = tiny_image()
    if inspect("image", image) is not None:
        return image
    work = CACHE / "tmp" / "tiny"
    shutil.rmtree(work, ignore_errors=True)
    (work / "bin").mkdir(parents=True)
    donor = f"gb10-lab-build-{os.getpid()}"
    docker("create", "--name", donor, "--label", LABEL, "--network", "none", ensure_node_image())
    try:
        # Debian has it in /bin, Ubuntu after the merge of both in /usr/bin; -L follows either.
        docker("cp", "-L", f"{donor}:/bin/busybox", str(work / "bin" / "busybox"))
    finally:
        docker("rm", "-f", donor, check=False)
    for applet in ("sh", "sleep", "cat", "ls"):
        (work / "bin" / applet).symlink_to("busybox")
    pipe(
        ["tar", "--numeric-owner", "--owner=0", "--group=0", "-C", str(work), "-c", "bin"],
        docker_argv("import", "--change", 'CMD ["/bin/sleep","infinity"]', "--change", f"LABEL {LABEL}=image", "-", image),
    )
    shutil.rmtree(work)
    return image


def remove_images() -> None:
    """Remove every image the lab made on the host's engine."""
    names = docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").stdout.split()
    mine = [name for name in names if name.startswith(("gb10-lab/", f"{REGISTRY}/gb10-lab/"))]
    if mine:
        docker("image", "rm", "-f", *mine, check=False, timeout=300)
        say(f"Removed {len(mine)} images of the lab.")
