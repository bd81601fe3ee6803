"""One file from `playbooks/support.yml` gives somebody else the same report, without a network."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from playing import ENVIRONMENTS, ROOT, assert_clean, fingerprints, play

BUNDLE = "gb10-support.tar.gz"
# What passes while two looks are taken one after the other.
PASSING = ("source", "seconds", "epoch", "uptime", "disk")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("support")
    before = fingerprints()
    run = play(ENVIRONMENTS[0], "playbooks/support.yml", "-e", f"gb10_report_dir={folder}")
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    assert fingerprints() == before, "recordings were left on a node"
    return folder / BUNDLE


def surveyed(folder: Path, *arguments: str, offline: bool = False) -> tuple[dict[str, Any], str]:
    """The report of a survey, and what it printed; offline in a network namespace that has not even a loopback."""
    prefix = ["unshare", "--map-root-user", "--net"] if offline else []
    run = play(ENVIRONMENTS[0], "recon.yml", "-e", f"gb10_report_dir={folder}", *arguments, prefix=prefix)
    assert run.returncode == 0, run.stdout
    assert_clean(run.stdout)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    text = re.search(r"^spark-head ·.*(?=^The report:)", run.stdout, re.DOTALL | re.MULTILINE)
    assert text, run.stdout
    said, disks = re.subn(r"[\d.]+ [GT]B of ([\d.]+ [GT]B free)", r"… of \1", text.group())
    assert disks, text.group()
    return report, said


def lasting(report: dict[str, Any]) -> dict[str, Any]:
    nodes = {name: {key: value for key, value in node.items() if key not in PASSING} for name, node in report["nodes"].items()}
    return {**{key: value for key, value in report.items() if key != "generated"}, "nodes": nodes}


def test_the_replayed_report_is_the_live_one(bundle: Path, tmp_path: Path) -> None:
    live, said_live = surveyed(tmp_path / "live")
    replayed, said_offline = surveyed(tmp_path / "offline", "-e", f"gb10_recordings={bundle}", offline=True)
    assert lasting(replayed) == lasting(live)
    assert said_offline == said_live


def test_a_directory_of_recordings_is_enough(bundle: Path, tmp_path: Path) -> None:
    with tarfile.open(bundle) as archive:
        archive.extractall(tmp_path, filter="data")
    recordings = tmp_path / "gb10-support" / "recordings"
    report, _said = surveyed(tmp_path, "-e", f"gb10_recordings={recordings}", "-e", f"gb10_recipe={tmp_path}/gb10-support/recipe.yml", offline=True)
    assert report["plan"]["ranks"] == ["spark-head", "spark-worker"]


def test_nothing_private_is_in_the_bundle(bundle: Path) -> None:
    with tarfile.open(bundle) as archive:
        text = "".join((archive.extractfile(name) or archive).read().decode() for name in archive.getnames())
    look = "cat /sys/class/net/e*/address; cat /etc/ssh/*.pub | cut -d' ' -f2"
    command = ["python3", "molecule/lab/lab.py", "exec", "spark-head", "--", "sh", "-c", look]
    secrets = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert len(secrets) > 6
    assert [secret for secret in secrets if secret in text] == []
    assert bundle.stat().st_mode & 0o077 == 0, "readable by its owner only"


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "no such directory or file"), (b"not an archive", "not a support bundle"), ("directory", "holds no recording")],
    ids=["absent", "no archive", "empty directory"],
)
def test_what_is_no_bundle_ends_in_one_sentence(content: bytes | str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    if content == "directory":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    run = play(ENVIRONMENTS[0], "recon.yml", "-e", f"gb10_recordings={path}")
    assert run.returncode != 0
    assert words in run.stdout
    assert "Traceback" not in run.stdout
