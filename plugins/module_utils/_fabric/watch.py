# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seconds after a change: do the rails get what they were to get, and does the way of the session stay?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import Management, Undone
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.plan import Change, State, lacking, satisfied
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ip import Interface
from ansible_collections.gb10.cluster.plugins.module_utils._words import listing

if TYPE_CHECKING:
    from ansible_collections.gb10.cluster.plugins.module_utils._fabric.node import Node

SETTLE = 10.0  # seconds that a manager has to give the rails their addresses
SAMPLE = 0.1  # seconds between two looks


class Watch:
    """Judges one look after the other; `look` is pure but for the clock that it is given."""

    def __init__(self, management: Management | None, seconds: float, change: Change) -> None:
        self.management = management
        self.seconds = seconds
        self.change = change
        self.messages: list[str] = []
        self._missing_since: float | None = None
        self._longest = 0.0

    def run(self, node: Node, until: float) -> None:
        """Look until all is well for long enough. Raises Undone as soon as it cannot become well; `until` is an epoch."""
        began = time.monotonic()
        while True:
            interfaces = node.interfaces()
            if self.look(time.monotonic() - began, node.states(self.change.links, interfaces=interfaces), self.is_present(interfaces)):
                break
            if time.time() > until:
                raise Undone("The change took so long that the node's own timer was about to take it back.")
            time.sleep(SAMPLE)
        if self._longest:
            self.messages.append(f"The management address {self._address()} was away for {self._longest:.1f} s and came back.")

    def look(self, elapsed: float, states: Mapping[str, State], present: bool) -> bool:
        """Whether the change is good; `present`: the management address is there. Not yet: False."""
        if present:
            self._missing_since = None
        else:
            self._missing_since = elapsed if self._missing_since is None else self._missing_since
            self._longest = max(self._longest, elapsed - self._missing_since, SAMPLE)
            if elapsed - self._missing_since >= self.seconds:
                raise Undone(f"The management address {self._address()} went away with the change and was still missing after {self.seconds:g} s.")
        lacks = [lacking(rail, states.get(rail.netdev)) for rail in self.change.rails if not satisfied(rail, states.get(rail.netdev))]
        if lacks and elapsed >= SETTLE:
            raise Undone(f"After {SETTLE:g} s {listing(lacks)}.")
        return not lacks and present and elapsed >= self.seconds

    def is_present(self, interfaces: Mapping[str, Interface]) -> bool:
        """Whether the management address is where it belongs."""
        wanted = self.management
        return wanted is None or any(
            own.address == wanted.address for name, entry in interfaces.items() if wanted.interface in (None, name) for own in entry.addresses
        )

    def _address(self) -> str:
        management = self.management
        if management is None:
            return ""
        return f"{management.address} of {management.interface}" if management.interface else management.address
