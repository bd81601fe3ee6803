#!/usr/bin/python
# Copyright (c) 2026 the gb10.cluster authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# There is only documentation here: the search is made on the controller, by the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: community_search
short_description: Find what others report about the findings and the model of a plan
version_added: 0.2.0
description:
  - Asks the search API of Exa for public reports of the last 12 months, with one request about the model and one for each topic of findings
    that block or warn, at most four, all at once. Ranks the results by relevance, date and source.
  - Without a key, without a network, or when the API does not answer as it should, returns the catalogue that comes with the collection (the
    sources of the findings at hand and of the recipe), and says why in RV(community.reason). The task does not fail for that.
  - A request holds the ids and summaries of rules, which are the same on every machine, names of products, and the repository of the model.
    Nothing that was observed on a node is in it, so no host name, address, user or serial number leaves the controller.
  - The model's repository is left out if it is a path or does not look like one of the public Hub, and if the variable C(gb10_hf_endpoint) names
    another Hub. A private repository on the public Hub cannot be told from a public one.
options:
  plan:
    description:
      - The plan, in place of C(ansible_facts.gb10_plan).
    type: dict
  endpoint:
    description:
      - URL of the API, for a gateway of your own that speaks it. With V(http://) the key is sent in clear text. C(/search) is appended to a URL
        without a path.
      - By default the variable C(gb10_recon_search_endpoint), else V(https://api.exa.ai/search).
    type: str
  timeout:
    description:
      - Seconds that all requests together may take, from 1 to 120.
    type: int
    default: 20
  limit:
    description:
      - How many entries are returned at most, from 1 to 50.
    type: int
    default: 8
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
    description: Takes at most O(timeout) seconds.
author:
  - The gb10.cluster engineers (@gb10)
notes:
  - The key is read from the environment variable E(EXA_API_KEY) of the controller, and from nowhere else. It is in no result and no log.
  - Honours the proxy and certificate settings of the controller's environment, such as E(https_proxy).
  - What is found is the word of others. Nobody has verified it.
seealso:
  - module: gb10.cluster.plan
  - module: gb10.cluster.report
"""

EXAMPLES = r"""
- name: Plan what each rank will run
  gb10.cluster.plan:
  run_once: true

- name: Find what others report about it
  gb10.cluster.community_search:
  run_once: true
  register: search

- name: Ask a gateway of your own, briefly
  gb10.cluster.community_search:
    endpoint: https://search.example.com/exa/search
    timeout: 5
    limit: 3
  run_once: true
"""

RETURN = r"""
community:
  description: What was found, in the shape that the report takes.
  returned: success
  type: dict
  contains:
    provider:
      description: V(exa), or V(catalogue) for the sources that come with the collection.
      type: str
      sample: exa
    reason:
      description: Why the catalogue was used. Absent otherwise.
      type: str
      sample: EXA_API_KEY is not set
    entries:
      description: Public pages, best first.
      type: list
      elements: dict
      contains:
        title:
          description: The title of the page, without markup.
          type: str
        url:
          description: The address of the page. Always V(http://) or V(https://).
          type: str
          sample: https://github.com/vllm-project/vllm/issues/48140
        published:
          description: The day it was published. Absent if it is unknown.
          type: str
          sample: "2026-09-12"
        excerpt:
          description: A part of the page, without markup. Empty if there is none.
          type: str
        about:
          description: The ids of findings that it is about, or V(model).
          type: list
          elements: str
          sample: [memory.occupied]
        score:
          description: Relevance times recency times quality of the source, from 0 to 1.
          type: float
          sample: 0.71
omitted:
  description: One sentence for each thing that was not asked, or that got no answer where others did.
  returned: success
  type: list
  elements: str
  sample: ["The model was not asked about: its name may not be a public one."]
"""
