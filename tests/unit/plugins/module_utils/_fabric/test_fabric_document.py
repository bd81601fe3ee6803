# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our file as text and back, and the reader for what `netplan get` prints."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._fabric import document
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.document import parse_blocks, parse_netplan, parse_ours, render
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import Rail
from fabric_cases import F0, P2F0, RAIL, own_sample
from hypothesis import given
from hypothesis import strategies as st

TWIN = Rail(P2F0, "192.168.201.12/24", 4200)


def test_our_file_says_what_netplan_is_to_read() -> None:
    text = render([RAIL, TWIN], {P2F0: "NetworkManager"})
    common = {"dhcp4": False, "dhcp6": False, "link-local": [], "optional": True}
    assert yaml.safe_load(text) == {
        "network": {
            "version": 2,
            "ethernets": {
                F0: {"addresses": ["192.168.200.12/24"], "mtu": 9000, **common},
                P2F0: {"renderer": "NetworkManager", "addresses": ["192.168.201.12/24"], "mtu": 4200, **common},
            },
        }
    }
    assert text.startswith("# Written by gb10.cluster")


def test_no_global_renderer_which_would_be_everybodys() -> None:
    assert "renderer" not in render([RAIL], {})


def test_our_file_is_read_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "yaml", None)
    links = parse_ours(render([RAIL, TWIN], {P2F0: "networkd"}))
    assert sorted(links) == sorted([F0, P2F0])
    assert links[F0]["addresses"] == ["192.168.200.12/24"]
    assert links[P2F0]["renderer"] == "networkd"
    with pytest.raises(ParseError):
        parse_netplan("network: {}")


@pytest.mark.parametrize("text", ["", "network:\n", "network:\n  ethernets: 3\n", "nothing of ours", "network:\n  ethernets:\n    x: 1\n"])
def test_what_is_not_our_file(text: str) -> None:
    with pytest.raises(ParseError):
        parse_ours(text)


@pytest.mark.parametrize(
    "name",
    ["netplan_get_0.106.txt", "netplan_two_subnets_mtu9000_both_twins.txt", "netplan_oshlabs_40cx7.txt", "netplan_playbook_three_sparks_example.txt"],
)
def test_the_small_reader_reads_as_pyyaml_does(name: str) -> None:
    text = own_sample(name)
    assert parse_blocks(text) == yaml.load(text, Loader=yaml.BaseLoader)


@pytest.mark.parametrize("name", ["netplan/dell_primary_only.txt", "netplan/playbook_linklocal.txt", "netplan/playbook_40cx7.txt"])
def test_and_so_with_what_people_write(name: str, sample: Any) -> None:
    text = sample(name)
    assert parse_blocks(text) == yaml.load(text, Loader=yaml.BaseLoader)


@pytest.mark.parametrize(
    "text",
    ["a: [1\n", "a: {b: 1}\n", "a: |\n  x\n", "a: &x 1\n", "a:\n  b: 1\n   c: 2\n", "just words\n", "a: 1\n  b: 2\n", 'a: "\\t"\n', "- a\nb: 1\n"],
)
def test_what_it_cannot_read_it_does_not_guess(text: str) -> None:
    with pytest.raises(ParseError):
        parse_blocks(text)


KEYS = st.from_regex(r"[a-zA-Z][a-zA-Z0-9.-]{0,10}", fullmatch=True)
SCALARS = st.sampled_from(["10.0.0.1/24", "fe80::1/64", "true", "9000", "aa:bb:cc:dd:ee:ff", "Wired connection 1", "-1", "*"])
TREES = st.recursive(
    SCALARS | st.builds(list) | st.builds(dict),
    lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=4) | st.lists(SCALARS, min_size=1, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=4))
def test_whatever_yaml_prints_in_blocks_is_read_back(tree: dict[str, Any]) -> None:
    text = yaml.dump(tree, default_flow_style=False)
    assert parse_blocks(text) == tree


@given(st.text())
def test_any_other_text_is_read_or_refused(text: str) -> None:
    for reader in (parse_blocks, parse_netplan):
        try:
            reader(text)
        except ParseError:
            continue
