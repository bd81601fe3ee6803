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


def test_images(sample: Callable[[str], str]) -> None:
    (image,) = parse_images(sample("docker/inspect_lab_images.txt"))
    assert image.tags == ("vllm-node:latest", "vllm/vllm-openai:v0.17.1")
    assert image.size == 1982284


def test_info(sample: Callable[[str], str]) -> None:
    runtimes = ("io.containerd.runc.v2", "io.containerd.runtime.v1.linux", "runc")
    assert parse_info(sample("docker/info_20.10.txt")) == Engine("20.10.24+dfsg1", "/var/lib/docker", "overlay2", runtimes, None)


def test_info_of_a_client_without_a_daemon() -> None:
    engine = parse_info('{"ServerVersion":"","ServerErrors":["Cannot connect to the Docker daemon"],"Runtimes":null}')
    assert engine == Engine(None, None, None, (), "Cannot connect to the Docker daemon")


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
