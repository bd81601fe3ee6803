# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the all-reduce is worth. The mechanism first: over which network NCCL went decides before any number does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .base import FAIL, PASS, WARN, End, Rung, Step, listing, sentence
from .link import devices_hint
from .measured import Results, not_measured, result_of, skipped
from .thresholds import ALL_REDUCE, ALL_REDUCE_MANY, DEVICES, ENOUGH_MTU, GIDS, GUIDE, NCCL_BUILD, WRITE_BANDWIDTH, Band

_CAUSES = (
    (r"No device found|initialize NET plugin IB|NET/IB : Using \[RO\]", "", DEVICES),
    (r"ibv_modify_qp", "Leave NCCL_IB_GID_INDEX unset, and see the rung `link`: the GIDs of the ends do not fit together.", GIDS),
    (r"ibv_reg_mr|Cannot allocate memory", "Give the container `--ulimit memlock=-1` and `--cap-add IPC_LOCK`.", DEVICES),
    (r"IBV_WC_RETRY_EXC_ERR|status=12|error 12", "Ping each rail once to fill the neighbour tables, and see the rungs `ping` and `link`.", GIDS),
)


def all_reduce_rung(step: Step, results: Results, rails: Sequence[Mapping[str, End]], twin: float | None) -> Rung:
    """`twin`: the least that perftest measured on one rail, Gb/s; it tells a slow link from a slow NCCL."""
    threshold = ALL_REDUCE if len(step.hosts) == 2 else ALL_REDUCE_MANY
    why = not_measured(step, results)
    if why:
        return skipped(step, why, threshold.expected)
    found = [result_of(results, host, step).get("collective") or {} for host in step.hosts]
    made = Rung(step.name, None, step.hosts, "", threshold.expected, FAIL, "", threshold.bands[0].source)
    broken = _broken(found, step.hosts, made)
    if broken is not None:
        return broken
    speeds = [float(row["runs"][-1]["busbw"]) for row in found if row.get("runs")]
    if len(speeds) != len(found):
        return skipped(step, ("a rank returned no number", ""), threshold.expected)
    value = min(speeds)
    band = _explain(threshold.band(value), value, rails, twin) if threshold is ALL_REDUCE else threshold.band(value)
    seen = f"{_way(found[0])}: {value:.1f} {threshold.unit} with {found[0]['runs'][-1]['size'] / 1e6:.0f} MB{_small(found[0])}"
    if any(row.get("transport") is None for row in found):
        seen = f"{seen}; over which network is not known, as NCCL printed no channel line"
        return replace(made, observed=sentence(seen), verdict=WARN if band.verdict == PASS else band.verdict, remedy=band.remedy, source=band.source)
    return replace(made, observed=sentence(f"{seen}, {band.means}"), verdict=band.verdict, remedy=band.remedy, source=band.source)


def _broken(found: Sequence[Mapping[str, Any]], hosts: Sequence[str], made: Rung) -> Rung | None:
    """What makes the number worthless: another network than RDMA, an error, a wrong sum."""
    hint, source = devices_hint()
    for host, row in zip(hosts, found):
        if row.get("transport") in ("socket", "mixed"):
            speed = f" ({row['runs'][-1]['busbw']:.1f} GB/s)" if row.get("runs") else ""
            part = "" if row["transport"] == "socket" else " in part"
            return replace(made, observed=f"NCCL goes over NET/Socket{part} on {host}, not over RDMA{speed}.", remedy=hint, source=source)
    errors = [(host, row) for host, row in zip(hosts, found) if row.get("error")]
    # Where one rank failed, the others only say that it is gone: the rank that NCCL warned of something on has the cause.
    for host, row in sorted(errors, key=lambda each: not each[1].get("warnings")):
        said = [*(row.get("warnings") or []), str(row["error"])]
        remedy, source = _cause(" ".join(said), hint)
        return replace(made, observed=f"The all-reduce failed on {host}: {sentence(said[0])}", remedy=remedy, source=source)
    wrong = [host for host, row in zip(hosts, found) if row.get("correct") is False]
    if wrong:
        return replace(
            made, observed=f"The sum is wrong on {listing(wrong)}.", remedy="Do not serve over these rails: see their error counters.", source=GUIDE
        )
    return None


def _cause(text: str, hint: str) -> tuple[str, str]:
    for pattern, remedy, source in _CAUSES:
        if re.search(pattern, text):
            return remedy or hint, source
    return "See the rungs below it first: whatever fails there is the cause. Else run it again with the engine stopped.", GUIDE


def _explain(band: Band, value: float, rails: Sequence[Mapping[str, End]], twin: float | None) -> Band:
    """The band, with a better cause where the other rungs rule out the usual one."""
    mtus = [end.port.get("mtu") for rail in rails for end in rail.values()]
    if value < ALL_REDUCE.bands[2].floor and twin is not None and twin >= WRITE_BANDWIDTH.bands[0].floor:
        means = f"though perftest writes {twin:.0f} Gb/s on every rail: so it is NCCL, not the link"
        return replace(band, means=means, remedy="Use an image with a released NCCL: a development build was seen at 3 GB/s.", source=NCCL_BUILD)
    if band is ALL_REDUCE.bands[1] and mtus and all(isinstance(mtu, int) and mtu >= ENOUGH_MTU for mtu in mtus):
        return replace(
            band,
            means=f"though every rail has an MTU of {ENOUGH_MTU} or more",
            remedy="Measure again without other traffic (a server that answers, a copy that runs), and see the rung `write_bandwidth` of all rails.",
        )
    if band is ALL_REDUCE.bands[2] and len(rails) > 1:
        return replace(band, remedy="The plan has several rails, and NCCL uses one: see which HCAs it names, and the rung `link` of the other rail.")
    return band


def _way(row: Mapping[str, Any]) -> str:
    """Over NET/IB (rocep1s0f1, roceP2p1s0f1), NCCL 2.28.3"""
    nets = "/".join(row.get("channels") or {}) or "an unknown network"
    devices = f" ({', '.join(row['devices'])})" if row.get("devices") else ""
    version = f", NCCL {row['nccl']}" if row.get("nccl") else ""
    return f"over {'NET/' if row.get('channels') else ''}{nets}{devices}{version}"


def _small(row: Mapping[str, Any]) -> str:
    """The time of the small message, which is what decoding waits for."""
    if len(row["runs"]) < 2:
        return ""
    return f", {row['runs'][0]['seconds'] * 1e6:.0f} µs with {row['runs'][0]['size'] / 1e3:.0f} kB"
