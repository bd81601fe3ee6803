# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule fires where it should, says what matters, and is quiet otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules import RULES, table
from ansible_collections.gb10.cluster.plugins.plugin_utils._rules.base import rule
from builders import (
    GIB,
    HEAD,
    WORKER,
    Facts,
    cabled,
    container,
    hold,
    ids,
    plan,
    port,
    row,
    spark,
    twin,
    used_head,
    worker,
    workload,
)

SINGLE: Facts = {"nodes": 1, "tensor_parallel": 1}
REVISION = "a099dee70ccfcd8d5dda56aaa0b60cb8ecadabc9"
REPO = "Qwen/Qwen3.5-122B-A10B-FP8"

Change = Callable[[Facts], Any]


def head(change: Change) -> dict[str, Facts | None]:
    """Two Sparks, the first changed."""
    facts = spark()
    change(facts)
    return {HEAD: facts, WORKER: worker()}


def both(change: Change) -> dict[str, Facts | None]:
    """Two Sparks, both changed."""
    first, second = spark(), worker()
    change(first)
    change(second)
    return {HEAD: first, WORKER: second}


def one(change: Change) -> dict[str, Facts | None]:
    """A single Spark, changed."""
    facts = spark()
    change(facts)
    return {HEAD: facts}


def ports(*entries: Facts) -> Change:
    """The node's ConnectX-7 functions."""
    return lambda facts: facts["fabric"].update(ports=list(entries))


def cache(**revision: Any) -> Change:
    """The model in the node's cache."""
    entry = {"revision": REVISION, "complete": True, "size": 127 * 10**9, "missing": [], **revision}
    return lambda facts: facts["models"].update(repositories=[{"repo": REPO, "revisions": [entry]}])


def listening(number: int, address: str = "0.0.0.0", **entry: Any) -> Change:
    """Somebody listens on a TCP port."""
    return lambda facts: facts["services"]["listening"].append({"address": address, "port": number, **entry})


def images(*entries: Facts) -> Change:
    """The node's images."""
    return lambda facts: facts["docker"].update(images=list(entries))


def runs(*entries: Facts) -> Change:
    """The node's containers."""
    return lambda facts: facts["docker"].update(containers=list(entries))


def all_of(*changes: Change) -> Change:
    """One change after the other."""
    return lambda facts: [change(facts) for change in changes]


def lacks(path: str) -> Change:
    """The fact is absent."""

    def remove(facts: Facts) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            facts = facts[parent]
        del facts[last]

    return remove


def probe(name: str, status: str, reason: str) -> Change:
    """A probe did not go well."""
    return lambda facts: facts["probes"].update({name: {"status": status, "reason": reason, "seconds": 1.0}})


RUN = plan(twin())["image"]["run"]

