# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The links that rails are made of: lanes, rates, packet sizes, counters.

No rule here tells an adapter that came up slow (13 Gb/s on a link of 200): speed, lanes and counters look healthy then, and the kernel's
warning about 27 W is on healthy machines too. Only the benchmark can tell (https://github.com/NVIDIA/dgx-spark-playbooks/pull/108).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Case, case, node_rule, rule
from .context import Context, Node, Rail, listing
from .fabric import ends, joined, names

#: From about this netdev MTU on, RDMA uses its largest packets (active MTU 4096).
ENOUGH_MTU = 4200
#: What a link of a Spark has: lanes, GT/s, Gb/s.
_LANES, _LANE_SPEED, _RATE = 4, 32.0, 200


def _linked(context: Context, node: Node) -> list[Mapping[str, Any]]:
    """The facts of the node's ports that have a link."""
    return [node.port(port.netdev) for port in context.fabric.ports.get(node.name, ()) if port.up]


@rule(
    "fabric.twin_down",
    "warn",
    "One function of the cabled port has no link.",
    source="https://github.com/NVIDIA/NemoClaw/issues/8520",
    several=True,
)
def twin_down(context: Context) -> Iterator[Case]:
    """Each node with a cage of which one function is up and one is down: 1 or 3 ports with a link are always a fault."""
    for node in joined(context):
        ports = context.fabric.ports[node.name]
        cages = {port.cage for port in ports if port.up}
        down = tuple(port for port in ports if port.cage in cages and not port.up)
        if down:
            yield Case(
                (node.name,),
                f"{names(down)} of {node.name} {'are' if len(down) > 1 else 'is'} down, though the other function of the same cage has a link.",
                "One cable brings up both functions of its cage.",
                f"On {node.name}: `sudo ip link set {down[0].netdev} up`; if it stays down, reboot the machine with the cable in.",
                ("fabric.ports",),
            )


@rule(
    "fabric.mtu_mismatch",
    "block",
    "The two ends of a rail have different MTUs.",
    source="https://github.com/NVIDIA/nccl/pull/2135",
    several=True,
)
def mtu_mismatch(context: Context) -> Iterator[Case]:
    """Rails whose ends differ, in one finding: packets vanish without an error, the engine hangs."""
    wrong = []
    for each in ends(context):
        known = [(node, rail) for node, rail in each if rail.mtu is not None]
        if len({rail.mtu for _, rail in known}) > 1:
            wrong.append(known)
    if wrong:
        seen = "; ".join(listing(f"{rail.netdev} of {node.name} {rail.mtu}" for node, rail in known) for known in wrong)
        yield Case(
            tuple(dict.fromkeys(node.name for known in wrong for node, _ in known)),
            f"The MTUs on {'one rail differ' if len(wrong) == 1 else f'{len(wrong)} rails differ'}: {seen}.",
            "Both ends of a rail have the same MTU.",
            f"{'; '.join(_raise(known) for known in wrong)} (and in its netplan file, or it is lost at the next boot).",
            ("fabric.ports",),
        )


def _raise(known: list[tuple[Node, Rail]]) -> str:
    """The commands that give all ends of a rail the largest of their MTUs."""
    largest = max(rail.mtu or 0 for _, rail in known)
    return "; ".join(f"`sudo ip link set {rail.netdev} mtu {largest}` on {node.name}" for node, rail in known if rail.mtu != largest)


@rule(
    "fabric.mtu_small",
    "warn",
    "A rail has a small MTU.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/issues/25",
    several=True,
)
def mtu_small(context: Context) -> Iterator[Case]:
    """Rails on which RDMA cannot use its largest packets, in one finding. Ends that differ are another fault."""
    alike = [each for each in ends(context) if len({rail.mtu for _, rail in each}) == 1]
    small = [(node, rail) for each in alike for node, rail in each if rail.mtu is not None and rail.mtu < ENOUGH_MTU]
    if small:
        seen = listing(f"{rail.netdev} of {node.name}" for node, rail in small)
        sizes = listing(str(size) for size in sorted({rail.mtu or 0 for _, rail in small}))
        yield Case(
            tuple(dict.fromkeys(node.name for node, _ in small)),
            f"{seen} have an MTU of {sizes}.",
            "Rails have an MTU of 9000; a small one costs 5 to 10 % of the bandwidth.",
            "Set `mtu: 9000` for them in the netplan file of every node, at the same time.",
            ("fabric.ports",),
        )


@node_rule(
    "fabric.active_mtu",
    "warn",
    "RDMA uses small packets although the port's MTU allows large ones.",
    source="https://github.com/NVIDIA/nccl/pull/2135",
    several=True,
)
def active_mtu(context: Context, node: Node) -> Case | None:
    """Each node with a port whose RDMA side did not follow its MTU: RDMA's 1024 at 1500, 4096 from about 4200 on."""
    rows = [row for row in _linked(context, node) if row.get("mtu") and row.get("active_mtu")]
    wrong = [row for row in rows if (row["mtu"] >= ENOUGH_MTU) != (row["active_mtu"] >= 4096)]
    if not wrong:
        return None
    seen = listing(f"{row['netdev']} ({row['active_mtu']} at {row['mtu']})" for row in wrong)
    name = wrong[0]["netdev"]
    return case(
        node,
        f"The RDMA packet size does not fit the MTU on {node.name}: {seen}.",
        "RDMA uses 4096 at an MTU of 9000 and 1024 at 1500, the same at both ends.",
        f"On {node.name}: `sudo ip link set {name} down && sudo ip link set {name} up`, unless your session runs over it.",
        "fabric.ports",
    )


@node_rule(
    "fabric.pcie_slow",
    "warn",
    "A port has fewer PCIe lanes than it should, or slower ones.",
    source="https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/pull/35",
    several=True,
)
def pcie_slow(context: Context, node: Node) -> Case | None:
    """Each node with a linked port of less than four lanes of 32 GT/s: firmware before April 2026 wired two."""
    rows = [(row, row.get("pcie") or {}) for row in _linked(context, node)]
    slow = [
        f"{row.get('netdev')} ({pcie.get('width', 'unknown')} lanes, {pcie.get('speed', 'unknown')} GT/s)"
        for row, pcie in rows
        if (pcie.get("width") or _LANES) < _LANES or (pcie.get("speed") or _LANE_SPEED) < _LANE_SPEED
    ]
    if not slow:
        return None
    return case(
        node,
        f"{listing(slow)} of {node.name} is behind a slow PCIe link: about half the bandwidth.",
        f"Every port has {_LANES} lanes of {_LANE_SPEED:.0f} GT/s.",
        f"Reboot {node.name} with the cable in; if it stays, update its firmware with the vendor's own update, as DGX OS offers it.",
        "fabric.ports",
    )


@node_rule(
    "fabric.rate_low",
    "warn",
    "A link runs at less than 200 Gb/s.",
    source="https://github.com/geerlingguy/sbc-reviews/issues/92",
    several=True,
)
def rate_low(context: Context, node: Node) -> Case | None:
    """Each node with an active port of a lower rate, as a lane mismatch or the wrong cable gives. A port without a cable says 40, healthily."""
    slow = [row for row in _linked(context, node) if row.get("state") == "ACTIVE" and 0 < (row.get("rate") or _RATE) < _RATE]
    if not slow:
        return None
    return case(
        node,
        f"{listing(f'{_name(row)} ({_rate(row)} Gb/s)' for row in slow)} of {node.name} has a slow link.",
        f"A link has {_RATE} Gb/s on both functions of its cage.",
        "Use a cable for 200 Gb/s or more at both ends (QSFP56 or QSFP112), and reboot both nodes with it in.",
        "fabric.ports",
    )


def _name(row: Mapping[str, Any]) -> str:
    """A port's netdev."""
    return str(row.get("netdev"))


def _rate(row: Mapping[str, Any]) -> str:
    """A port's rate without decimals."""
    return f"{row.get('rate'):.0f}"


@node_rule(
    "fabric.errors",
    "info",
    "Error counters of a port are not zero.",
    source="https://github.com/NVIDIA/dgx-spark-playbooks/pull/108",
    several=True,
)
def errors(context: Context, node: Node) -> Case | None:
    """Each node with a linked port that counted errors since it was started. A few come from plugging a cable."""
    rows = [(row, {key: count for key, count in (row.get("errors") or {}).items() if count}) for row in _linked(context, node)]
    shown = [f"{_name(row)} ({listing(f'{key} {count}' for key, count in sorted(counts.items()))})" for row, counts in rows if counts]
    if not shown:
        return None
    return case(
        node,
        f"Ports of {node.name} counted errors: {listing(shown)}.",
        "Error counters stand still.",
        "Nothing has to be done for a few. If they grow from one recon to the next, clean or replace the cable.",
        "fabric.ports",
    )
