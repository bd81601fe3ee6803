# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Community knowledge over a real socket: what is made of answers, and that every failure ends in the catalogue with its reason."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules import RULES
from builders import HEAD, WORKER, plan, used_head, worker
from search_cases import REPO, ask, page, planned
from search_server import KEY, Api, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Api]]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as served:
        yield served


def test_results_in_the_shape_of_the_contract(server: tuple[str, Api]) -> None:
    endpoint, api = server
    model = page("https://forums.developer.nvidia.com/t/1?utm_source=x", title="Two <b>Sparks</b>\x1b[31m, one model", publishedDate=None)
    memory = page("https://github.com/vllm-project/vllm/issues/7", title="Memory occupied", highlights=["One.", "Two."])
    api.results = lambda query: [model] if query.startswith(REPO) else [memory]
    found = ask(planned("memory.occupied"), endpoint)
    assert found == {
        "provider": "exa",
        "entries": [
            {
                "title": "Memory occupied",
                "url": "https://github.com/vllm-project/vllm/issues/7",
                "published": "2026-11-01",
                "excerpt": "One. … Two.",
                "about": ["memory.occupied"],
                "score": 0.947,
            },
            {
                "title": "Two Sparks , one model",
                "url": "https://forums.developer.nvidia.com/t/1",
                "excerpt": "A highlight.",
                "about": ["model"],
                "score": 0.65,
            },
        ],
        "omitted": [],
    }


CATALOGUE = [
    {
        "title": RULES["memory.occupied"].summary,
        "url": RULES["memory.occupied"].source,
        "excerpt": "The public report behind the finding memory.occupied.",
        "about": ["memory.occupied"],
        "score": 0.65,
    },
    {
        "title": "github.com/eugr/spark-vllm-docker",
        "url": "https://github.com/eugr/spark-vllm-docker",
        "excerpt": "A source of the recipe mine.",
        "about": ["model"],
        "score": 0.387,
    },
]


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({"status": 401, "body": '{"error": "Invalid API key"}'}, "refused the key in EXA_API_KEY (HTTP 401, it says: Invalid API key): check it"),
        ({"status": 402}, "wants to be paid (HTTP 402): the account has no credits left"),
        ({"status": 429, "body": '{"error": "<b>Slow</b> down."}'}, "was asked too often (HTTP 429, it says: Slow down): try again in a minute"),
        ({"status": 500, "body": "<html>"}, "has failed (HTTP 500): try again later"),
        ({"status": 503, "body": "[[[[[["}, "has failed (HTTP 503): try again later"),
        ({"status": 400, "body": f'{{"error": "bad {KEY}"}}'}, "did not accept the request (HTTP 400, it says: bad REDACTED)"),
        ({"status": 404}, "has no search API at this address (HTTP 404): check gb10_recon_search_endpoint"),
        ({"body": "<html>A portal</html>"}, "answered, but not as the search API does: check gb10_recon_search_endpoint"),
        ({"body": '{"results": [{"url": "https://exam'}, "answered, but not as the search API does: check gb10_recon_search_endpoint"),
        ({"body": '{"results": null}'}, "answered, but not as the search API does: check gb10_recon_search_endpoint"),
        ({"body": "[]"}, "answered, but not as the search API does: check gb10_recon_search_endpoint"),
        ({"body": "[" * 200000}, "answered, but not as the search API does: check gb10_recon_search_endpoint"),
        ({"body": "\x00\xff"}, "answered, but not as the search API does: check gb10_recon_search_endpoint"),
        ({"mode": "flood"}, "answered with more than 2 MiB: check gb10_recon_search_endpoint"),
        ({"mode": "drop"}, "cannot be reached: the connection broke (RemoteDisconnected)"),
    ],
)
def test_every_failure_ends_in_the_catalogue(server: tuple[str, Api], behaviour: dict[str, Any], reason: str) -> None:
    endpoint, api = server
    for name, value in behaviour.items():
        setattr(api, name, value)
    found = ask(planned("memory.occupied"), endpoint)
    assert found == {"provider": "catalogue", "reason": f"{endpoint[7:-7]} {reason}", "entries": CATALOGUE, "omitted": []}


def test_the_key_is_checked_and_not_said(server: tuple[str, Api]) -> None:
    endpoint, _api = server
    found = ask(planned("memory.occupied"), endpoint, key="another-key-0815")
    assert found["reason"].endswith("refused the key in EXA_API_KEY (HTTP 401, it says: Invalid API key: REDACTED): check it")
    assert "0815" not in json.dumps(found)


