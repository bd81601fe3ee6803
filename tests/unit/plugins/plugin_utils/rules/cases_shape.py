# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is joined to whom: rings, switches, and ports of which nobody can say where they lead."""

from __future__ import annotations

from cases_fabric import NO_ADDRESS, port
from healthy import address, heard, neighbours, routes
from replay import Patch, all_of
from stories import fires, quiet

#: Both cages have a link, nothing has an address, and nobody has heard of anybody.
DEAF = all_of(NO_ADDRESS, port(0, cage=0), port(1, cage=0), neighbours(), heard())


def ends(*links: tuple[int, int, int]) -> tuple[Patch, ...]:
    """A machine's ends of cables: its cage, the cable's number, its own number there. A cage that is not named has no cable."""
    named = {cage for cage, _cable, _number in links}
    down = [port(twin, up=False, cage=cage) for cage in (0, 1) if cage not in named for twin in (0, 1)]
    up = [port(twin, f"10.{cable}.{twin}.{number}", cage=cage) for cage, cable, number in links for twin in (0, 1)]
    return (*down, *up, routes(), neighbours(), heard())


HEAD_ENDS, WORKER_ENDS, THIRD_ENDS = ends((0, 1, 1), (1, 3, 1)), ends((1, 1, 2), (0, 2, 2)), ends((1, 2, 3), (0, 3, 3))

CASES = [
    fires("fabric.ring", "The 3 nodes form a ring.*ibv_modify_qp failed with 110", *HEAD_ENDS, worker=WORKER_ENDS, third=THIRD_ENDS),
    # On one switch they need none of this.
    quiet("fabric.ring", third=()),
    fires(
        "fabric.ring_alone",
        "have no other network in common.*by a switch instead",
        *HEAD_ENDS,
        worker=WORKER_ENDS,
        third=(*THIRD_ENDS, address("enP7s7", "198.51.100.7", mtu=1500)),
    ),
    quiet("fabric.ring_alone", *HEAD_ENDS, worker=WORKER_ENDS, third=THIRD_ENDS),
    quiet("fabric.ring_alone", third=(address("enP7s7", "198.51.100.7", mtu=1500),)),
    fires(
        "fabric.ring_straight",
        "enp1s0f1np1 of spark-head and enp1s0f1np1 of spark-third.*first to second cage",
        *HEAD_ENDS,
        worker=WORKER_ENDS,
        third=ends((0, 2, 3), (1, 3, 3)),
    ),
    quiet("fabric.ring_straight", *HEAD_ENDS, worker=WORKER_ENDS, third=THIRD_ENDS),
    fires(
        "fabric.apart",
        "joins spark-head with spark-third, though.*in a ring of three|three of them by three cables",
        *ends((0, 1, 1)),
        worker=WORKER_ENDS,
        third=ends((1, 2, 3)),
    ),
    quiet("fabric.apart", *HEAD_ENDS, worker=WORKER_ENDS, third=THIRD_ENDS),
    # A machine without any link has a finding of its own.
    quiet("fabric.apart", *ends((0, 1, 1)), worker=ends((1, 1, 2)), third=ends()),
    fires(
        "fabric.ring_subnet",
        "enp1s0f0np0 and enp1s0f1np1 of spark-head are all in 10.8.0.0/24, and lead to different nodes",
        *HEAD_ENDS,
        port(0, "10.8.0.1", cage=0),
        port(0, "10.8.0.2", cage=1),
        heard(("enp1s0f0np0", "4c:bb:47:ec:95:13"), ("enp1s0f1np1", "4c:bb:47:ec:96:12")),
        worker=(*WORKER_ENDS, port(0, "10.8.0.3", cage=1)),
        third=(*THIRD_ENDS, port(0, "10.8.0.4", cage=0)),
    ),
    quiet("fabric.ring_subnet", *HEAD_ENDS, worker=WORKER_ENDS, third=THIRD_ENDS),
    # Both functions of a cable in one subnet lead to the same node.
    quiet("fabric.ring_subnet", *HEAD_ENDS, port(0, "10.1.1.9", cage=0), worker=(*WORKER_ENDS, port(0, "10.1.1.8", cage=1)), third=THIRD_ENDS),
    fires("fabric.unseen", "so nobody can say which of them leads where.*nmcli device modify enp1s0f0np0", both=(DEAF,)),
    fires("fabric.unseen", "nobody can say", both=(DEAF,), consent=["network"]),
    # One cage each can only be joined to each other.
    quiet("fabric.unseen", both=(NO_ADDRESS, neighbours(), heard())),
    quiet("fabric.unseen", DEAF, worker=(port(0, up=False), port(1, up=False))),
]
