# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How numbers are said, and what is never said."""

from __future__ import annotations

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils import _words as words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (4.4, "4 s"), (99, "99 s"), (100, "2 min"), (3540, "59 min"), (5940, "99 min"), (6000, "1 h 40 min"), (7200, "2 h"), (-3, "0 s")],
)
def test_duration(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(12, "12 B"), (999_600, "1.0 MB"), (119e9, "119.0 GB"), (1.5e12, "1.5 TB"), (4200, "4.2 kB")],
)
def test_size(value: float, said: str) -> None:
    assert words.size(value) == said


@pytest.mark.parametrize(("value", "said"), [(512e6, "512 MB/s"), (1.23e9, "1.2 GB/s"), (900, "900 B/s"), (45_000, "45 kB/s")])
def test_rate(value: float, said: str) -> None:
    assert words.rate(value) == said


def test_memory_is_said_in_binary_units() -> None:
    assert words.gib(98 * 1024**3) == "98.0 GiB"


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")],
)
def test_count(number: int, said: str) -> None:
    assert words.count(number, "node") == said


def test_listing() -> None:
    assert words.listing([]) == ""
    assert words.listing(["a"]) == "a"
    assert words.listing(["a", "b", "c"]) == "a, b and c"


def test_screen_lines_show_what_a_terminal_would() -> None:
    text = "first\r\n\x1b[32m10 %\x1b[0m\r20 %\r\r\n\n  \x1b]0;title\x07last\x1b[A\n"
    assert words.screen_lines(text) == ["first", "20 %", "  last"]


def test_redact_hides_what_was_given_and_what_looks_secret() -> None:
    text = "key s3cr3t s3cr3t-long --api-key abcdef Authorization: Bearer xyz https://me:pw@host HF_TOKEN=hf_abcdefghijklmnopqrst"
    clean = words.redact(text, ["s3cr3t", "s3cr3t-long", ""])
    for secret in ("s3cr3t", "-long", "abcdef", "xyz", ":pw@", "hf_abc"):
        assert secret not in clean
    assert clean.startswith("key ")
    assert "https://me:" in clean


def test_redact_leaves_ordinary_words_alone() -> None:
    text = "completion_tokens: 32, tokens per second 27.0, https://host/v1, max_tokens=16"
    assert words.redact(text) == text


def test_shorten() -> None:
    assert words.shorten("abcdef", 6) == "abcdef"
    assert words.shorten("abc defg", 5) == "abc…"
