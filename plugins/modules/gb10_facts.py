#!/usr/bin/python
# Copyright (c) 2026 the gb10.cluster authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gb10_facts
short_description: Gather facts of a GB10 machine
description:
  - Reads what a GB10 machine (NVIDIA DGX Spark and its OEM twins) is, who holds its unified memory, how its ConnectX-7 fabric
    stands, and which images and models it has.
  - All probes run at the same time, each with its own bound. A fact that could not be read is absent, and
    RV(ansible_facts.gb10.probes) says why; it is never V(0).
  - Works without root. What only root may read is absent for other users.
version_added: 0.1.0
author:
  - The gb10.cluster authors (@gb10-cluster)
options:
  gather_subset:
    description:
      - The top-level keys of RV(ansible_facts.gb10) to gather, as in M(ansible.builtin.setup).
      - A name adds its key, V(!name) leaves it out, V(all) stands for every key. With exclusions only, the others are gathered.
    type: list
    elements: str
    default: [all]
  timeout:
    description:
      - Seconds that a single probe may take. The probes run at the same time, so this is about the module's own bound, too.
      - A tool that cannot be killed, as C(nvidia-smi) stuck in the kernel, is left behind and not asked again.
    type: float
    default: 10
  hf_home:
    description:
      - The Hugging Face cache to look at, as in the environment variable E(HF_HOME).
      - Defaults to E(HF_HOME) of the session, else to C(~/.cache/huggingface) of the user who connected, also with C(become).
    type: path
  recording:
    description:
      - A file in the format C(gb10-recording/1) on the node where the module runs. The facts are read from it instead of from the node.
    type: path
  record:
    description:
      - A file to write on the node, in the format C(gb10-recording/1), with all that the probes saw.
      - Secrets and serial numbers are left out; MAC addresses, public IP addresses and SSH host keys stand under pseudonyms, see O(record_salt).
        Private addresses, host and user names stay. The file is readable by its owner only.
      - Writing it does not count as a change. In check mode it is not written.
    type: path
  record_salt:
    description:
      - What the pseudonyms in the file of O(record) are made with. With the same salt for all nodes of a run, one node's neighbour is still to be
        found among the others. A long random one for each run, which nobody keeps, makes it impossible to go back from a pseudonym.
      - Without it, a random one for this file alone.
    type: str
  unreachable_ok:
    description:
      - Whether a node that cannot be reached is a fact (C(ansible_facts.gb10.unreachable), the reason) instead of the end of its run.
      - For a survey, which has to tell about all nodes.
    type: bool
    default: false
attributes:
  action:
    support: partial
    description: Everything but O(unreachable_ok) happens on the node.
  check_mode:
    support: full
    description: Can run in check mode; only the file of O(record) is not written then.
  diff_mode:
    support: none
    description: Nothing is changed, so there is no difference to show.
  facts:
    support: full
    description: Returns facts, and nothing else.
  platform:
    platforms: linux
    support: full
    description: Made for DGX OS (Ubuntu 24.04, aarch64); gathers what it can on any Linux with Python 3.9 or later.
seealso:
  - module: ansible.builtin.setup
"""

EXAMPLES = r"""
- name: Look at the machines
  gb10.cluster.gb10_facts:

- name: See who holds the memory, and nothing else
  gb10.cluster.gb10_facts:
    gather_subset: [memory, gpu, workloads]
    timeout: 5

- name: Record a machine for a bug report
  gb10.cluster.gb10_facts:
    record: /tmp/spark.json

- name: Read the facts of a recorded machine
  gb10.cluster.gb10_facts:
    recording: /tmp/spark.json
  delegate_to: localhost
