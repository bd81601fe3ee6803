# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make `ansible_collections.gb10.cluster` importable from a plain checkout, whatever its directory is called."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is; speed is measured in tests/benchmarks.
settings.register_profile("timeless", deadline=None)
settings.load_profile("timeless")

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = Path(__file__).resolve().parent / "fixtures"


def _package(name: str, *path: Path) -> None:
    """Register a namespace package: no symlink is needed, and a collection installed elsewhere cannot shadow this one."""
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.__path__ = [str(entry) for entry in path]
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


_package("ansible_collections", *(Path(entry) / "ansible_collections" for entry in sys.path))
_package("ansible_collections.gb10")
_package("ansible_collections.gb10.cluster", ROOT)


@pytest.fixture(scope="session")
def collections_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for ANSIBLE_COLLECTIONS_PATH or PYTHONPATH of a child process."""
    path = tmp_path_factory.mktemp("collections")
    namespace = path / "ansible_collections" / "gb10"
    namespace.mkdir(parents=True)
    (namespace / "cluster").symlink_to(ROOT, target_is_directory=True)
    return path


def read_sample(name: str) -> str:
    """A fixture's text without the lines that say where it is from."""
    lines = (FIXTURES / name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("# source:"))


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture(scope="session")
def sample() -> Callable[[str], str]:
    return read_sample
