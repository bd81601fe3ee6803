#!/usr/bin/python
# Copyright (c) 2026 the gb10.cluster authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# There is only documentation here: the report is made on the controller, by the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Say on one screen what was found or done, and keep it as a report
version_added: 0.1.0
description:
  - Prints what recon, site or status has to say, from facts, plan and results, in at most 100 columns.
  - Writes C(report.json) (the truth, for programs), C(report.md) (the same, to send to someone) and C(report.html) (the same, to look at, with
    the topology drawn; it needs no network) on the controller. None contains secrets or serial numbers. The schema of C(report.json) is
    C(docs/report.schema.json).
  - Compares with the last report of the same kind and the same nodes in that directory. In diff mode it says what changed since, else how
    much did. A C(report.json) that is of another kind, of other nodes or no report at all is given another name before a new one is
    written.
  - Reads C(ansible_facts.gb10) of all hosts of the plan and C(ansible_facts.gb10_plan). Runs on the controller alone, so run it once.
options:
  kind:
    description:
      - V(recon) says what the nodes are, what was found, what would run, and the next command.
      - V(site) says what serves, how fast, and one command for each next wish.
      - V(status) says how containers, units and endpoint are.
      - V(verify) says what was proved of the fabric, rung by rung.
    type: str
    choices: [recon, site, status, verify]
    required: true
  results:
    description:
      - What was measured and changed. The keys RV(gb10.cluster.endpoint_info#module:models), RV(gb10.cluster.endpoint_info#module:completion),
        RV(gb10.cluster.endpoint_info#module:url) and RV(ignore:msg) are those of M(gb10.cluster.endpoint_info), so its result can be
        given as it is; C(changes) is a list of sentences. More keys are kept in C(report.json).
    type: dict
    default: {}
  show_commands:
    description:
      - Whether V(recon) shows the exact command and environment of each rank. The report file always has them.
    type: bool
    default: true
  dest:
    description:
      - Directory of the report files on the controller, created when missing. Relative to the working directory.
      - By default the variable C(gb10_report_dir), else V(reports).
    type: path
  write:
    description:
      - Whether to write the files. In check mode nothing is written, and that is said.
    type: bool
    default: true
  facts:
    description:
      - Facts by host, in place of those of the hosts of this play. For recordings.
    type: dict
  plan:
    description:
      - The plan, in place of C(ansible_facts.gb10_plan).
    type: dict
  community:
    description:
      - What others reported about the findings and the model. The key C(provider) is V(exa) or V(catalogue), C(reason) says why the catalogue
        was used, C(entries) is a list with the keys C(title), C(url), C(published), C(excerpt), C(about) and C(score), best first.
      - The screen shows three of them, the files all, as not verified.
    type: dict
attributes:
  check_mode:
    support: full
    description: Says all, writes nothing.
  diff_mode:
    support: full
    description: Says what changed since the last report.
  platform:
    platforms: posix
    support: full
    description: Runs on the controller.
  action:
    support: full
    description: Is an action plugin.
  async:
    support: none
    description: There is nothing to wait for.
author:
  - The gb10.cluster engineers (@gb10)
notes:
  - Never reports a change, for writing a report changes no node.
"""

EXAMPLES = r"""
- name: Say what was found
  gb10.cluster.report:
    kind: recon
  run_once: true

- name: Say what serves, how fast, and what to try next
  gb10.cluster.report:
    kind: site
    results: "{{ answer }}"
  run_once: true
"""

RETURN = r"""
ok:
  description: Whether nothing blocks the plan.
  returned: success
  type: bool
files:
  description: The files that were written, absolute paths on the controller.
  returned: success
  type: list
  elements: str
  sample: [/home/aurora/spark/reports/report.json, /home/aurora/spark/reports/report.md, /home/aurora/spark/reports/report.html]
"""
