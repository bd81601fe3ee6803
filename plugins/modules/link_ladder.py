#!/usr/bin/python
# Copyright (c) 2026 the gb10.cluster authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# There is only documentation here: the ladder is planned and judged on the controller, by the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: link_ladder
short_description: Say what to measure on the fabric, and what the numbers are worth
version_added: 0.2.0
description:
  - With O(state=planned), returns the steps that prove the fabric of the plan, each with the options of M(gb10.cluster.link_bench) for every
    node that takes part. What cannot be measured has the reason with it.
  - With O(state=judged), returns a rung for each thing that was to be proved, with what was observed, what was expected, and a verdict.
  - What was not measured is skipped aloud. It has never passed.
  - Of NCCL, the mechanism comes first. An all-reduce over C(NET/Socket) has failed, whatever its number.
  - A pure computation on the controller, from C(ansible_facts.gb10) of all nodes, C(ansible_facts.gb10_plan) and the results. No node is
    touched.
options:
  state:
    description:
      - V(planned) returns the steps, V(judged) the rungs.
    type: str
    choices: [planned, judged]
    default: judged
  ready:
    description:
      - By host, the result of M(gb10.cluster.link_bench) for a perftest in check mode. Steps that need what a node lacks are skipped then,
        instead of waiting for the other end.
      - Both states need the same value.
    type: dict
    default: {}
  results:
    description:
      - By host, and there by RV(steps[].id), the results of M(gb10.cluster.link_bench).
    type: dict
    default: {}
  plan:
    description:
      - The plan, in place of C(ansible_facts.gb10_plan).
    type: dict
attributes:
  check_mode:
    support: full
    description: Changes nothing, and returns the same.
  diff_mode:
    support: none
    description: Changes nothing.
  platform:
    platforms: posix
    support: full
    description: Runs on the controller.
  action:
    support: full
    description: Is an action plugin.
  async:
    support: none
    description: Takes no time.
  bypass_host_loop:
    support: none
    description: One ladder for the whole group, so use C(run_once=true).
author:
  - The gb10.cluster engineers (@gb10)
