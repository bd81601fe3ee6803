# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a search service, and what never is: read on the other side of a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules import RULES
from ansible_collections.gb10.cluster.plugins.plugin_utils._search import subject as subjects
from ansible_collections.gb10.cluster.plugins.plugin_utils._search.subject import MAX_LENGTH, MAX_QUERIES, is_public, queries, read_subject
from builders import HEAD, WORKER, plan, used_head, worker
from search_cases import REPO, ask, finding, page, planned
from search_server import KEY, Api, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Api]]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as served:
        yield served


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rules in place of all: grouping is tested here, not which rules there are."""
    severities = {
        "fabric.mtu_mismatch": "block",
        "fabric.no_hca": "block",
        "fabric.twin_down": "warn",
        "gpu.absent": "block",
        "image.moving_tag": "warn",
        "memory.occupied": "block",
        "memory.swap": "info",
        "model.incomplete": "warn",
        "port.taken": "block",
    }
    known = {id_: SimpleNamespace(severity=severity, summary=f"About {id_}.", source="docs/contracts.md") for id_, severity in severities.items()}
    monkeypatch.setattr(subjects, "RULES", known)


def test_what_is_asked(rules: None, server: tuple[str, Api]) -> None:
    endpoint, api = server
    ask(planned("memory.occupied", "memory.swap"), endpoint)
    assert sorted(api.queries) == [
        "NVIDIA DGX Spark GB10 memory occupied: About memory.occupied.",
        f"{REPO} two DGX Spark vLLM tensor parallel",
    ]
    for request, headers in zip(api.requests, api.headers, strict=True):
        rest = {name: value for name, value in request.items() if name != "query"}
        window = "2025-11-30T00:00:00.000Z"
        assert rest == {"type": "auto", "numResults": 10, "startPublishedDate": window, "contents": {"highlights": {"maxCharacters": 600}}}
        assert (headers["x-api-key"], headers["content-type"]) == (KEY, "application/json")
        assert KEY not in json.dumps(request)
    assert set(api.paths) == {"/search"}


def test_nothing_of_the_machines_leaves(server: tuple[str, Api]) -> None:
    endpoint, api = server
    private = ["spark-head", "spark-worker", "192.168.200.12", "192.0.2.77", "aurora", "aurora-lab.example.com", "MT2512X00042", "vllm_node", "7f3a"]
    told = dict.fromkeys(("observed", "expected", "remedy"), " ".join(private))
    facts = {HEAD: used_head(), WORKER: worker()}
    for repo in (REPO, "/home/aurora/models/mine", "aurora-lab.example.com/mine", "spark-head/mine", "192.168.200.12/mine"):
        plan_ = plan(facts, {"model": {"repo": repo}})
        assert any(each["id"] == "memory.occupied" for each in plan_["findings"])
        plan_["findings"] += [finding("fabric.mtu_mismatch", **told, source="https://aurora-lab.example.com/", nodes=private, evidence=private)]
        # An id that no rule of ours has may say anything.
        plan_["findings"] += [finding("host.aurora-lab.example.com", "block"), finding("a.192.168.200.12", "block"), finding("b.7f3a", "warn")]
        unsaid = [] if repo == REPO else ["The model was not asked about: its name may not be a public one."]
        assert ask(plan_, endpoint)["omitted"] == unsaid
    assert len(api.requests) >= 5
    sent = json.dumps([api.requests, api.headers, api.paths])
    assert REPO in sent
    assert [word for word in (*private, "/mine", "/home") if word in sent] == []


@pytest.mark.parametrize(
    ("repo", "public"),
    [
        (REPO, True),
        ("openai/gpt-oss-120b", True),
        ("01-ai/Yi-1.5", True),
        ("", False),
        ("gpt2", False),
        ("/models/mine", False),
        ("./mine", False),
        ("../secret", False),
        ("~/models/mine", False),
        ("models/mine", False),
        ("org/name/more", False),
        ("registry.example.com/mine", False),
        ("192.0.2.1/mine", False),
        ("https://example.com/mine", False),
        ("org/..", False),
        ("org/a..b", False),
        ("org/name\nHost: x", False),
        ("spark-head/mine", False),
        ("org/Spark-Worker", False),
    ],
)
def test_which_model_names_may_be_said(repo: str, public: bool) -> None:
    assert is_public(read_subject(planned(repo=repo))) is public


def test_a_model_of_another_hub_is_not_named(server: tuple[str, Api]) -> None:
    endpoint, api = server
    api.results = lambda query: [page("https://example.com/a")]
    found = ask(planned("memory.occupied"), endpoint, own_hub=True)
    assert (found["provider"], found["omitted"]) == ("exa", ["The model was not asked about: its name may not be a public one."])
    assert len(api.queries) == 1
    assert "Qwen" not in api.queries[0]
    assert ask(planned(), endpoint, own_hub=True)["reason"].startswith("there is nothing to ask about: the model's name may not be a public one")
    assert len(api.queries) == 1


def test_at_most_four_requests_and_what_blocks_first(rules: None) -> None:
    ids = ["memory.swap", "image.moving_tag", "model.incomplete", "fabric.mtu_mismatch", "memory.occupied", "fabric.twin_down", "port.taken"]
    plan_ = planned(*ids)
    plan_["findings"] += [finding("gpu.absent", accepted=True), finding("memory.occupied", nodes=[WORKER])]
    asked = queries(read_subject(plan_), True)
    assert [query.about for query in asked] == [
        ("model",),
        ("fabric.mtu_mismatch", "fabric.twin_down"),
        ("memory.occupied",),
        ("port.taken", "image.moving_tag", "model.incomplete"),
    ]
    assert len(queries(read_subject(plan_), False)) == MAX_QUERIES


def test_every_rule_at_once_is_still_four_short_requests(server: tuple[str, Api]) -> None:
    endpoint, api = server
    api.results = lambda query: [page("https://example.com/a")]
    found = ask(planned(*RULES), endpoint)
    assert len(api.requests) == MAX_QUERIES
    assert max(len(query) for query in api.queries) <= MAX_LENGTH
    # What did not fit is said.
    assert len(found["omitted"]) == 1
    assert found["omitted"][0].startswith("Not asked about, for 4 requests are the most: ")


def test_a_page_is_about_those_findings_of_a_request_that_it_speaks_of(rules: None, server: tuple[str, Api]) -> None:
    endpoint, api = server
    api.results = lambda query: [page("https://example.com/1", title="MTU of both ends"), page("https://example.com/2")]
    found = ask(planned("fabric.mtu_mismatch", "fabric.no_hca", repo=""), endpoint)
    assert [entry["about"] for entry in found["entries"]] == [["fabric.mtu_mismatch"], ["fabric.mtu_mismatch", "fabric.no_hca"]]
