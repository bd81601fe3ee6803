# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two machines of this folder's own, with three cables between them: `near` is changed, the controller sits in the network of `far`.

They are made of the lab's node image and know nothing of the lab. The session is real SSH over the cable mg0, so that an address that goes
away, a node that restarts and a cable that is cut are what they are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "molecule" / "lab"))

from gb10lab.docker import container_pid, docker, privilege_flags  # noqa: E402  (the path comes first)
from gb10lab.images import ensure_node_image  # noqa: E402

PREFIX = "gb10-tx-"
MANAGEMENT, RAIL, TWIN = "mg0", "enp1s0f0np0", "enP2p1s0f0np0"
NEAR_ADDRESS, FAR_ADDRESS = "10.9.0.2", "10.9.0.1"
FILE = "/etc/netplan/60-gb10-fabric.yaml"
STATE = "/var/lib/gb10/fabric"
STOCK = f"network:\n  version: 2\n  ethernets:\n    {RAIL}:\n      link-local: [ ipv4 ]\n"
OWN = f"network:\n  version: 2\n  ethernets:\n    {MANAGEMENT}:\n      renderer: networkd\n      addresses: [{NEAR_ADDRESS}/24]\n"
NETWORKD, NETWORK_MANAGER = "networkd", "NetworkManager"
# The distribution's own rules keep NetworkManager from every veth, since those are a container's as a rule. Here the two rails stand for the
# ports of an adapter, which it does look after, so they are taken out of that; mg0 and docker0 stay as they are.
AS_REAL_PORTS = f'SUBSYSTEM=="net", ENV{{INTERFACE}}=="{RAIL}|{TWIN}", ENV{{NM_UNMANAGED}}="0"\n'
# Nobody answers DHCP on a cable between two machines. Without a time-out the automatic profile asks for ever instead of coming and going.
ASKING = "[connection-patient]\nipv4.dhcp-timeout=2147483647\n"