def test_nothing_but_the_key_says_who_asks(server: tuple[str, Api], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, api = server
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login aurora password open-sesame\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    ask(planned(), endpoint)
    expected = {"accept-encoding", "content-type", "content-length", "host", "user-agent", "accept", "x-api-key", "connection"}
    assert [set(headers) for headers in api.headers] == [expected]
    assert api.headers[0]["user-agent"] == "gb10.cluster"


@pytest.mark.parametrize("mode", ["hang", "drip"])
def test_a_slow_answer_is_bounded(server: tuple[str, Api], mode: str) -> None:
    endpoint, api = server
    api.mode = mode
    found = ask(planned("memory.occupied", "port.taken"), endpoint, timeout=0.5)
    assert found["reason"] == f"{endpoint[7:-7]} did not answer within 0.5 s"
    assert found["provider"] == "catalogue"
    # The server still keeps the line open, for minutes if need be: it is we who let go, and leave nothing behind.
    assert not api.released.is_set()
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("search ")]
    for thread in workers:
        thread.join(20)
    assert not any(thread.is_alive() for thread in workers)


def test_a_port_where_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
        found = ask(planned("memory.occupied"), f"http://user:{KEY}@{where}/search")
    assert (found["provider"], found["reason"]) == ("catalogue", f"{where} cannot be reached: connection refused")
    assert found["entries"] == CATALOGUE


def test_tls_that_is_none(server: tuple[str, Api]) -> None:
    endpoint, _api = server
    reason = ask(planned("memory.occupied"), endpoint.replace("http:", "https:"))["reason"]
    assert "has no certificate that this machine trusts, or speaks no TLS" in reason


def test_the_key_does_not_follow_a_redirect(server: tuple[str, Api]) -> None:
    endpoint, api = server
    with serving() as (elsewhere, other):
        api.status, api.location = 302, elsewhere
        found = ask(planned("memory.occupied"), endpoint)
        assert other.paths == []
    assert found["reason"].endswith("leads elsewhere (HTTP 302), where the key is not sent: check gb10_recon_search_endpoint")


@pytest.mark.parametrize(
    ("key", "endpoint", "reason"),
    [
        ("", "https://192.0.2.1/search", "EXA_API_KEY is not set"),
        ("a\nb-secret", "https://192.0.2.1/search", "EXA_API_KEY holds characters that no key has: set it again"),
        (KEY, "ftp://192.0.2.1/", "gb10_recon_search_endpoint is no URL that starts with http:// or https://: correct it"),
        (KEY, "search.example.com", "gb10_recon_search_endpoint is no URL that starts with http:// or https://: correct it"),
        (KEY, "http://[::1", "gb10_recon_search_endpoint is no URL that starts with http:// or https://: correct it"),
        (KEY, "http://192.0.2.1:99999/", "gb10_recon_search_endpoint is no URL that starts with http:// or https://: correct it"),
        (KEY, "http://192.0.2.1/a b", "gb10_recon_search_endpoint is no URL that starts with http:// or https://: correct it"),
    ],
)
def test_nothing_is_sent_without_a_key_or_an_address(key: str, endpoint: str, reason: str) -> None:
    began = time.monotonic()
    found = ask(planned("memory.occupied"), endpoint, key=key)
    assert (found["provider"], found["reason"], found["entries"]) == ("catalogue", reason, CATALOGUE)
    assert "secret" not in json.dumps(found)
    # 192.0.2.1 answers nobody: asking it would take the whole time-out of 10 s.
    assert time.monotonic() - began < 9


@pytest.mark.parametrize(
    ("plan_", "reason"), [(None, "there is nothing to ask about"), ({"findings": [], "recipe": None}, "there is nothing to ask about")]
)
def test_without_a_plan_there_is_nothing(server: tuple[str, Api], plan_: dict[str, Any] | None, reason: str) -> None:
    endpoint, api = server
    assert ask(plan_, endpoint) == {"provider": "catalogue", "reason": reason, "entries": [], "omitted": []}
    assert api.requests == []


