# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way to the engine, the driver's parts, names, swap: what else stands beside a topic."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_node import Answer, answer, facts_from

SOCKET = ("find", "-L", "/var/run/docker.sock", "-maxdepth", "0", "-printf", "exists", "-writable", "-printf", " accessible")
GROUP = ("getent", "group", "docker")
ID = ("id",)
MEMBER = "uid=1000(aurora) gid=1000(aurora) groups=1000(aurora),988(docker)\n"
OUTSIDER = "uid=1000(aurora) gid=1000(aurora) groups=1000(aurora),27(sudo)\n"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (answer("exists accessible"), {"exists": True, "accessible": True}),
        (answer("exists"), {"exists": True, "accessible": False}),
        (answer(rc=1, stderr="find: '/var/run/docker.sock': No such file or directory\n"), {"exists": False, "accessible": False}),
    ],
)
def test_the_socket(given: Answer, expected: dict[str, bool]) -> None:
    assert facts_from("docker", {SOCKET: given}, {})["docker"]["socket"] == {"path": "/var/run/docker.sock", **expected}


@pytest.mark.parametrize(
    ("group", "identity", "variables", "expected"),
    [
        ("docker:x:988:aurora\n", MEMBER, "", {"exists": True, "member": True, "in_session": True}),
        # Joined after the login: only a new session brings it.
        ("docker:x:988:aurora\n", OUTSIDER, "", {"exists": True, "member": True, "in_session": False}),
        ("docker:x:988:\n", OUTSIDER, "", {"exists": True, "member": False, "in_session": False}),
        ("docker:x:988:\n", MEMBER, "", {"exists": True, "member": True, "in_session": True}),
        # With sudo it is root's session, and the question is about who connected.
        ("docker:x:988:aurora\n", "uid=0(root) gid=0(root) groups=0(root)\n", "SUDO_USER=aurora\0", {"exists": True, "member": True}),
    ],
)
def test_the_group(group: str, identity: str, variables: str, expected: dict[str, bool]) -> None:
    facts = facts_from("docker", {GROUP: answer(group), ID: answer(identity)}, {"/proc/self/environ": variables})
    assert facts["docker"]["group"] == expected


def test_no_group_at_all() -> None:
    assert facts_from("docker", {GROUP: answer(rc=2)}, {})["docker"]["group"] == {"exists": False, "member": False, "in_session": False}


def test_the_container_toolkit() -> None:
    files: dict[str, str | None] = {"/etc/nvidia-container-runtime/config.toml": '[nvidia-container-runtime]\nmode = "auto"\n'}
    docker = facts_from("docker", {("nvidia-ctk", "--version"): answer("NVIDIA Container Toolkit CLI version 1.18.1\n")}, files)["docker"]
    assert (docker["toolkit"], docker["toolkit_mode"]) == ("1.18.1", "auto")


NVRM = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.142  Release Build  (x)\n"
LIBRARY = "/usr/lib/aarch64-linux-gnu/libcuda.so.1"


def gpu(commands: dict[tuple[str, ...], Answer], files: dict[str, str | None], **errors: str) -> tuple[dict[str, Any], dict[str, Any]]:
    facts = facts_from("gpu", commands, files, **errors)
    return facts.get("gpu", {}), facts["probes"]


def test_module_library_and_cdi_of_three_drivers() -> None:
    files: dict[str, str | None] = {
        "/proc/driver/nvidia/version": NVRM,
        LIBRARY: "",
        "/etc/cdi/nvidia.yaml": "- hostPath: /usr/lib/aarch64-linux-gnu/libcuda.so.580.95.05\n",
        "/etc/cdi/other.yaml": "kind: example.com/device\n",
    }
    found, _probes = gpu({("readlink", LIBRARY): answer("libcuda.so.580.173.02\n")}, files, __etc__cdi="Is a directory")
    assert found["module"] == {"version": "580.142", "flavor": "open"}
    assert found["library"] == "580.173.02"
    assert found["cdi"] == [{"path": "/etc/cdi/nvidia.yaml", "version": "580.95.05"}, {"path": "/etc/cdi/other.yaml"}]


def test_a_specification_that_cannot_be_read() -> None:
    errors = {"__etc__cdi": "Is a directory", "__etc__cdi__nvidia.yaml": "Permission denied"}
    found, probes = gpu({}, {}, **errors)
    assert found["cdi"] == [{"path": "/etc/cdi/nvidia.yaml"}]
    assert "Permission denied" in probes["cdi"]["reason"]


def test_no_specification_is_an_answer_and_no_recording_is_none() -> None:
    assert gpu({}, {"/etc/cdi": None, "/var/run/cdi": None})[0]["cdi"] == []
    assert "cdi" not in gpu({}, {})[0]


def test_a_driver_that_is_not_loaded() -> None:
    found, probes = gpu({}, {"/proc/driver/nvidia/version": None})
    assert "module" not in found
    assert probes["nvidia_module"]["status"] == "unavailable"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (answer("127.0.1.1       STREAM spark-1\n127.0.1.1       DGRAM\n"), ["127.0.1.1"]),
        (answer(rc=2), []),
        (answer(rc=1, stderr="no\n"), None),
    ],
)
def test_what_the_own_name_leads_to(given: Answer, expected: list[str] | None) -> None:
    facts = facts_from("identity", {("getent", "ahostsv4", "spark-1"): given}, {"/proc/sys/kernel/hostname": "spark-1\n"})
    assert facts["identity"].get("resolves_to") == expected


def test_memory_beside_meminfo() -> None:
    shm = ("df", "--block-size=1", "--output=fstype,size,avail,iavail,target,file", "/dev/shm")
    head = "Type 1B-blocks Avail IFree Mounted on File\n"
    files: dict[str, str | None] = {
        "/proc/meminfo": "MemTotal: 125442868 kB\nMlocked: 16 kB\nUnevictable: 24 kB\n",
        "/proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/swap.img file 16777212 512 -2\n",
    }
    memory = facts_from("memory", {shm: answer(f"{head}tmpfs 1000 400 9 /dev/shm /dev/shm\n")}, files)["memory"]
    assert (memory["mlocked"], memory["unevictable"]) == (16384, 24576)
    assert (memory["shm_total"], memory["shm_used"]) == (1000, 600)
    assert memory["swaps"] == [{"path": "/swap.img", "size": 16777212 * 1024, "used": 512 * 1024}]
    # A folder of another filesystem says nothing about shared memory.
    memory = facts_from("memory", {shm: answer(f"{head}ext4 1000 400 9 / /dev/shm\n")}, files)["memory"]
    assert "shm_total" not in memory


def test_the_cuda_toolkit_is_known_even_if_python_does_not_answer() -> None:
    facts = facts_from("python", {}, {"/usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "13.0.3"}}'})
    assert facts["python"] == {"cuda_toolkit": "13.0.3"}
