"""Profiles: what a machine is and how its owner left it. A folder each, the next one built on the one before.

``manifest.json`` may name another profile in ``extends``: objects are merged key by key, everything else replaced;
files of the same name in ``outputs/``, ``proc/``, ``files/`` and ``home/`` replace those of the profile below.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .config import LAB_DIR, NODE_LIB, PORTS, USER_HOME, Node, Port
from .shell import LabError

ROOT = LAB_DIR / "profiles"
EMULATOR = LAB_DIR / "emulator"
#: Where a tool of the emulator lies on a Spark.
TOOL_PLACES = {
    "nvidia-smi": "/usr/bin",
    "nvidia-ctk": "/usr/bin",
    "ibstat": "/usr/sbin",
    "ibdev2netdev": "/usr/sbin",
    "ibv_devinfo": "/usr/bin",
    "show_gids": "/usr/sbin",
    "rdma": "/usr/bin",
    "lspci": "/usr/bin",
    "ethtool": "/usr/sbin",
    "dmidecode": "/usr/sbin",
}


@dataclass
class Profile:
    """A merged profile: its settings and its files by folder and relative path."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Path]] = field(default_factory=dict)

    @property
    def cables(self) -> set[str]:
        """The cables that are plugged in at this machine."""
        return set(self.settings["fabric"]["cables"])

    @property
    def wiring(self) -> dict[str, str]:
        """The cable at each port, named by the head's port; empty where equal ports are joined."""
        return dict(self.settings["fabric"]["wiring"])

    @property
    def ports(self) -> tuple[Port, ...]:
        """The ports that the machine has: with hot-plug, a port without a cable is not there at all."""
        present = self.cables if self.settings["fabric"]["hotplug"] else {port.netdev for port in PORTS}
        return tuple(port for port in PORTS if port.netdev in present)


def names() -> list[str]:
    """All profiles of this checkout."""
    return sorted(path.parent.name for path in ROOT.glob("*/manifest.json"))


def load(name: str) -> Profile:
    """Read a profile with everything it extends."""
    path = ROOT / name / "manifest.json"
    if not path.exists():
        raise LabError(f"there is no profile {name}: choose one of {', '.join(names())}")
    manifest: dict[str, Any] = json.loads(path.read_text())
    below = load(manifest["extends"]) if "extends" in manifest else Profile(name)
    merged = Profile(name, _merge(below.settings, manifest), {key: dict(value) for key, value in below.files.items()})
    for folder in ("outputs", "proc", "files", "home"):
        top = path.parent / folder
        for item in sorted(top.rglob("*")) if top.is_dir() else []:
            if item.is_file():
                merged.files.setdefault(folder, {})[str(item.relative_to(top))] = item
    return merged


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _merge(result[key], value) if both else value
    return result


def node_settings(profile: Profile, node: Node) -> dict[str, Any]:
    """The profile as one machine of that kind: with its own addresses, GUIDs and UUID."""

    def guid(offset: int) -> str:
        mac = node.mac(offset).replace(":", "")
        return f"{mac[:6]}0300{mac[6:]}"

    unique = hashlib.sha256(node.name.encode()).hexdigest()
    return {
        **profile.settings,
        "host": node.name,
        "gpu_uuid": f"GPU-{unique[:8]}-{unique[8:12]}-{unique[12:16]}-{unique[16:20]}-{unique[20:32]}",
        "ports": [
            {
                "netdev": port.netdev,
                "hca": port.hca,
                "pci": port.pci,
                "mac": node.mac(port.mac_offset),
                "guid": guid(port.mac_offset),
                "image_guid": guid(1),
            }
            for port in profile.ports
        ],
    }


@dataclass(frozen=True)
class Item:
    """One file on its way to a node."""

    path: str
    content: bytes
    mode: int = 0o644
    uid: int = 0


def hardware(profile: Profile, node: Node) -> tuple[list[Item], str]:
    """The emulator with this machine's data, and one digest that changes when any of it does."""
    items = [Item(f"{NODE_LIB}/profile.json", (json.dumps(node_settings(profile, node), indent=1, sort_keys=True) + "\n").encode())]
    for path in sorted(EMULATOR.glob("*.py")):
        items.append(Item(f"{NODE_LIB}/emulator/{path.name}", path.read_bytes()))
    items.append(Item(f"{NODE_LIB}/launcher", (EMULATOR / "launcher").read_bytes(), 0o755))
    items.append(Item("/usr/lib/systemd/system/spark-emulator.service", (EMULATOR / "spark-emulator.service").read_bytes()))
    for folder in ("outputs", "proc"):
        for name, path in profile.files.get(folder, {}).items():
            items.append(Item(f"{NODE_LIB}/{folder}/{name}", path.read_bytes()))
    total = hashlib.sha256()
    for item in items:
        total.update(f"{item.path} {item.mode} ".encode() + item.content)
    return items, total.hexdigest()[:16]


def belongings(profile: Profile) -> list[Item]:
    """What the owner has on the machine: files of the system and of the home folder, given once when it is seeded."""
    items = [Item(f"/{name}", path.read_bytes()) for name, path in profile.files.get("files", {}).items()]
    for name, path in profile.files.get("home", {}).items():
        executable = 0o755 if path.suffix == ".sh" else 0o644
        items.append(Item(f"{USER_HOME}/{name}", path.read_bytes(), executable, 1000))
    return items
