# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.docker import (
    Engine,
    Mount,
    Volume,
    parse_containers,
    parse_ids,
    parse_images,
    parse_info,
    parse_volumes,
    reduce_inspect,
)


def test_a_recorded_vllm_container(sample: Callable[[str], str]) -> None:
    (container,) = parse_containers(sample("docker/inspect_vllm.txt"))
    assert container.name == "aeon_gemma26_dflash_20260608T0436JST"
    assert container.image == "ghcr.io/aeon-7/aeon-gemma-4-26b-a4b-dflash:v2"
    assert (container.running, container.pid, container.exit_code) == (True, 577541, None)
    assert (container.restart_policy, container.network_mode) == ("no", "host")
    assert container.mounts[0] == Mount("bind", "/home/user/models/aeon/gemma4", "/models/target", False)
    assert container.command[:3] == ("vllm", "serve", "/models/target")
    assert container.labels["maintainer"].startswith("NVIDIA")


def test_containers_of_the_lab(sample: Callable[[str], str]) -> None:
    containers = {container.name: container for container in parse_containers(sample("docker/inspect_lab_containers.txt"))}
    assert set(containers) == {"vllm_node", "vllm_embeddings", "reranker"}
    assert containers["reranker"].ports == ("8002/tcp",)


def test_a_stopped_container_and_a_volume(sample: Callable[[str], str]) -> None:
    (row,) = json.loads(sample("docker/inspect_vllm.txt"))
    row["State"] = {"Status": "exited", "Running": False, "Pid": 0, "ExitCode": 137, "StartedAt": "0001-01-01T00:00:00Z"}
    row["Mounts"] = [{"Type": "volume", "Name": "gb10-tmp", "Source": "/var/lib/docker/volumes/gb10-tmp/_data", "Destination": "/tmp", "RW": True}]
    (container,) = parse_containers(json.dumps([row]))
    assert (container.pid, container.exit_code, container.started) == (None, 137, None)
    assert container.mounts == (Mount("volume", "gb10-tmp", "/tmp", True),)


def test_what_a_container_may_do_with_its_host(sample: Callable[[str], str]) -> None:
    (row,) = json.loads(sample("docker/inspect_vllm.txt"))
    (container,) = parse_containers(json.dumps([row]))
    assert container.host["ipc_mode"] == row["HostConfig"]["IpcMode"]
    assert container.host["privileged"] is False
    assert container.host["memlock"] is None or isinstance(container.host["memlock"], int)
    row["HostConfig"] |= {
        "Privileged": True,
        "AutoRemove": True,
        "Memory": 1 << 30,
        "ShmSize": 1 << 34,
        "Devices": [{"PathOnHost": "/dev/infiniband", "PathInContainer": "/dev/infiniband", "CgroupPermissions": "rwm"}],
        "CapAdd": ["CAP_IPC_LOCK", "SYS_NICE"],
        "Ulimits": [{"Name": "memlock", "Hard": -1, "Soft": -1}],
    }
    (container,) = parse_containers(json.dumps([row]))
    assert container.host == {
        "privileged": True,
        "auto_remove": True,
        "memory_limit": 1 << 30,
        "shm_size": 1 << 34,
        "ipc_mode": row["HostConfig"]["IpcMode"],
        "devices": ["/dev/infiniband"],
        "capabilities": ["IPC_LOCK", "SYS_NICE"],
        "memlock": -1,
    }


ALLOWED = ["NCCL_IB_GID_INDEX=", "GLOO_SOCKET_IFNAME=eth0", "UCX_NET_DEVICES=mlx5_0:1", "RAY_memory_monitor_refresh_ms=0", "VLLM_HOST_IP=10.0.0.1"]
ALLOWED += ["TP_SOCKET_IFNAME=enp1s0f1np1"]
SECRET = ["HF_TOKEN=swordfish", "VLLM_API_KEY=swordfish", "MY_PASS=swordfish", "RAY_AUTH_TOKEN=swordfish", "PATH=/bin"]


def test_a_container_shows_how_it_finds_its_peers_and_no_secret(sample: Callable[[str], str]) -> None:
    (row,) = json.loads(sample("docker/inspect_vllm.txt"))
    row["Config"]["Env"] = ALLOWED + SECRET
    (container,) = parse_containers(json.dumps([row]))
    assert container.environment == dict(entry.split("=", 1) for entry in ALLOWED)


