#!/usr/bin/python
# Copyright (c) 2026 the gb10.cluster authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one long command as a transient systemd unit and say how far it is."""

from __future__ import annotations

DOCUMENTATION = r"""
module: job
short_description: Run one long command as a transient systemd unit and say how far it is
version_added: 0.1.0
description:
  - Runs a command that may take hours (an image pull, a build, a model download, a copy over the fabric) as the transient systemd unit
    C(gb10-job-NAME.service), and shows one line of progress whenever there is something new to say.
  - The command does not depend on the connection. If SSH drops, the job goes on and is asked again once the node answers. If the
    controller is killed, the job goes on too, and the next run of the same task adopts it instead of starting it twice.
  - A job that ended while nobody watched is run again; commands should resume rather than repeat their work.
  - Progress is read from the output of C(rsync --info=progress2), C(dd status=progress), C(docker pull), C(docker build --progress=plain),
    tqdm bars, and JSON lines with RV(ignore:done) and RV(ignore:total). Anything else is shown by its last line.
options:
  name:
    description:
      - Name of the job, unique on the node. Lower-case letters, digits, C(_), C(.) and C(-).
    type: str
    required: true
  argv:
    description:
      - The command and its arguments. There is no shell; for a pipe use C([bash, -o, pipefail, -c, "..."]).
    type: list
    elements: str
    required: true
  environment:
    description:
      - Environment variables of the command. They can be seen by anyone on the node; for secrets use O(secret_environment).
    type: dict
    default: {}
  secret_environment:
    description:
      - Environment variables whose values are secret. They travel in a file with mode 0600 on a tmpfs that is removed as soon as the
        command runs, never in an argument, and are blacked out in everything this module returns.
    type: dict
    default: {}
  user:
    description:
      - User that runs the command, with its home directory and its groups.
    type: str
    default: root
  chdir:
    description:
      - Working directory of the command.
    type: path
  timeout:
    description:
      - Seconds after which systemd stops the command, and the job has failed.
    type: int
    default: 3600
  label:
    description:
      - What the progress lines begin with, for example V(Downloading Qwen/Qwen3-8B on spark-head).
      - By default the O(name) and the host.
    type: str
  interval:
    description:
      - Seconds between two looks at the job. The first look comes after one second. Lines are said less often the longer it takes.
    type: float
    default: 5.0
  total:
    description:
      - Bytes that will be transferred, for commands that only say how much is done, such as V(dd).
    type: int
  reconnect:
    description:
      - Seconds to keep trying to reach the node again when the connection is lost while the job runs.
    type: int
    default: 300
  state:
    description:
      - Internal. V(started) starts or adopts the job, V(polled) only looks at it.
    type: str
    choices: [started, polled]
    default: started
  token:
    description:
      - Internal. Names one run of the task, so that a start that is sent twice starts once.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
    description: Says which command it would run, and starts nothing.
  diff_mode:
    support: none
    description: A command is run; what it changes is not known.
  platform:
    platforms: posix
    support: full
    description: Nodes with systemd 244 or newer.
  action:
    support: full
    description: Has an action plugin on the controller that polls the job and shows its progress.
  async:
    support: none
    description: Is its own, better kind of it.
author:
  - The gb10.cluster engineers (@gb10)
notes:
  - Needs root, so C(become) must be true.
  - The log of the run before is kept with the ending C(.1).
"""

EXAMPLES = r"""
- name: Pull the engine's image
  gb10.cluster.job:
    name: image-pull
    label: Pulling vllm/vllm-openai on {{ inventory_hostname }}
    argv: [docker, pull, "vllm/vllm-openai:v0.27.1"]
    timeout: 7200
  become: true

- name: Copy the model over the rail
  gb10.cluster.job:
    name: model-copy
    label: Copying the model to spark-worker over the rail
    argv: [rsync, -a, --info=progress2, --no-inc-recursive, /models/, "192.168.200.13:/models/"]
    user: aurora
    timeout: 3600
  become: true

- name: Send the image to the worker
  gb10.cluster.job:
    name: image-send
    argv:
      - bash
      - -o
      - pipefail
      - -c
      - docker save gb10/vllm:ray | dd bs=4M status=progress | ssh 192.168.200.13 docker load
    total: 17179869184
    user: aurora
  become: true
"""

RETURN = r"""
rc:
  description: Exit code of the command; 128 plus the signal's number where a signal ended it.
  returned: when the job has ended
  type: int
  sample: 0
result:
  description: How it ended, in systemd's words, such as V(success), V(exit-code), V(signal), V(timeout), V(oom-kill).
  returned: when the job has ended
  type: str
  sample: success
seconds:
  description: Seconds since the job was started, also for one that was adopted.
  returned: success
  type: float
  sample: 734.2
argv:
  description: The command that ran, or would run.
  returned: always
  type: list
  elements: str
  sample: [docker, pull, "vllm/vllm-openai:v0.27.1"]
log:
  description: Path of the log on the node, readable by root.
  returned: always
  type: str
  sample: /var/log/gb10/image-pull.log
last_lines:
  description: The last lines of the log (15 at most), as a terminal would show them, secrets blacked out.
  returned: success, when not in check mode; a failure's message has them
  type: list
  elements: str
unit:
  description: Name of the systemd unit.
  returned: always
  type: str
  sample: gb10-job-image-pull.service
adopted:
  description: Whether the job was already running when this task came.
  returned: always
  type: bool
  sample: false
running:
  description: Whether the job still runs. Internal to the action plugin.
  returned: when not in check mode
  type: bool
  sample: false
progress:
  description: What the log says about how far it is. Internal to the action plugin.
  returned: when the log says something
  type: dict
advice:
  description: What to do about the failure.
  returned: when the command failed
  type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.module_utils._job import ARGUMENT_SPEC, problems
from ansible_collections.gb10.cluster.plugins.module_utils._job_node import Job


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    wrong = problems(module.params)
    if wrong:
        module.fail_json(msg=f"This job cannot be run: {'; '.join(wrong)}.")
    job = Job(module)
    if module.check_mode:
        module.exit_json(changed=True, adopted=False, **job.identity())
    if os.geteuid() != 0:
        module.fail_json(msg="A job is a unit of the system's manager, which needs root. Set become: true on this task.")
    started = module.params["state"] == "started"
    adopted = job.start() if started else False
    outcome = job.wait(min(1.0, module.params["interval"]) if started else module.params["interval"])
    module.exit_json(**job.report(outcome, adopted))


if __name__ == "__main__":
    main()