# id, facts, what the finding has to say; further: overrides of the recipe and variables of the user
FIRES: list[tuple[str, dict[str, Facts | None], str, dict[str, Any]]] = [
    ("node.unreachable", {HEAD: spark(), WORKER: None}, "spark-worker did not answer", {}),
    ("node.facts_incomplete", head(lacks("memory.available")), "Unknown on spark-head: the available memory. No probe", {}),
    ("node.facts_incomplete", head(all_of(lacks("fabric.ports"), probe("ip_addr", "timeout", "5 s"))), r"ip_addr timeout \(5 s\)", {}),
    ("node.facts_incomplete", head(all_of(lacks("disk"), probe("df", "unavailable", "df: not found"))), "df unavailable", {}),
    ("gpu.absent", head(lambda f: f["gpu"].update(present=False, devices=[])), "spark-head has no GPU", {}),
    ("gpu.unreachable", head(all_of(lambda f: f["gpu"].pop("devices"), probe("nvidia_smi", "timeout", "10 s"))), "timeout", {}),
    ("gpu.unreachable", head(all_of(lambda f: f.update(gpu={}), probe("nvidia_smi", "failed", "mismatch"))), "mismatch", {}),
    ("platform.architecture", head(lambda f: f["kernel"].update(machine="x86_64")), "spark-head is x86_64", {}),
    ("platform.not_gb10", head(lambda f: f["identity"].update(gb10=False, product="Standard PC")), "is Standard PC, not a GB10", {}),
    ("python.requests_missing", head(lambda f: f["python"].update(requests=False)), "/usr/bin/python3 on spark-head", {}),
    ("memory.occupied", {HEAD: used_head(), WORKER: worker()}, r"vllm_node 92.0 GiB, vllm_embeddings 7.0 GiB and reranker 3.0 GiB", {}),
    ("memory.occupied", {HEAD: used_head(), WORKER: worker()}, r"with reranker stopped", {"reclaim": ["reranker"]}),
    ("memory.page_cache", head(lambda f: f["memory"].update(free=2 * GIB)), "114.0 GiB of the 116.0 GiB available on spark-head", {}),
    ("kernel.kho_cma", head(lambda f: f["memory"].update(cma_total=128 * 2**20, cma_free=9 * GIB)), r"CmaFree \(9.0 GiB\) .*\(128.0 MiB\)", {}),
    ("memory.swap", head(lambda f: f["memory"].update(swap_total=16 * GIB, swap_free=15 * GIB)), "16.0 GiB of swap, 1.0 GiB of it in use", {}),
    ("memory.swap", head(all_of(lambda f: f["memory"].update(swap_total=16 * GIB), lacks("memory.swap_free"))), "16.0 GiB of swap.", {}),
    ("memory.reclaim_absent", twin(), "vlm_node in gb10_reclaim is on none", {"reclaim": ["vlm_node"]}),
    ("memory.reclaim_absent", head(runs(container("old", running=False))), "does not run", {"reclaim": ["old"]}),
    ("memory.reclaim_absent", head(runs(container("gb10-ray", labels={"gb10.deployment": "x"}))), "of this collection", {"reclaim": ["gb10-ray"]}),
    ("docker.unavailable", head(lambda f: f.update(docker={"available": False, "reason": "docker: not found"})), "docker: not found", {}),
    ("docker.group", head(lambda f: f.update(docker={"available": False, "reason": "permission denied while"})), "aurora may not", {}),
    ("docker.name_taken", head(runs(container("gb10-ray"))), "gb10-ray", {}),
    ("fabric.no_rail", head(ports()), "no ConnectX-7 port is visible", {}),
    ("fabric.no_rail", head(ports(port(1, 0, up=False), port(1, 1, up=False))), "enp1s0f1np1 and enP2p1s0f1np1 are down", {}),
    ("fabric.no_address", head(ports(port(1, 0), port(1, 1))), "enp1s0f1np1 and enP2p1s0f1np1 of spark-head are up", {}),
    ("fabric.rail_unmatched", head(ports(port(1, 0, "10.0.0.1"), port(1, 1, "10.0.1.1"))), "share no subnet", {}),
    ("fabric.no_hca", both(lambda f: [entry.pop("hca") for entry in f["fabric"]["ports"]]), "no RDMA device", {}),
    ("fabric.no_hca", head(lambda f: [entry.pop("hca") for entry in f["fabric"]["ports"]]), "The rails of spark-head have", {}),
    ("fabric.twin_without_address", both(ports(*cabled(12, second=None))) | {WORKER: worker()}, "half its bandwidth", {}),
    ("fabric.twin_down", head(ports(port(1, 0, "192.168.200.12"), port(1, 1, up=False))), "enP2p1s0f1np1 of spark-head is down", {}),
    ("fabric.mtu_mismatch", head(ports(*cabled(12, mtu=1500))), "enp1s0f1np1 of spark-head 1500 and enp1s0f1np1 of spark-worker 9000", {}),
    (
        "fabric.mtu_small",
        {HEAD: spark(12), WORKER: worker(13)} | both(lambda f: [e.update(mtu=1500) for e in f["fabric"]["ports"]]),
        "MTU of 1500",
        {},
    ),
    (
        "fabric.same_subnet",
        {n: spark(i, fabric={**spark()["fabric"], "ports": cabled(i, second=f"192.168.200.{i + 100}")}) for n, i in ((HEAD, 12), (WORKER, 13))},
        "all in 192.168.200.0/24",
        {},
    ),
    (
        "fabric.link_local",
        {
            n: spark(i, fabric={**spark()["fabric"], "ports": cabled(i, first=f"169.254.1.{i}", second=f"169.254.2.{i}", prefix=16, scope="link")})
            for n, i in ((HEAD, 12), (WORKER, 13))
        },
        "after the next reboot",
        {},
    ),
    ("image.missing", twin(), "is pulled and gb10/qwen3.5-122b-a10b-fp8-ray:[0-9a-f]{12} made from it", {}),
    ("image.missing", twin(), "spark-worker does not .* comes from spark-head over the fabric", {}),
    (
        "image.differs",
        {
            HEAD: spark(docker={**spark()["docker"], "images": [{"id": "a", "tags": [RUN]}]}),
            WORKER: worker(docker={**spark()["docker"], "images": [{"id": "b", "tags": [RUN]}]}),
        },
        "on spark-worker is not the image",
        {},
    ),
    ("image.moving_tag", twin(), "may be another image tomorrow", {"overrides": {"image": {"reference": "vllm-node", "digest": None}}}),
    ("image.moving_tag", twin(), "cu130-nightly may be", {"overrides": {"image": {"reference": "vllm/vllm-openai:cu130-nightly", "digest": None}}}),
    ("model.missing", twin(), r"spark-head .* downloaded \(118.3 GiB in all\)", {}),
    ("model.missing", head(cache()), "spark-worker .* sent from spark-head over the fabric", {}),
    (
        "model.incomplete",
        head(cache(complete=False, missing=[f"model-{i}.safetensors" for i in range(5)])),
        "model-2.safetensors and 2 more files",
        {},
    ),
    ("model.incomplete", head(cache(complete=False)), "is incomplete", {}),
    ("model.incomplete", head(cache(complete=None)), "has an index that cannot be read", {}),
    (
        "disk.too_small",
        head(lambda f: [entry.update(free=140 * GIB) for entry in f["disk"]]),
        "140.0 GiB free; the model needs 118.3 GiB and the image needs",
        {},
    ),
    ("disk.too_small", head(lambda f: f.update(disk=[{"path": "/", "mount": "/", "free": GIB}])), "/ of spark-head has 1.0 GiB free", {}),
    ("port.taken", head(listening(8000, pid=99, process="nginx")), r"8000 of spark-head.* in use by nginx \(pid 99\)", {}),
    ("port.taken", head(listening(8000)), "a process of another user", {}),
    ("port.taken", head(all_of(listening(8000, "::"), runs(container("vllm_node", network_mode="host")))), r"perhaps of .*\(vllm_node\)", {}),
    ("port.taken", head(all_of(listening(8000), runs(container("web", ports=["8000/tcp"])))), "in use by container web", {}),
    (
        "port.taken",
        head(all_of(listening(8000, pid=5), lambda f: f["workloads"].append(workload("llama-server", GIB, kind="process", pids=[5])))),
        "process llama-server",
        {},
    ),
    ("port.taken", head(listening(6379, "192.168.200.12")), "needed for Ray", {}),
    ("port.taken", head(listening(29501)), "the meeting of the ranks", {"backend": "mp"}),
    ("port.taken", one(listening(9000)), "Port 9000", {"overrides": SINGLE, "api_port": 9000}),
    ("deployment.world_size", row(3), "makes 2 ranks .* has 3 nodes with 3 GPUs in all", {}),
    ("deployment.nodes", row(4), "made for 2 nodes, the group has 4", {"overrides": {"tensor_parallel": 4}}),
    ("deployment.backend", one(lambda f: None), "without Ray", {"overrides": SINGLE}),
    ("api.no_key", twin(), "everyone who can reach", {}),
]

