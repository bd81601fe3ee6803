# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for what link_bench runs on a node: programs that say what they are told to, docker, and torch inside of its container."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._bench import node
from module_runner import program, use_programs

RANK: dict[str, Any] = {
    "test": "nccl",
    "rank": 1,
    "container": {"image": "gb10/qwen:1", "environment": {"NCCL_NET": "IB"}, "devices": ["/dev/infiniband/uverbs0"], "ulimits": ["memlock:-1:-1"]},
    "head": {"address": "192.168.200.12", "port": 18532},
    "amount": 1024 * 1024,
    "memory": 0,
    "timeout": 30,
}

DOCKER = """#!/bin/sh
echo "$*" | tr '\\n' ' ' | cut -c1-400 >> {here}/calls
case "$1" in
  inspect) if [ -f {here}/labels ]; then cat {here}/labels; else echo "Error: No such container: x" >&2; exit 1; fi;;
  rm) rm -f {here}/labels;;
  run) cat {here}/log
       if [ -f {here}/run_rc ]; then cat {here}/run_error >&2; exit $(cat {here}/run_rc); fi
       while [ "$1" != -c ]; do shift; done
       PYTHONPATH={here} exec {python} "$@";;
esac
"""
TORCH = """
class Tensor:
    def __init__(self, value): self.value = value
    def __eq__(self, other): return Tensor(self.value == other)
    def all(self): return self.value
    def zero_(self): self.value = 0
class cuda:
    class nccl:
        version = staticmethod(lambda: (2, 28, 3))
    is_available = staticmethod(lambda: {gpu})
    set_device = synchronize = staticmethod(lambda *args: None)
class version:
    cuda = {cuda}
__version__ = "2.9.1"
float32 = None
def ones(count, dtype, device):
    assert device == "cuda" and count > 0
    return Tensor(1)
"""
DISTRIBUTED = """
import time
def is_available(): return True
is_nccl_available = is_available
def init_process_group(backend, init_method, rank, world_size, timeout):
    assert (backend, init_method, rank, world_size) == ("nccl", "tcp://192.168.200.12:18532", 1, 2), init_method
    {init}
def all_reduce(tensor):
    time.sleep(0.0001)
    tensor.value *= {factor}
def destroy_process_group(): pass
"""


def prepare(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with docker and a verbs device, and with these programs only before all others."""
    program(here, "docker", DOCKER.format(here=here, python=sys.executable))
    (here / "log").write_text("")
    (here / "uverbs0").touch()
    use_programs(here, monkeypatch)
    monkeypatch.setattr(node, "VERBS", f"{here}/uverbs*")


def docker_calls(here: Path) -> list[str]:
    """What docker was asked for, one word a call."""
    return [call.split()[0] for call in (here / "calls").read_text().splitlines()]


def say(here: Path, name: str, text: str, rc: int = 0, error: str = "") -> None:
    """A program that writes down how it was called, then prints this."""
    (here / f"{name}.out").write_text(text)
    (here / f"{name}.err").write_text(error)
    program(here, name, f'#!/bin/sh\necho "$*" >> {here}/{name}.calls\ncat {here}/{name}.out\ncat {here}/{name}.err >&2\nexit {rc}\n')


def torch(here: Path, cuda: str = '"13.0"', gpu: bool = True, init: str = "pass", factor: int = 2) -> None:
    package = here / "torch"
    (package / "distributed").mkdir(parents=True)
    (package / "__init__.py").write_text(TORCH.format(cuda=cuda, gpu=gpu))
    (package / "distributed" / "__init__.py").write_text(DISTRIBUTED.format(init=init, factor=factor))