def until(what: Any, seconds: float = 60.0) -> None:
    """Wait for something to become true, not for ever."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)


class Pair:
    """The two machines. Everything on `near` runs as its root unless it goes through Ansible."""

    def __init__(self, folder: Path, manager: str = NETWORKD) -> None:
        self.folder = folder
        self.manager = manager  # who looks after the rails; the way of the session is always networkd's
        self.image = ensure_node_image()
        self.near, self.far = (f"{PREFIX}{os.getpid()}-{name}" for name in ("near", "far"))

    # -- machines and cables --------------------------------------------------------------------------------------------------------------

    def build(self) -> None:
        key = self.folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        for name in (self.near, self.far):
            docker(
                "run", "-d", "--name", name, "--hostname", name, "--network", "none", *privilege_flags(self.image), "--cgroupns=host",
                "-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw", "--tmpfs", "/run:exec", "--tmpfs", "/run/lock", "--tmpfs", "/var/lib/docker",
                "--stop-signal", "SIGRTMIN+3", self.image,
            )  # fmt: skip
        self.booted()
        self.put("/home/aurora/.ssh/authorized_keys", key.with_suffix(".pub").read_text())
        self.sh("chown -R aurora: /home/aurora/.ssh; ssh-keygen -A >/dev/null; systemctl reset-failed ssh; systemctl restart ssh")
        self.put("/etc/netplan/10-management.yaml", OWN)
        self.put("/etc/netplan/40-cx7.yaml", STOCK)
        if self.manager == NETWORK_MANAGER:
            self.put("/etc/netplan/01-network-manager-all.yaml", f"network:\n  version: 2\n  renderer: {NETWORK_MANAGER}\n")
            self.put("/etc/udev/rules.d/86-real-ports.rules", AS_REAL_PORTS)
            self.put("/etc/NetworkManager/conf.d/patient.conf", ASKING)
            # In the files: a manager that is just reading them anew would refuse.
            self.sh("systemctl --root=/ enable NetworkManager")
        self.sh("netplan generate; udevadm control --reload")
        self.cable()
        self.sh("systemctl start systemd-networkd; if systemctl -q is-enabled NetworkManager; then systemctl start NetworkManager; fi")
        self.reachable()

    def cable(self) -> None:
        """Three veth pairs; whatever was there went with the network of a machine that stopped. The same ports come back, so their MACs do."""
        near, far = (container_pid(name) for name in (self.near, self.far))
        for number, link in enumerate((MANAGEMENT, RAIL, TWIN), start=1):
            end = ["ip", "link", "add", link, "address", f"02:00:00:00:02:{number:02}", "netns", str(near)]
            subprocess.run([*end, "type", "veth", "peer", "name", link, "netns", str(far)], check=True)
            self.far_ip("link", "set", link, "mtu", "9216", "up")
            subprocess.run(["nsenter", "-t", str(near), "-n", "ip", "link", "set", link, "up"], check=True)
        self.far_ip("address", "add", f"{FAR_ADDRESS}/24", "dev", MANAGEMENT)

    def far_ip(self, *words: str) -> None:
        """`ip` on the other side of the cables; a link that is down there is a cable that is cut."""
        subprocess.run([*self.controller(), "ip", *words], check=True)

    def controller(self) -> list[str]:
        return ["nsenter", "-t", str(container_pid(self.far)), "-n"]

    def booted(self) -> None:
        until(lambda: self.sh("systemctl is-system-running", check=False).strip() in ("running", "degraded"), 60)

    def reachable(self) -> None:
        until(lambda: docker("exec", self.far, "ping", "-c1", "-W1", "-q", NEAR_ADDRESS, check=False).returncode == 0)

    def power_cut(self) -> None:
        """Off at once and on again; the cables are laid anew."""
        docker("kill", self.near)
        docker("start", self.near)
        self.booted()
        self.cable()
        self.sh("systemctl start ssh")
        self.reachable()

    def remove(self) -> None:
        docker("rm", "-f", "-v", self.near, self.far, check=False)

    # -- the machine under test ------------------------------------------------------------------------------------------------------------

    def sh(self, script: str, check: bool = True) -> str:
        return docker("exec", self.near, "sh", "-c", script, check=check).stdout

    def background(self, script: str) -> None:
        docker("exec", "-d", self.near, "sh", "-c", script)

    def put(self, path: str, text: str) -> None:
        docker("exec", "-i", self.near, "sh", "-c", f"umask 077; mkdir -p {Path(path).parent}; cat > {path}", stdin=text)

    def exists(self, path: str) -> bool:
        return self.sh(f"[ -e {path} ] && echo yes", check=False).strip() == "yes"

    def link(self, name: str) -> tuple[int, list[str]]:
        """MTU and IPv4 addresses, without those that networkd makes up itself some seconds later."""
        entry = json.loads(self.sh(f"ip -j address show dev {name}"))[0]
        return entry["mtu"], sorted(
            f"{own['local']}/{own['prefixlen']}" for own in entry["addr_info"] if (own["family"], own["scope"]) == ("inet", "global")
        )

    def fingerprint(self) -> dict[str, Any]:
        """All that a change that was taken back must have left as it was."""
        folders = "netplan NetworkManager systemd/system"
        files = self.sh(f"cd /etc && find {folders} -newermt 2000-01-01 | sort | xargs -d '\\n' sha256sum 2>/dev/null; ls -a /etc/netplan")
        live = {name: self.link(name) for name in (MANAGEMENT, RAIL, TWIN)}
        made = self.sh(
            "find /run/systemd/network /run/NetworkManager /run/udev/rules.d -name '*netplan*' | sort | xargs -d '\\n' sha256sum", check=False
        )
        timers = self.sh("systemctl list-units --all --plain --no-legend 'gb10-fabric-revert*'")
        return {"files": files, "live": live, "made": made, "timers": timers, "profiles": self.profiles()}

    def profiles(self) -> dict[str, str]:
        """NetworkManager's profile on each rail: its UUID and name, empty where there is none."""
        if self.manager != NETWORK_MANAGER:
            return {}
        rows = (row.split(":", 1) for row in self.sh("nmcli -t -f DEVICE,CON-UUID,CONNECTION device").splitlines())
        return {device: profile for device, profile in rows if device in (RAIL, TWIN)}

    # -- the controller ----------------------------------------------------------------------------------------------------------------------

    def command(self, check: bool, **options: Any) -> tuple[list[str], dict[str, str]]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "MOLECULE_"))}
        environment |= {
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_TIMEOUT": "3",
            "ANSIBLE_SSH_RETRIES": "0",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "cp"),
        }
        known = f"-o UserKnownHostsFile={self.folder}/known -o StrictHostKeyChecking=accept-new"
        words = [
            *self.controller(), str(Path(sys.executable).with_name("ansible")), "all", "-i", f"{NEAR_ADDRESS},", "-u", "aurora", "-b",
            "--private-key", str(self.folder / "key"), "-m", "gb10.cluster.fabric_transaction", "-a", json.dumps(options),
            f"--ssh-common-args=-C -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=2 {known}",
        ]  # fmt: skip
        return [*words, *(["--check"] if check else [])], environment

    def start(self, **options: Any) -> subprocess.Popen[str]:
        words, environment = self.command(False, **options)
        return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def run(self, check: bool = False, **options: Any) -> dict[str, Any]:
        """The task's result, and nothing else in the output."""
        words, environment = self.command(check, **options)
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180)
        assert done.stderr == "", done.stderr
        return result_of(done.stdout)


def result_of(output: str) -> dict[str, Any]:
    """The one task's result; the callback prints JSON and nothing else."""
    result: dict[str, Any] = json.loads(output)["plays"][0]["tasks"][0]["hosts"][NEAR_ADDRESS]
    return {"failed": False, "unreachable": False, **result}


@contextmanager
def pair(folder: Path, manager: str = NETWORKD) -> Iterator[Pair]:
    made = Pair(folder, manager)
    try:
        made.build()
        yield made
    finally:
        made.remove()
