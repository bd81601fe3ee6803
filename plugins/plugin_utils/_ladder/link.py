# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rung that needs no measurement: what the facts of both ends say of a rail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .base import FAIL, ORDER, PASS, SKIPPED, WARN, End, Rung, listing, sentence, worst
from .thresholds import DEVICES, ENOUGH_MTU, GIDS, GUIDE, LANE_COUNT, LANES, LARGEST_PACKET, MTU, MTU_ENDS, POWER_CAP, RATE

EXPECTED = (
    f"At both ends the rail has a link of {RATE} Gb/s, {LANE_COUNT} PCIe lanes, the same MTU of 9000, RDMA packets of {LARGEST_PACKET} bytes, "
    "and a RoCE v2 GID of its address."
)


@dataclass(frozen=True)
class Look:
    """One thing about a rail that is not as it should be, or that is not known."""

    verdict: str
    observed: str
    remedy: str = ""
    source: str = ""


def link_rung(number: int, rail: Mapping[str, End]) -> Rung:
    """All that the facts say of a rail; the worst of it decides, and what could not be read is not taken for good."""
    nodes = tuple(rail)
    if not all(end.configured for end in rail.values()):
        return Rung(
            "link", number, nodes, "The rail has no addresses yet.", EXPECTED, SKIPPED, "Let site.yml configure it (`gb10_consent: [network]`)."
        )
    looks = sorted([*_ends(rail), *_both(rail)], key=lambda look: -ORDER.index(look.verdict))
    verdict = worst([PASS, *(look.verdict for look in looks)])
    if verdict == PASS:
        first = next(iter(rail.values()))
        seen = f"{listing([str(end) for end in rail.values()])}: {RATE} Gb/s, {LANE_COUNT} lanes, MTU {first.mtu}, a RoCE v2 GID at each end"
        return Rung("link", number, nodes, sentence(seen), EXPECTED, PASS, "", GUIDE)
    deciding = next(look for look in looks if look.verdict == verdict)
    remedies = list(dict.fromkeys(look.remedy for look in looks if look.remedy))
    return Rung(
        "link", number, nodes, " ".join(sentence(look.observed) for look in looks), EXPECTED, verdict, " ".join(remedies), deciding.source or GUIDE
    )


def _ends(rail: Mapping[str, End]) -> Iterator[Look]:
    for end in rail.values():
        if not end.port:
            yield Look(SKIPPED, f"nothing is known of {end}")
            continue
        yield from _link(end)
        yield from _packets(end)
        yield from _gid(end)


def _unknown(end: End, what: str) -> Look:
    return Look(SKIPPED, f"the {what} of {end} could not be read")


def _link(end: End) -> Iterator[Look]:
    """Carrier, rate, lanes."""
    carrier = end.port.get("carrier")
    if carrier is None:
        yield _unknown(end, "carrier")
    elif not carrier:
        yield Look(FAIL, f"{end} has no link", f"Check the cable; on {end.node}: `sudo ip link set {end.netdev} up`.", POWER_CAP)
        return
    rate = end.port.get("rate")
    if rate is None:
        yield _unknown(end, "rate")
    elif rate < RATE:
        yield Look(WARN, f"{end} runs at {rate:g} Gb/s", "Seat the cable again, or try another one: some of its lanes carry nothing.", GUIDE)
    width = (end.port.get("pcie") or {}).get("width")
    if width is None:
        yield _unknown(end, "number of PCIe lanes")
    elif width < LANE_COUNT:
        yield Look(
            WARN,
            f"{end} has {width} PCIe lanes",
            f"Update the firmware of {end.node} with fwupd: BIOS versions before April 2026 wire two of four lanes.",
            LANES,
        )


def _packets(end: End) -> Iterator[Look]:
    """The packet size of RDMA follows the MTU: 4096 bytes from about 4200 on, 1024 at 1500."""
    mtu, packet = end.port.get("mtu"), end.port.get("active_mtu")
    if mtu is None or packet is None:
        yield _unknown(end, "MTU" if mtu is None else "packet size of RDMA")
        return
    if (mtu >= ENOUGH_MTU) != (packet >= LARGEST_PACKET):
        yield Look(
            WARN,
            f"RDMA uses packets of {packet} bytes on {end}, whose MTU is {mtu}",
            f"On {end.node}: `sudo ip link set {end.netdev} down && sudo ip link set {end.netdev} up`, unless your session runs over it.",
            MTU_ENDS,
        )


def _gid(end: End) -> Iterator[Look]:
    if end.hca is None:
        yield _unknown(end, "HCA")
    elif end.port.get("gids") is None:
        yield Look(SKIPPED, f"the GIDs of {end.hca} on {end.node} could not be read")
    elif end.gid_index is None:
        yield Look(
            FAIL,
            f"{end.hca} of {end.node} has no RoCE v2 GID of {end.address}",
            f"Look at `show_gids {end.hca}` on {end.node}; set the interface down and up, and leave NCCL_IB_GID_INDEX unset.",
            GIDS,
        )


def _both(rail: Mapping[str, End]) -> Iterator[Look]:
    """What concerns both ends together."""
    mtus = {str(end): mtu for end in rail.values() if isinstance(mtu := end.port.get("mtu"), int)}
    if len(set(mtus.values())) > 1:
        largest = max(mtus.values())
        yield Look(
            FAIL,
            f"the MTUs differ: {listing([f'{end} {mtu}' for end, mtu in mtus.items()])}",
            f"Set `mtu: {largest}` for the rail in the netplan files of all its ends.",
            MTU_ENDS,
        )
    elif mtus and min(mtus.values()) < ENOUGH_MTU:
        yield Look(WARN, f"the MTU is {min(mtus.values())} at all ends, which costs 5 to 10 %", "Set `mtu: 9000` at all ends at the same time.", MTU)


def devices_hint() -> tuple[str, str]:
    """What lets NCCL fall to sockets, and where that was reported."""
    return (
        "Give the container the RDMA devices (`--device /dev/infiniband/…`, `--cap-add IPC_LOCK`, `--ulimit memlock=-1`) on every rank, and keep "
        "NCCL_NET=IB, so that it fails instead of falling to TCP."
    ), DEVICES
