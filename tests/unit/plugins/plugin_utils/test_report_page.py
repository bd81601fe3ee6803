# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page without a browser: well-formed, self-contained, everything escaped, and drawings whose parts are where they belong."""

from __future__ import annotations

import re
from copy import deepcopy
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._report import KINDS, build, page, terminal
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.bars import bars
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.links import cables, rows, sentence, shape
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.page import link
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.shapes import Drawing, fit
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.topology import NARROW, WIDE, topology
from builders import GIB, HEAD, WORKER, cabled, container, hold, plan, row, spark, twin, used_head, worker, workload
from test_wiring import RING, cluster

VOID = {"meta", "link", "br", "input", "img", "hr"}
SCRIPT = "<script>alert(1)</script>"
COMMANDS = {name: f"ansible-playbook {name}.yml" for name in ("recon", "site", "status", "stop", "teardown")}
COMMUNITY = {
    "provider": "catalogue",
    "reason": "EXA_API_KEY is not set",
    "entries": [
        {"title": f"Report {number}", "url": f"https://example.com/{number}", "published": "2026-09-12", "excerpt": "It was so.", "about": ["model"]}
        for number in range(5)
    ],
}


def document(kind: str = "recon", facts: dict[str, Any] | None = None, results: dict[str, Any] | None = None, **extra: Any) -> dict[str, Any]:
    facts = {HEAD: used_head(), WORKER: worker()} if facts is None else facts
    return build(kind, facts, plan(facts), results, "2026-11-30T15:00:00+01:00", COMMANDS, **extra)