QUIET: list[tuple[str, dict[str, Facts | None], dict[str, Any]]] = [
    *((id_, twin(), {"api_key": True}) for id_ in sorted(RULES) if id_ not in ("image.missing", "model.missing")),
    *((id_, one(lambda f: f["fabric"].update(ports=[])), {"overrides": SINGLE}) for id_ in sorted(RULES) if id_.startswith("fabric.")),
    ("image.missing", both(images({"id": "a", "tags": [RUN]})), {}),
    ("image.differs", both(images({"id": "a", "tags": [RUN]})), {}),
    # The same image in Docker's two stores has two ids.
    (
        "image.differs",
        {
            HEAD: spark(docker={**spark()["docker"], "images": [{"id": "a", "tags": [RUN]}]}),
            WORKER: worker(docker={**spark()["docker"], "storage_driver": "overlayfs", "images": [{"id": "b", "tags": [RUN]}]}),
        },
        {},
    ),
    ("model.missing", both(cache()), {}),
    ("model.incomplete", both(cache()), {}),
    ("memory.occupied", {HEAD: used_head(), WORKER: worker()}, {"reclaim": ["vllm_node"]}),
    ("memory.reclaim_absent", {HEAD: used_head(), WORKER: worker()}, {"reclaim": ["vllm_node"]}),
    ("memory.page_cache", {HEAD: used_head(), WORKER: worker()}, {}),
    ("kernel.kho_cma", head(lambda f: f["memory"].update(cma_total=128 * 2**20, cma_free=5 * 2**20)), {}),
    ("kernel.kho_cma", one(lambda f: f["memory"].update(cma_total=0, cma_free=GIB)), {"overrides": SINGLE}),
    # Ours holds the memory: the second run.
    (
        "memory.occupied",
        head(lambda f: (f["memory"].update(available=15 * GIB), f["workloads"].append(workload("gb10-ray", 96 * GIB, managed=True)))),
        {},
    ),
    ("port.taken", head(all_of(listening(8000), runs(container("gb10-vllm", labels={"gb10.deployment": "x", "gb10.ports": "8000"})))), {}),
    ("port.taken", head(all_of(listening(8000), runs(container("vllm_node", network_mode="host")))), {"reclaim": ["vllm_node"]}),
    ("port.taken", head(listening(8000, "127.0.0.1")), {}),
    ("port.taken", head(listening(8001)), {}),
    ("docker.name_taken", head(runs(container("gb10-ray", labels={"gb10.deployment": "x"}))), {}),
    ("disk.too_small", both(all_of(cache(), lambda f: [entry.update(free=45 * GIB) for entry in f["disk"]])), {}),
    ("deployment.nodes", row(4), {"overrides": {"nodes": 4, "tensor_parallel": 4}}),
    ("deployment.world_size", row(4), {"overrides": {"nodes": 4, "tensor_parallel": 2, "pipeline_parallel": 2}}),
    # One rail matched: further ports may go elsewhere.
    ("fabric.rail_unmatched", head(ports(port(1, 0, "192.168.200.12"), port(0, 0, "10.9.9.9"))), {}),
]


