"""The node containers and the management network: made, started and mended."""

from __future__ import annotations

import io
import json
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from . import config
from .config import GATEWAY, LABEL, NETWORK, OUTSIDE_ADDRESS, SUBNET, Node
from .docker import container_pid, docker, docker_argv, exec_in, inspect, privilege_flags
from .images import ensure_node_image
from .keys import host_key_files, lab_public_key
from .profiles import TOOL_PLACES, Item, Profile, belongings, hardware, load
from .shell import LabError, detached, run, wait_for

NODE_LABEL = f"{LABEL}.node"
PROFILE_LABEL = f"{LABEL}.profile"
#: Written last on a node; while it is missing the seeding is not through.
SEEDED = f"{config.NODE_LIB}/seeded"


class Files:
    """A set of files on their way into a container: collected, then sent as one tar stream."""

    def __init__(self) -> None:
        self._entries: list[tuple[tarfile.TarInfo, bytes]] = []
        self._dirs: set[str] = set()

    def _entry(self, path: str, kind: bytes, mode: int, uid: int, content: bytes = b"", target: str = "") -> None:
        info = tarfile.TarInfo(path.lstrip("/"))
        info.type, info.mode, info.uid, info.gid, info.mtime = kind, mode, uid, uid, int(time.time())
        info.size, info.linkname = len(content), target
        self._entries.append((info, content))

    def directory(self, path: str, *, mode: int = 0o755, uid: int = 0) -> None:
        """Add a directory."""
        self._entry(path, tarfile.DIRTYPE, mode, uid)
        self._dirs.add(path)

    def add(self, path: str, content: str | bytes, *, mode: int = 0o644, uid: int = 0) -> None:
        """Add a regular file."""
        self.owned_parents(path, uid)
        self._entry(path, tarfile.REGTYPE, mode, uid, content.encode() if isinstance(content, str) else content)

    def link(self, path: str, target: str, *, uid: int = 0) -> None:
        """Add a symbolic link."""
        self._entry(path, tarfile.SYMTYPE, 0o777, uid, target=target)

    def owned_parents(self, path: str, uid: int) -> None:
        """The folders of the user belong to the user; what is missing elsewhere is made by the engine, for root."""
        for folder in reversed(PurePosixPath(path).parents):
            text = str(folder)
            if text.startswith(f"{config.USER_HOME}/") and text != f"{config.USER_HOME}/.ssh" and text not in self._dirs:
                self.directory(text, uid=uid)

    def send(self, container: str) -> None:
        """Unpack everything at the root of a container, running or not."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for info, content in self._entries:
                tar.addfile(info, io.BytesIO(content))
        docker("cp", "-", f"{container}:/", stdin=buffer.getvalue())


def ensure_network() -> list[str]:
    """The management network; a subnet that somebody else has is said in one sentence."""
    found = inspect("network", NETWORK)
    if found is not None:
        subnets = [item.get("Subnet") for item in found["IPAM"]["Config"] or []]
        if SUBNET not in subnets or not found["Internal"]:
            raise LabError(f"a docker network named {NETWORK} exists but is not the lab's ({SUBNET}): remove it or rename it")
        return []
    done = docker(
        "network", "create", "--driver", "bridge", "--internal", "--subnet", SUBNET, "--gateway", GATEWAY,
        "--opt", f"com.docker.network.bridge.name={config.BRIDGE}", "--label", LABEL, NETWORK, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        if "overlap" in done.stderr.lower() or "conflict" in done.stderr.lower():
            raise LabError(f"the lab needs the subnet {SUBNET}, which another network of this host already has: {done.stderr.strip()}")
        raise LabError(f"the network {NETWORK} could not be made: {done.stderr.strip()}")
    return [f"the management network {SUBNET} was made"]


def _create(node: Node, image: str, flags: tuple[str, ...], profile: Profile) -> None:
    """Make the container with all its files; it has never been started, so an aborted run is seen and made anew."""
    management = node.management or profile.settings["management"]
    network = ["--network", NETWORK, "--ip", management] if management else ["--network", "none"]
    volume = f"gb10-lab-{node.name}-{time.time_ns() // 1_000_000:x}"
    docker("volume", "create", "--label", LABEL, "--label", f"{NODE_LABEL}={node.name}", volume)
    docker(
        "create", "--name", node.name, "--hostname", node.name, *network, *flags, "--cgroupns=host",
        "-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw", "--tmpfs", "/run:exec", "--tmpfs", "/run/lock",
        "--shm-size", "4g", "-v", f"{volume}:/var/lib/docker", "--stop-signal", "SIGRTMIN+3",
        "--label", LABEL, "--label", f"{PROFILE_LABEL}={profile.name}", image,
    )  # fmt: skip
    files = _base_files(node)
    items, digest = hardware(profile, node)
    _add_hardware(files, items, digest)
    for item in belongings(profile):
        files.add(item.path, item.content, mode=item.mode, uid=item.uid)
    files.send(node.name)


def _base_files(node: Node) -> Files:
    """What makes one machine out of the common image: names, keys, the outside registry, the seeded fabric."""
    files = Files()
    files.directory(f"{config.NODE_LIB}/etc")
    files.add(f"{config.NODE_LIB}/etc/hosts", f"127.0.0.1\tlocalhost\n127.0.1.1\t{node.name}\n::1\tlocalhost ip6-localhost ip6-loopback\n")
    files.add(f"{config.NODE_LIB}/etc/hostname", f"{node.name}\n")
    # (--mac-address of a newer client is refused by an older engine, so the node's boot sets it.)
    files.add(f"{config.NODE_LIB}/etc/mac", f"{node.mac(0)}\n")
    # The outside world answers no name: a look-up on a node fails at once instead of after a time-out.
    files.add(f"{config.NODE_LIB}/etc/resolv.conf", f"nameserver {OUTSIDE_ADDRESS}\noptions timeout:1 attempts:1\n" if node.management else "")
    files.add("/etc/docker/daemon.json", json.dumps({"insecure-registries": [config.REGISTRY]}, indent=2) + "\n")
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        # Under cgroup v1 inner containers would get their groups beside the host's own containers: they get a place
        # of their own, which `down` can clear. Under v2 they lie below the node's group and go with it.
        files.add("/etc/default/docker", f'DOCKER_OPTS="--cgroup-parent=/{config.NETWORK}/{node.name}"\n')
    files.add(f"{config.USER_HOME}/.ssh/authorized_keys", lab_public_key(), mode=0o600, uid=1000)
    for name, content, mode in host_key_files(node.name):
        files.add(f"/etc/ssh/{name}", content, mode=mode)
    files.add("/etc/netplan/40-cx7.yaml", seed_netplan(node), mode=0o600)
    return files


def seed_netplan(node: Node) -> str:
    """The fabric as its owner left it: one twin with an address and MTU 9000, the other without either."""
    return f"""network:
  version: 2
  renderer: networkd
  ethernets:
    enp1s0f1np1:
      dhcp4: false
      dhcp6: false
      addresses: [{node.rail_address}/24]
      mtu: 9000
    enP2p1s0f1np1:
      dhcp4: false
      dhcp6: false
