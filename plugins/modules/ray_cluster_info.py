#!/usr/bin/python
# Copyright (c) 2026 the gb10.cluster authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the nodes and GPUs of a Ray cluster, at their addresses."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ray_cluster_info
short_description: Count the nodes and GPUs of a Ray cluster, at their addresses
version_added: 0.1.0
description:
  - Asks Ray, inside its container on the head, which nodes are alive, at which addresses, and how many GPUs they bring.
  - Waits, within a bound, until the cluster consists of exactly the expected O(nodes) with exactly the expected number of O(gpus), and
    fails with the name of what is missing or too much.
  - Without O(nodes) and O(gpus) it only looks, and fails only if Ray does not answer.
options:
  container:
    description:
      - Name of the container in which Ray's head runs.
    type: str
    default: gb10-ray
  nodes:
    description:
      - Fabric addresses that must be alive in the cluster, and no others.
    type: list
    elements: str
    default: []
  gpus:
    description:
      - Number of GPUs that all nodes must have together.
    type: int
  timeout:
    description:
      - Seconds to wait for the cluster to be as expected. With V(0) it is looked at once.
    type: int
    default: 120
  python:
    description:
      - Python interpreter inside the container, the one that has Ray.
    type: str
    default: python3
attributes:
  check_mode:
    support: full
    description: Looks as always; nothing is changed by it.
  diff_mode:
    support: none
    description: Nothing is changed.
  platform:
    platforms: posix
    support: full
    description: Needs the docker command and a user who may use it.
  facts:
    support: none
    description: Returns information, not facts.
author:
  - The gb10.cluster engineers (@gb10)
notes:
  - Each look starts a driver of Ray for a moment (about 2 to 5 seconds).
"""

EXAMPLES = r"""
- name: Both nodes are in the cluster, each with its GPU
  gb10.cluster.ray_cluster_info:
    container: gb10-ray
    nodes: [192.168.200.12, 192.168.200.13]
    gpus: 2
    timeout: 120
"""

RETURN = r"""
ray_nodes:
  description: The nodes that Ray knows, those that are alive first.
  returned: when Ray answered
  type: list
  elements: dict
  contains:
    address:
      description: Address with which the node registered.
      type: str
    alive:
      description: Whether it is alive. Ray remembers the dead.
      type: bool
    gpus:
      description: Number of GPUs.
      type: int
    cpus:
      description: Number of CPUs.
      type: int
    memory:
      description: Memory in bytes that Ray would hand out to tasks. Not what is free.
      type: int
gpus_total:
  description: GPUs of the nodes that are alive.
  returned: when Ray answered
  type: int
  sample: 2
ready:
  description: Whether the cluster is as expected.
  returned: always
  type: bool
seconds:
  description: Seconds until it was.
  returned: always
  type: float
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.module_utils._engine_log import first_error, merged, tail
from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._ray import RayNode, command, gpus_of, lacks, parse_nodes
from ansible_collections.gb10.cluster.plugins.module_utils._runner import CommandResult, LiveRunner
from ansible_collections.gb10.cluster.plugins.module_utils._words import duration, listing, redact, screen_lines

SLICE = 20.0  # seconds that one question may wait inside the container
START = 60.0  # seconds that Python, Ray's import and the connection may take on top
SHOWN_LINES = 15


class Asker:
    """Asks until the cluster is complete or the time is over; keeps the last answer or the last reason for there being none."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self._runner = LiveRunner(module)
        self._params = module.params
        self.nodes: list[RayNode] | None = None
        self.silence = ""

    def _run(self, argv: list[str], seconds: float) -> CommandResult:
        return self._runner.command(argv, seconds)

    def container_state(self) -> str:
        """running, exited, …; empty if there is no such container."""
        answer = self._run(["docker", "inspect", "--type", "container", "--format", "{{.State.Status}}", self._params["container"]], 15.0)
        if answer.rc and "no such" not in answer.stderr.lower():
            raise Failed(" ".join(answer.stderr.split()))
        return answer.stdout.strip()

    def ask(self, seconds: float) -> None:
        params = self._params
        self.nodes = None
        state = self.container_state()
        if state != "running":
            self.silence = f"The container {params['container']} is {state}." if state else f"There is no container {params['container']}."
            time.sleep(min(2.0, seconds))
            return
        question = command(params["container"], params["python"], seconds, params["nodes"], params["gpus"])
        try:
            answer = self._run(question, seconds + START)
        except TimedOut as error:
            self.silence = f"Ray hangs in {params['container']}: {error}."
            return
        try:
            self.nodes = parse_nodes(answer.stdout)
        except ParseError:
            said = screen_lines(answer.stderr or answer.stdout)[-1:] or [f"exit code {answer.rc}, and not a word"]
            self.silence = f"Ray does not answer in {params['container']}: {redact(said[0])}"
            time.sleep(min(2.0, seconds))

    def problems(self) -> list[str]:
        if self.nodes is None:
            return [self.silence]
        return lacks(self.nodes, self._params["nodes"], self._params["gpus"])

    def log(self) -> list[str]:
        """The newest lines of the container's log, none if there is no such container."""
        answer = self._run(["docker", "logs", "--timestamps", "--tail", "200", self._params["container"]], 15.0)
        return [redact(line) for line in merged(answer.stdout, answer.stderr)] if answer.rc == 0 else []

    def explain(self, seconds: float) -> str:
        """What is missing after all this time, and what to do."""
        lines = [f"The Ray cluster is not complete after {duration(seconds)}. {' '.join(self.problems())}"]
        if self.nodes is None:
            log = self.log()
            cause = first_error(log)
            name = self._params["container"]
            lines.append(f"What to do: see why it does not run: systemctl status {name}; docker logs {name}")
            if cause:
                lines.append(f"The first error in its log: {cause}")
            if log:
                lines += [f"The last lines of {self._params['container']}:", *(f"  {line[:200]}" for line in tail(log, SHOWN_LINES))]
            return "\n".join(lines)
        alive = listing([node.address for node in self.nodes if node.alive]) or "none"
        lines.append(f"Alive: {alive}.")
        lines.append(
            f"What to do: on each node that is missing, docker logs {self._params['container']}; it must reach port 6379 of the head's fabric "
            "address and run the same Ray and Python versions."
        )
        return "\n".join(lines)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "container": {"type": "str", "default": "gb10-ray"},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "gpus": {"type": "int"},
            "timeout": {"type": "int", "default": 120},
            "python": {"type": "str", "default": "python3"},
        },
        supports_check_mode=True,
    )
    asker = Asker(module)
    started = time.monotonic()
    limit = float(module.params["timeout"])
    try:
        while True:
            asker.ask(max(0.0, min(SLICE, limit - (time.monotonic() - started))))
            seconds = round(time.monotonic() - started, 1)
            if not asker.problems() or seconds >= limit:
                break
        result: dict[str, Any] = {"ready": not asker.problems(), "seconds": seconds}
        if asker.nodes is not None:
            result.update(ray_nodes=[node.to_dict() for node in asker.nodes], gpus_total=gpus_of(asker.nodes))
        if not result["ready"]:
            module.fail_json(msg=asker.explain(seconds), **result)
    except (Unavailable, TimedOut, Failed) as error:
        module.fail_json(msg=f"Ray cannot be asked: {error}. Docker must run on this node, and this user must be allowed to use it.", ready=False)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
