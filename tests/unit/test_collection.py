# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive that users install: it holds what the product needs and nothing else, and works from anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {"CHANGELOG.rst", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "changelogs", "docs", "meta", "playbooks", "plugins", "roles"}


def ansible(command: str, *arguments: str, cwd: Path, **settings: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")} | settings
    program = Path(sys.executable).with_name(command)
    return subprocess.run([program, *arguments], cwd=cwd, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    ansible("ansible-galaxy", "collection", "build", str(ROOT), "--output-path", str(folder), cwd=folder)
    return next(folder.glob("gb10-cluster-*.tar.gz"))


def test_the_archive_holds_the_rooms_of_the_product_alone(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        assert {name.split("/")[0] for name in tar.getnames()} == ROOMS


def test_playbooks_roles_and_plugins_resolve_where_it_is_installed(archive: Path, tmp_path: Path) -> None:
    paths = f"{tmp_path / 'collections'}"
    ansible("ansible-galaxy", "collection", "install", str(archive), "-p", paths, "--no-deps", "--offline", "--force", cwd=tmp_path)
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("gb10: {hosts: {spark-head: {ansible_host: 192.0.2.1}}}\n")
    for playbook, word in (
        ("recon", "Survey and plan"),
        ("site", "Get the model from the Hub, once"),
        ("teardown", "Remove the volumes of the cluster"),
    ):
        listed = ansible(
            "ansible-playbook", "-i", str(inventory), f"gb10.cluster.{playbook}", "--list-tasks", cwd=tmp_path, ANSIBLE_COLLECTIONS_PATH=paths
        )
        assert str(tmp_path / "collections") in listed
        assert word in listed