"""


def ensure_node(node: Node, wanted: str | None) -> tuple[list[str], Profile]:
    """Make and start one node; a profile that was not asked for by name is the one the node already has."""
    image = ensure_node_image()
    found = inspect("container", node.name)
    if found is not None and LABEL not in found["Config"]["Labels"]:
        raise LabError(f"a container named {node.name} exists that is not the lab's: remove it or rename it")
    name = wanted or (found["Config"]["Labels"].get(PROFILE_LABEL) if found else None) or node.default_profile
    if found is not None and not _usable(found, image, name):
        remove_node(node)
        found = None
    profile = load(name)
    done: list[str] = []
    if found is None:
        _create(node, image, privilege_flags(image), profile)
        done.append(f"{node.name} was made")
    if found is None or not found["State"]["Running"]:
        started = docker("start", node.name, check=False)
        if started.returncode != 0:
            raise LabError(f"{node.name} does not start: {started.stderr.strip()}")
        done.append(f"{node.name} was started")
    return done, profile


def _usable(found: dict[str, Any], image: str, profile_name: str) -> bool:
    """Whether an existing container is a whole node of this image and profile; an aborted run may have left less."""
    labels = found["Config"]["Labels"]
    never_started = found["State"]["Status"] == "created"
    return found["Config"]["Image"] == image and labels.get(PROFILE_LABEL) == profile_name and not never_started


def ensure_hardware(node: Node, profile: Profile, has: str) -> list[str]:
    """Bring a running node's emulator up to this checkout's, without touching anything else on the node."""
    items, digest = hardware(profile, node)
    if has == digest:
        return []
    send_items(node, items, digest)
    exec_in(node.name, "systemctl", "daemon-reload")
    exec_in(node.name, "systemctl", "restart", "spark-emulator.service")
    return [f"{node.name} got a new emulator"]


def send_items(node: Node, items: list[Item], digest: str) -> None:
    """Put the emulator and its tools in their places."""
    files = Files()
    _add_hardware(files, items, digest)
    files.send(node.name)


def _add_hardware(files: Files, items: list[Item], digest: str) -> None:
    for item in items:
        files.add(item.path, item.content, mode=item.mode, uid=item.uid)
    for tool, place in TOOL_PLACES.items():
        files.link(f"{place}/{tool}", f"{config.NODE_LIB}/launcher")
    files.link("/usr/lib/systemd/system/sysinit.target.wants/spark-emulator.service", "../spark-emulator.service")
    files.add(f"{config.NODE_LIB}/digest", digest + "\n")


def remove_node(node: Node) -> None:
    """Remove a node with everything it holds, at once: a machine that is thrown away needs no shutdown.

    Its engine's files are many; they are deleted behind our back, and whatever an aborted run leaves, the next one takes.
    """
    docker("rm", "-f", "-v", node.name, check=False, timeout=60)
    discard_volumes()
    clean_cgroups(node)


def discard_volumes() -> None:
    """Start removing every node volume that no container uses."""
    unused = docker("volume", "ls", "-q", "--filter", f"label={NODE_LABEL}", "--filter", "dangling=true").stdout.split()
    if unused:
        detached(docker_argv("volume", "rm", "-f", *unused))


def clean_cgroups(node: Node) -> None:
    """Remove the empty control groups of a killed node's inner containers (they outlive their processes)."""
    script = (
        f"for top in /sys/fs/cgroup/{NETWORK}/{node.name} /sys/fs/cgroup/*/{NETWORK}/{node.name}; do "
        '[ -d "$top" ] && find "$top" -depth -type d -exec rmdir {} + 2>/dev/null; done; true'
    )
    run(["sh", "-c", script], root=True, check=False)


