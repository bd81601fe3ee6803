# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the nodes are known, which machines they are, what differs between them, and the ports that the plan needs."""

from __future__ import annotations

from typing import Any

from healthy import DRIVER, KERNEL, container, containers, gpu_users, smi
from replay import Patch, absent, all_of, answers, edited, fact, hangs, holds, lacks, rewritten, rows, silent, unrecorded
from stories import SINGLE, fires, quiet

OURS = {"gb10.deployment": "x", "gb10.ports": "8000"}
SS = ("ss", "-ltnpH")
ENVIRON = "/proc/self/environ"
OUTSIDE_LAB = "/sys/class/dmi/id"


def listening(port: int, address: str = "0.0.0.0", who: str = "") -> Patch:
    """Somebody listens on a TCP port."""

    def patch(machine: Any) -> None:
        (entry,) = machine.matching(SS)
        entry["stdout"] += f"LISTEN 0      4096       {address}:{port}      0.0.0.0:*    {who}\n"

    return patch


def python(**changes: Any) -> Patch:
    """What the node's Python says of itself."""
    return rows(lambda found: found.update(changes), "python3", "-c")


def docker(version: str) -> Patch:
    """The version of the engine."""
    return rows(lambda info: info.update(ServerVersion=version), "docker", "info")


SAME_NAME = rewritten("/proc/sys/kernel/hostname", "spark-aa11", "spark-aa10")
FIRST_KEY = holds(
    "/etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINaBp7XMamQ0pEiKngLsj0fBsPHEgSy4s0000000000 root@spark-aa10\n"
)


AURORA = all_of(
    answers("id", out="uid=1001(aurora) gid=1001(aurora) groups=1001(aurora),999(docker)\n"),
    answers("getent", "passwd", "aurora", out="aurora:x:1001:1001:,,,:/home/aurora:/bin/bash\n"),
)


def live(clock: float) -> Patch:
    """A machine that is asked now, not a recording of it: its clock counts."""
    return all_of(fact("source", "live"), python(epoch=clock))


def first_machine(machine: Any) -> None:
    """The network ports of the other machine."""
    for entry in machine.commands.values():
        entry["stdout"] = entry["stdout"].replace("4c:bb:47:ec:95:", "4c:bb:47:ec:94:")


NODES = [
    fires("node.unreachable", "spark-worker did not answer.*ansible.builtin.ping", worker=(silent,)),
    quiet("node.unreachable", hangs("nvidia-smi")),
    fires(
        "node.facts_incomplete",
        r"Unknown on spark-head: the available memory and the total memory. Probes: meminfo unavailable",
        unrecorded("/proc/meminfo"),
    ),
    fires("node.facts_incomplete", r"the ports of the fabric and the addresses. Probes: ip_addr timeout", hangs("ip", "-j", "-s", "addr")),
    fires(
        "node.facts_incomplete",
        r"Unknown on spark-head: the models in the Hugging Face cache and the free disk space. Probes: df timeout",
        hangs("df"),
        hangs("find", "-L", "/home/user/.cache/huggingface"),
    ),
    # A finding of its own says more about it.
    quiet("node.facts_incomplete", hangs("nvidia-smi")),
    quiet("node.facts_incomplete", hangs("ip", "-j", "-s", "addr"), alone=True),
    fires("node.same_machine", "spark-head and spark-worker are one machine", worker=(first_machine,)),
    quiet("node.same_machine", worker=(FIRST_KEY, SAME_NAME)),
    fires("ssh.same_host_key", "have the same SSH host key.*dpkg-reconfigure openssh-server", worker=(FIRST_KEY,)),
    quiet("ssh.same_host_key", worker=(FIRST_KEY, first_machine)),
    quiet("ssh.same_host_key", worker=(unrecorded("/etc/ssh"),)),
    fires("node.same_hostname", "call themselves spark-aa10", worker=(SAME_NAME,)),
    quiet("node.same_hostname", worker=(SAME_NAME, first_machine)),
    fires("node.loopback", "Our session arrives at 127.0.0.1 of spark-head.*gb10_api_host", rewritten(ENVIRON, "192.168.1.163", "127.0.0.1")),
    quiet("node.loopback", rewritten(ENVIRON, "192.168.1.163", "127.0.0.1"), alone=True),
    quiet("node.loopback", rewritten(ENVIRON, "SSH_CONNECTION=", "NO_CONNECTION=")),
    fires("user.differs", "user on spark-head and aurora on spark-worker", worker=(AURORA,)),
    quiet("user.differs", worker=(answers("id", out="uid=1002(user) gid=1001(user) groups=1001(user),999(docker)\n"),)),
    fires("time.skew", r"clock of spark-worker is about 300 s ahead of that of spark-head", live(1777973069.0), worker=(live(1777973369.0),)),
    quiet("time.skew", live(1777973069.0), worker=(live(1777973089.0),)),
    # Recordings are of different days.
    quiet("time.skew", python(epoch=1777000000.0)),
    fires("time.unsynchronized", "Nobody synchronizes the clock of spark-head", python(synchronized=False)),
    quiet("time.unsynchronized", python(synchronized=None)),
    fires(
        "deployment.others",
        "spark-head has spark-vllm-docker",
        holds("/home/user/spark-vllm-docker/run-cluster-node.sh", ""),
        holds("/home/user/spark-vllm-docker/launch-cluster.sh", ""),
        holds("/home/user/spark-vllm-docker/.git/config", ""),
    ),
    quiet("deployment.others", holds("/home/user/models/readme", "")),
    fires("platform.architecture", "spark-head is x86_64", answers("uname", out="x86_64\n")),
    quiet("platform.architecture", absent("uname")),
    fires(
        "platform.not_gb10",
        "Standard PC, not a GB10",
        holds(f"{OUTSIDE_LAB}/product_family", "\n"),
        holds(f"{OUTSIDE_LAB}/product_name", "Standard PC\n"),
        rewritten("/proc/driver/nvidia/gpus/000f:01:00.0/information", "GB10", "T4"),
        edited("GB10", "T4", "nvidia-smi", "--query-gpu="),
    ),
    # One vendor's firmware has another name for the GPU: the family says it.
    quiet("platform.not_gb10", edited("NVIDIA GB10", "NVIDIA JMJWOA-Generic-GPU", "nvidia-smi", "--query-gpu=")),
    fires("python.requests_missing", "/usr/bin/python3 on spark-head has no package requests", python(requests=False)),
    quiet("python.requests_missing", absent("python3", "-c")),
    fires("python.too_old", "is 3.8.10", python(version="3.8.10")),
    quiet("python.too_old", python(version="3.9.2")),
]

