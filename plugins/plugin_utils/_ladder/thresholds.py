# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What numbers are worth: one table, with the reports that it rests on.

A band reaches from its floor up to the next one's. The documentation of gb10.cluster.link_ladder shows the table; a test keeps it equal.
Numbers are of machines with one cable between two: two PCIe functions (twins) of 126 Gb/s on one link of 200 Gb/s.
"""

from __future__ import annotations

from dataclasses import dataclass

PLAYBOOK = "https://github.com/NVIDIA/dgx-spark-playbooks/blob/0db7c141/nvidia/connect-two-sparks"
GUIDE = f"{PLAYBOOK}/assets/performance_benchmarking_guide.md"
POWER_CAP = "https://github.com/NVIDIA/dgx-spark-playbooks/pull/108"
LANES = "https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/pull/35"
MTU = "https://github.com/NVIDIA/dgx-spark-playbooks/issues/25"
MTU_ENDS = "https://github.com/NVIDIA/nccl/pull/2135"
SUBNETS = "https://github.com/openucx/ucx/issues/5598"
GIDS = "https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/pull/125"
DEVICES = "https://corti.com/serving-nemotron-super-120b-with-a-1m-token-context-on-a-2-node-dgx-spark-cluster/"
NCCL_BUILD = "https://github.com/NVIDIA/dgx-spark-playbooks/pull/103"
GUARDKIT = "https://github.com/guardkit/dgx-spark/blob/6450ab894f2c75ccff13f48ebbb411fc3ff81fce/RESULTS-two-spark-bring-up-2026-08-06.md"
ONE_TWIN = "https://github.com/nepenth/deepseek-v4-flash-gb10/blob/e82bab4088e7cc06d831d491f56ada90312727de/notes/2026-08-21-dual-hca.md"
HALF = "https://github.com/vroomfondel/dgxarley/blob/9db57fa983efc0b4581d8d889871ed92263bc271/nccl-transport-test-plan.md"
BOTH_TWINS = "https://github.com/bytebunkerlabs/dgx-spark-serve/blob/cce1bfd6/docs/00-networking.md"
LATENCY = "https://github.com/eugr/spark-vllm-docker/blob/3e84d9d05399cd52ce9e237df12fd5fb056498e2/docs/NETWORKING.md"

#: Gb/s at which a Spark's cable links up, and the PCIe lanes of each twin.
RATE, LANE_COUNT = 200, 4
#: From about this netdev MTU on RDMA uses its largest packets, both in bytes.
ENOUGH_MTU, LARGEST_PACKET = 4200, 4096

REBOOT = (
    "Reboot both machines with the cable in: an adapter that got its cable while running can stay power-capped at about 13 Gb/s, with link speed, "
    "lanes and counters all healthy. Do not go by the kernel's warning about 27 W: it is on healthy machines too."
)


@dataclass(frozen=True)
class Band:
    """`floor` is in the threshold's unit; `means` completes "12.0 Gb/s: …"."""

    floor: float
    verdict: str
    means: str
    remedy: str
    source: str


@dataclass(frozen=True)
class Threshold:
    """`expected` is one sentence. Bands from good to bad where more is better, else from bad to good."""

    name: str
    what: str
    unit: str
    expected: str
    bands: tuple[Band, ...]

    def band(self, value: float) -> Band:
        return next((band for band in sorted(self.bands, key=lambda band: -band.floor) if value >= band.floor), self.bands[-1])


WRITE_BANDWIDTH = Threshold(
    "write_bandwidth",
    "ib_write_bw, one twin",
    "Gb/s",
    "One twin writes 92 to 112 Gb/s.",
    (
        Band(90, "pass", "as a twin should", "", GUIDE),
        Band(
            25,
            "warn",
            "less than a twin gives",
            "Look at lanes (rung `link`; old firmware wires two of four), at other traffic on the rail, and at the error counters of the port.",
            LANES,
        ),
        Band(8, "fail", "an adapter that came up power-capped", REBOOT, POWER_CAP),
        Band(0, "fail", "far below any healthy link", f"{REBOOT} If that does not help, try another cable.", POWER_CAP),
    ),
)
BOTH_BANDWIDTH = Threshold(
    "write_bandwidth_all",
    "ib_write_bw, both twins at once",
    "Gb/s",
    "Both twins together write 180 to 198 Gb/s.",
    (
        Band(180, "pass", "as a cable of 200 Gb/s should", "", BOTH_TWINS),
        Band(120, "warn", "more than one twin, less than the cable", "See which twin is slower; set MTU 9000 on all rails, at both ends.", GUARDKIT),
        Band(
            50,
            "warn",
            "no more than one twin",
            "Give each twin a subnet of its own at both ends: in one subnet, one of them carries the traffic of both.",
            SUBNETS,
        ),
        Band(0, "fail", "an adapter that came up power-capped", REBOOT, POWER_CAP),
    ),
)
WRITE_LATENCY = Threshold(
    "write_latency",
    "ib_write_lat, one way, median",
    "µs",
    "A write takes 1.4 to 2 µs, a little more through a switch.",
    (
        Band(5, "warn", "slower than any healthy link reported", "Look for other traffic on the rail, and for a slow clock of the CPU.", LATENCY),
        Band(0, "pass", "as it should", "", LATENCY),
    ),
)
ALL_REDUCE = Threshold(
    "all_reduce",
    "NCCL busbw over NET/IB, two nodes",
    "GB/s",
    "Over both twins NCCL reaches 20 GB/s or more (18.6 was seen on a healthy pair with an MTU of 1500).",
    (
        Band(20, "pass", "both twins carry it", "", GUARDKIT),
        Band(
            15,
            "warn",
            "probably an MTU that differs between the twins, or a small one",
            "Set MTU 9000 on every rail at both ends (rungs `ping` and `link`), then measure again.",
            GUARDKIT,
        ),
        Band(
            11,
            "warn",
            "one twin only",
            "Address both twins of the cable (`gb10_consent: [network]`), so that NCCL_IB_HCA names both; then measure again.",
            ONE_TWIN,
        ),
        Band(4, "fail", "less than one twin gives", "See the rung `write_bandwidth`; where that is good, look at the version of NCCL.", HALF),
        Band(0, "fail", "a power-capped link", REBOOT, POWER_CAP),
    ),
)
ALL_REDUCE_MANY = Threshold(
    "all_reduce_many",
    "NCCL busbw over NET/IB, three nodes or more",
    "GB/s",
    "Over more than two nodes NCCL reaches 10 GB/s or more.",
    (
        Band(10, "pass", "as NVIDIA's own check for such clusters asks", "", PLAYBOOK.replace("connect-two-sparks", "multi-sparks-through-switch")),
        Band(4, "warn", "less than others reach", "Measure pairs of nodes, to see which cable or port is slow.", ONE_TWIN),
        Band(0, "fail", "a power-capped link", REBOOT, POWER_CAP),
    ),
)
THRESHOLDS = (WRITE_BANDWIDTH, BOTH_BANDWIDTH, WRITE_LATENCY, ALL_REDUCE, ALL_REDUCE_MANY)


def table() -> list[str]:
    """A line a band, for the documentation."""
    return [
        f"{threshold.what}, from {band.floor:g} {threshold.unit} on is {band.verdict}, {band.means} ({band.source})."
        for threshold in THRESHOLDS
        for band in threshold.bands
    ]
