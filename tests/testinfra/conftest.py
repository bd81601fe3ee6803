"""The lab's nodes for the tests: the worker through the head, as a user reaches it; the plan as the last run reported it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import testinfra
from playing import ENVIRONMENTS
from testinfra.host import Host

ROOT = Path(__file__).resolve().parents[2]
KEY = Path("~/.cache/gb10-cluster/lab/id_ed25519").expanduser()
KNOWN_HOSTS = KEY.with_name("known_hosts")
SSH_CONFIG = f"""
Host *
  User aurora
  IdentityFile {KEY}
  # testinfra's paramiko knows no known_hosts file; that host keys are checked is proven by Ansible's own sessions
  StrictHostKeyChecking no
Host spark-head
  HostName 172.30.180.10
Host spark-worker
  HostName 192.168.200.13
  ProxyCommand ssh -i {KEY} -o UserKnownHostsFile={KNOWN_HOSTS} -o BatchMode=yes -W [%h]:%p aurora@172.30.180.10
"""


@pytest.fixture(params=ENVIRONMENTS, ids=lambda path: Path(path).name.rsplit("-", 1)[0])
def environment(request: pytest.FixtureRequest) -> str:
    """A Python environment for each ansible-core at hand."""
    return str(request.param)


@pytest.fixture(scope="session")
def ssh_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ssh") / "config"
    path.write_text(SSH_CONFIG)
    return path


@pytest.fixture(scope="session")
def nodes(ssh_config: Path) -> dict[str, Host]:
    names = ("spark-head", "spark-worker")
    return {name: testinfra.get_host(f"paramiko://{name}?ssh_config={ssh_config}") for name in names}


@pytest.fixture(scope="session")
def report() -> dict[str, Any]:
    # molecule runs ansible-playbook in the scenario's folder, a user in the root
    newest = max((path for path in ROOT.glob("**/reports/report.json") if ".ansible" not in path.parts), key=lambda path: path.stat().st_mtime)
    loaded: dict[str, Any] = json.loads(newest.read_text())
    return loaded
