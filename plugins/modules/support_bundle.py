#!/usr/bin/python
# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name. There is nothing here to run on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: support_bundle
short_description: Pack recordings of the nodes into one file, or say what such a file holds
version_added: 0.2.0
description:
  - A support bundle lets somebody else, on another machine and without your nodes, see the facts, findings and plan that you see.
  - It holds a redacted recording of each node (M(gb10.cluster.gb10_facts) with its option O(gb10.cluster.gb10_facts#module:record)), the recipe as
    it was resolved, and the settings that the plan depends on. It never holds the API key or a token.
options:
  state:
    description:
      - V(packed) makes the bundle at O(path) from the files in O(recordings), the plan C(ansible_facts.gb10_plan) and the variables.
      - V(read) reads the bundle at O(path) and returns its nodes and settings.
    type: str
    choices: [packed, read]
    required: true
  path:
    description: The bundle, a C(.tar.gz). V(read) takes a directory as well, also one that only holds recordings.
    type: path
    required: true
  recordings:
    description: For V(packed), the directory with a file C(NAME.json) for each rank. A rank without one is named as missing, with the reason.
    type: path
  workspace:
    description:
      - For V(read), an empty directory. An archive is unpacked there.
      - The file C(variables.json) in it gets the settings to plan with, C(gb10_recipe) among them, which is the path of the bundle's recipe.
    type: path
attributes:
  action:
    support: full
    description: Runs on the controller.
  check_mode:
    support: full
    description: V(packed) writes nothing then; V(read) changes nothing anyway.
  diff_mode:
    support: none
    description: The bundle is not compared to an older one.
  platform:
    platforms: posix
    support: full
    description: Runs on the controller.
author:
  - The gb10.cluster engineers (@gb10-cluster)
"""

EXAMPLES = r"""
- name: Pack what was fetched
  gb10.cluster.support_bundle:
    state: packed
    path: reports/gb10-support.tar.gz
    recordings: /tmp/fetched
  run_once: true

- name: See which nodes a bundle holds
  gb10.cluster.support_bundle:
    state: read
    path: gb10-support.tar.gz
    workspace: /tmp/unpacked
  register: bundle
"""

RETURN = r"""
path:
  description: Where the bundle is.
  returned: when packed
  type: str
missing:
  description: Ranks without a recording, and the reason of each.
  returned: when packed
  type: dict
size:
  description: Size of the bundle in bytes.
  returned: when packed
  type: int
nodes:
  description:
    - When packed, the names of the ranks that were recorded.
    - When read, in the order of ranks, the name of each node with the path of its RV(nodes[].recording).
  returned: success
  type: list
  elements: raw
"""
