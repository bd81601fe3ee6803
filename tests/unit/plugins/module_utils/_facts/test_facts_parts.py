# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names, subsets, probes."""

from __future__ import annotations

import time

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import select
from ansible_collections.gb10.cluster.plugins.module_utils._facts.names import cage_of, is_connectx_name, pci_of, twin_of
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Noted, ask_all, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import SUBSETS
from ansible_collections.gb10.cluster.plugins.module_utils._runner import RecordedRunner

EMPTY = RecordedRunner({"schema": "gb10-recording/1", "host": "x", "entries": []})


@pytest.mark.parametrize(
    ("name", "pci"),
    [
        ("enp1s0f1np1", "0000:01:00.1"),
        ("enP2p1s0f0np0", "0002:01:00.0"),
        ("roceP2p1s0f1", "0002:01:00.1"),
        ("rocep1s0f0", "0000:01:00.0"),
        ("enp129s0f0np0", "0000:81:00.0"),  # decimal in the name
        ("enP7s7", None),
        ("docker0", None),
        ("mlx5_0", None),
    ],
)
def test_pci_of_a_name(name: str, pci: str | None) -> None:
    assert pci_of(name) == pci


@pytest.mark.parametrize(
    ("netdev", "expected"),
    [("enp1s0f1np1", True), ("enP2p1s0f0np0", True), ("enp1s0", False), ("enp1s0f0", False), ("enP7s7", False), ("rocep1s0f0", False)],
)
def test_connectx_names(netdev: str, expected: bool) -> None:
    assert is_connectx_name(netdev) is expected


def test_cage_and_twin() -> None:
    assert cage_of("enP2p1s0f1np1", None) == 1
    assert cage_of("rail0", "0002:01:00.1") == 1
    assert cage_of("rail0", None) is None
    assert (twin_of("0000:01:00.0"), twin_of("0002:01:00.0"), twin_of("0004:01:00.0"), twin_of(None)) == (0, 1, None, None)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["all"], set(SUBSETS)),
        ([], set(SUBSETS)),
        (["memory"], {"memory"}),
        (["memory", "gpu"], {"memory", "gpu"}),
        (["!docker"], set(SUBSETS) - {"docker"}),
        (["all", "!docker", "!gpu"], set(SUBSETS) - {"docker", "gpu"}),
        (["memory", "gpu", "!gpu"], {"memory"}),
        (["!all"], set()),
    ],
)
def test_subsets(names: list[str], expected: set[str]) -> None:
    assert select(names) == expected


@pytest.mark.parametrize("name", ["hardware", "!network", ""])
def test_an_unknown_subset(name: str) -> None:
    with pytest.raises(ValueError, match="is none of all, identity"):
        select([name])


def failing(error: Exception) -> object:
    def ask(_node: Node) -> None:
        raise error

    return ask


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unavailable("a: not found"), "unavailable"),
        (Failed("a: no"), "failed"),
        (ParseError("a", "line"), "failed"),
        (TimedOut("a: no answer"), "timeout"),
        (RuntimeError("a defect"), "failed"),
    ],
)
def test_the_outcome_of_a_probe(error: Exception, status: str) -> None:
    seen = ask_all(EMPTY, [probe("p", "memory", failing(error))], 5)  # type: ignore[arg-type]
    assert (seen.status("p"), seen.get("p")) == (status, None)
    assert str(error) in (seen.reason("p") or "")


def test_a_remark_beside_a_value() -> None:
    seen = ask_all(EMPTY, [probe("p", "memory", lambda node: Noted(1, "not all"))], 5)
    assert (seen.get("p"), seen.status("p"), seen.reason("p")) == (1, "ok", "not all")
    assert (seen.get("q"), seen.status("q"), seen.reason("q")) == (None, None, None)


def test_probes_run_at_the_same_time_and_a_stuck_one_costs_its_bound_once() -> None:
    probes = [probe(f"p{number}", "memory", lambda node: time.sleep(1)) for number in range(20)]
    probes.append(probe("stuck", "memory", lambda node: time.sleep(60)))
    started = time.monotonic()
    seen = ask_all(EMPTY, probes, 5)
    assert time.monotonic() - started < 15
    assert seen.status("stuck") == "timeout"
    assert {seen.status(f"p{number}") for number in range(20)} == {"ok"}
