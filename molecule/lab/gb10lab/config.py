"""Every fixed name and address of the lab, in one place.

Others (inventories, molecule, tests) rely on these: they are printed by ``lab.py info --json``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

LAB_DIR = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("GB10_LAB_CACHE") or Path.home() / ".cache" / "gb10-cluster")
STATE = CACHE / "lab"
KEY = STATE / "id_ed25519"
HOST_KEYS = STATE / "hostkeys"
KNOWN_HOSTS = STATE / "known_hosts"
MODELS = CACHE / "models"
WHEELS = CACHE / "wheels"
REGISTRY_DATA = CACHE / "registry"

NETWORK = "gb10-lab"
BRIDGE = "gb10lab0"
SUBNET = "172.30.180.0/24"
PREFIX_LENGTH = 24
GATEWAY = "172.30.180.1"
OUTSIDE = "spark-outside"
OUTSIDE_ADDRESS = "172.30.180.2"
REGISTRY = f"{OUTSIDE_ADDRESS}:5000"
HUB_URL = f"http://{OUTSIDE_ADDRESS}:8080"
WHEELS_URL = f"http://{OUTSIDE_ADDRESS}:8081"

USER = "aurora"
USER_HOME = f"/home/{USER}"
#: The label that marks everything the lab makes on the host's engine, so that `down` finds it whatever happened.
LABEL = "org.gb10.lab"
#: The network namespace that holds the far ends of all cables (see cables.py).
TRAY = "gb10-lab-cables"

ENGINE_TAGS = ("gb10-lab/engine:0.32.0", "gb10-lab/engine:0.32.0-ray")
LAB_MODEL = "gb10-lab/tiny-qwen3"

#: Where the emulator lives on a node. Never named gb10*: those names belong to the product, and `reset` removes them.
NODE_LIB = "/usr/lib/spark-emulator"
NODE_RUN = "/run/spark-emulator"


@dataclass(frozen=True)
class Port:
    """One of the four ConnectX-7 network devices of a GB10, as ground truth knows them."""

    netdev: str
    hca: str
    pci: str
    #: Offset of its MAC address from the management port's, the same on every machine recorded.
    mac_offset: int
    #: Short name of its cable in the tray (interface names are at most 15 characters).
    short: str


PORTS = (
    Port("enp1s0f0np0", "rocep1s0f0", "0000:01:00.0", 1, "f0"),
    Port("enp1s0f1np1", "rocep1s0f1", "0000:01:00.1", 2, "f1"),
    Port("enP2p1s0f0np0", "roceP2p1s0f0", "0002:01:00.0", 5, "P2f0"),
    Port("enP2p1s0f1np1", "roceP2p1s0f1", "0002:01:00.1", 6, "P2f1"),
)
PORT_BY_NETDEV = {port.netdev: port for port in PORTS}
#: The cables, each with its bridge in the tray, named by the port of the head at one end; but for those of a ring that have no end there.
CABLES = {port.netdev: f"cable-{port.short}" for port in PORTS} | {"ring": "cable-ring", "P2ring": "cable-P2ring"}


@dataclass(frozen=True)
class Node:
    """One emulated Spark."""

    name: str
    mac_base: str
    #: Address on the management network, or None where the node is reachable over the rails only.
    management: str | None
    rail_address: str
    default_profile: str
    letter: str

    def mac(self, offset: int) -> str:
        """The MAC address at a fixed offset from the management port's."""
        value = int(self.mac_base.replace(":", ""), 16) + offset
        text = f"{value:012x}"
        return ":".join(text[i : i + 2] for i in range(0, 12, 2))


HEAD = Node("spark-head", "4c:bb:47:5a:30:10", "172.30.180.10", "192.168.200.12", "spark-used", "h")
WORKER = Node("spark-worker", "4c:bb:47:6b:42:20", None, "192.168.200.13", "spark", "w")
#: Further machines, there only while somebody asks for them by their profiles.
THIRD = Node("spark-third", "4c:bb:47:7c:54:30", "172.30.180.12", "192.168.200.14", "bare-head", "t")
FOURTH = Node("spark-fourth", "4c:bb:47:8d:66:40", "172.30.180.13", "192.168.200.15", "bare-head", "f")
TWIN = (HEAD, WORKER)
NODES = (*TWIN, THIRD, FOURTH)
NODE_BY_NAME = {node.name: node for node in NODES}