notes:
  - The steps have to run one after the other, on all of their nodes at the same time. A loop over C(include_tasks) does that, a loop over the
    task does not. C(forks) has to be the number of nodes at least, and C(serial) unset.
  - "What a number is worth (the value from which on, the verdict, what it means, and the report it rests on):"
  - >-
    ib_write_bw, one twin, from 90 Gb/s on is pass, as a twin should
    (https://github.com/NVIDIA/dgx-spark-playbooks/blob/0db7c141/nvidia/connect-two-sparks/assets/performance_benchmarking_guide.md).
  - >-
    ib_write_bw, one twin, from 25 Gb/s on is warn, less than a twin gives
    (https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/pull/35).
  - >-
    ib_write_bw, one twin, from 8 Gb/s on is fail, an adapter that came up power-capped
    (https://github.com/NVIDIA/dgx-spark-playbooks/pull/108).
  - >-
    ib_write_bw, one twin, from 0 Gb/s on is fail, far below any healthy link
    (https://github.com/NVIDIA/dgx-spark-playbooks/pull/108).
  - >-
    ib_write_bw, both twins at once, from 180 Gb/s on is pass, as a cable of 200 Gb/s should
    (https://github.com/bytebunkerlabs/dgx-spark-serve/blob/cce1bfd6/docs/00-networking.md).
  - >-
    ib_write_bw, both twins at once, from 120 Gb/s on is warn, more than one twin, less than the cable
    (https://github.com/guardkit/dgx-spark/blob/6450ab894f2c75ccff13f48ebbb411fc3ff81fce/RESULTS-two-spark-bring-up-2026-08-06.md).
  - >-
    ib_write_bw, both twins at once, from 50 Gb/s on is warn, no more than one twin
    (https://github.com/openucx/ucx/issues/5598).
  - >-
    ib_write_bw, both twins at once, from 0 Gb/s on is fail, an adapter that came up power-capped
    (https://github.com/NVIDIA/dgx-spark-playbooks/pull/108).
  - >-
    ib_write_lat, one way, median, from 5 µs on is warn, slower than any healthy link reported
    (https://github.com/eugr/spark-vllm-docker/blob/3e84d9d05399cd52ce9e237df12fd5fb056498e2/docs/NETWORKING.md).
  - >-
    ib_write_lat, one way, median, from 0 µs on is pass, as it should
    (https://github.com/eugr/spark-vllm-docker/blob/3e84d9d05399cd52ce9e237df12fd5fb056498e2/docs/NETWORKING.md).
  - >-
    NCCL busbw over NET/IB, two nodes, from 20 GB/s on is pass, both twins carry it
    (https://github.com/guardkit/dgx-spark/blob/6450ab894f2c75ccff13f48ebbb411fc3ff81fce/RESULTS-two-spark-bring-up-2026-08-06.md).
  - >-
    NCCL busbw over NET/IB, two nodes, from 15 GB/s on is warn, probably an MTU that differs between the twins, or a small one
    (https://github.com/guardkit/dgx-spark/blob/6450ab894f2c75ccff13f48ebbb411fc3ff81fce/RESULTS-two-spark-bring-up-2026-08-06.md).
  - >-
    NCCL busbw over NET/IB, two nodes, from 11 GB/s on is warn, one twin only
    (https://github.com/nepenth/deepseek-v4-flash-gb10/blob/e82bab4088e7cc06d831d491f56ada90312727de/notes/2026-08-21-dual-hca.md).
  - >-
    NCCL busbw over NET/IB, two nodes, from 4 GB/s on is fail, less than one twin gives
    (https://github.com/vroomfondel/dgxarley/blob/9db57fa983efc0b4581d8d889871ed92263bc271/nccl-transport-test-plan.md).
  - >-
    NCCL busbw over NET/IB, two nodes, from 0 GB/s on is fail, a power-capped link
    (https://github.com/NVIDIA/dgx-spark-playbooks/pull/108).
  - >-
    NCCL busbw over NET/IB, three nodes or more, from 10 GB/s on is pass, as NVIDIA's own check for such clusters asks
    (https://github.com/NVIDIA/dgx-spark-playbooks/blob/0db7c141/nvidia/multi-sparks-through-switch).
  - >-
    NCCL busbw over NET/IB, three nodes or more, from 4 GB/s on is warn, less than others reach
    (https://github.com/nepenth/deepseek-v4-flash-gb10/blob/e82bab4088e7cc06d831d491f56ada90312727de/notes/2026-08-21-dual-hca.md).
  - >-
    NCCL busbw over NET/IB, three nodes or more, from 0 GB/s on is fail, a power-capped link
    (https://github.com/NVIDIA/dgx-spark-playbooks/pull/108).
seealso:
  - module: gb10.cluster.link_bench
  - module: gb10.cluster.plan
"""

EXAMPLES = r"""
- name: See what the nodes have for the benchmarks
  gb10.cluster.link_bench:
    test: perftest_client
  check_mode: true
  register: bench_ready

- name: Plan the ladder
  gb10.cluster.link_ladder:
    state: planned
    ready: "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'bench_ready'))) }}"
  run_once: true
  register: ladder_plan

# ladder_step.yml runs gb10.cluster.link_bench with the options in step.nodes[inventory_hostname], and adds its result to ladder_results
- name: Climb it
  ansible.builtin.include_tasks: ladder_step.yml
  loop: "{{ ladder_plan.steps }}"
  loop_control:
    loop_var: step
    label: "{{ step.title }}"

- name: Judge it
  gb10.cluster.link_ladder:
    ready: "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'bench_ready'))) }}"
    results: "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars) | map(attribute='ladder_results', default={}))) }}"
  run_once: true
  register: judged
"""

RETURN = r"""
steps:
  description: What is to be measured, in this order.
  returned: when O(state=planned)
  type: list
  elements: dict
  contains:
    id:
      description: Name of the step, unique in the ladder.
      type: str
      sample: write_bandwidth:spark-worker:spark-head:0
    name:
      description: Name of the rung.
      type: str
      sample: write_bandwidth
    rail:
      description: Number of the plan's rail, null for all of them.
      type: int
    title:
      description: What is measured, in words.
      type: str
    hosts:
      description: The nodes that take part. Of a perftest, the client and the server.
      type: list
      elements: str
    nodes:
      description: By host, options of M(gb10.cluster.link_bench). Empty if the step is skipped.
      type: dict
    skipped:
      description: Why it cannot be measured, null if it can.
      type: str
    remedy:
      description: What to do so that it can, if that is known.
      type: str
ladder:
  description: What came of it.
  returned: when O(state=judged)
  type: dict
  contains:
    rungs:
      description: What was to be proved, from the wire upwards.
      type: list
      elements: dict
      contains:
        name:
          description: V(ping), V(link), V(write_bandwidth), V(write_latency) or V(all_reduce).
          type: str
        rail:
          description: Number of the plan's rail, null for all of them.
          type: int
        nodes:
          description: The nodes concerned. Of a perftest, the client and the server.
          type: list
          elements: str
        observed:
          description: What was measured, with its unit, or why nothing was.
          type: str
        expected:
          description: What should be.
          type: str
        verdict:
          description: V(pass), V(warn), V(fail) or V(skipped).
          type: str
        remedy:
          description: What to do, empty if nothing has to be done.
          type: str
        source:
          description: The report or guide that the verdict rests on.
          type: str
    verdict:
      description: The worst of the rungs' verdicts. V(skipped) is worse than V(pass), so the whole has passed only if all of it was measured.
      type: str
      sample: pass
    summary:
      description: The whole in one sentence.
      type: str
"""
