# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU and the kernel."""

from __future__ import annotations

from healthy import ALL_CLEAR, DRIVER, KERNEL, SMI, smi
from replay import GIB, Patch, absent, all_of, answers, hangs, holds, lacks, meminfo, rewritten
from stories import fires, quiet

VERSION = "/proc/driver/nvidia/version"
PROPRIETARY = "NVRM version: NVIDIA UNIX aarch64 Kernel Module  580.142  Mon Mar  9 18:32:43 UTC 2026\n"
LIBCUDA = ("readlink", "/usr/lib/aarch64-linux-gnu/libcuda.so.1")
LOG = ("journalctl", "-k", "-b", "0")
AER = "/sys/bus/pci/devices/0000:01:00.1/aer_dev_fatal"
NEW = "7.0.0-1019-nvidia"
#: What nvidia-smi prints with exit code 18, once without a GPU in it and once for each of its commands.
MISMATCH = answers("nvidia-smi", out="Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159\n", rc=18)
NO_SMI = all_of(*(answers("nvidia-smi", option, rc=9, err="No devices") for option in ("--query-gpu=", "--query-compute-apps=", "--version")))
NO_DEVICES = all_of(
    answers(*SMI, out="No devices were found\n", rc=6), answers("nvidia-smi", "--query-compute-apps=", out="No devices were found\n", rc=6)
)


def boot(*releases: str, link: str | None = None) -> Patch:
    """What /boot holds, and what its link points at."""
    lines = [f"vmlinuz-{release}\t\n" for release in releases] + ([f"vmlinuz\tvmlinuz-{link}\n"] if link else [])
    return answers("find", "/boot", out="".join(lines))


def log(*lines: str) -> Patch:
    """The kernel log of this boot."""
    return answers(*LOG, out=ALL_CLEAR + "".join(f"{line}\n" for line in lines))


XID_79 = "NVRM: Xid (PCI:000f:01:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
XID_13 = "NVRM: Xid (PCI:000f:01:00): 13, pid=4711, name=python3, Graphics Exception: Illegal Instruction Parameter"

