# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One measurement on a node: whether it has what is needed, then what came of it."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.module_utils._bench import commands
from ansible_collections.gb10.cluster.plugins.module_utils._bench.collective import Skipped, all_reduce
from ansible_collections.gb10.cluster.plugins.module_utils._bench.links import Perftest, at_once, busy, ping
from ansible_collections.gb10.cluster.plugins.module_utils._runner import LiveRunner

__all__ = ["Bench", "Skipped"]

VERBS = "/dev/infiniband/uverbs*"


class Bench:
    """One measurement on this node."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.runner = LiveRunner(module)
        self.perftest = Perftest(self.runner, self.params) if self.params["test"].startswith("perftest") else None
        self.missing = True  # until the node has shown that it has what is needed

    def commands(self) -> list[list[str]]:
        if self.params["test"] == "nccl":
            return [commands.shown(commands.nccl(self.params))]
        return [self.perftest.command(link) if self.perftest else commands.ping(link) for link in self.params["links"]]

    def result(self) -> dict[str, Any]:
        """What was measured; raises Skipped if nothing could be."""
        self.require()
        self.missing = False
        if self.module.check_mode:
            return {"ran": False, "missing": False, "reason": "check mode measures nothing"}
        self.vacant()
        return {"ran": True, "missing": False, **self.measure()}

    def require(self) -> None:
        """Raises Skipped if the node lacks what the test needs."""
        test = self.params["test"]
        if self.perftest:
            self._program(commands.TOOLS[self.params["measure"]], "Install it on this node: `sudo apt-get install perftest`.")
            if not self.runner.glob(VERBS):
                raise Skipped(f"there is no {VERBS}", "Plug in the cable, then `sudo modprobe -a mlx5_ib ib_uverbs`, and look at `rdma link`.")
        elif test == "ping":
            self._program("ping", "Install it on this node: `sudo apt-get install iputils-ping`.")
        else:
            self._program("docker", "Install Docker on this node, or run site.yml first.")

    def _program(self, name: str, remedy: str) -> None:
        if self.module.get_bin_path(name) is None:
            raise Skipped(f"{name} is not installed", remedy)

    def vacant(self) -> None:
        """Raises Skipped if somebody else listens where we would."""
        test, ours = self.params["test"], []
        if test == "perftest_server":
            ours = self.params["links"]
        elif test == "nccl" and self.params["rank"] == 0:
            ours = [self.params["head"]]
        taken = busy(ours)
        if taken:
            raise Skipped(f"TCP port {taken[0]} is taken", f"See who listens on it: `sudo ss -ltnp 'sport = :{taken[0]}'`.")

    def measure(self) -> dict[str, Any]:
        if self.params["test"] == "nccl":
            return {"collective": all_reduce(self.runner, self.params)}
        if self.perftest:
            return {"links": at_once(self.perftest.run, self.params["links"])}
        return {"links": at_once(lambda link: ping(self.runner, link), self.params["links"])}