def test_one_request_that_fails_does_not_lose_the_others(server: tuple[str, Api]) -> None:
    endpoint, api = server
    api.results = lambda query: [page("https://example.com/a")]
    api.status, api.failing = 429, "memory"
    found = ask(planned("memory.occupied", "port.taken"), endpoint)
    assert (found["provider"], found["entries"][0]["about"]) == ("exa", ["model", "port.taken"])
    assert found["omitted"] == [f"No answer about memory.occupied: {endpoint[7:-7]} was asked too often (HTTP 429): try again in a minute."]


def test_a_gateway_without_a_path(server: tuple[str, Api]) -> None:
    endpoint, api = server
    ask(planned(), endpoint.removesuffix("/search"))
    ask(planned(), endpoint.replace("/search", "/exa/v1?team=7"))
    assert api.paths == ["/search", "/exa/v1?team=7"]


def test_the_proxy_of_the_environment_is_used(server: tuple[str, Api], monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, api = server
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", endpoint.removesuffix("/search"))
    api.results = lambda query: [page("https://example.com/a")]
    assert ask(planned(), "http://search.example.com/search")["provider"] == "exa"
    assert api.paths == ["http://search.example.com/search"]


def test_a_page_that_several_requests_find_is_one_entry(server: tuple[str, Api]) -> None:
    endpoint, api = server
    same = [
        "https://github.com/A/B/issues/7#issuecomment-1",
        "http://www.github.com/a/b/pull/7/files/",
        "https://github.com/a/b/discussions/7?utm_source=x",
    ]
    api.results = lambda query: [page(url, publishedDate=None) for url in same] + [page("https://example.com/other", publishedDate="yesterday")]
    found = ask(planned("memory.occupied"), endpoint)
    assert [entry["url"] for entry in found["entries"]] == [same[0], "https://example.com/other"]
    assert [entry["about"] for entry in found["entries"]] == [["model", "memory.occupied"]] * 2
    assert not any("published" in entry for entry in found["entries"])


def test_results_of_any_shape_are_read_or_left_out(server: tuple[str, Api]) -> None:
    endpoint, api = server
    api.results = lambda query: [
        page("https://example.com/1", title=None, publishedDate="2026-02-30", highlights=None, text="From the text."),
        page("https://example.com/2", title=7, publishedDate=20260101, highlights=[None, 3], score="high"),
        {"url": "https://example.com/3"},
        page("javascript:alert(1)"),
        page("https://192.168.1.1/reboot"),
    ]
    found = ask(planned(), endpoint)
    assert [(entry["url"], entry["title"], entry["excerpt"]) for entry in found["entries"]] == [
        ("https://example.com/1", "example.com/1", "From the text."),
        ("https://example.com/2", "example.com/2", ""),
        ("https://example.com/3", "example.com/3", ""),
    ]
    assert len(ask(planned(), endpoint, limit=2)["entries"]) == 2


@pytest.mark.parametrize("results", [[], [{}, 7, {"url": None}], [{"url": "javascript:alert(1)", "title": "Click me"}]])
def test_no_result_is_a_reason_too(server: tuple[str, Api], results: list[Any]) -> None:
    endpoint, api = server
    api.results = lambda query: results
    found = ask(planned("memory.occupied"), endpoint)
    assert (found["provider"], found["reason"], found["entries"]) == ("catalogue", "exa knows no report about this", CATALOGUE)


def test_scores_of_the_api_count_where_all_have_one(server: tuple[str, Api]) -> None:
    endpoint, api = server
    api.results = lambda query: [page("https://example.com/1", score=0.1), page("https://example.com/2", score=0.4)]
    assert [entry["url"][-1] for entry in ask(planned(), endpoint)["entries"]] == ["2", "1"]
    api.results = lambda query: [page("https://example.com/1"), page("https://example.com/2", score=0.4)]
    assert [entry["url"][-1] for entry in ask(planned(), endpoint)["entries"]] == ["1", "2"]


def test_the_catalogue_of_a_real_plan_has_public_pages_alone() -> None:
    facts = {HEAD: used_head(), WORKER: worker()}
    found = ask(plan(facts), "", key="", limit=50)
    assert found["entries"][0]["about"] == ["memory.occupied"]
    assert "https://github.com/NVIDIA/dgx-spark-playbooks" in [entry["url"] for entry in found["entries"]]
    assert all(entry["url"].startswith("https://") and 0 < entry["score"] <= 1 for entry in found["entries"])
    assert found == ask(plan(facts), "", key="", limit=50)
