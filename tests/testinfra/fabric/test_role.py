"""The fabric role on the lab's nodes: bare rails, rails to adopt, crossed cages, a switch, a ring. Check, converge, again, prove, give back."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playing import ENVIRONMENTS, ROOT, assert_clean, fingerprints, play, recap

PLAYBOOK = "tests/testinfra/fabric/fabric.yml"
CONSENT = ["-e", '{"gb10_consent": ["network"]}']
HEAD, WORKER, THIRD, FOURTH = "spark-head", "spark-worker", "spark-third", "spark-fourth"
#: The first functions of both cages, and the second ones.
F0, F1 = "enp1s0f0np0", "enp1s0f1np1"
P2F0, P2F1 = "enP2p1s0f0np0", "enP2p1s0f1np1"


@dataclass(frozen=True)
class Fabric:
    """The machines by their profiles, the netdevs that make the rails, whether links change, where machines are reached but behind the head.

    ``briefly``: what other cases show too, the check before and the second run, is left out.
    """

    machines: dict[str, str]
    rails: list[dict[str, str]]
    changes: bool = True
    briefly: bool = False
    management: dict[str, str] = field(default_factory=dict)


FABRICS = {
    # Bare rails.
    "fabric": Fabric(
        {HEAD: "bare-head", WORKER: "bare-worker"},
        [{HEAD: F1, WORKER: F1}, {HEAD: P2F1, WORKER: P2F1}],
        management={WORKER: "172.30.180.11"},
    ),
    # The second twin has no address.
    "fabric_adopt": Fabric({HEAD: "spark", WORKER: "spark"}, [{HEAD: F1, WORKER: F1}, {HEAD: P2F1, WORKER: P2F1}]),
    "fabric_crossed": Fabric({HEAD: "spark", WORKER: "crossed-worker"}, [{HEAD: F1, WORKER: F0}, {HEAD: P2F1, WORKER: P2F0}]),
    # Nothing to do.
    "fabric_twin_down": Fabric({HEAD: "spark", WORKER: "degraded-twin-down"}, [{HEAD: F1, WORKER: F1}], changes=False, briefly=True),
    # On a switch, the third in its other cage.
    "fabric_quad": Fabric(
        {HEAD: "bare-head", WORKER: "bare-worker", THIRD: "bare-crossed", FOURTH: "bare-head"},
        [{HEAD: F1, WORKER: F1, THIRD: F0, FOURTH: F1}, {HEAD: P2F1, WORKER: P2F1, THIRD: P2F0, FOURTH: P2F1}],
        management={WORKER: "172.30.180.11", THIRD: "172.30.180.12", FOURTH: "172.30.180.13"},
    ),
    "fabric_ring": Fabric(
        {HEAD: "ring-head", WORKER: "ring-worker", THIRD: "ring-third"},
        [
            {HEAD: F0, WORKER: F1},
            {HEAD: P2F0, WORKER: P2F1},
            {HEAD: F1, THIRD: F0},
            {HEAD: P2F1, THIRD: P2F0},
            {WORKER: F0, THIRD: F1},
            {WORKER: P2F0, THIRD: P2F1},
        ],
        briefly=True,
        management={WORKER: "172.30.180.11", THIRD: "172.30.180.12"},
    ),
}


def lab(*arguments: str) -> str:
    run = subprocess.run(["python3", "molecule/lab/lab.py", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def inventory(fabric: Fabric, folder: Path) -> str:
    """The lab's own, but for who is in it and where they are reached."""
    hosts = {HEAD: {"ansible_host": "172.30.180.10"}, WORKER: {"ansible_host": "192.168.200.13", "gb10_jump": HEAD}}
    hosts |= {name: {"ansible_host": address} for name, address in fabric.management.items()}
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
    options = zip(("--head", "--worker", "--third", "--fourth"), fabric.machines.values())
    lab("reset", *(word for option in options for word in option))
    sessions = tempfile.mkdtemp(prefix="gb10-")
    where = ["-i", inventory(fabric, tmp_path), PLAYBOOK, *CONSENT]

    def run(*arguments: str, idempotent: bool = False) -> None:
        done = play(ENVIRONMENTS[0], *where, *arguments, sessions=sessions)
        assert done.returncode == 0, done.stdout
        assert_clean(done.stdout)
        if idempotent:
            assert all(recap(done.stdout)[host]["changed"] == 0 for host in fabric.machines), done.stdout

    before = fingerprints(tuple(fabric.machines))
    if not fabric.briefly:
        run("--check", "--diff")
        assert fingerprints(tuple(fabric.machines)) == before, "check mode changes nothing"

    run()
    made = {node: addresses(node) for node in fabric.machines}
    subnets = set()
    for rail in fabric.rails:
        ends = [made[node][netdev][0] for node, netdev in rail.items()]
        assert len({address for address, _mtu in ends}) == len(rail)
        subnets |= {address.rpartition(".")[0] for address, _mtu in ends}
        assert {mtu for _address, mtu in ends} == {9000}
    assert len(subnets) == len(fabric.rails), "each rail is one subnet of its own"
    own = lab("exec", HEAD, "--", "sh", "-c", "ls -l /etc/netplan/60-gb10-fabric.yaml 2>/dev/null || true")
    assert own.startswith("-rw------- 1 root root") == fabric.changes

    if not fabric.briefly:
        run(idempotent=True)
        assert {node: addresses(node) for node in fabric.machines} == made

    run("-e", "fabric_tasks=remove")
    assert fingerprints(tuple(fabric.machines)) == before, "given back, the nodes are as they were"
