# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unified memory: who holds it, what was left in it, and what a stop means."""

from __future__ import annotations

from healthy import ALL_CLEAR, container, containers, gpu_users
from replay import GIB, Patch, absent, all_of, answers, holds, meminfo
from stories import fires, quiet

TOTAL = 127535084 * 1024
OURS = {"gb10.deployment": "x"}
#: An engine in a container on the GPU: the process is the container's first.
PID = 4711


def held(size: int, name: str = "VLLM::EngineCore", pid: int = PID) -> Patch:
    """Somebody holds this much on the GPU, and so much less is available."""
    return all_of(gpu_users((pid, name, size // 2**20)), meminfo(MemAvailable=TOTAL - 4 * GIB - size, MemFree=TOTAL - 5 * GIB - size))


def engine(size: int = 92 * GIB, **changes: object) -> Patch:
    """An engine in a container of somebody else, with this much on the GPU."""
    return all_of(containers(container(**changes)), held(size))


CASES = [
    fires("memory.occupied", r"held by vllm_node 92.0 GiB.*\{\"gb10_reclaim\": \[\"vllm_node\"\]\}", engine()),
    fires("memory.occupied", r"VLLM::EngineCore \(pid 4711\) at least 92.0 GiB.*No container can be stopped", held(92 * GIB)),
    quiet("memory.occupied", engine(), reclaim=["vllm_node"]),
    quiet("memory.occupied", engine(2 * GIB)),
    # Ours is kept or replaced, never added to.
    quiet("memory.occupied", engine(labels=OURS)),
    # Page cache is available, whatever CUDA says of it.
    quiet("memory.occupied", meminfo(MemFree=2 * GIB, Cached=110 * GIB)),
    fires("memory.page_cache", r"116.0 GiB of the 118.0 GiB available.*drop_caches", meminfo(MemFree=2 * GIB)),
    quiet("memory.page_cache", engine()),
    quiet("memory.page_cache", meminfo(MemFree=110 * GIB)),
    fires("memory.swap", "16.0 GiB of swap, 1.0 GiB of it in use", meminfo(SwapTotal=16 * GIB, SwapFree=15 * GIB)),
    quiet("memory.swap", both=(meminfo(SwapTotal=0, SwapFree=0),)),
    fires("memory.reclaim_absent", "vlm_node in gb10_reclaim is on none", reclaim=["vlm_node"]),
    fires("memory.reclaim_absent", "old in gb10_reclaim does not run", containers(container("old", running=False)), reclaim=["old"]),
    fires("memory.reclaim_absent", "is a container of this collection", containers(container("gb10-ray", labels=OURS)), reclaim=["gb10-ray"]),
    quiet("memory.reclaim_absent", engine(), reclaim=["vllm_node"]),
    fires("memory.oom_kill", "ended 3 processes", holds("/proc/vmstat", "oom_kill 3\n")),
    fires(
        "memory.oom_kill",
        "ended 1 process for",
        answers("journalctl", "-k", "-b", "0", out=f"{ALL_CLEAR}Out of memory: Killed process 4711 (lmcache) total-vm:1kB\n"),
    ),
    quiet("memory.oom_kill", holds("/proc/vmstat", "oom_kill 0\n")),
    fires("memory.orphan_engine", r"VLLM::EngineCore \(pid 4711, 101.8 GiB\).*`kill 4711`", held(104277 * 2**20)),
    quiet("memory.orphan_engine", engine(104277 * 2**20)),
    quiet("memory.orphan_engine", held(24 * GIB, "/usr/local/bin/llama-server")),
    fires(
        "memory.unowned",
        r"6[0-9]\.\d GiB of spark-head are in use by nobody.*61.0 GiB are shared or locked memory",
        meminfo(MemAvailable=56 * GIB, MemFree=50 * GIB, Shmem=61 * GIB, Mlocked=61 * GIB),
    ),
    fires(
        "memory.unowned",
        r"30.0 GiB are files in /dev/shm.*ls -l /dev/shm",
        meminfo(MemAvailable=80 * GIB, MemFree=70 * GIB, Shmem=30 * GIB),
        answers(
            "df",
            "--block-size=1",
            "--output=fstype,size,avail,iavail,target,file",
            "/dev/shm",
            out=(f"Type 1B-blocks Avail IFree Mounted on File\ntmpfs {61 * GIB} {31 * GIB} 16000000 /dev/shm /dev/shm\n"),
        ),
    ),
    quiet("memory.unowned", engine()),
    # Who is on the GPU is not known, so nobody can say that it is nobody.
    quiet("memory.unowned", meminfo(MemAvailable=56 * GIB), answers("nvidia-smi", "--query-compute-apps=", rc=9)),
    fires("memory.tenant", r"shared with ollama \(ollama\) 3.0 GiB", held(3 * GIB, "/usr/local/bin/ollama", 99)),
    quiet("memory.tenant", held(GIB // 2, "/usr/bin/gnome-shell", 99)),
    quiet("memory.tenant", engine()),
    quiet("memory.tenant", engine(), reclaim=["vllm_node"]),
    fires("memory.class_differs", "spark-head 119.6 GiB and spark-worker 121.6 GiB", meminfo(MemTotal=125442868 * 1024)),
    quiet("memory.class_differs", meminfo(MemTotal=127500000 * 1024)),
    fires("memory.reclaim_lost", "vllm_node of spark-head was started with --rm", engine(AutoRemove=True, restart="no"), reclaim=["vllm_node"]),
    quiet("memory.reclaim_lost", engine(AutoRemove=True, restart="no")),
    quiet("memory.reclaim_lost", engine(), reclaim=["vllm_node"]),
    fires("memory.reclaim_returns", "docker update --restart=unless-stopped vllm_node", engine(restart="always"), reclaim=["vllm_node"]),
    quiet("memory.reclaim_returns", engine(restart="unless-stopped"), reclaim=["vllm_node"]),
    quiet("memory.reclaim_returns", engine(restart="always")),
    fires(
        "limits.memlock",
        "may lock 8.0 MiB",
        holds("/proc/self/limits", "Limit Soft Limit Hard Limit Units\nMax locked memory         8388608              8388608              bytes\n"),
    ),
    quiet("limits.memlock", absent("ulimit")),
]
