# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel that runs, the one that comes next, and what it remembers. Nothing here is ever changed by us."""

from __future__ import annotations

from .base import Case, case, node_rule
from .context import Context, Node, counted, listing, sized
from .versions import version


@node_rule(
    "kernel.kho_cma",
    "block",
    "The kernel keeps memory from RDMA: kexec handover reserved it, and registering buffers fails.",
    source="https://github.com/NVIDIA/NV-Kernels/pull/591",
    several=True,
)
def kho_cma(context: Context, node: Node) -> Case | None:
    """Each node with more contiguous memory free than there is. Keyed on the mechanism, so that a mended kernel passes."""
    total, free = node.number("memory.cma_total"), node.number("memory.cma_free")
    if total is None or free is None or free <= total:
        return None
    return case(
        node,
        f"CmaFree ({sized(free)}) of {node.name} is more than CmaTotal ({sized(total)}), kernel {node.get('kernel.release') or 'unknown'}.",
        "CmaFree is at most CmaTotal. Otherwise NCCL fails late with `ibv_reg_mr_iova2 ... Cannot allocate memory`.",
        f"On {node.name}, boot a kernel of the 6.17 series, or add kho=off to the kernel command line, and reboot.",
        "memory.cma_free",
        "memory.cma_total",
        "kernel.release",
    )


def _series(release: object) -> tuple[int, ...] | None:
    """The series of a kernel: 6.17 of 6.17.0-1014-nvidia."""
    numbers = version(release)
    return None if numbers is None or len(numbers) < 2 else numbers[:2]


@node_rule(
    "kernel.next_series",
    "warn",
    "The next reboot brings a kernel of another series.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/259",
)
def next_series(context: Context, node: Node) -> Case | None:
    """Each node that boots another series next: what was proven today was proven with this one."""
    release, coming = node.get("kernel.release"), node.get("kernel.next_boot")
    here, there = _series(release), _series(coming)
    if here is None or there is None or here == there:
        return None
    return case(
        node,
        f"{node.name} runs {release} and boots {coming} next: a fault of the new series would appear at an unrelated reboot, perhaps days from now.",
        "The kernel that was tried is the one that comes back after a reboot.",
        f"Reboot {node.name} now and run recon again, or stay: `sudo apt-mark hold` on its linux-image packages, "
        f"and boot {release} from GRUB's advanced menu.",
        "kernel.release",
        "kernel.next_boot",
    )


@node_rule(
    "kernel.next_boot",
    "info",
    "The next reboot brings another kernel of the same series.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/259",
    explained_by=("kernel.next_series",),
)
def next_boot(context: Context, node: Node) -> Case | None:
    """Each node that boots another kernel next."""
    release, coming = node.get("kernel.release"), node.get("kernel.next_boot")
    if release is None or coming is None or release == coming:
        return None
    return case(
        node,
        f"{node.name} runs {release} and boots {coming} next.",
        "The kernel that was tried is the one that comes back after a reboot.",
        f"Nothing has to be done now; after the next reboot of {node.name}, run recon and verify again.",
        "kernel.release",
        "kernel.next_boot",
    )


@node_rule(
    "kernel.reboot_required",
    "info",
    "The system waits for a reboot after an upgrade.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/259",
    explained_by=("kernel.next_series", "kernel.next_boot", "gpu.driver_mismatch"),
)
def reboot_required(context: Context, node: Node) -> Case | None:
    """Each node that asks for a reboot for another reason than its kernel or its driver, which say more themselves."""
    if node.get("kernel.reboot_required") is not True:
        return None
    packages = [str(name) for name in node.get("kernel.reboot_packages") or []]
    return case(
        node,
        f"{node.name} waits for a reboot{f' (because of {listing(packages[:4])})' if packages else ''}.",
        "What is installed is what runs.",
        f"Reboot {node.name} when nothing is served: it is never done for you.",
        "kernel.reboot_required",
        "kernel.reboot_packages",
    )


