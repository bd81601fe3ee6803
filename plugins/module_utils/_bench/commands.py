# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command lines of the benchmarks. Pure, so that check mode can show what would run.

Options of perftest that Debian 12 (4.5) and Ubuntu 24.04 (24.01) both have (https://github.com/linux-rdma/perftest):
-F goes on where the CPU's clock is not at its maximum, -x names the GID, -n bounds a run by messages a queue pair, -D by seconds, of which the
first and the last quarter are left out. What two runs at once measure is then measured while both run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._bench.script import SCRIPT

MESSAGE = 65536  # bytes, perftest's own default for bandwidth
LATENCY_MESSAGE, LATENCY_ROUNDS = 2, 1000
PINGS, PING_INTERVAL, PING_WAIT = 3, 0.2, 2
IP_AND_ICMP = 28  # bytes of headers that a packet of a full MTU has around ping's payload
CONTAINER = "gb10-bench-nccl"
LABEL = "gb10.bench"
TOOLS = {"bandwidth": "ib_write_bw", "latency": "ib_write_lat"}


def ping(link: Mapping[str, Any]) -> list[str]:
    """A packet that fills the MTU and may not be fragmented, out of this interface."""
    size = link["mtu"] - IP_AND_ICMP
    bounds = ["-c", str(PINGS), "-i", str(PING_INTERVAL), "-W", str(PING_WAIT)]
    return ["ping", "-n", "-M", "do", *bounds, "-s", str(size), "-I", link["netdev"], link["address"]]


def perftest(link: Mapping[str, Any], measure: str, amount: int, seconds: int, queue_pairs: int, client: bool) -> list[str]:
    """One end of a run. Both ends need the same options; the client is the one with an address."""
    command = [TOOLS[measure], "-d", link["hca"], "-i", "1", "-p", str(link["port"]), "-F"]
    if link.get("gid_index") is not None:
        command += ["-x", str(link["gid_index"])]
    if measure == "latency":
        command += ["-s", str(LATENCY_MESSAGE), "-n", str(LATENCY_ROUNDS)]
    else:
        bound = ["-D", str(seconds)] if seconds else ["-n", str(max(1, amount // (MESSAGE * queue_pairs)))]
        command += ["--report_gbits", "-s", str(MESSAGE), "-q", str(queue_pairs), *bound]
    return [*command, link["address"]] if client else command


def nccl(params: Mapping[str, Any]) -> list[str]:
    """This rank's container: what the plan gives the engine, and no more; gone when it ends, and it ends itself."""
    container, head = params["container"], params["head"]
    environment = {**container["environment"], "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
    command = ["docker", "run", "--rm", "--name", CONTAINER, "--label", f"{LABEL}=nccl", "--pull", "never", "--network", "host", "--gpus", "all"]
    for option, values in (("--device", container["devices"]), ("--cap-add", container["capabilities"]), ("--ulimit", container["ulimits"])):
        for value in values:
            command += [option, _ulimit(value) if option == "--ulimit" else value]
    if container["shm_size"]:
        command += ["--shm-size", container["shm_size"]]
    for name in sorted(environment):
        command += ["--env", f"{name}={environment[name]}"]
    command += ["--entrypoint", container["python"], container["image"], "-c", SCRIPT]
    amount = params["amount"] // 4 * 4
    return [*command, str(params["timeout"]), str(params["rank"]), str(params["world_size"]), head["address"], str(head["port"]), str(amount)]


def _ulimit(text: str) -> str:
    """`memlock:-1:-1` of a recipe is `memlock=-1:-1` for the command line."""
    return text if "=" in text else text.replace(":", "=", 1)


def remove() -> list[str]:
    return ["docker", "rm", "--force", "--volumes", CONTAINER]


def shown(command: Sequence[str]) -> list[str]:
    """The command without the program inside it, which would be a wall of text."""
    return ["…" if word == SCRIPT else word for word in command]
