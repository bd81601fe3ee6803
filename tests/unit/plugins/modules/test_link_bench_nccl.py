# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""link_bench: the all-reduce. The script for the container is really run, against stand-ins for docker and torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._bench import collective
from ansible_collections.gb10.cluster.plugins.modules import link_bench
from bench_node import RANK, docker_calls, prepare, torch
from module_runner import program, run_module

Bench = Callable[..., dict[str, Any]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prepare(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def bench(here: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return lambda **arguments: run_module(link_bench.main, capsys, **arguments)


def test_an_all_reduce(bench: Bench, here: Path, sample: Callable[[str], str]) -> None:
    torch(here)
    (here / "log").write_text(sample("nccl/log_ib_plugin.txt"))
    result = bench(**RANK)
    found = result["collective"]
    assert (result["ran"], found["rank"], found["transport"], found["channels"]) == (True, 1, "ib", {"IBext_v11": 4})
    assert (found["devices"], found["nccl"], found["torch"], found["correct"]) == (["rocep1s0f0", "roceP2p1s0f0"], "2.28.3", "2.9.1", True)
    small, large = found["runs"]
    assert (small["size"], large["size"]) == (4096, 1024 * 1024)
    assert large["busbw"] == pytest.approx(1024 * 1024 / large["seconds"] / 1e9, abs=0.01)


def test_the_container_is_named_labelled_bounded_and_has_what_the_plan_gives(bench: Bench, here: Path) -> None:
    torch(here)
    command = bench(**RANK)["commands"][0]
    text = " ".join(command)
    assert text.startswith("docker run --rm --name gb10-bench-nccl --label gb10.bench=nccl --pull never --network host --gpus all")
    for part in ("--device /dev/infiniband/uverbs0", "--ulimit memlock=-1:-1", "--env NCCL_NET=IB", "--env NCCL_DEBUG=INFO", "gb10/qwen:1 -c …"):
        assert part in text
    assert command[-6:] == ["30", "1", "2", "192.168.200.12", "18532", str(1024 * 1024)]
    assert "gb10.deployment" not in text
    assert docker_calls(here) == ["inspect", "run", "inspect"]


def test_what_is_left_of_an_earlier_run_is_removed(bench: Bench, here: Path) -> None:
    torch(here)
    (here / "labels").write_text('{"gb10.bench": "nccl"}')
    assert bench(**RANK)["ran"]
    assert docker_calls(here) == ["inspect", "rm", "run", "inspect"]


def test_a_container_of_others_is_not_touched(bench: Bench, here: Path) -> None:
    (here / "labels").write_text('{"maintainer": "me"}')
    result = bench(**RANK)
    assert (result["ran"], result["reason"]) == (False, "a container named gb10-bench-nccl is there that is not ours")
    assert set(docker_calls(here)) == {"inspect"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cuda": "None"}, "torch 2.9.1 of this image is built without CUDA"),
        ({"gpu": False}, "torch 2.9.1 of this image sees no GPU"),
    ],
)
def test_an_image_that_cannot(bench: Bench, here: Path, options: dict[str, Any], reason: str) -> None:
    torch(here, **options)
    result = bench(**RANK)
    assert (result["ran"], result["reason"]) == (False, reason)


def test_an_image_without_torch(bench: Bench, here: Path) -> None:
    package = here / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')")
    assert bench(**RANK)["reason"] == "this image has no torch (libcudart.so.13: cannot open shared object file)"


def test_a_collective_that_fails(bench: Bench, here: Path, sample: Callable[[str], str]) -> None:
    torch(here, init="raise RuntimeError('NCCL error: unhandled system error')")
    (here / "log").write_text(sample("nccl/log_stale_gid.txt"))
    found = bench(**RANK)["collective"]
    assert found["error"] == "RuntimeError: NCCL error: unhandled system error"
    assert found["warnings"] == ["Call to ibv_modify_qp failed with 61 No data available"]
    assert "transport" not in found and "runs" not in found


def test_a_wrong_sum_is_told(bench: Bench, here: Path) -> None:
    torch(here, factor=3)
    assert bench(**RANK)["collective"]["correct"] is False


def test_a_collective_that_hangs_ends_itself(bench: Bench, here: Path) -> None:
    torch(here, init="time.sleep(60)")
    began = time.monotonic()
    found = bench(**{**RANK, "timeout": 10})["collective"]
    assert time.monotonic() - began < 30
    assert "Timeout" in found["error"]


def test_a_container_that_does_not_end_is_removed(bench: Bench, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collective, "_START", -9.0)
    torch(here, init="time.sleep(60)")
    text = (here / "docker").read_text().replace("run) ", f'run) echo \'{{"gb10.bench": "nccl"}}\' > {here}/labels\n')
    program(here, "docker", text)
    found = bench(**{**RANK, "timeout": 10})["collective"]
    assert found["error"].startswith("the container did not end: docker: no answer in 1 s")
    assert docker_calls(here) == ["inspect", "run", "inspect", "rm"]


def test_a_container_that_cannot_be_started(bench: Bench, here: Path) -> None:
    (here / "run_rc").write_text("125")
    (here / "run_error").write_text('docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n')
    result = bench(**RANK)
    assert not result["ran"]
    assert "could not select device driver" in result["reason"]


def test_no_room_no_all_reduce(bench: Bench, here: Path) -> None:
    torch(here)
    result = bench(**{**RANK, "memory": 2**60})
    assert (result["ran"], result["missing"]) == (False, False)
    assert result["reason"].endswith("1073741824.0 GiB are needed")
    assert not (here / "calls").exists()
