"""The fabric role on the lab's nodes: bare rails, rails to adopt, crossed cages. Check, converge, again, prove, give back: equal to before."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playing import ENVIRONMENTS, ROOT, assert_clean, fingerprints, play, recap

PLAYBOOK = "tests/testinfra/fabric/fabric.yml"
CONSENT = ["-e", '{"gb10_consent": ["network"]}']
NODES = ("spark-head", "spark-worker")


@dataclass(frozen=True)
class Fabric:
    """Profiles of the two nodes, the worker's address if it has one of its own, the netdevs that make the rails, the links that change."""

    head: str
    worker: str
    rails: dict[str, tuple[str, str]]
    changes: bool
    management: str | None = None


F1, P2F1 = "enp1s0f1np1", "enP2p1s0f1np1"
F0, P2F0 = "enp1s0f0np0", "enP2p1s0f0np0"
FABRICS = {
    "bare rails": Fabric("bare-head", "bare-worker", {"spark-head": (F1, P2F1), "spark-worker": (F1, P2F1)}, True, "172.30.180.11"),
    "one rail to adopt": Fabric("spark", "spark", {"spark-head": (F1, P2F1), "spark-worker": (F1, P2F1)}, True),
    "crossed cages": Fabric("spark", "crossed-worker", {"spark-head": (F1, P2F1), "spark-worker": (F0, P2F0)}, True),
    "one twin down, nothing to do": Fabric("spark", "degraded-twin-down", {"spark-head": (F1,), "spark-worker": (F1,)}, False),
}


def lab(*arguments: str) -> str:
    run = subprocess.run(["python3", "molecule/lab/lab.py", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def inventory(fabric: Fabric, folder: Path) -> str:
    """The lab's own, but for where the worker is reached."""
    worker = {"ansible_host": fabric.management} if fabric.management else {"ansible_host": "192.168.200.13", "gb10_jump": "spark-head"}
    hosts = {"spark-head": {"ansible_host": "172.30.180.10"}, "spark-worker": worker}
    text = (ROOT / "inventories" / "lab" / "group_vars" / "gb10.yml").read_text()
    (folder / "group_vars").mkdir()
    (folder / "group_vars" / "gb10.yml").write_text(text.replace("gb10_recipe: lab-tiny-qwen3\n", f"gb10_recipe: {RECIPE}\n"))
    path = folder / "hosts.yml"
    path.write_text(json.dumps({"gb10": {"hosts": hosts}}))
    return str(path)


RECIPE = ROOT / "inventories" / "lab" / "recipes" / "lab-tiny-qwen3.yml"


@pytest.fixture(scope="module", autouse=True)
def used_again() -> Iterator[None]:
    yield
    lab("reset", "--head", "spark-used", "--worker", "spark")


def addresses(node: str) -> dict[str, list[tuple[str, int]]]:
    """IPv4 addresses and MTU of a node's ConnectX ports, as the kernel has them."""
    links: list[dict[str, Any]] = json.loads(lab("exec", node, "--", "ip", "-json", "-4", "address", "show"))
    return {
        link["ifname"]: [(f"{entry['local']}/{entry['prefixlen']}", link["mtu"]) for entry in link["addr_info"]]
        for link in links
        if "p1s0f" in link["ifname"]
    }


@pytest.mark.parametrize("name", FABRICS)
def test_the_fabric_is_made_once_proved_and_given_back(name: str, tmp_path: Path) -> None:
    fabric = FABRICS[name]
    lab("reset", "--head", fabric.head, "--worker", fabric.worker)
    sessions = tempfile.mkdtemp(prefix="gb10-")
    where = ["-i", inventory(fabric, tmp_path), PLAYBOOK, *CONSENT]

    def run(*arguments: str) -> dict[str, dict[str, int]]:
        done = play(ENVIRONMENTS[0], *where, *arguments, sessions=sessions)
        assert done.returncode == 0, done.stdout
        assert_clean(done.stdout)
        return {host: count for host, count in recap(done.stdout).items() if host in NODES}

    before = fingerprints()
    run("--check", "--diff")
    assert fingerprints() == before, "check mode changes nothing"

    run()
    made = {node: addresses(node) for node in NODES}
    for rail, ends in enumerate(zip(*(fabric.rails[node] for node in NODES))):
        (head, head_mtu), (worker, worker_mtu) = (made[node][netdev][0] for node, netdev in zip(NODES, ends))
        assert head.rpartition(".")[0] == worker.rpartition(".")[0], f"rail {rail} is one subnet"
        assert head_mtu == worker_mtu == 9000
    own = lab("exec", "spark-head", "--", "sh", "-c", "ls -l /etc/netplan/60-gb10-fabric.yaml 2>/dev/null || true")
    assert own.startswith("-rw------- 1 root root") == fabric.changes

    assert all(count["changed"] == 0 for count in run().values()), "a second run changes nothing"
    assert {node: addresses(node) for node in NODES} == made

    run("-e", "fabric_tasks=remove")
    assert fingerprints() == before, "given back, the nodes are as they were"