@pytest.mark.parametrize(("id_", "facts", "text", "options"), FIRES, ids=[f"{n}-{case[0]}" for n, case in enumerate(FIRES)])
def test_fires(id_: str, facts: dict[str, Facts | None], text: str, options: dict[str, Any]) -> None:
    options = dict(options)
    made = plan(facts, options.pop("overrides", None), **options)
    found = [finding for finding in made["findings"] if finding["id"] == id_]
    assert any(re.search(text, finding["observed"]) for finding in found), [finding["observed"] for finding in found] or ids(made)
    for finding in found:
        assert finding["severity"] == RULES[id_].severity
        assert finding["nodes"] and set(finding["nodes"]) <= set(facts)
        assert all(finding[key].endswith((".", "?")) for key in ("observed", "expected", "remedy")), finding
    assert made["ok"] is not (RULES[id_].severity == "block")


@pytest.mark.parametrize(("id_", "facts", "options"), QUIET, ids=[f"{n}-{case[0]}" for n, case in enumerate(QUIET)])
def test_quiet(id_: str, facts: dict[str, Facts | None], options: dict[str, Any]) -> None:
    options = dict(options)
    assert id_ not in ids(plan(facts, options.pop("overrides", None), **options))


def test_every_rule_is_tested_both_ways() -> None:
    assert {case[0] for case in FIRES} == set(RULES)
    assert {case[0] for case in QUIET} == set(RULES)


def test_every_rule_says_where_it_comes_from() -> None:
    for entry in RULES.values():
        assert entry.source.startswith("https://") or entry.source.startswith("docs/"), entry.id
        assert entry.summary.endswith(".") and entry.check.__doc__


def test_the_table_has_every_rule_once() -> None:
    lines = table().splitlines()
    assert len(lines) == len(RULES) + 2
    assert all(any(line.startswith(f"| `{id_}` | {entry.severity} | {entry.summary} |") for line in lines) for id_, entry in RULES.items())


def test_a_rule_needs_a_free_id_and_a_known_severity() -> None:
    for id_, severity in (("memory.occupied", "block"), ("memory", "block"), ("memory.new", "fatal")):
        with pytest.raises(ValueError, match="a rule needs"):
            rule(id_, severity, "Summary.", source="docs/contracts.md")


