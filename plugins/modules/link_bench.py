#!/usr/bin/python
# Copyright (c) 2026 the gb10.cluster authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure one thing on the rails of a node, bounded in bytes and seconds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: link_bench
short_description: Measure one thing on the rails of a node, bounded in bytes and seconds
version_added: 0.2.0
description:
  - Runs one end of one measurement and returns numbers. What they are worth is said by M(gb10.cluster.link_ladder), which also says what to
    measure, on which node, with which options.
  - V(ping) sends packets that fill the MTU and may not be fragmented. V(perftest_server) and V(perftest_client) are the ends of C(ib_write_bw)
    or C(ib_write_lat); both have to run at the same time, as one task on two hosts does. V(nccl) is an all-reduce in the engine's image, on
    all ranks at the same time.
  - What cannot run here (a program, a device, memory or the image is missing) is no failure of the task. RV(ran) is then V(false), and
    RV(reason) says why. A measurement that failed has an C(error) in RV(links) or RV(collective).
  - Everything that is started ends by itself within its bound, also if the connection is lost. No server and no container is left behind.
options:
  test:
    description:
      - What to run.
    type: str
    choices: [ping, perftest_server, perftest_client, nccl]
    required: true
  measure:
    description:
      - What perftest measures.
    type: str
    choices: [bandwidth, latency]
    default: bandwidth
  links:
    description:
      - The links to measure, all at once. Of a perftest, the server has the same ports as the client.
    type: list
    elements: dict
    default: []
    suboptions:
      address:
        description:
          - IPv4 address of the other end. Not needed by a server.
        type: str
      netdev:
        description:
          - Interface that V(ping) sends from.
        type: str
      mtu:
        description:
          - MTU in bytes that V(ping) fills.
        type: int
      hca:
        description:
          - HCA of this end, for perftest.
        type: str
      gid_index:
        description:
          - Index of this end's RoCE v2 GID, for perftest. Chosen by perftest if it is not set.
        type: int
      port:
        description:
          - TCP port over which the ends of a perftest meet, from 18515 to 18534.
        type: int
  amount:
    description:
      - Bytes that a run of C(ib_write_bw) moves on each link, or that the large all-reduce has, 256000000 at most.
    type: int
    default: 256000000
  seconds:
    description:
      - Lets C(ib_write_bw) run for so many seconds instead, 10 at most. The first and the last quarter are not measured, so runs on several
        links are measured while all of them run. With V(0) it is O(amount) that bounds the run.
    type: int
    default: 0
  queue_pairs:
    description:
      - Queue pairs of C(ib_write_bw). One does not fill a link at an MTU of 1500.
    type: int
    default: 4
  wait:
    description:
      - Seconds that an end of a perftest waits for the other one.
    type: int
    default: 30
  container:
    description:
      - What V(nccl) runs in, as the plan has it for the engine of this rank.
    type: dict
    suboptions:
      image:
        description:
          - The image. It is never pulled.
        type: str
        required: true
      environment:
        description:
          - Environment of the rank. C(NCCL_DEBUG=INFO) is added.
        type: dict
        default: {}
      devices:
        description:
          - Devices, as in C(docker run --device).
        type: list
        elements: str
        default: []
      capabilities:
        description:
          - Capabilities, as in C(docker run --cap-add).
        type: list
        elements: str
        default: []
      ulimits:
        description:
          - Ulimits, as C(memlock:-1:-1).
        type: list
        elements: str
        default: []
      shm_size:
        description:
          - Size of C(/dev/shm), as C(16g).
        type: str
      python:
        description:
          - Python interpreter inside the image, the one that has torch.
        type: str
        default: python3
  rank:
    description:
      - Rank of this node in the all-reduce.
    type: int
    default: 0
  world_size:
    description:
      - Number of ranks in the all-reduce.
    type: int
    default: 2
  head:
    description:
      - Where the ranks of the all-reduce meet, which is on rank 0.
    type: dict
    suboptions:
      address:
        description:
          - Fabric address of rank 0.
        type: str
        required: true
      port:
        description:
          - TCP port on it, from 18515 to 18534.
        type: int
        required: true
  memory:
    description:
      - Bytes of memory that must be free for the all-reduce to run.
    type: int
    default: 4294967296
  timeout:
    description:
      - Seconds after which the all-reduce ends itself. The start of the container comes on top.
    type: int
    default: 120
attributes:
  check_mode:
    support: full
    description: Measures nothing, says what would run, and whether the node has what it needs.
  diff_mode:
    support: none
    description: Nothing is changed.
  platform:
    platforms: posix
    support: full
    description: Needs iputils' ping, perftest, or docker, each for its own test.
  facts:
    support: none
    description: Returns information, not facts.
author:
  - The gb10.cluster engineers (@gb10)
