# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker: whether it answers us, whether it can hand out the GPU, and whether the names we use are free.

Unit, socket and group are three facts, because "start Docker" is no help to somebody whose session lacks a group.
"""

from __future__ import annotations

from collections.abc import Iterator

from .base import Case, case, node_rule, rule
from .context import Context, Node, is_managed
from .versions import version

_DENIED = "permission denied"


def _reason(node: Node) -> str:
    """Why Docker did not answer; empty if it did or if that is unknown."""
    return str(node.get("docker.reason") or "no reason given") if node.get("docker.available") is False else ""


def _denied(node: Node) -> bool:
    """Whether Docker refuses this user."""
    return _DENIED in _reason(node).lower() or (bool(_reason(node)) and node.get("docker.socket.accessible") is False and _there(node))


def _there(node: Node) -> bool:
    """Whether there is a socket that somebody may use."""
    return node.get("docker.socket.exists") is True and node.get("docker.unit") in ("active", None)


@node_rule(
    "docker.unavailable",
    "block",
    "The Docker engine does not answer.",
    source="https://github.com/NVIDIA/NemoClaw/issues/1574",
)
def unavailable(context: Context, node: Node) -> Case | None:
    """Each node whose engine does not answer for another reason than missing rights."""
    reason = _reason(node)
    if not reason or _denied(node):
        return None
    end = "" if reason.endswith((".", "?")) else "."
    if "not found" in reason:
        remedy = f"Install Docker on {node.name}: `sudo apt-get install docker-ce`, which DGX OS has a source for."
    elif node.get("docker.unit") == "active":
        remedy = (
            f"Its service is active and does not answer: `sudo journalctl -u docker -n 50` on {node.name} says why; "
            "`sudo systemctl restart docker` restarts all containers with it."
        )
    else:
        remedy = f"On {node.name}: `systemctl status docker`, then `sudo systemctl enable --now docker`."
    return case(
        node,
        f"Docker does not answer on {node.name}: {reason}{end}",
        "The Docker engine runs and answers.",
        remedy,
        "docker.available",
        "docker.reason",
        "docker.unit",
        "docker.socket",
    )


@node_rule(
    "docker.group",
    "block",
    "The user is not in the group docker.",
    source="https://github.com/NVIDIA/NemoClaw/issues/1574",
)
def group(context: Context, node: Node) -> Case | None:
    """Each node whose engine refuses our user, who is no member (or nobody could say)."""
    if not _denied(node) or node.get("docker.group.member") is True:
        return None
    user = node.get("user.name") or "the user"
    return case(
        node,
        f"{user} may not talk to Docker on {node.name}, so its containers and images are unknown.",
        f"{user} is in the group docker, in the session that Ansible uses.",
        f"On {node.name}: `sudo usermod -aG docker {user}`, then end open sessions (Ansible keeps one for two minutes) and run again.",
        "docker.available",
        "docker.reason",
        "docker.group",
        "user.groups",
    )


@node_rule(
    "docker.session_stale",
    "block",
    "The user is in the group docker, but this session was opened before that.",
    source="https://github.com/geerlingguy/internet-pi/issues/5",
)
def session_stale(context: Context, node: Node) -> Case | None:
    """Each node whose account has the group and whose session has not."""
    if not _denied(node) or node.get("docker.group.member") is not True or node.get("docker.group.in_session") is not False:
        return None
    user = node.get("user.name") or "the user"
    return case(
        node,
        f"{user} is in the group docker on {node.name}, and the session that Ansible uses is older than that.",
        "The session has the group.",
        f"Let Ansible open a new session: `ansible {node.name} -m ansible.builtin.meta -a reset_connection`, or wait two minutes and run again. "
        "On the machine itself: log out and in again.",
        "docker.group",
        "docker.reason",
    )


@node_rule(
    "docker.socket_denied",
    "block",
    "Docker's socket refuses a user who is in its group.",
    source="https://github.com/NVIDIA/NemoClaw/issues/1574",
)
def socket_denied(context: Context, node: Node) -> Case | None:
    """Each node whose session has the group and is refused all the same: the socket is not the group's."""
    if not _denied(node) or node.get("docker.group.member") is not True or node.get("docker.group.in_session") is not True:
        return None
    path = node.get("docker.socket.path") or "/var/run/docker.sock"
    return case(
        node,
        f"{path} of {node.name} refuses {node.get('user.name') or 'the user'}, who is in the group docker.",
        "The socket belongs to the group docker, which may read and write.",
        f'On {node.name}: `ls -l {path}`, then `sudo systemctl restart docker.socket`; look for a "group" in /etc/docker/daemon.json.',
        "docker.socket",
        "docker.group",
    )


