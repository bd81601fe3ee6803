"""What every part of the emulator needs: paths, the profile of this node, the live state of its ports."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIB = Path("/usr/lib/spark-emulator")
RUN = Path("/run/spark-emulator")
OUTPUTS = LIB / "outputs"
REAL = LIB / "real"
NET = Path("/sys/class/net")
HCAS = Path("/sys/class/infiniband")


def profile() -> dict[str, Any]:
    """The merged profile of this node, as `lab.py up` put it here."""
    found: dict[str, Any] = json.loads((LIB / "profile.json").read_text())
    return found


def output(name: str) -> str:
    """A recorded command output."""
    return (OUTPUTS / name).read_text()


def read(path: Path, default: str = "") -> str:
    """A one-line file, or ``default`` where it is missing or refuses to be read (a port that is down does)."""
    try:
        return path.read_text().strip()
    except OSError:
        return default


def write_atomic(path: Path, text: str) -> None:
    """Replace a file so that no reader ever sees half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
    os.chmod(name, 0o644)
    os.replace(name, path)


def write_in_place(path: Path, text: str) -> None:
    """Rewrite a file that is the source of a bind mount: its inode has to stay. Unchanged content is not written."""
    data = text.encode()
    try:
        if path.read_bytes() == data:
            return
    except FileNotFoundError:
        pass
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.pwrite(handle, data, 0)
        os.ftruncate(handle, len(data))
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Port:
    """One ConnectX-7 port as it is now."""

    netdev: str
    hca: str
    pci: str
    number: int
    guid: int
    image_guid: int
    present: bool
    up: bool
    mtu: int
    mac: str


def ports(settings: dict[str, Any]) -> list[Port]:
    """All four ports with their live link state. A port whose netdev is gone (the node is being cabled) is down."""
    found = []
    for number, spec in enumerate(settings["ports"]):
        base = NET / spec["netdev"]
        found.append(
            Port(
                netdev=spec["netdev"],
                hca=spec["hca"],
                pci=spec["pci"],
                number=number,
                guid=int(spec["guid"], 16),
                image_guid=int(spec["image_guid"], 16),
                present=base.exists(),
                up=read(base / "carrier", "0") == "1",
                mtu=int(read(base / "mtu", "1500")),
                mac=spec["mac"],
            )
        )
    return found


def active_mtu(netdev_mtu: int, up: bool) -> tuple[int, int]:
    """The RDMA MTU that goes with a netdev's MTU, and its code: the largest power of two that leaves room for headers."""
    if not up:
        return 1024, 3
    for size, code in ((4096, 5), (2048, 4), (1024, 3), (512, 2)):
        if netdev_mtu >= size + 100:
            return size, code
    return 256, 1
