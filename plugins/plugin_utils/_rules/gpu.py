# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU: whether there is one, and whether it answers. How much memory it has is another question (it is unified)."""

from __future__ import annotations

from collections.abc import Mapping

from .base import Case, case, node_rule
from .context import Context, Node, listing, sized

#: Numbers of Xid messages that a program causes and the GPU survives: https://docs.nvidia.com/deploy/xid-errors/
_OF_PROGRAMS = (13, 31, 43, 45, 68)
_MISMATCH = "driver/library version mismatch"
#: A busy GPU below all three of these is stuck: percent, MHz, W.
_BUSY, _SLOW_CLOCK, _LOW_POWER = 90, 1200, 30


def driver(node: Node) -> str | None:
    """The version of the driver that is loaded."""
    found = node.get("gpu.module.version") or node.get("gpu.driver")
    return None if found is None else str(found)


@node_rule(
    "gpu.absent",
    "block",
    "A node has no GPU.",
    source="https://github.com/unslothai/unsloth/issues/10691",
    explained_by=("gpu.driver_mismatch", "gpu.proprietary_module"),
)
def absent(context: Context, node: Node) -> Case | None:
    """Each node that says it has none."""
    if node.get("gpu.present") is not False:
        return None
    return case(
        node,
        f"{node.name} has no GPU that its driver could find.",
        "Every node has a GB10.",
        f"Run `nvidia-smi -L` on {node.name}; if it says that no device was found, look at `dmesg | grep -i nvrm` and reboot the machine.",
        "gpu.present",
    )


@node_rule(
    "gpu.unreachable",
    "block",
    "There is a GPU, but the driver does not answer.",
    source="https://github.com/Start9Labs/start-technologies/pull/3693",
    explained_by=("gpu.driver_mismatch", "gpu.proprietary_module"),
)
def unreachable(context: Context, node: Node) -> Case | None:
    """Each node with a GPU of which nothing can be learnt: a hung nvidia-smi, a driver that fell over."""
    reason = failed_probe(node)
    present = node.get("gpu.present")
    if not (present is True and not node.rows("gpu.devices")) and not (present is None and reason):
        return None
    return case(
        node,
        f"The GPU of {node.name} does not answer: {reason or 'no device is listed'}.",
        "nvidia-smi lists the GPU within its time limit.",
        f"Run `nvidia-smi` on {node.name}. A driver that hangs needs a reboot; `dmesg | grep -i nvrm` says what it met.",
        "gpu.present",
        "gpu.devices",
        "probes",
    )


def failed_probe(node: Node) -> str | None:
    """Why a probe of nvidia-smi failed, None if none did."""
    probes = node.get("probes")
    if isinstance(probes, Mapping):
        for name, row in sorted(probes.items()):
            if "nvidia_smi" in str(name) and isinstance(row, Mapping) and row.get("status") in ("failed", "timeout"):
                return f"{name} {row.get('status')} ({row.get('reason') or 'no reason given'})"
    return None


@node_rule(
    "gpu.driver_mismatch",
    "block",
    "The loaded driver is not the installed one: it was updated under a running system.",
    source="https://github.com/pando85/homelab/pull/4110",
)
def driver_mismatch(context: Context, node: Node) -> Case | None:
    """Each node whose kernel module and libraries are of two versions, by their versions or by what nvidia-smi says."""
    module, library = node.get("gpu.module.version"), node.get("gpu.library")
    differ = module is not None and library is not None and module != library
    if not differ and _MISMATCH not in (failed_probe(node) or "").lower():
        return None
    which = f" (module {module}, libraries {library})" if differ else ""
    return case(
        node,
        f"The driver that runs on {node.name} is not the one that is installed{which}, so nothing can use the GPU.",
        "The loaded kernel module and the installed libraries are of one version.",
        f"Reboot {node.name}: `sudo reboot`. Nothing has to be installed again; `sudo apt-mark hold` on the nvidia packages keeps "
        "unattended upgrades from doing it again.",
        "gpu.module",
        "gpu.library",
        "probes",
    )


@node_rule(
    "gpu.proprietary_module",
    "block",
    "The proprietary kernel module is loaded, which does not drive a Blackwell GPU.",
    source="https://github.com/Start9Labs/start-technologies/pull/3693",
)
def proprietary_module(context: Context, node: Node) -> Case | None:
    """Each GB10 with the module that is not open."""
    if node.get("gpu.module.flavor") != "proprietary" or node.get("identity.gb10") is not True:
        return None
    return case(
        node,
        f"{node.name} has loaded the proprietary NVIDIA kernel module ({driver(node) or 'unknown version'}); a GB10 works with the open one only.",
        "The open kernel module is loaded.",
        f"On {node.name}: `sudo apt-get install nvidia-driver-580-open`, then reboot.",
        "gpu.module",
    )