def test_an_accepted_finding_stays_and_does_not_block() -> None:
    facts = head(lambda f: f["kernel"].update(machine="x86_64"))
    assert not plan(facts)["ok"]
    made = plan(facts, accept=["platform.architecture"])
    assert made["ok"]
    assert [finding["accepted"] for finding in made["findings"] if finding["id"] == "platform.architecture"] == [True]


def test_the_reference_story() -> None:
    facts = {HEAD: used_head(), WORKER: worker()}
    refused = plan(facts)
    assert not refused["ok"]
    assert ids(refused, "block") == ["memory.occupied"]
    finding = refused["findings"][0]
    assert finding["nodes"] == [HEAD]
    assert """-e '{"gb10_reclaim": ["vllm_node"]}'""" in finding["remedy"]
    assert "vllm_embeddings" not in finding["remedy"]
    agreed = plan(facts, reclaim=["vllm_node"])
    assert agreed["ok"]
    assert agreed["nodes"][HEAD]["reclaim"] == ["vllm_node"]
    assert agreed["nodes"][HEAD]["memory"]["reclaimed"] == 92 * GIB
    assert agreed["nodes"][WORKER]["reclaim"] == []


@pytest.mark.parametrize(
    ("held", "remedy"),
    [
        ([("a", 60), ("b", 30), ("c", 10)], '"gb10_reclaim": ["a", "b"]'),
        ([("a", 100), ("b", 5)], '"gb10_reclaim": ["a"]'),
        ([("a", 9), ("b", 6)], '"gb10_reclaim": ["a"]'),
    ],
)
def test_the_fewest_stops_that_suffice(held: list[tuple[str, int]], remedy: str) -> None:
    facts = hold(spark(), *((name, size * GIB) for name, size in held))
    facts["memory"]["available"] = min(facts["memory"]["available"], 102 * GIB)
    made = plan({HEAD: facts, WORKER: worker()})
    assert remedy + "}" in next(finding["remedy"] for finding in made["findings"] if finding["id"] == "memory.occupied")


def test_no_stop_suffices_where_a_process_holds_the_memory() -> None:
    facts = hold(spark(), ("small", GIB))
    facts["workloads"].append(workload("llama-server", 90 * GIB, kind="process"))
    facts["memory"]["available"] = 25 * GIB
    finding = plan({HEAD: facts, WORKER: worker()})["findings"][0]
    assert "llama-server (pid 4711) 90.0 GiB" in finding["observed"]
    assert "would still leave 80.3 GiB too little" in finding["remedy"]


def test_memory_that_is_not_known_is_not_nothing() -> None:
    facts = hold(spark(), ("a", 60 * GIB))
    facts["workloads"] = [
        {"name": "a", "kind": "container", "rss": 60 * GIB, "pids": [1]},
        {"name": "b", "kind": "container", "pids": [2]},
        *(workload(f"c{i}", GIB) for i in range(6)),
    ]
    observed = plan({HEAD: facts, WORKER: worker()})["findings"][0]["observed"]
    assert "a at least 60.0 GiB" in observed
    assert "2 more" in observed
    facts["workloads"] = [{"name": "b", "kind": "container", "pids": [2]}]
    assert "b an unknown amount" in plan({HEAD: facts, WORKER: worker()})["findings"][0]["observed"]
    facts["workloads"] = []
    finding = plan({HEAD: facts, WORKER: worker()})["findings"][0]
    assert "No workload that could be named" in finding["observed"]
    assert "No container can be stopped" in finding["remedy"]


def test_only_some_of_many_probes_are_named() -> None:
    facts = head(all_of(lacks("disk"), *(probe(f"p{i}", "failed", "x") for i in range(6))))
    observed = next(finding["observed"] for finding in plan(facts)["findings"] if finding["id"] == "node.facts_incomplete")
    assert observed.endswith("p3 failed (x); and 2 more.")


def test_consent_that_cannot_help_says_so() -> None:
    facts = {HEAD: spark(), WORKER: worker(fabric={**spark()["fabric"], "ports": [port(1, 0, "192.168.200.13"), port(1, 1, up=False)]})}
    facts[HEAD]["fabric"]["ports"] = cabled(12, second=None)
    finding = next(f for f in plan(facts, consent=["network"])["findings"] if f["id"] == "fabric.twin_without_address")
    assert "although you consent" in finding["remedy"]


def test_the_documented_table_is_the_codes() -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "findings.md"
    assert page.read_text().endswith("\n\n" + table()), "write the new table into docs/findings.md"
