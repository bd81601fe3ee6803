# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would run on each rank: the exact command and environment of every container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .lines import Line, columns, gap, labelled, shell

_ACTIONS = {"create": "is created", "replace": "is replaced", "keep": "runs already and is kept"}
_STEPS = {
    "image": {
        "pull": "the image is pulled",
        "derive": "an image with Ray is made from it",
        "pull+derive": "the image is pulled, and one with Ray is made from it",
        "copy": "the image comes from the head, over the rail",
    },
    "model": {"download": "the model is downloaded", "copy": "the model comes from another rank, over the rail"},
}


def what_would_run(plan: Mapping[str, Any]) -> Iterator[Line]:
    """Per rank, in the order of ranks."""
    yield gap()
    yield Line("What would run", "title")
    for number, host in enumerate(plan.get("ranks") or []):
        if number:
            yield gap()
        node = (plan.get("nodes") or {}).get(host) or {}
        yield Line(f"  {host} (rank {node.get('rank', '?')})", "title")
        yield from rank_lines(node)


def rank_lines(node: Mapping[str, Any]) -> Iterator[Line]:
    """Of one rank: what happens first, then its containers."""
    yield from _steps(node)
    for container in node.get("containers") or []:
        yield gap()
        yield from container_lines(container)
    if not node.get("containers"):
        yield Line("    nothing can be planned for it yet")


def _steps(node: Mapping[str, Any]) -> Iterator[Line]:
    """What happens before the containers."""
    steps = [f"{name} is stopped (you allowed it)" for name in node.get("reclaim") or []]
    for rail in node.get("rails") or []:
        if rail.get("action") == "configure":
            steps.append(f"{rail.get('netdev')} gets {rail.get('address')}/{rail.get('prefix')}, MTU {rail.get('mtu')}")
    firewall = node.get("firewall") or {}
    for opened in firewall.get("open") or []:
        steps.append(f"{firewall.get('kind')} lets {opened.get('subnet')} in on {opened.get('netdev')} (you allowed it)")
    for topic, words in _STEPS.items():
        action = (node.get(topic) or {}).get("action")
        if action in words:
            steps.append(words[action])
    for name in node.get("obsolete") or []:
        steps.append(f"{name}, an older container of ours, is removed")
    for number, step in enumerate(steps, 1):
        yield from labelled(f"{number}.", step, indent=4, width=3)


def container_lines(container: Mapping[str, Any]) -> Iterator[Line]:
    action = _ACTIONS.get(str(container.get("action")), str(container.get("action")))
    yield Line(f"    {container.get('name')} {action}, from {container.get('image')}")
    argv = [str(word) for word in [*(container.get("entrypoint") or []), *(container.get("command") or [])]]
    yield from shell(argv, indent=6)
    environment = [f"{name}={value}" for name, value in sorted((container.get("environment") or {}).items())]
    if environment:
        yield Line("      with the environment", "dim")
        yield from columns(environment, 8)
    settings = list(_settings(container))
    if settings:
        yield Line("      and the container settings", "dim")
        yield from columns(settings, 8)


def _settings(container: Mapping[str, Any]) -> Iterator[str]:
    for key, name in (("network_mode", "network"), ("ipc_mode", "ipc"), ("pid_mode", "pid"), ("shm_size", "shm-size")):
        if container.get(key):
            yield f"{name}={container[key]}"
    if container.get("gpus"):
        yield "gpus=all"
    for key, name in (("capabilities", "cap-add"), ("ulimits", "ulimit"), ("devices", "device"), ("volumes", "volume")):
        for value in container.get(key) or []:
            outside, _colon, inside = str(value).partition(":")
            yield f"{name}={outside if outside == inside else value}"