@pytest.mark.parametrize("name", ["inspect_vllm", "inspect_lab_containers", "inspect_lab_images"])
def test_what_is_recorded_makes_the_same_records(sample: Callable[[str], str], name: str) -> None:
    text = sample(f"docker/{name}.txt")
    parse = parse_images if "images" in name else parse_containers
    rows = json.loads(text)
    rows[0]["Config"]["Env"] = ALLOWED + SECRET
    rows[0]["Args"] = ["serve", "model", "--api-key", "swordfish"]
    text = json.dumps(rows)
    reduced = reduce_inspect(text)
    assert parse(reduced) == parse(text)
    assert reduce_inspect(reduced) == reduced
    assert "swordfish" not in reduced


def test_images(sample: Callable[[str], str]) -> None:
    (image,) = parse_images(sample("docker/inspect_lab_images.txt"))
    assert image.tags == ("vllm-node:latest", "vllm/vllm-openai:v0.17.1")
    assert image.size == 1982284
    assert (image.architecture, image.environment) == ("amd64", {})
    assert image.layers is not None and image.layers.startswith("sha256:") and len(image.layers) == 71


def test_the_same_layers_are_the_same_content_whatever_the_id() -> None:
    rows = [
        {"Id": "sha256:1", "Size": 5, "RootFS": {"Layers": ["sha256:a", "sha256:b"]}},
        {"Id": "sha256:2", "Size": 9, "RootFS": {"Layers": ["sha256:a", "sha256:b"]}},
        {"Id": "sha256:3", "Size": 9, "RootFS": {"Layers": ["sha256:b", "sha256:a"]}},
        {"Id": "sha256:4", "Size": 9},
    ]
    first, second, third, fourth = parse_images(json.dumps(rows))
    assert first.layers == second.layers != third.layers
    assert fourth.layers is None


def test_an_image_shows_what_it_needs_and_no_more() -> None:
    variables = [
        "PATH=/bin",
        "NVIDIA_REQUIRE_CUDA=cuda>=13.0 brand=x,driver>=580",
        "CUDA_VERSION=13.0.1",
        "HF_TOKEN=swordfish",
        "NCCL_VERSION=2.28.3-1",
    ]
    (image,) = parse_images(json.dumps([{"Id": "1", "Size": 1, "Config": {"Env": variables}}]))
    assert image.environment == {
        "NVIDIA_REQUIRE_CUDA": "cuda>=13.0 brand=x,driver>=580",
        "CUDA_VERSION": "13.0.1",
        "NCCL_VERSION": "2.28.3-1",
    }


def test_info(sample: Callable[[str], str]) -> None:
    runtimes = ("io.containerd.runc.v2", "io.containerd.runtime.v1.linux", "runc")
    assert parse_info(sample("docker/info_20.10.txt")) == Engine("20.10.24+dfsg1", "/var/lib/docker", "overlay2", runtimes, None, "overlay2")


def test_info_of_a_client_without_a_daemon() -> None:
    engine = parse_info('{"ServerVersion":"","ServerErrors":["Cannot connect to the Docker daemon"],"Runtimes":null}')
    assert engine == Engine(None, None, None, (), "Cannot connect to the Docker daemon")


def test_the_image_store_of_a_newer_engine() -> None:
    status = [["driver-type", "io.containerd.snapshotter.v1"]]
    engine = parse_info(json.dumps({"ServerVersion": "29.2.1", "Driver": "overlayfs", "DriverStatus": status}))
    assert (engine.store, engine.storage_driver) == ("containerd", "overlayfs")


def test_ids() -> None:
    first, second = "sha256:" + "a" * 64, "b" * 64
    assert parse_ids(f"{first}\n{second}\n{first}\n") == (first, second)
    assert parse_ids("") == ()
    with pytest.raises(ParseError):
        parse_ids("permission denied\n")


def test_volumes() -> None:
    assert parse_volumes('{"Driver":"local","Name":"gb10-tmp","Scope":"local"}\n\n') == (Volume("gb10-tmp", "local"),)
    assert parse_volumes("") == ()
    with pytest.raises(ParseError):
        parse_volumes("{}")


@pytest.mark.parametrize("parse", [parse_containers, parse_images])
@pytest.mark.parametrize("text", ["[{}]", "{}", "[1]", "[null]", "Error: No such object"])
def test_nonsense(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