@dataclass(frozen=True)
class Boot:
    """What a running node says about itself, asked in one go."""

    state: str
    serving: bool
    digest: str
    seeded: bool


def ask(node: Node) -> Boot:
    """Whether systemd is through, engine and sshd answer, which emulator it has and whether it was seeded."""
    script = (
        "systemctl is-system-running; "
        "docker version >/dev/null 2>&1 && ss -Hltn sport = :22 | grep -q . && echo yes || echo no; "
        f"cat {config.NODE_LIB}/digest || echo; test -e {SEEDED} && echo yes || echo no"
    )
    lines = exec_in(node.name, "sh", "-c", script, check=False).stdout.splitlines()
    state, serving, digest, seeded = (*lines, "", "", "", "")[:4]
    return Boot(state, serving == "yes", digest, seeded == "yes")


def wait_booted(node: Node, seconds: float = 60) -> Boot:
    """Wait until systemd says that the node is up, its engine answers and its sshd listens."""
    deadline = time.monotonic() + seconds
    while True:
        boot = ask(node)
        if boot.state in ("running", "degraded") and boot.serving:
            return boot
        if time.monotonic() > deadline:
            raise LabError(f"{node.name} did not come up within {seconds:.0f} s (systemd says {boot.state or 'nothing'})")
        time.sleep(0.3)


def pids() -> dict[str, int]:
    """The first process of each running node, as the host sees it."""
    found = {node.name: container_pid(node.name) for node in config.NODES}
    return {name: pid for name, pid in found.items() if pid is not None}


def wait_rails(seconds: float = 20) -> None:
    """Wait until the worker's seeded address answers from the head and stands in the GID table: netplan and emulator have done their work."""

    def ready() -> bool:
        ping = ("ping", "-c1", "-W1", "-q", config.WORKER.rail_address)
        return exec_in(config.HEAD.name, *ping, check=False).returncode == 0 and all(
            node.rail_address in exec_in(node.name, "show_gids", check=False).stdout for node in config.TWIN
        )

    wait_for("an answer of the worker over the rail", ready, seconds)


def members() -> tuple[Node, ...]:
    """The twin, and the further machines that are there."""
    return tuple(node for node in config.NODES if node in config.TWIN or current_profile(node) is not None)


def current_profile(node: Node) -> str | None:
    """The profile an existing node was made from."""
    found = inspect("container", node.name)
    return found["Config"]["Labels"].get(PROFILE_LABEL) if found else None


def clean_cgroup_root() -> None:
    """Remove the control group that held both nodes' inner containers, in every hierarchy."""
    script = f'for top in /sys/fs/cgroup/{NETWORK} /sys/fs/cgroup/*/{NETWORK}; do rmdir "$top" 2>/dev/null; done; true'
    run(["sh", "-c", script], root=True, check=False)
