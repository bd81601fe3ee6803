# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One browser for all tests, and the pages that it shows."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driving import Browser, start

UNIT = Path(__file__).resolve().parents[1] / "unit"


def _collection() -> None:
    """The unit tests know how to import a plain checkout; a second module named conftest cannot be imported by its name."""
    spec = importlib.util.spec_from_file_location("unit_conftest", UNIT / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.insert(0, str(UNIT / "plugins" / "plugin_utils"))


_collection()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    driver = start()
    yield Browser(driver, tmp_path_factory.mktemp("pages"))
    driver.quit()


@pytest.fixture(scope="session")
def pages() -> dict[str, Callable[[], str]]:
    from stories import STORIES

    return STORIES