CASES = [
    fires("gpu.absent", "spark-head has no GPU", NO_DEVICES),
    fires("gpu.absent", "has no GPU", absent("nvidia-smi"), lacks(VERSION), lacks("/proc/driver/nvidia/gpus")),
    # nvidia-smi has no figure for unified memory: there is a GPU all the same.
    quiet("gpu.absent", smi(memory="[N/A]")),
    quiet("gpu.absent", smi(memory="[Not Supported]")),
    # A driver that does not fit is the cause, and the only finding.
    quiet("gpu.absent", MISMATCH, answers(*LIBCUDA, out="libcuda.so.580.159.03\n")),
    fires("gpu.unreachable", r"does not answer: nvidia_smi timeout", hangs("nvidia-smi")),
    fires("gpu.unreachable", "does not answer", NO_SMI),
    quiet("gpu.unreachable", MISMATCH),
    quiet("gpu.unreachable", hangs("nvidia-smi"), holds(VERSION, PROPRIETARY)),
    fires("gpu.driver_mismatch", r"module 580.142, libraries 580.159.03", MISMATCH, answers(*LIBCUDA, out="libcuda.so.580.159.03\n")),
    fires("gpu.driver_mismatch", "sudo reboot", answers(*LIBCUDA, out="libcuda.so.580.159.03\n")),
    fires("gpu.driver_mismatch", "is not the one that is installed, so nothing", MISMATCH, absent(*LIBCUDA)),
    quiet("gpu.driver_mismatch", hangs("nvidia-smi")),
    quiet("gpu.driver_mismatch", absent(*LIBCUDA)),
    fires("gpu.proprietary_module", "proprietary NVIDIA kernel module", holds(VERSION, PROPRIETARY)),
    quiet("gpu.proprietary_module", lacks(VERSION)),
    fires("gpu.cdi_stale", r"nvidia.yaml \(for 580.95.05\).*nvidia-ctk cdi generate", holds("/etc/cdi/nvidia.yaml", "libcuda.so.580.95.05\n")),
    quiet("gpu.cdi_stale", holds("/etc/cdi/nvidia.yaml", f"libcuda.so.{DRIVER}\n")),
    quiet("gpu.cdi_stale", lacks("/etc/cdi")),
    quiet("gpu.cdi_stale", holds("/etc/cdi/nvidia.yaml", "libcuda.so.580.95.05\n"), answers(*LIBCUDA, out="libcuda.so.580.159.03\n")),
    fires("gpu.memory_untrusted", "7.9 GiB, though it shares all 121.6 GiB", smi(memory="8128 MiB")),
    quiet("gpu.memory_untrusted", smi(memory="[N/A]")),
    quiet("gpu.memory_untrusted", smi(memory="124546 MiB")),
    fires("gpu.low_power", r"96 % busy at 799 MHz and 19.5 W", smi(utilization=96, power=19.5, clock=799)),
    quiet("gpu.low_power", smi(utilization=0, power=4.3, clock=208)),
    quiet("gpu.low_power", smi(utilization=96, power=62.0, clock=2418)),
    fires("gpu.xid", "Xid 79", log(XID_79, XID_13)),
    quiet("gpu.xid", log(XID_13)),
    quiet("gpu.xid", answers(*LOG, out=ALL_CLEAR, err="Hint: You are currently not seeing messages from other users and the system.\n")),
    fires("gpu.xid_of_program", r"\(Xid 13\)", log(XID_13)),
    quiet("gpu.xid_of_program", log(XID_79, XID_13)),
    fires("kernel.kho_cma", r"CmaFree \(9.0 GiB\).*128.0 MiB.*kho=off", meminfo(CmaTotal=128 * 2**20, CmaFree=9 * GIB)),
    quiet("kernel.kho_cma", meminfo(CmaTotal=128 * 2**20, CmaFree=100 * 2**20)),
    # By the mechanism, not by the version: a mended 7.x kernel passes, and so does kho=off.
    quiet("kernel.kho_cma", meminfo(CmaTotal=0, CmaFree=0), both=(rewritten("/proc/sys/kernel/osrelease", KERNEL, NEW), boot(NEW))),
    quiet("kernel.kho_cma", meminfo(CmaTotal=128 * 2**20, CmaFree=9 * GIB), alone=True),
    fires("kernel.next_series", rf"runs {KERNEL} and boots {NEW} next", boot(KERNEL, NEW, link=NEW)),
    fires("kernel.next_series", "apt-mark hold", boot(KERNEL, NEW)),
    quiet("kernel.next_series", boot(KERNEL, NEW, link=KERNEL)),
    quiet("kernel.next_series", boot(KERNEL, "6.17.0-1021-nvidia")),
    fires("kernel.next_boot", "boots 6.17.0-1021-nvidia next", boot(KERNEL, "6.17.0-1021-nvidia")),
    quiet("kernel.next_boot", boot(KERNEL, NEW)),
    quiet("kernel.next_boot", boot("6.17.0-1008-nvidia", KERNEL)),
    fires(
        "kernel.reboot_required",
        r"waits for a reboot \(because of libc6 and dbus\)",
        holds("/run/reboot-required", "*** System restart required ***\n"),
        holds("/run/reboot-required.pkgs", "libc6\ndbus\nlibc6\n"),
    ),
    # The kernel says more about it.
    quiet("kernel.reboot_required", holds("/run/reboot-required", "*** System restart required ***\n"), boot(KERNEL, NEW)),
    quiet("kernel.reboot_required", lacks("/run/reboot-required")),
    fires(
        "kernel.candidate",
        "would bring kernel 7.0.0-1019.19",
        answers("apt-cache", "policy", out="linux-nvidia-hwe-24.04:\n  Installed: 6.17.0-1014.14\n  Candidate: 7.0.0-1019.19\n"),
    ),
    quiet(
        "kernel.candidate",
        answers("apt-cache", "policy", out="linux-nvidia-hwe-24.04:\n  Installed: 6.17.0-1014.14\n  Candidate: 6.17.0-1021.21\n"),
    ),
    fires(
        "kernel.unclean_boot",
        "went down without a shutdown",
        answers("journalctl", "-b", "-1", out="CRON[1]: session opened\n(no line of a shutdown)\n"),
    ),
    quiet("kernel.unclean_boot", answers("journalctl", "-b", "-1", rc=1, err="Data from the specified boot (-1) is not available\n")),
    quiet("kernel.unclean_boot", answers("journalctl", "-b", "-1", rc=1, err="No journal files were opened due to insufficient permissions.\n")),
    fires(
        "kernel.crash_records",
        "2 records of a kernel crash",
        answers("find", "/sys/fs/pstore", out="/sys/fs/pstore/dmesg-efi-1\n/sys/fs/pstore/dmesg-efi-2\n"),
    ),
    quiet("kernel.crash_records", answers("find", "/sys/fs/pstore", rc=1, err="find: '/sys/fs/pstore': Permission denied\n")),
    fires("kernel.aer_fatal", "2 fatal PCIe errors", holds(AER, "DLP 2\nTOTAL_ERR_FATAL 2\n")),
    fires(
        "kernel.aer_fatal",
        "1 fatal PCIe error ",
        log("mlx5_core 0000:01:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer"),
    ),
    # The adapter's warning about 27 W is on healthy machines too.
    quiet("kernel.aer_fatal", log("mlx5_core 0000:01:00.0: Detected insufficient power on the PCIe slot (27W).")),
    fires(
        "kernel.nv_no_memory",
        "NV_ERR_NO_MEMORY 1 time since",
        log("NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)"),
    ),
    quiet("kernel.nv_no_memory", log(XID_13)),
]
