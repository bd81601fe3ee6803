# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""For action plugins that ask a node again and again: a connection that is lost meanwhile is not the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gb10.cluster.plugins.module_utils._words import duration, shorten

PAUSE = 5.0  # seconds between two attempts to reach a node that was lost
SAY_EVERY = 30.0  # seconds after which it is said again that it is still lost

display = Display()


def ask(
    action: ActionBase,
    module: str,
    arguments: Mapping[str, Any],
    variables: Mapping[str, Any],
    patience: float,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The result of one call of the module. While the node cannot be reached it is tried again, for `patience` seconds and aloud.

    Raises AnsibleConnectionFailure after that, which makes the host unreachable as ever.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    lost: float | None = None
    said = 0.0
    while True:
        try:
            answer = action._execute_module(module_name=module, module_args=given, task_vars=variables)
        except AnsibleConnectionFailure as error:
            now = time.monotonic()
            lost = now if lost is None else lost
            left = patience - (now - lost)
            if left <= 0:
                raise
            if lost == now or now - said >= SAY_EVERY:
                said = now
                say(f"connection lost ({shorten(' '.join(str(error).split()), 60)}), trying again for {duration(left)}")
            time.sleep(PAUSE)
            _drop(action)
            continue
        if lost is not None:
            say(f"connected again after {duration(time.monotonic() - lost)}")
        return dict(answer)


def _drop(action: ActionBase) -> None:
    """Drop what is left of the old connection, so that the next attempt makes a new one."""
    try:
        action._connection.reset()
    except AnsibleError as error:
        display.vvv(f"the old connection could not be dropped: {error}")