notes:
  - V(nccl) needs a user who may use docker. perftest needs a user whose locked memory is not limited below 8 MiB.
  - The largest message that NCCL is given has 256 MB. The published test of 16 GB has frozen machines.
seealso:
  - module: gb10.cluster.link_ladder
"""

EXAMPLES = r"""
- name: Full-size packets reach the other end
  gb10.cluster.link_bench:
    test: ping
    links:
      - {netdev: enp1s0f1np1, address: 192.168.200.13, mtu: 9000}

- name: Write over both twins at once, from the worker to the head
  gb10.cluster.link_bench:
    test: "{{ 'perftest_server' if inventory_hostname == 'spark-head' else 'perftest_client' }}"
    seconds: 4
    links:
      - {hca: rocep1s0f1, gid_index: 3, address: 192.168.200.12, port: 18515}
      - {hca: roceP2p1s0f1, gid_index: 3, address: 192.168.201.12, port: 18516}
"""

RETURN = r"""
ran:
  description: Whether anything was measured.
  returned: always
  type: bool
  sample: true
reason:
  description: Why nothing was measured.
  returned: when RV(ran) is false
  type: str
  sample: ib_write_bw is not installed
remedy:
  description: What to do so that it can be measured.
  returned: when RV(ran) is false and something can be done
  type: str
  sample: "Install it on this node: `sudo apt-get install perftest`."
missing:
  description: Whether RV(reason) is something that the node lacks, also in check mode.
  returned: always
  type: bool
  sample: false
commands:
  description: The commands that ran, or would run.
  returned: always
  type: list
  elements: list
links:
  description: What was measured on each link of O(links), in their order.
  returned: when RV(ran) is true, for V(ping) and perftest
  type: list
  elements: dict
  contains:
    netdev:
      description: The interface, of V(ping).
      type: str
    hca:
      description: The HCA, of perftest.
      type: str
    address:
      description: The other end.
      type: str
    transmitted:
      description: Packets sent.
      type: int
    received:
      description: Packets that came back.
      type: int
    round_trip:
      description: Mean round trip in milliseconds.
      type: float
    way_mtu:
      description: MTU in bytes that the way has, where a packet was too long for it.
      type: int
    bandwidth:
      description: Gb/s on average, of the client of C(ib_write_bw).
      type: float
    bandwidth_peak:
      description: Gb/s at best, where the run was bounded by O(amount).
      type: float
    latency:
      description: Microseconds one way, the median, of the client of C(ib_write_lat).
      type: float
    latency_average:
      description: Microseconds one way, the mean.
      type: float
    latency_99:
      description: Microseconds one way, the 99th percentile.
      type: float
    message:
      description: Bytes of a message.
      type: int
    iterations:
      description: Messages that were sent.
      type: int
    rdma_mtu:
      description: Packet size of RDMA in bytes.
      type: int
    gid_index:
      description: The GID index that was used.
      type: int
    port:
      description: The TCP port at which the ends met.
      type: int
    error:
      description: Why this link could not be measured. Absent if it could.
      type: str
    remedy:
      description: What to do about it, where that is known.
      type: str
collective:
  description: What was measured by the all-reduce.
  returned: when RV(ran) is true, for V(nccl)
  type: dict
  contains:
    rank:
      description: This rank.
      type: int
    transport:
      description: V(ib), V(socket) or V(mixed), from NCCL's channel lines. Absent where there were none.
      type: str
    channels:
      description: Number of channels by the name that NCCL gives the network.
      type: dict
    devices:
      description: Devices of that network that NCCL uses.
      type: list
      elements: str
    nccl:
      description: Version of NCCL.
      type: str
    torch:
      description: Version of torch.
      type: str
    correct:
      description: Whether the sum was right.
      type: bool
    runs:
      description: For each message size, in bytes, the seconds of one all-reduce and the bus bandwidth in GB/s.
      type: list
      elements: dict
    warnings:
      description: What NCCL warned of first.
      type: list
      elements: str
    error:
      description: Why it could not be measured. Absent if it could.
      type: str
seconds:
  description: Seconds that it took.
  returned: always
  type: float
  sample: 1.7
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.module_utils._bench.node import Bench, Skipped
from ansible_collections.gb10.cluster.plugins.module_utils._bench.spec import ARGUMENT_SPEC, problems


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    wrong = problems(module.params)
    if wrong:
        module.fail_json(msg=f"This cannot be measured: {'; '.join(wrong)}.")
    bench = Bench(module)
    started = time.monotonic()
    try:
        found = bench.result()
    except Skipped as error:
        found = {"ran": False, "missing": bench.missing, "reason": str(error), **({"remedy": error.remedy} if error.remedy else {})}
    module.exit_json(changed=False, commands=bench.commands(), seconds=round(time.monotonic() - started, 1), **found)


if __name__ == "__main__":
    main()
