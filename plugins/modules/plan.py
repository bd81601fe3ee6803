#!/usr/bin/python
# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name. There is nothing here to run on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Plan what each rank of a GB10 cluster will run, and find what is in its way
version_added: 0.1.0
description:
  - Reads the facts that M(gb10.cluster.gb10_facts) gathered from the hosts of one inventory group, a recipe, and the variables of the
    deployment, and returns the plan, which holds ranks, rails, environments, container specs, memory budgets, and findings.
  - A pure computation on the controller. The same input gives the same bytes. No node is touched.
  - A host without facts did not answer. It becomes a finding, and the plan is still made for the others.
  - Each option is also a variable with the prefix C(gb10_); an option of the task wins over the variable.
options:
  group:
    description: The inventory group that makes one cluster. Its order is the order of ranks.
    type: str
    default: gb10
  head:
    description: The host of the group that is rank 0. The first one if this is not set.
    type: str
  recipe:
    description:
      - The name of a recipe, or the path of a recipe file.
      - Names are looked for in C(recipes/) beside the inventory, in O(recipe_dirs), and among the recipes of the collection, in this order.
    type: str
    default: qwen3.5-122b-a10b-fp8
  recipe_dirs:
    description: Further directories with recipes.
    type: list
    elements: path
    default: []
  recipe_overrides:
    description: Merged over the recipe, mapping by mapping. Lists are replaced.
    type: dict
    default: {}
  backend:
    description: How ranks find each other. V(ray) forms a Ray cluster, V(mp) is vLLM's own. The recipe's if this is not set.
    type: str
    choices: [ray, mp]
  api_host:
    description: Address on which the API listens. The head's management address if this is not set.
    type: str
  api_port:
    description: TCP port on which the API listens.
    type: int
    default: 8000
  api_key:
    description:
      - The key that clients of the API need. Taken from the environment variable E(GB10_API_KEY) if this is not set.
      - The plan only says whether there is one.
    type: str
  reclaim:
    description: Containers of others that may be stopped to free memory.
    type: list
    elements: str
    default: []
  consent:
    description:
      - What may be changed on the nodes.
      - V(network) lets rails without an address be configured.
      - V(firewall) lets rails be opened, each to its own subnet, in an active ufw or iptables.
    type: list
    elements: str
    choices: [network, firewall]
    default: []
  accept:
    description: Ids of findings that are known and accepted. They stay in the plan, and no longer block.
    type: list
    elements: str
    default: []
  ulimits:
    description: Ulimits of the containers, as in C(docker run --ulimit). The recipe's if this is not set.
    type: list
    elements: str
author:
  - The gb10.cluster engineers (@gb10)
attributes:
  action:
    description: Has an action plugin of this name, which does all of the work on the controller.
    support: full
  async:
    description: Can run in the background with C(async).
    support: none
  bypass_host_loop:
    description: Runs once for all hosts instead of once a host.
    support: none
    details:
      - The plan is one for the whole group, so use C(run_once=true).
  check_mode:
    description: Can run in check mode and returns what it would return otherwise.
    support: full
  diff_mode:
    description: Says what changed.
    support: N/A
    details:
      - Changes nothing.
  facts:
    description: Returns facts that later tasks can use.
    support: full
  platform:
    description: Target platforms.
    support: full
    platforms: posix
seealso:
  - module: gb10.cluster.gb10_facts
"""

EXAMPLES = r"""
- name: Read what each node is
  gb10.cluster.gb10_facts:
  ignore_unreachable: true

- name: Plan what each rank will run
  gb10.cluster.plan:
  run_once: true

- name: Plan with consent to stop a container and to give the second rail an address
  gb10.cluster.plan:
    reclaim: [vllm_node]
    consent: [network]
  run_once: true

- name: Plan a recipe of one's own with a shorter context
  gb10.cluster.plan:
    recipe: recipes/mine.yml
    recipe_overrides:
      engine_arguments: [--max-model-len, "65536"]
  run_once: true
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to C(ansible_facts).
  returned: success
  type: dict
  contains:
    gb10_plan:
      description: The plan.
      returned: success
      type: dict
      contains:
        schema:
          description: Version of the plan's shape.
          type: int
          sample: 1
        ok:
          description: Whether nothing blocks. Accepted findings do not.
          type: bool
          sample: false
        recipe:
          description: The recipe as resolved, overrides applied. Sizes are in bytes, times in seconds.
          type: dict
        backend:
          description: How ranks find each other. Always V(mp) on a single node, which needs no Ray.
          type: str
          sample: ray
        ranks:
          description: The hosts; the index is the rank.
          type: list
          elements: str
          sample: [spark-head, spark-worker]
        head:
          description: The host of rank 0.
          type: str
          sample: spark-head
        world_size:
          description: Tensor parallel times pipeline parallel.
          type: int
          sample: 2
        endpoint:
          description: Where the API listens, its URL for clients, and whether it asks for a key.
          type: dict
          sample: {host: 192.0.2.10, port: 8000, url: "http://192.0.2.10:8000/v1", api_key: true}
        model:
          description: The pinned model, its size in bytes, and the rank that others copy it from.
          type: dict
        image:
          description: What is pulled, what containers run, and the Dockerfile that leads from one to the other.
          type: dict
        nodes:
          description:
            - By host, its rank, addresses, rails, those of them that its firewall lets in by consent, memory budget (bytes), what has to be done
              for image and model, containers that are stopped by consent, environment, container specs, and containers of ours that the plan
              no longer has.
          type: dict
        findings:
          description: What was found, what blocks first.
          type: list
          elements: dict
          contains:
            id:
              description: Topic and what.
              type: str
              sample: memory.occupied
            severity:
              description: V(block), V(warn), or V(info).
              type: str
              sample: block
            nodes:
              description: The hosts concerned.
              type: list
              elements: str
              sample: [spark-head]
            observed:
              description: What was found.
              type: str
            expected:
              description: What should be.
              type: str
            remedy:
              description: What to do.
              type: str
            evidence:
              description: Keys of the facts that it rests on.
              type: list
              elements: str
            source:
              description: A public report of this fault, or a page of the documentation.
              type: str
            accepted:
              description: Whether the user listed the id in O(accept).
              type: bool
"""