"""

RETURN = r"""
ansible_facts:
  description: Facts, to be found at RV(ansible_facts.gb10). Memory and sizes are in bytes.
  returned: always
  type: dict
  contains:
    gb10:
      description: The node.
      returned: always
      type: dict
      contains:
        schema:
          description: Version of this schema.
          returned: always
          type: int
          sample: 1
        source:
          description: V(live) or V(recording).
          returned: always
          type: str
          sample: live
        root:
          description: Whether the facts were gathered with effective user id 0.
          returned: when the probe C(id) answered
          type: bool
        seconds:
          description: Wall time on the node, in seconds.
          returned: always
          type: float
          sample: 0.52
        identity:
          description: Host name and what it resolves to, maker, product, firmware and DGX OS versions with the history of updates, and V(gb10),
            whether this is a GB10 at all. No serial numbers.
          returned: when gathered
          type: dict
          sample: {hostname: spark-1, vendor: NVIDIA, product: NVIDIA_DGX_Spark, family: DGX Spark, ota_version: 7.5.0, gb10: true}
        os:
          description: The distribution.
          returned: when gathered
          type: dict
          sample: {id: ubuntu, version: "24.04", name: Ubuntu 24.04.4 LTS}
        kernel:
          description: Release, machine and command line of the kernel that runs; those that are installed, the one that the next boot runs, the one
            that an upgrade would install; seconds since the boot; whether a reboot is asked for, whether the boot before ended with a shutdown, crash
            records, and counts of what went wrong in this boot. The journal is for root and the group C(adm) only.
          returned: when gathered
          type: dict
          sample: {release: 6.17.0-1014-nvidia, next_boot: 7.0.0-1019-nvidia, reboot_required: true, events: {oom_kill: 0, aer_fatal: 0, xid: [13]}}
        cpu:
          description: Number and models of the cores.
          returned: when gathered
          type: dict
          sample: {count: 20, models: [Cortex-A725, Cortex-X925]}
        memory:
          description: Memory, swap and the shared memory of C(/dev/shm), in bytes, as the kernel counts them.
          returned: when gathered
          type: dict
        gpu:
          description: Presence, driver, kernel module, library and CDI specification, devices (clocks in MHz, power in W, temperature in °C) and
            processes on the GPU. A GB10 has no memory number of its own, its memory is the system's.
          returned: when gathered
          type: dict
        fabric:
          description: ConnectX-7 ports with their RDMA devices, neighbours, error counters and PCIe lanes, all interfaces, who looks after them and
            whether their addresses come back after a reboot, netplan files, firewall, hotplug, IPv4 routes, and what carries this SSH session.
            Speeds are in Mb/s, RDMA rates in Gb/s, PCIe speeds in GT/s. Without a cable there may be no ports, which is healthy.
          returned: when gathered
          type: dict
        docker:
          description: Service, socket and group that lead to the engine, the engine, NVIDIA's container toolkit, images, containers and volumes. Of
            environment variables only those that say which driver an image needs and how a container finds its peers.
          returned: when gathered
          type: dict
        workloads:
          description: Containers and processes that hold memory, the largest first, in bytes.
          returned: when gathered
          type: list
          elements: dict
        deployments:
          description: Folders of other deployment tools.
          returned: when gathered
          type: list
          elements: dict
        models:
          description: The Hugging Face cache, its repositories and revisions, which of them are complete, and downloads that are not finished.
          returned: when gathered
          type: dict
        disk:
          description: Room where models and images lie, in bytes and inodes.
          returned: when gathered
          type: list
          elements: dict
        services:
          description: Listening TCP ports, and systemd units of this collection, Docker and SSH.
          returned: when gathered
          type: dict
        python:
          description: The Python that modules run with, and the version of the CUDA toolkit.
          returned: when gathered
          type: dict
        user:
          description: Who gathered the facts.
          returned: when gathered
          type: dict
        ssh:
          description: The SSH server's public host keys.
          returned: when gathered
          type: dict
        limits:
          description: Soft limits of the session, in bytes or as a count; V(-1) is unlimited.
          returned: when gathered
          type: dict
        time:
          description: Seconds since the epoch, and whether the clock is synchronized.
          returned: when gathered
          type: dict
        probes:
          description: For each probe its status (V(ok), V(unavailable), V(failed) or V(timeout)), the reason, and its time in seconds.
          returned: always
          type: dict
          sample: {nvidia_smi: {status: timeout, reason: "nvidia-smi: no answer in 10 s", seconds: 10.0}}
"""

import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.module_utils._errors import RecordingError
from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import gather, select
from ansible_collections.gb10.cluster.plugins.module_utils._runner import LiveRunner, RecordedRunner, Recorder, Runner, load_recording


def write_recording(module: AnsibleModule, path: str, recording: dict[str, Any]) -> None:
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
            json.dump(recording, stream, indent=1, ensure_ascii=False)
            stream.write("\n")
    except OSError as error:
        module.fail_json(msg=f"record: {path}: {error.strerror}")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather_subset": {"type": "list", "elements": "str", "default": ["all"]},
            "timeout": {"type": "float", "default": 10.0},
            "hf_home": {"type": "path"},
            "recording": {"type": "path"},
            "record": {"type": "path"},
            "record_salt": {"type": "str", "no_log": True},
            "unreachable_ok": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        subsets = select(options["gather_subset"])
        runner: Runner = load_recording(options["recording"]) if options["recording"] else LiveRunner(module)
    except (ValueError, RecordingError) as error:
        module.fail_json(msg=str(error))
    if options["timeout"] <= 0:
        module.fail_json(msg=f"timeout: {options['timeout']} is not a number of seconds above 0")

    if isinstance(runner, RecordedRunner) and runner.unreachable:
        module.exit_json(ansible_facts={"gb10": {"unreachable": runner.unreachable}})
    recorder = Recorder(runner, options["record_salt"])
    facts = gather(recorder, subsets, options["timeout"], options["hf_home"])
    if options["record"] and not module.check_mode:
        host = facts.get("identity", {}).get("hostname") or os.uname().nodename
        write_recording(module, options["record"], recorder.recording(host))
    module.exit_json(ansible_facts={"gb10": facts})


if __name__ == "__main__":
    main()