@rule(
    "docker.name_taken",
    "block",
    "A container that is not ours has a name that the plan uses.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/72",
)
def name_taken(context: Context) -> Iterator[Case]:
    """Each planned container whose name a foreign container has. Nothing is ever deleted that we did not create."""
    for node in context.reachable:
        for planned in context.work[node.name]["containers"]:
            existing = node.container(planned["name"])
            if existing is not None and not is_managed(existing):
                yield case(
                    node,
                    f"{node.name} has a container {planned['name']} (image {existing.get('image')}) that this collection did not make.",
                    f"The name {planned['name']} is free, or its container carries our labels.",
                    f"On {node.name}: `docker rename {planned['name']} {planned['name']}-old`, or remove it if you do not need it.",
                    "docker.containers",
                )


@node_rule(
    "docker.no_gpu",
    "warn",
    "Docker seems to have no way to give a container the GPU.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/issues/26",
)
def no_gpu(context: Context, node: Node) -> Case | None:
    """Each node without the runtime, without a CDI specification, and where neither tool nor configuration of the toolkit is there.

    A stock machine has the toolkit and no runtime of that name, which is enough. Its hook cannot be seen, so this is no certainty.
    """
    runtimes, cdi = node.get("docker.runtimes"), node.get("gpu.cdi")
    if runtimes is None or "nvidia" in runtimes or cdi is None or cdi or node.get("docker.toolkit") is not None or not _no_toolkit(node):
        return None
    return case(
        node,
        f"Docker on {node.name} has neither the nvidia runtime nor a CDI specification, and the NVIDIA Container Toolkit is not installed.",
        "The NVIDIA Container Toolkit is installed.",
        f"On {node.name}: `sudo apt-get install nvidia-container-toolkit`, then `sudo nvidia-ctk runtime configure --runtime=docker`.",
        "docker.runtimes",
        "docker.toolkit",
        "gpu.cdi",
    )


def _no_toolkit(node: Node) -> bool:
    """Whether the probes found neither the toolkit's tool nor its configuration. That nobody asked is not that."""
    tool, configuration = (str(node.get(f"probes.{name}.reason") or "") for name in ("container_toolkit", "container_toolkit_mode"))
    return "not found" in tool and "No such file" in configuration


@node_rule(
    "docker.toolkit_old",
    "info",
    "With this toolkit, containers may lose the GPU when systemd reloads.",
    source="https://github.com/NVIDIA/nvidia-container-toolkit/issues/1227",
)
def toolkit_old(context: Context, node: Node) -> Case | None:
    """Each node with a toolkit before 1.18 in legacy mode. It is said, never switched: reports disagree on which mode is the stable one."""
    found = version(node.get("docker.toolkit"))
    if found is None or found >= (1, 18) or node.get("docker.toolkit_mode") != "legacy":
        return None
    return case(
        node,
        f"{node.name} has NVIDIA Container Toolkit {node.get('docker.toolkit')} in legacy mode.",
        "From 1.18 on, a reload of systemd does not take the GPU from running containers (`Failed to initialize NVML: Unknown Error`).",
        f"Do not run `systemctl daemon-reload` on {node.name} while a model is served, or update the toolkit on all nodes alike.",
        "docker.toolkit",
        "docker.toolkit_mode",
    )