@node_rule(
    "gpu.cdi_stale",
    "block",
    "The CDI specification names files of another driver, so containers do not get the GPU.",
    source="https://github.com/NVIDIA/nvidia-container-toolkit/issues/856",
    explained_by=("gpu.driver_mismatch",),
)
def cdi_stale(context: Context, node: Node) -> Case | None:
    """Each node with a CDI specification of another driver than the loaded one."""
    loaded = driver(node)
    stale = [row for row in node.rows("gpu.cdi") if row.get("version") is not None and loaded is not None and row.get("version") != loaded]
    if not stale:
        return None
    files = listing(f"{row.get('path')} (for {row.get('version')})" for row in stale)
    return case(
        node,
        f"{files} of {node.name} was made for another driver than {loaded}, which is loaded.",
        "The CDI specification names the libraries of the loaded driver.",
        f"On {node.name}: `sudo nvidia-ctk cdi generate --output={stale[0].get('path')}`.",
        "gpu.cdi",
        "gpu.module",
    )


@node_rule(
    "gpu.memory_untrusted",
    "info",
    "nvidia-smi gives a total for unified memory that is too small to be it.",
    source="https://github.com/unslothai/unsloth/pull/10283",
)
def memory_untrusted(context: Context, node: Node) -> Case | None:
    """Each GB10 whose GPU claims memory of its own. That there is no figure at all is normal, and no finding."""
    total = node.number("memory.total")
    claimed = [int(row["memory_total"]) for row in node.rows("gpu.devices") if isinstance(row.get("memory_total"), int)]
    if node.get("identity.gb10") is not True or total is None or not any(size < 0.9 * total for size in claimed):
        return None
    return case(
        node,
        f"nvidia-smi gives the GPU of {node.name} {sized(min(claimed))}, though it shares all {sized(total)} of the machine.",
        "The GPU of a GB10 uses the machine's memory; its own figure is a part of it, or none.",
        "Nothing has to be done: memory is counted by /proc/meminfo.",
        "gpu.devices",
        "memory.total",
    )


@node_rule(
    "gpu.low_power",
    "warn",
    "A busy GPU is stuck in a low-power state.",
    source="https://github.com/Blackwellboy/model-serving-minefield/pull/55",
)
def low_power(context: Context, node: Node) -> Case | None:
    """Each node whose GPU works hard at a low clock and little power. An idle GPU says nothing about it."""
    for row in node.rows("gpu.devices"):
        busy, clock, power = (row.get(key) for key in ("utilization", "clock", "power"))
        if busy is None or clock is None or power is None:
            continue
        if busy > _BUSY and clock < _SLOW_CLOCK and power < _LOW_POWER:
            return case(
                node,
                f"The GPU of {node.name} is {busy} % busy at {clock} MHz and {power} W: it is stuck in a low-power state, or in a kernel that hangs.",
                f"A busy GPU runs above {_SLOW_CLOCK} MHz.",
                f"If no server of {node.name} hangs, shut it down, take its power supply off the wall for a minute, and start it again; "
                "a reboot was not enough for others.",
                "gpu.devices",
            )
    return None


@node_rule(
    "gpu.xid",
    "warn",
    "The driver reported a fault of the GPU since the machine was started.",
    source="https://docs.nvidia.com/deploy/xid-errors/",
)
def xid(context: Context, node: Node) -> Case | None:
    """Each node with an Xid message that is not a program's own fault."""
    numbers = sorted(set(node.get("kernel.events.xid") or []) - set(_OF_PROGRAMS))
    if not numbers:
        return None
    return case(
        node,
        f"The kernel log of {node.name} has Xid {listing(map(str, numbers))} since the machine was started.",
        "There are no Xid messages but those that a program of the user caused.",
        f"See what happened with `sudo journalctl -k -b | grep Xid` on {node.name}; reboot it, and ask for support if it comes back.",
        "kernel.events",
    )


@node_rule(
    "gpu.xid_of_program",
    "info",
    "A program crashed on the GPU since the machine was started; the GPU survives that.",
    source="https://docs.nvidia.com/deploy/xid-errors/",
    explained_by=("gpu.xid",),
)
def xid_of_program(context: Context, node: Node) -> Case | None:
    """Each node with Xid messages that programs cause."""
    numbers = sorted(set(node.get("kernel.events.xid") or []) & set(_OF_PROGRAMS))
    if not numbers:
        return None
    return case(
        node,
        f"A program crashed on the GPU of {node.name} (Xid {listing(map(str, numbers))}).",
        "Programs do not crash; the GPU is well after this kind.",
        "Nothing has to be done.",
        "kernel.events",
    )
