"""The emulator's service: waits for what moves (links, addresses, containers, engine workers) and rewrites the tree."""

from __future__ import annotations

import os
import select
import socket
import time
from typing import Any

from . import memory, tree
from .common import RUN, ports, profile

#: RTMGRP_LINK, RTMGRP_IPV4_IFADDR
NETLINK_GROUPS = 0x1 | 0x10
TICK = 1.0
#: Containers are asked for on every event; this is only for events that got lost.
CONTAINER_INTERVAL = 10.0
#: After an event the engine may still be writing its state.
SETTLE = 0.3


def notify_ready() -> None:
    """Tell systemd that the tree is mounted, so that docker and sshd start after it."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sink:
            sink.connect("\0" + address[1:] if address.startswith("@") else address)
            sink.send(b"READY=1")


def link_events() -> socket.socket:
    """A socket that becomes readable whenever a link or an IPv4 address changes."""
    events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    events.bind((0, NETLINK_GROUPS))
    events.setblocking(False)
    return events


def container_events() -> socket.socket | None:
    """A socket that becomes readable whenever a container starts or ends; None while no engine answers."""
    events = socket.socket(socket.AF_UNIX)
    events.settimeout(2)
    try:
        events.connect(memory.DOCKER)
        events.sendall(b"GET /events?filters=%7B%22type%22%3A%5B%22container%22%5D%7D HTTP/1.0\r\nHost: docker\r\n\r\n")
    except OSError:
        events.close()
        return None
    events.setblocking(False)
    return events


def drain(source: socket.socket) -> bool:
    """Read all that has come; False when the other side has closed."""
    while True:
        try:
            if not source.recv(1 << 16):
                return False
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            # ENOBUFS: events were lost, which means the same as having got some.
            return True


class Emulator:
    """The state between two rounds."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.by_label: list[memory.Holder] = []
        self.links = link_events()
        self.engine: socket.socket | None = None
        self.next_containers = 0.0

    def start(self) -> None:
        """Build and mount the tree, with the links as they are."""
        RUN.mkdir(mode=0o755, parents=True, exist_ok=True)
        tree.build(self.settings, ports(self.settings))
        memory.publish(self.settings, memory.ranks(self.settings["gpu"]))
        tree.mount_all()
        self.refresh_links()

    def refresh_links(self) -> None:
        """States, rates, GIDs, speeds."""
        tree.refresh(self.settings, ports(self.settings), tree.addresses())

    def refresh_memory(self, now: float) -> None:
        """Who holds memory; the engine is asked only when there is a reason."""
        if now >= self.next_containers:
            found = memory.containers()
            self.by_label = memory.alive(self.by_label) if found is None else found
            self.next_containers = now + (CONTAINER_INTERVAL if found is not None else TICK)
        memory.publish(self.settings, memory.alive(self.by_label) + memory.ranks(self.settings["gpu"]))

    def round(self) -> None:
        """Wait for an event or the next tick and bring everything up to date."""
        if self.engine is None:
            self.engine = container_events()
            self.next_containers = 0.0
        watched = [self.links] + ([self.engine] if self.engine else [])
        now = time.monotonic()
        wait = max(0.0, min(TICK, self.next_containers - now)) if self.engine else TICK
        readable, _, _ = select.select(watched, [], [], wait)
        now = time.monotonic()
        if self.links in readable:
            drain(self.links)
            self.refresh_links()
        if self.engine in readable and self.engine is not None:
            if not drain(self.engine):
                self.engine.close()
                self.engine = None
            self.next_containers = 0.0
            self.refresh_memory(now)
            self.next_containers = min(self.next_containers, now + SETTLE)
        else:
            self.refresh_memory(now)
        tree.refresh_counters(ports(self.settings))


def main() -> int:
    """Run until told to stop."""
    emulator = Emulator(profile())
    emulator.start()
    notify_ready()
    while True:
        emulator.round()
