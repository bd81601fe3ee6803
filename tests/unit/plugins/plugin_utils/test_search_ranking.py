# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of reports, and that nothing of a stranger's page reaches a screen unwashed."""

from __future__ import annotations

import random
import re
import unicodedata
from datetime import date
from urllib.parse import urlsplit

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._search.base import Hit
from ansible_collections.gb10.cluster.plugins.plugin_utils._search.ranking import quality, rank, recency
from ansible_collections.gb10.cluster.plugins.plugin_utils._search.text import canonical, clean, clean_url
from hypothesis import given, settings
from hypothesis import strategies as st

TODAY = date(2026, 11, 30)


def hit(url: str, relevance: float = 1.0, published: date | None = TODAY, about: tuple[str, ...] = ("model",), title: str = "Title") -> Hit:
    return Hit(url, title, "Excerpt.", about, relevance, published)


def order(*hits: Hit) -> list[str]:
    return [entry["url"] for entry in rank(hits, TODAY, 50)]


def test_relevance_recency_and_source_each_count() -> None:
    a, b = "https://a.example.com/", "https://b.example.com/"
    assert order(hit(a, 0.5), hit(b, 0.6)) == [b, a]
    assert order(hit(a, 1, date(2026, 1, 1)), hit(b, 1, date(2026, 6, 1))) == [b, a]
    assert order(hit(a), hit("https://docs.vllm.ai/x")) == ["https://docs.vllm.ai/x", a]
    assert rank([hit(a), hit(b)], TODAY, 50, {"b.example.com"})[0]["url"] == b


def test_the_same_hits_in_any_order_give_the_same_entries() -> None:
    hits = [hit(f"https://example.com/{number % 7}", (number % 5) / 5, about=(f"a.{number % 7}",)) for number in range(40)]
    expected = rank(hits, TODAY, 5)
    assert len(expected) == 5
    for seed in range(10):
        shuffled = list(hits)
        random.Random(seed).shuffle(shuffled)
        assert rank(shuffled, TODAY, 5) == expected


def test_recency_falls_by_half_a_year_and_never_below_half() -> None:
    assert recency(TODAY, TODAY) == 1
    assert recency(date(2026, 6, 3), TODAY) == 0.75
    assert 0.5 <= recency(date(1990, 1, 1), TODAY) < 0.51
    assert recency(None, TODAY) == 0.65


def test_a_date_of_the_future_is_unknown() -> None:
    tomorrow, later = (rank([hit("https://example.com/", published=date(2026, 12, day))], TODAY, 1)[0] for day in (1, 2))
    assert (tomorrow["published"], tomorrow["score"]) == ("2026-12-01", 0.6)
    assert "published" not in later
    assert later["score"] == 0.39


@pytest.mark.parametrize(
    ("url", "worth"),
    [
        ("https://github.com/vllm-project/vllm/issues/1", 1.0),
        ("https://github.com/ray-project/ray/pull/2/files", 1.0),
        ("https://forums.developer.nvidia.com/t/3", 1.0),
        ("https://nvidia.com/", 1.0),
        ("https://discuss.ray.io/t/4", 1.0),
        ("https://huggingface.co/Qwen", 0.9),
        ("https://www.corti.com/serving", 0.9),
        ("https://github.com/vllm-project/recipes", 0.85),
        ("https://notnvidia.com/", 0.6),
        ("https://nvidia.com.example.com/", 0.6),
    ],
)
def test_what_a_source_is_worth(url: str, worth: float) -> None:
    assert quality(url, {"corti.com"}) == worth


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://Example.com/a?utm_campaign=x&id=7&fbclid=y#part", "https://example.com/a?id=7#part"),
        ("http://example.com:80/", "http://example.com:80/"),
        ("https://example.com/a_(b)\"<c>'`[d]|e", "https://example.com/a_%28b%29%22%3Cc%3E%27%60%5Bd%5D%7Ce"),
        ("https://example.com/%28?q=a%20b", "https://example.com/%28?q=a%20b"),
        ("https://example.com/ü", "https://example.com/%C3%BC"),
        ("HTTPS://example.com", "https://example.com"),
        ("javascript:alert(1)", None),
        ("file:///etc/passwd", None),
        ("//example.com/", None),
        ("https://user:pass@example.com/", None),
        ("https://github.com@example.com/", None),
        ("https://localhost/", None),
        ("https://192.0.2.1/", None),
        ("https://[2001:db8::1]/", None),
        ("https://2130706433/", None),
        ("https://exämple.com/", None),
        ("https://example.com:8443/", None),
        ("https://example.com:x/", None),
        ("https://example.com/a b", None),
        ("https://example.com/\u202egpj.exe", None),
        ("https://example.com/\x1b[31m", None),
        ("https://example.com/" + "a" * 2000, None),
        ("", None),
    ],
)
def test_which_urls_are_shown_and_how(url: str, shown: str | None) -> None:
    assert clean_url(url) == shown


def test_one_page_has_one_canonical_url() -> None:
    threads = ("https://github.com/A/B/issues/7", "http://www.github.com/a/b/pull/7/files#diff", "https://github.com/a/b/discussions/7/")
    assert {canonical(url) for url in threads} == {"github.com/a/b/issues/7"}
    assert canonical("https://example.com/a/?y=2&x=1") == canonical("http://www.example.com/a?x=1&y=2#z")
    # Elsewhere the case of a path may matter.
    assert canonical("https://example.com/A") != canonical("https://example.com/a")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("  Two\n\tSparks ", "Two Sparks"),
        ("<p>Fine &amp; <b>fast</b></p>", "Fine & fast"),
        ("&lt;script&gt;alert(1)&lt;/script&gt;safe", "safe"),
        ("<scr<script>ipt>alert(1)", "alert(1)"),
        ("<img src=x onerror=alert(1)", "img src=x onerror=alert(1)"),
        ("a < b and c > d", "a < b and c > d"),
        ("\x1b[31mred\x1b[0m\x07 \x9b31m", "red 31m"),
        ("\u202eevil\u200b\ufeff", "evil"),
        ("## A [link](https://example.com) and ![image](x.png) with `code` in **bold**", "A link and image with code in bold"),
        ("> quoted\n- listed\n* starred", "quoted listed starred"),
        ("NCCL_IB_HCA=a,b", "NCCL_IB_HCA=a,b"),
        ("x" * 50, "x" * 39 + "…"),
        ("\ud800lone", "lone"),
    ],
)
def test_text_of_strangers(text: str, shown: str) -> None:
    assert clean(text, 40 if len(text) == 50 else 200) == shown


# A machine under load is not a fault of the code.
@settings(deadline=None)
@given(st.text(alphabet=st.characters() | st.sampled_from("<>/!&;[]()*`#\x1b\u202e")), st.integers(1, 60))
def test_cleaned_text_is_one_short_line_without_tags_or_hidden_characters(text: str, width: int) -> None:
    shown = clean(text, width)
    assert len(shown) <= width
    assert shown == " ".join(shown.split())
    assert not any(unicodedata.category(char).startswith("C") for char in shown)
    assert not re.search(r"<[/!?a-zA-Z]", shown)


@settings(deadline=None)
@given(st.text() | st.text(alphabet="htps:/.@#?&=ex%[]()<>\"'\\ \n1:").map("https://".__add__))
def test_cleaned_urls_are_plain_and_stay_what_they_are(url: str) -> None:
    shown = clean_url(url)
    if shown is not None:
        assert urlsplit(shown).scheme in ("http", "https")
        assert re.fullmatch(r"[A-Za-z0-9/%:@!$&*+,;=~._?#-]+", shown)
        assert clean_url(shown) == shown
