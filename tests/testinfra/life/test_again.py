"""A second run with each ansible-core at hand, and the ladder, on the deployment that the scenario `site` left in the lab."""

from __future__ import annotations

import json
from pathlib import Path

from playing import CONSENT, ENVIRONMENTS, assert_clean, fingerprints, play, recap


def test_a_second_run_changes_nothing_and_warns_of_nothing(environment: str) -> None:
    run = play(environment, "site.yml", *CONSENT)
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    counts = recap(run.stdout)
    assert set(counts) >= {"spark-head", "spark-worker"}
    assert all(count["changed"] == 0 and count["failed"] == 0 for count in counts.values()), run.stdout


def test_the_ladder_proves_what_it_can_and_says_what_it_cannot(tmp_path: Path) -> None:
    before = fingerprints()
    run = play(ENVIRONMENTS[-1], "gb10.cluster.verify", "-e", f"gb10_report_dir={tmp_path}")
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    assert fingerprints() == before
    rungs = json.loads((tmp_path / "report.json").read_text())["results"]["ladder"]["rungs"]
    verdicts = {(rung["name"], rung["verdict"]) for rung in rungs}
    assert {("ping", "pass"), ("link", "pass")} <= verdicts
    # There is no RDMA and no GPU in the lab: that is said, and nothing of it passes.
    assert {verdict for name, verdict in verdicts if name not in ("ping", "link")} == {"skipped"}
    assert all(rung["observed"] and rung["expected"] for rung in rungs)
    assert "The fabric, from the wire upwards" in run.stdout


BROKEN_STEP = """
- hosts: spark-head
  gather_facts: false
  vars:
    __verify_step: {id: broken, nodes: {spark-head: {test: no_such_test}}}
    __verify_measured: {}
  tasks:
    - ansible.builtin.include_role: {name: gb10.cluster.verify, tasks_from: ladder_step}
    - ansible.builtin.assert: {that: __verify_measured.broken.failed}
"""


def test_a_rung_that_breaks_is_handed_to_the_ladder_as_a_failure(tmp_path: Path) -> None:
    playbook = tmp_path / "broken.yml"
    playbook.write_text(BROKEN_STEP)
    run = play(ENVIRONMENTS[-1], str(playbook))
    assert run.returncode == 0, run.stdout
