# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real firewall on the lab's worker: the rails are opened in it by consent alone, each to its own subnet, and closed again."""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from playing import ENVIRONMENTS, ROOT, assert_clean, fingerprints, play, recap

PLAYBOOK = "tests/testinfra/fabric/firewall.yml"
HEAD, WORKER = "spark-head", "spark-worker"
RAILS = {"enp1s0f1np1": "192.168.200.0/24", "enP2p1s0f1np1": "192.168.201.0/24"}
#: Only SSH gets in, and the echo of the role's proof, which ufw lets in by itself.
FIREWALLS = {
    "ufw": "ufw allow 22/tcp; ufw default deny incoming; ufw --force enable",
    "iptables": (
        "iptables -A INPUT -i lo -j ACCEPT; iptables -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; "
        "iptables -A INPUT -p tcp --dport 22 -j ACCEPT; iptables -A INPUT -p icmp -j ACCEPT; iptables -P INPUT DROP"
    ),
}
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3).close()
    print("open")
except OSError as error:
    print(type(error).__name__)
"""


def lab(*arguments: str) -> str:
    run = subprocess.run(["python3", "molecule/lab/lab.py", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def worker(script: str) -> str:
    return lab("exec", WORKER, "--", "sh", "-ec", script)


def address(netdev: str) -> str:
    """The worker's on this rail."""
    return worker(f"ip -4 -o address show dev {netdev} scope global").split()[3].partition("/")[0]


def connect(netdev: str, port: int) -> str:
    """What a connection from the head over this rail comes to. A firewall drops; a port that nobody listens on would refuse."""
    return lab("exec", HEAD, "--", "python3", "-c", CONNECT, address(netdev), str(port)).strip()


def rules() -> str:
    """All that decides on what comes in, as the kernel has it and as ufw keeps it."""
    return worker("iptables -S; if [ -x /usr/sbin/ufw ]; then ufw show added; fi")


@pytest.fixture(scope="module", autouse=True)
def used_again() -> Iterator[None]:
    yield
    lab("reset", "--head", "spark-used", "--worker", "spark")


@pytest.fixture
def port() -> int:
    """A port that somebody listens on at all of the worker's addresses, also at those that come later."""
    lab("reset", "--head", "spark", "--worker", "spark")
    number = random.randrange(20000, 30000)  # below the ports that outgoing connections take
    lab("exec", WORKER, "--", "systemd-run", "--quiet", "--unit=test-listener", "python3", "-m", "http.server", str(number))
    worker(f"timeout 20 sh -c 'until ss -Hltn sport = :{number} | grep -q .; do sleep 0.1; done'")
    return number


@pytest.mark.parametrize("kind", FIREWALLS)
def test_the_rails_are_opened_by_consent_and_closed_again(kind: str, port: int) -> None:
    first, second = RAILS
    sessions = tempfile.mkdtemp(prefix="gb10-")

    def run(*consent: str, arguments: tuple[str, ...] = ()) -> dict[str, dict[str, int]]:
        words = ", ".join(f'"{word}"' for word in consent)
        done = play(ENVIRONMENTS[0], PLAYBOOK, "-e", f'{{"gb10_consent": [{words}]}}', *arguments, sessions=sessions)
        assert done.returncode == 0, done.stdout
        assert_clean(done.stdout)
        return {host: count for host, count in recap(done.stdout).items() if host in (HEAD, WORKER)}

    assert connect(first, port) == "open", "without a firewall it gets through"
    worker(FIREWALLS[kind])
    assert connect(first, port) == "TimeoutError"
    nodes_before, rules_before = fingerprints(), rules()

    if kind == "ufw":
        run("network")
        assert rules() == rules_before, "without consent the firewall is left alone"
        assert {connect(netdev, port) for netdev in RAILS} == {"TimeoutError"}

        nodes_closed = fingerprints()
        checked = run("network", "firewall", arguments=("--check", "--diff"))
        assert (checked[WORKER]["changed"] > 0, checked[HEAD]["changed"]) == (True, 0), "check mode says what it would do"
        assert (fingerprints(), rules()) == (nodes_closed, rules_before), "and does nothing"

    opened = run("network", "firewall")
    assert opened[WORKER]["changed"] > 0
    assert {connect(netdev, port) for netdev in RAILS} == {"open"}
    added = sorted(set(rules().splitlines()) - set(rules_before.splitlines()))
    assert len(added) == len(RAILS) * (2 if kind == "ufw" else 1), added
    assert all(any(netdev in line and subnet in line for netdev, subnet in RAILS.items()) for line in added), added

    rules_open = rules()
    if kind == "ufw":
        again = run("network", "firewall")
        assert [count["changed"] for count in again.values()] == [0, 0], again
        assert rules() == rules_open

    if kind == "iptables":
        # What loads rules at boot, or by its owner's hand, knows nothing of ours.
        worker(f"iptables -F INPUT; {FIREWALLS[kind]}")
        assert connect(second, port) == "TimeoutError"
        worker("systemctl restart gb10-firewall")
        assert connect(second, port) == "open"
        worker(f"iptables -F INPUT; {FIREWALLS[kind]}")
        assert run("network", "firewall")[WORKER]["changed"] == 1
        assert rules() == rules_open

    # Not even the consent is needed to take it back.
    run(arguments=("-e", "fabric_tasks=remove"))
    assert rules() == rules_before
    assert fingerprints() == nodes_before, "given back, the nodes are as they were"
    assert connect(first, port) == "TimeoutError"
