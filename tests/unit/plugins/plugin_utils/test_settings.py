# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the user: read, or refused with one clear sentence."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan.settings import SettingsError, order_hosts, read_settings

RECIPE = {"backend": "ray"}


def test_defaults() -> None:
    settings = read_settings({}, RECIPE)
    assert (settings.backend, settings.api_host, settings.api_port, settings.api_key) == ("ray", None, 8000, False)
    assert (settings.reclaim, settings.consent, settings.accept, settings.ulimits) == ((), (), (), None)


def test_what_is_set() -> None:
    given = {"gb10_backend": "mp", "gb10_api_port": "9000", "gb10_reclaim": ["a"], "gb10_consent": ["network", "firewall"], "gb10_ulimits": []}
    settings = read_settings({**given, "gb10_accept": ["memory.swap"], "gb10_api_key": "k", "gb10_api_host": "::"}, RECIPE)
    assert (settings.backend, settings.api_port, settings.reclaim, settings.consent) == ("mp", 9000, ("a",), ("network", "firewall"))
    assert (settings.accept, settings.ulimits, settings.api_key, settings.api_host) == (("memory.swap",), (), True, "::")
    assert "k" not in repr(settings).replace("api_key", "").replace("backend", "").replace("network", "")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("backend", "rey", "gb10_backend is 'rey'; it can be ray or mp"),
        ("api_port", 0, "TCP port"),
        ("api_port", 65536, "TCP port"),
        ("api_port", True, "TCP port"),
        ("api_port", "http", "TCP port"),
        ("api_host", 5, "it has to be text"),
        ("reclaim", "vllm_node", "it has to be a list of names"),
        ("reclaim", [1], "it has to be a list of names"),
        ("consent", ["netwrok"], r"gb10_consent has 'netwrok', which does not exist. Did you mean network\?"),
        ("consent", ["firewal"], r"Did you mean firewall\?"),
        ("consent", ["x"], "Known: firewall, network"),
        ("accept", ["memory.ocupied"], r"Did you mean memory.occupied"),
        ("accept", "memory.occupied", "list of names"),
        ("ulimits", {"a": 1}, "list of names"),
    ],
)
def test_what_cannot_be_used_is_refused(name: str, value: Any, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        read_settings({f"gb10_{name}": value}, RECIPE)


def test_the_order_of_ranks() -> None:
    assert order_hosts(["a", "b", "c"], None, "gb10") == ["a", "b", "c"]
    assert order_hosts(["a", "b", "c"], "b", "gb10") == ["b", "a", "c"]
    with pytest.raises(SettingsError, match="no host in the group 'gb10'"):
        order_hosts([], None, "gb10")
    with pytest.raises(SettingsError, match=r"gb10_head is 'spark-hed'.*Did you mean spark-head"):
        order_hosts(["spark-head", "w"], "spark-hed", "gb10")