DRIFT = [
    fires(
        "drift.driver",
        "spark-head 580.95.05 and spark-worker 580.142",
        rewritten("/proc/driver/nvidia/version", DRIVER, "580.95.05"),
        smi(driver="580.95.05"),
    ),
    quiet("drift.driver", hangs("nvidia-smi"), unrecorded("/proc/driver/nvidia/version")),
    fires(
        "drift.kernel",
        "spark-head 6.17.0-1021-nvidia and spark-worker 6.17.0-1014-nvidia",
        rewritten("/proc/sys/kernel/osrelease", KERNEL, "6.17.0-1021-nvidia"),
    ),
    quiet("drift.kernel", unrecorded("/proc/sys/kernel/osrelease")),
    fires(
        "drift.ota", "spark-head 7.4.0 and spark-worker 7.3.1", rewritten("/etc/dgx-release", 'DGX_OTA_VERSION="7.3.1"', 'DGX_OTA_VERSION="7.4.0"')
    ),
    quiet("drift.ota", lacks("/etc/dgx-release")),
    fires("drift.docker", "spark-head 28.5.1 and spark-worker 29.2.1", docker("28.5.1")),
    quiet("drift.docker", both=(docker("28.5.1"),)),
    fires(
        "drift.toolkit",
        "spark-head 1.18.2 and spark-worker 1.19.0",
        answers("nvidia-ctk", "--version", out="NVIDIA Container Toolkit CLI version 1.18.2\n"),
    ),
    quiet("drift.toolkit", absent("nvidia-ctk", "--version")),
    fires(
        "drift.toolkit_mode",
        "spark-head legacy and spark-worker auto.*never switched",
        holds("/etc/nvidia-container-runtime/config.toml", '[nvidia-container-runtime]\nmode = "legacy"\n'),
    ),
    quiet("drift.toolkit_mode", both=(holds("/etc/nvidia-container-runtime/config.toml", '[nvidia-container-runtime]\nmode = "legacy"\n'),)),
]

DEPLOYMENT = [
    fires("deployment.world_size", "makes 2 ranks .* has 1 node with 1 GPU in all", alone=True, overrides={"tensor_parallel": 2}),
    quiet("deployment.world_size", hangs("nvidia-smi"), overrides={"tensor_parallel": 4}),
    fires("deployment.nodes", "made for 4 nodes, the group has 2", overrides={"nodes": 4}),
    quiet("deployment.nodes", worker=(silent,)),
    fires("deployment.backend", "without Ray", alone=True),
    quiet("deployment.backend", alone=True, overrides={**SINGLE, "backend": "mp"}),
    fires("api.no_key", "everyone who can reach", api_key=False),
    quiet("api.no_key", api_key=True),
    fires("port.taken", r"8000 of spark-head.* in use by nginx \(pid 99\)", listening(8000, who='users:(("nginx",pid=99,fd=6))')),
    fires("port.taken", "a process of another user", listening(8000)),
    fires("port.taken", r"perhaps of .*\(vllm_node\)", listening(8000), containers(container())),
    fires("port.taken", "in use by container web", listening(8000), containers(container("web", ports={"8000/tcp": {}}))),
    fires(
        "port.taken",
        "process llama-server",
        listening(8000, who='users:(("llama-server",pid=99,fd=6))'),
        gpu_users((99, "/usr/local/bin/llama-server", 900)),
    ),
    fires(
        "port.taken",
        "in use by container vllm_node",
        listening(8000, who='users:(("httpd",pid=99,fd=6))'),
        containers(container()),
        holds("/proc/99/cgroup", f"0::/system.slice/docker-{container()['Id']}.scope\n"),
    ),
    fires("port.taken", "needed for Ray", listening(6379, "192.168.200.12")),
    fires("port.taken", "the meeting of the ranks", listening(29501), backend="mp"),
    fires("port.taken", "Port 9000", listening(9000), alone=True, api_port=9000),
    quiet("port.taken", listening(8000), containers(container("gb10-vllm", labels=OURS))),
    quiet(
        "port.taken",
        listening(8000, who='users:(("vllm",pid=4711,fd=6))'),
        containers(container("gb10-vllm", labels={"gb10.deployment": "x"})),
        gpu_users((4711, "VLLM::EngineCore", 900)),
    ),
    quiet("port.taken", listening(8000), containers(container()), reclaim=["vllm_node"]),
    quiet("port.taken", listening(8000, "127.0.0.1")),
    quiet("port.taken", listening(8001)),
    quiet("port.taken", worker=(listening(8000),)),
]

CASES = [*NODES, *DRIFT, *DEPLOYMENT]