@node_rule(
    "kernel.candidate",
    "info",
    "An upgrade would install a kernel of another series.",
    source="https://github.com/timothystewart6/techno-tim.github.io/pull/371",
    explained_by=("kernel.next_series",),
)
def candidate(context: Context, node: Node) -> Case | None:
    """Each node whose package sources offer another series than the one that runs."""
    release, offered = node.get("kernel.release"), node.get("kernel.candidate")
    here, there = _series(release), _series(offered)
    if here is None or there is None or here == there:
        return None
    return case(
        node,
        f"An upgrade of {node.name} would bring kernel {offered}; {release} runs.",
        "A change of the kernel's series is a decision, not a side effect.",
        "Nothing has to be done. Upgrade both nodes together, and run recon after it; `sudo apt-mark hold` on the linux-nvidia packages keeps "
        "unattended upgrades from it.",
        "kernel.candidate",
        "kernel.release",
    )


@node_rule(
    "kernel.unclean_boot",
    "warn",
    "The machine went down without a shutdown the last time.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/issues/97",
)
def unclean_boot(context: Context, node: Node) -> Case | None:
    """Each node whose journal of the boot before ends in the middle."""
    if node.get("kernel.previous_boot_clean") is not False:
        return None
    return case(
        node,
        f"{node.name} went down without a shutdown before this boot: it lost power, or was reset because it hung.",
        "A machine goes down by a shutdown. One that hangs under a model usually ran out of unified memory.",
        f"If it hung: look at `journalctl -b -1 -e` on {node.name}, and lower --gpu-memory-utilization or --max-num-batched-tokens.",
        "kernel.previous_boot_clean",
    )


@node_rule(
    "kernel.crash_records",
    "warn",
    "The firmware keeps records of a kernel crash.",
    source="https://github.com/pytorch/pytorch/issues/174358",
)
def crash_records(context: Context, node: Node) -> Case | None:
    """Each node with files in /sys/fs/pstore."""
    count = node.number("kernel.crash_records")
    if not count:
        return None
    return case(
        node,
        f"{node.name} has {counted(count, 'record')} of a kernel crash in /sys/fs/pstore.",
        "There is none.",
        f"Read them (`sudo ls -l /sys/fs/pstore /var/lib/systemd/pstore` on {node.name}), keep a copy for support, and remove them.",
        "kernel.crash_records",
    )


@node_rule(
    "kernel.aer_fatal",
    "block",
    "PCIe reported a fatal error since the machine was started.",
    source="https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/146",
)
def aer_fatal(context: Context, node: Node) -> Case | None:
    """Each node with a fatal AER message in this boot's kernel log: the adapter may be gone, and the machine may follow."""
    count = node.number("kernel.events.aer_fatal")
    if not count:
        return None
    return case(
        node,
        f"The kernel log of {node.name} has {counted(count, 'fatal PCIe error')} since the machine was started.",
        "There is none. After a fatal error of the adapter, others saw the whole machine lock up.",
        f"See which device it was with `sudo journalctl -k -b | grep -i 'AER.*fatal'` on {node.name}; shut it down, take it off power for a minute, "
        "and ask for support if it comes back. Leave AER and ASPM on.",
        "kernel.events",
    )


@node_rule(
    "kernel.nv_no_memory",
    "info",
    "The driver once got no memory. It is context, not a verdict: healthy starts log it too.",
    source="https://github.com/vllm-project/vllm/issues/56824",
)
def nv_no_memory(context: Context, node: Node) -> Case | None:
    """Each node with NV_ERR_NO_MEMORY in this boot's kernel log."""
    count = node.number("kernel.events.nv_no_memory")
    if not count:
        return None
    return case(
        node,
        f"The kernel log of {node.name} has NV_ERR_NO_MEMORY {counted(count, 'time')} since the machine was started.",
        "Reports disagree on what it means: it was seen on healthy starts, and not on one that failed.",
        "Nothing has to be done; it helps to know it if an engine failed at the same time.",
        "kernel.events",
    )