class Outline(HTMLParser):
    """Tags that do not close, ids, links, headings, and the text of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.tags: set[str] = set()
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = dict(attributes)
        self.tags.add(tag)
        if known.get("id"):
            self.ids.append(str(known["id"]))
        if tag == "a":
            self.links.append(str(known.get("href")))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.faults += [f"{tag} {name}" for name in known if name.startswith("on") or name in ("src", "srcset", "style")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"/{tag}")


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(
    "facts",
    [None, twin(), {HEAD: spark(), WORKER: None}, {HEAD: None, WORKER: None}, {HEAD: {}, WORKER: {"schema": 1}}, {HEAD: spark()}, row(3), row(8), {}],
    ids=["used", "idle", "lost", "both lost", "empty", "one", "three", "eight", "none"],
)
def test_every_page_is_well_formed_and_needs_nothing_else(kind: str, facts: dict[str, Any] | None) -> None:
    made = build(kind, facts, None) if facts == {} else document(kind, facts, {"msg": "refused"}, community=COMMUNITY)
    text = page(made)
    outline = Outline(text)
    assert outline.faults == []
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    assert {target[1:] for target in outline.links if target.startswith("#")} <= set(outline.ids)
    assert not outline.tags & {"script", "img", "link", "iframe", "object", "form"}
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    # Headings go down one level at a time.
    assert outline.headings[0] == 1
    assert all(after - before <= 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False))
    assert not re.search(r"url\((?!#)|@import", text)
    assert "None" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)


def test_what_a_reader_looks_for_is_there() -> None:
    text = page(document(community=COMMUNITY, version="1.2.3"))
    for words in (
        "Not yet: 1 point blocks a deployment.",
        "Next: if vllm_node may be stopped, serve the model",
        "ansible-playbook site.yml -e &#39;{&#34;gb10_reclaim&#34;: [&#34;vllm_node&#34;]}&#39;",
        "192.168.200.12/24 · MTU 9000",
        "http://192.0.2.10:8000/v1",
        "92.0 GiB",
        "memory.occupied",
        "ray start --head",
        "not verified by gb10.cluster",
        "Report 4",
        "gb10.cluster 1.2.3 · made 2026-11-30 15:00 · gb10-report/1",
    ):
        assert words in text


def test_names_from_machines_and_the_web_are_text() -> None:
    head = used_head()
    head["docker"]["containers"].append(container(SCRIPT))
    hold(head, (SCRIPT, 4 * GIB))
    head["identity"]["product"] = '"><img src=x onerror=alert(1)>'
    head["fabric"]["ports"][0]["netdev"] = "<b>enp1</b>"
    head["fabric"]["ports"][0]["carrier"] = True
    head["deployments"] = [{"kind": SCRIPT, "path": "</pre></details>"}]
    community = {"provider": SCRIPT, "entries": [{"title": SCRIPT, "url": "javascript:alert(1)", "excerpt": SCRIPT, "about": [SCRIPT]}]}
    made = document(facts={HEAD: head, WORKER: worker()}, community=community, results={"msg": SCRIPT})
    for source in ("javascript:alert(1)", " javascript:alert(1)", "data:text/html,x", "http://", "https://a\nb", "docs/contracts.md"):
        made["findings"].append({**deepcopy(made["findings"][0]), "source": source, "observed": SCRIPT, "evidence": [SCRIPT], "nodes": [SCRIPT]})
    text = page(made)
    outline = Outline(text)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert outline.faults == []
    assert outline.tags.isdisjoint({"script", "img", "b"})
    assert all(target.startswith(("#", "https://", "http://192.0.2.")) for target in outline.links), outline.links
    assert "javascript:alert(1)" in text


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("https://example.com/a?b=1", "https://example.com/a?b=1"),
        ("http://example.com", "http://example.com"),
        ("JavaScript:alert(1)", ""),
        ("https:alert(1)", ""),
        ("//example.com", ""),
        ("http://[", ""),
        ("https://example.com/\x01", ""),
        (None, ""),
    ],
)
def test_links(source: str | None, target: str) -> None:
    assert link(source) == target


def test_no_escape_sequence_reaches_the_terminal() -> None:
    community = {"provider": "exa", "entries": [{"title": "\x1b]0;owned\x07\x1b[31mred\nsecond line", "url": "https://example.com"}]}
    said = "\n".join(line.text for line in terminal(document(community=community)))
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "red" in said


def test_three_reports_by_others_on_the_screen_and_all_in_the_files() -> None:
    said = "\n".join(line.text for line in terminal(document(community=COMMUNITY)))
    assert "Reports by others, not verified" in said
    assert "because EXA_API_KEY is not set." in said
    assert "  · Report 2 (2026-09-12)\n" in said
    assert "Report 3" not in said
    assert "2 more entries in the report's files." in said


class TestServes:
    """Recon of what is deployed already."""

    def document(self, active: str = "active", action: str = "keep", **commands: str) -> dict[str, Any]:
        facts = twin()
        made = plan(facts)
        for host, entry in made["nodes"].items():
            known = facts[host]
            assert known is not None
            for planned in entry["containers"]:
                planned["action"] = action
                known["services"]["units"].append({"name": f"{planned['name']}.service", "active": active, "sub": "running", "enabled": "enabled"})
        return build("recon", facts, made, commands=COMMANDS | commands)

    def text(self, made: dict[str, Any]) -> str:
        return "\n".join(line.text for line in terminal(made))

    def test_it_is_not_offered_again(self) -> None:
        said = self.text(self.document(bench="ansible-playbook bench.yml"))
        assert "Deployed as planned: its containers run unchanged and its units are active" in said
        assert "Next: it is deployed; ask it, and see how it is\n    ansible-playbook status.yml" in said
        assert "Or: measure how fast it is\n    ansible-playbook bench.yml" in said
        assert "serve the model" not in said

    def test_without_a_benchmark(self) -> None:
        assert "bench" not in self.text(self.document())

    @pytest.mark.parametrize(("active", "action"), [("failed", "keep"), ("active", "replace"), ("inactive", "keep")])
    def test_it_is_where_something_is_to_be_done(self, active: str, action: str) -> None:
        assert "Next: serve the model" in self.text(self.document(active, action))


class TestTopology:
    @pytest.mark.parametrize("narrow", [False, True])
    @pytest.mark.parametrize("count", range(1, 9))
    def test_everything_is_inside_and_nodes_do_not_overlap(self, count: int, narrow: bool) -> None:
        facts = twin() if count == 2 else row(count)
        drawing = topology(document(facts=facts), narrow)
        assert drawing is not None
        assert drawing.width == (NARROW if narrow else WIDE)
        for box in drawing.boxes:
            assert box.x >= 0
            assert box.y >= 0
            assert box.x + box.width <= drawing.width
            assert box.y + box.height <= drawing.height
        for text in drawing.texts:
            assert 0 <= text.x <= drawing.width
            assert 0 < text.y < drawing.height
        nodes = [box for box in drawing.boxes if box.kind == "node"]
        assert len(nodes) == count
        for number, one in enumerate(nodes):
            for other in nodes[number + 1 :]:
                apart = one.x + one.width <= other.x or one.y + one.height <= other.y or other.y + other.height <= one.y
                assert apart
        assert self.kinds(drawing, "cage") == (0 if count == 1 else 2 * count)
        assert self.kinds(drawing, "fabric") == (1 if count > 2 else 0)
        assert len([path for path in drawing.paths if path.kind == "cable" and not path.dashed]) >= (0 if count == 1 else 1)

    def kinds(self, drawing: Drawing, kind: str) -> int:
        return sum(1 for box in drawing.boxes if box.kind == kind)

    def words(self, drawing: Drawing | None) -> list[str]:
        assert drawing is not None
        return [text.text for text in drawing.texts]

    @pytest.mark.parametrize("narrow", [False, True])
    def test_two_nodes_and_their_cable(self, narrow: bool) -> None:
        drawing = topology(document(), narrow)
        assert drawing is not None
        words = self.words(drawing)
        for word in ("spark-head", "rank 0, head", "NVIDIA DGX Spark", "enp1s0f1np1", "192.168.200.12/24 · MTU 9000", "cage 0", "no link"):
            assert word in words
        assert [mark.state for mark in drawing.marks].count("up") == 4
        assert "cage 1 of spark-head is cabled to cage 1 of spark-worker, 200 Gb/s, MTU 9000" in drawing.description
        assert "clients reach spark-head at http://192.0.2.10:8000/v1" in drawing.description

    def test_crossed_cages_are_found_by_their_subnets(self) -> None:
        facts = {HEAD: spark(), WORKER: worker()}
        facts[WORKER]["fabric"]["ports"] = cabled(13, cage=0)
        (cable,) = cables(document(facts=facts))
        assert (cable.left, cable.right, cable.certain) == ((HEAD, 1), (WORKER, 0), True)

    def test_links_without_a_common_subnet_are_not_certain(self) -> None:
        facts = {HEAD: spark(), WORKER: worker()}
        facts[WORKER]["fabric"]["ports"] = cabled(13, first="10.1.0.2", second="10.2.0.2")
        made = document(facts=facts)
        (cable,) = cables(made)
        assert not cable.certain
        drawing = topology(made)
        assert drawing is not None
        assert "no common subnet" in self.words(drawing)
        assert [path.dashed for path in drawing.paths if path.kind == "cable"] == [True]

    def test_cables_are_found_by_what_ports_heard(self) -> None:
        drawn = document(facts=cluster(((0, 0), (1, 1)), ((0, 1), (1, 0))))
        assert [(cable.left[1], cable.right[1], cable.certain) for cable in cables(drawn)] == [(0, 1, True), (1, 0, True)]
        assert any("enp1s0f0np0    → spark-1  200 Gb/s" in line.text for line in terminal(drawn))

    def test_the_shape_of_three_and_more_is_said_as_it_was_heard(self) -> None:
        ring = document(facts=cluster(*RING, nodes=3))
        assert shape(ring) == "spark-0 ↔ spark-1, spark-0 ↔ spark-2, spark-1 ↔ spark-2"
        assert "cage 0 of spark-0 leads to spark-1" in sentence(ring)
        assert shape(document(facts=cluster(((0, 1), (1, 1), (2, 1)), nodes=3))) == "a switch"
        assert shape(document(facts=row(3))) == "a switch, or cables from node to node"

    def test_link_local_addresses_prove_no_cable(self) -> None:
        facts = {HEAD: spark(), WORKER: worker()}
        for number, entry in enumerate(facts.values(), 1):
            entry["fabric"]["ports"] = cabled(1, first=f"169.254.1.{number}", second=f"169.254.2.{number}", prefix=16)
        assert [cable.certain for cable in cables(document(facts=facts))] == [False]

    def test_what_is_not_known_is_not_drawn_as_a_link(self) -> None:
        lost = topology(document(facts={HEAD: spark(), WORKER: None}))
        assert "did not answer" in self.words(lost)
        assert "cable not known" in self.words(lost)
        blind = spark()
        del blind["fabric"]["ports"]
        assert "ports could not be read" in self.words(topology(document(facts={HEAD: blind, WORKER: worker()})))
        bare = spark()
        bare["fabric"]["ports"] = []
        assert "no ConnectX-7 port is visible" in self.words(topology(document(facts={HEAD: bare, WORKER: worker()})))

    def test_the_table_says_the_same(self) -> None:
        found = rows(document())
        assert len(found) == 8
        assert found[2] == {
            "node": HEAD,
            "cage": "1",
            "twin": "0",
            "netdev": "enp1s0f1np1",
            "hca": "rocep1s0f1",
            "link": "up, 200 Gb/s",
            "address": "192.168.200.12/24",
            "mtu": "9000",
        }

    def test_text_that_is_too_long_is_cut(self) -> None:
        assert fit("short", 100, 12) == "short"
        assert fit("a" * 80, 100, 12, mono=True) == "a" * 12 + "…"


class TestBars:
    def test_all_of_the_memory_in_its_order(self) -> None:
        made = document()
        bar, idle = bars(made, [HEAD, WORKER])
        labels = [segment.label for segment in bar.segments]
        assert labels == ["vllm_node", "vllm_embeddings", "reranker", "system and others", "free"]
        assert sum(segment.width for segment in bar.segments) == pytest.approx(100, abs=0.01)
        assert sum(segment.amount for segment in bar.segments) == bar.total
        assert bar.segments[1].start == pytest.approx(bar.segments[0].width, abs=0.01)
        assert [segment.lettered for segment in bar.segments[:3]] == [True, True, False]
        assert bar.words.startswith("spark-head, 119.6 GiB: vllm_node 92.0 GiB, ")
        assert "which does not fit now" in bar.wanted
        assert "which fits" in idle.wanted

    def test_cache_is_apart_from_free(self) -> None:
        facts = {HEAD: spark(), WORKER: worker()}
        facts[HEAD]["memory"] |= {"cached": 20 * GIB, "buffers": GIB}
        (bar, _other) = bars(document(facts=facts), [HEAD, WORKER])
        amounts = {segment.kind: segment.amount for segment in bar.segments}
        assert amounts["cache"] == 21 * GIB
        assert amounts["free"] == 95 * GIB

    def test_many_holders_and_shared_pages(self) -> None:
        facts = {HEAD: spark(), WORKER: worker()}
        facts[HEAD]["workloads"] = [workload(f"c{number}", 20 * GIB) for number in range(9)]
        (bar, _other) = bars(document(facts=facts), [HEAD, WORKER])
        assert "3 smaller holders" in [segment.label for segment in bar.segments]
        assert bar.segments[-1].start + bar.segments[-1].width == pytest.approx(100, abs=0.01)

    def test_what_is_not_known_is_said(self) -> None:
        blind, empty = spark(), worker()
        del blind["workloads"]
        empty["memory"] = {}
        made = document(facts={HEAD: blind, WORKER: empty})
        (bar,) = bars(made, [HEAD, WORKER])
        assert [segment.label for segment in bar.segments] == ["by whom is not known", "free"]
        assert "The memory of spark-worker is not known." in page(made)
