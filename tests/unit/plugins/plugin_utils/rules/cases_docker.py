# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker and the containers that are there."""

from __future__ import annotations

import json

from healthy import container, containers, gpu_users
from replay import Patch, absent, all_of, answers, edited, hangs, holds, lacks, rows
from stories import fires, quiet

DENIED = "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock\n"
NOT_RUNNING = "failed to connect to the docker API at unix:///var/run/docker.sock: connect: no such file or directory\n"
SYSTEMCTL = ("systemctl", "show")
OURS = {"gb10.deployment": "x"}
INFO = ("docker", "info")


def engine_says(error: str) -> Patch:
    """What every question to the engine is answered with."""
    return all_of(
        *(answers("docker", word, rc=1, err=error) for word in ("ps", "image", "volume", "container")),
        answers("docker", "info", rc=1, out=json.dumps({"ServerVersion": "", "ServerErrors": [error.strip()]}), err=error),
    )


def socket(words: str) -> Patch:
    """What there is at the socket's place."""
    return answers("find", "-L", "/var/run/docker.sock", out=words)


def group(members: str, session: bool = False) -> Patch:
    """Members of the group docker, and whether this session has it."""
    groups = "1000(user),27(sudo)" + (",999(docker)" if session else "")
    return all_of(
        answers("getent", "group", "docker", out=f"docker:x:999:{members}\n"), answers("id", out=f"uid=1000(user) gid=1000(user) groups={groups}\n")
    )


def toolkit(version: str, mode: str = "auto") -> Patch:
    """The container toolkit."""
    return all_of(
        answers("nvidia-ctk", "--version", out=f"NVIDIA Container Toolkit CLI version {version}\n"),
        holds("/etc/nvidia-container-runtime/config.toml", f'[nvidia-container-runtime]\nmode = "{mode}"\n'),
    )


REFUSED = all_of(engine_says(DENIED), socket("exists"))
NCCL = ("NCCL_SOCKET_IFNAME=enp1s0f1np1",)
NO_TOOLKIT = all_of(absent("nvidia-ctk", "--version"), lacks("/etc/nvidia-container-runtime/config.toml"))

