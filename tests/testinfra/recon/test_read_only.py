"""The survey changes nothing on a node: files, packages, docker, network and units are the same before and after.

Here as root. As a plain user the scenario itself compares: after --check and a real run (molecule/default/unchanged.yml).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playing import ENVIRONMENTS, assert_clean, fingerprints, play, recap


@pytest.mark.parametrize("mode", [[], ["--check"]], ids=["for real", "in check mode"])
def test_recon_leaves_the_nodes_as_they_are(mode: list[str], tmp_path: Path) -> None:
    before = fingerprints()
    run = play(ENVIRONMENTS[0], "recon.yml", "-e", f"gb10_report_dir={tmp_path}", "--become", *mode)
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    assert {host: count["changed"] for host, count in recap(run.stdout).items()} == {"localhost": 0, "spark-head": 0, "spark-worker": 0}
    assert fingerprints() == before