CASES = [
    fires(
        "docker.unavailable",
        "systemctl enable --now docker",
        engine_says(NOT_RUNNING),
        edited("Id=docker.service\nLoadState=loaded\nActiveState=active", "Id=docker.service\nLoadState=loaded\nActiveState=inactive", *SYSTEMCTL),
        answers("find", "-L", "/var/run/docker.sock", rc=1, err="find: '/var/run/docker.sock': No such file or directory\n"),
    ),
    fires("docker.unavailable", "does not answer.*systemctl restart docker", *(hangs("docker", word) for word in ("info", "ps", "image", "volume"))),
    fires("docker.unavailable", "Install Docker", *(absent("docker", word) for word in ("info", "ps", "image", "volume"))),
    quiet("docker.unavailable", REFUSED, group("")),
    quiet("docker.unavailable"),
    fires("docker.group", "usermod -aG docker user", REFUSED, group("")),
    fires("docker.group", "user may not talk to Docker", REFUSED, absent("getent", "group", "docker")),
    quiet("docker.group", REFUSED, group("user")),
    # In no group, and welcome all the same (root, or a socket of one's own).
    quiet("docker.group", group("")),
    fires("docker.session_stale", "reset_connection.*log out and in again", REFUSED, group("user")),
    quiet("docker.session_stale", REFUSED, group("")),
    quiet("docker.session_stale", group("user")),
    fires("docker.socket_denied", "refuses user, who is in the group", REFUSED, group("user", session=True)),
    quiet("docker.socket_denied", REFUSED, group("user")),
    fires("docker.name_taken", r"a container gb10-ray \(image vllm-node:latest\)", containers(container("gb10-ray"))),
    quiet("docker.name_taken", containers(container("gb10-ray", labels=OURS))),
    fires("docker.no_gpu", "apt-get install nvidia-container-toolkit", NO_TOOLKIT, lacks("/etc/cdi"), alone=True),
    # A stock machine: the toolkit, and no runtime of that name.
    quiet("docker.no_gpu", lacks("/etc/cdi")),
    quiet("docker.no_gpu", NO_TOOLKIT),
    # Nobody asked for the tool.
    quiet(
        "docker.no_gpu",
        lacks("/etc/nvidia-container-runtime"),
        lacks("/etc/cdi"),
        answers("nvidia-ctk", "--version", rc=127, err="nvidia-ctk: not in the recording"),
    ),
    quiet(
        "docker.no_gpu", NO_TOOLKIT, lacks("/etc/cdi"), rows(lambda info: info["Runtimes"].update(nvidia={"path": "nvidia-container-runtime"}), *INFO)
    ),
    fires("docker.toolkit_old", "1.17.8 in legacy mode", both=(toolkit("1.17.8", "legacy"),)),
    quiet("docker.toolkit_old", toolkit("1.17.8")),
    quiet("docker.toolkit_old", toolkit("1.19.0", "legacy")),
    fires("docker.restart_loop", r"vllm_node \(35 times\).*--restart=on-failure:3 vllm_node", containers(container(restarts=35))),
    fires("docker.restart_loop", r"\(3 times\)", containers(container(restarts=3, running=False, status="restarting"))),
    quiet("docker.restart_loop", containers(container(restarts=2))),
    quiet("docker.restart_loop", containers(container(restarts=5, running=False))),
    fires("docker.privileged", "vllm_node of spark-head runs privileged", containers(container(Privileged=True))),
    quiet("docker.privileged", containers(container(Privileged=True, running=False))),
    fires("docker.shm_large", r"vllm_node \(64.0 GiB\)", containers(container(ShmSize=64 * 2**30))),
    quiet("docker.shm_large", containers(container(ShmSize=64 * 2**30, IpcMode="host"))),
    quiet("docker.shm_large", containers(container(ShmSize=16 * 2**30))),
    fires("docker.memory_limit", r"vllm_node \(64.0 GiB\) of spark-head has a memory limit", containers(container(Memory=64 * 2**30))),
    quiet("docker.memory_limit", containers(container(Memory=0))),
    fires(
        "docker.auto_remove",
        "vllm_node of spark-head was started with --rm",
        containers(container(AutoRemove=True)),
        gpu_users((4711, "VLLM::EngineCore", 900)),
    ),
    quiet("docker.auto_remove", containers(container(AutoRemove=True, running=False))),
    quiet("docker.auto_remove", containers(container(AutoRemove=True, ports={"8001/tcp": {}})), reclaim=["vllm_node"]),
    fires("docker.no_rdma", "vllm_node of spark-head has variables of NCCL and no /dev/infiniband", containers(container(env=NCCL))),
    quiet("docker.no_rdma", containers(container(env=NCCL, Devices=[{"PathOnHost": "/dev/infiniband"}]))),
    quiet("docker.no_rdma", containers(container())),
    quiet("docker.no_rdma", containers(container(env=NCCL)), alone=True),
    fires(
        "service.not_enabled",
        "systemctl enable docker",
        edited("SubState=running\nUnitFileState=enabled", "SubState=running\nUnitFileState=disabled", *SYSTEMCTL),
    ),
    quiet("service.not_enabled", edited("UnitFileState=disabled", "UnitFileState=static", *SYSTEMCTL)),
    fires(
        "service.failed",
        "gb10-ray.service of spark-head has failed",
        edited(
            "Id=containerd.service\nLoadState=loaded\nActiveState=active", "Id=gb10-ray.service\nLoadState=loaded\nActiveState=failed", *SYSTEMCTL
        ),
    ),
    quiet(
        "service.failed",
        edited(
            "Id=containerd.service\nLoadState=loaded\nActiveState=active", "Id=containerd.service\nLoadState=loaded\nActiveState=failed", *SYSTEMCTL
        ),
    ),
]
