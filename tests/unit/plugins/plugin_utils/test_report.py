# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: what each screen says of the reference story, and what no report may contain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._report import KINDS, Line, build, markdown, terminal
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.findings import consent
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.lines import WIDTH, dig, paragraph, shell
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.nodes import gpu, memory_lines, rail_lines
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.speed import measured, roofline
from ansible_collections.gb10.cluster.plugins.plugin_utils._report.status import container_state, parse_time
from builders import GIB, HEAD, WORKER, container, hold, plan, spark, twin, used_head, worker

COMMANDS = {name: f"ansible-playbook {name}.yml" for name in ("recon", "site", "status", "stop", "teardown")}
COMPLETION = {
    "text": "Paris.",
    "reasoning": "",
    "finish_reason": "stop",
    "prompt_tokens": 21,
    "completion_tokens": 44,
    "seconds": 2.03,
    "time_to_first_token": 0.41,
    "tokens_per_second": 26.9,
}


def document(kind: str = "recon", facts: dict[str, Any] | None = None, results: dict[str, Any] | None = None, **variables: Any) -> dict[str, Any]:
    facts = {HEAD: used_head(), WORKER: worker()} if facts is None else facts
    return build(kind, facts, plan(facts, **variables), results, "2026-11-30 15:00:00+01:00", COMMANDS, show_commands=True)


def text(lines: list[Line]) -> str:
    return "\n".join(line.text for line in lines)


def styled(lines: list[Line], style: str) -> str:
    return text([line for line in lines if line.style == style])


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("facts", [None, {HEAD: spark(), WORKER: None}, {HEAD: {}, WORKER: {"schema": 1}}, {HEAD: spark()}])
@pytest.mark.parametrize("results", [None, {"completion": COMPLETION, "models": ["qwen"]}, {"msg": "refused\nreally", "models": ["a"]}])
def test_every_screen_fits_and_every_file_is_written(kind: str, facts: dict[str, Any] | None, results: dict[str, Any] | None) -> None:
    made = document(kind, facts, results)
    lines = terminal(made)
    assert [line.text for line in lines if len(line.text) > WIDTH] == []
    assert lines
    assert "None" not in text(lines)
    assert markdown(made).startswith("# ")
    assert json.loads(json.dumps(made)) == made


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_plan_that_could_not_be_made_leaves_the_nodes(kind: str) -> None:
    made = build(kind, {HEAD: used_head()}, None, {"msg": "unknown recipe", "exception": "Traceback"})
    assert "spark-head" in text(terminal(made)) or kind in ("site", "verify")
    assert markdown(made).startswith("# ")
    assert "exception" not in made["results"]


class TestRecon:
    def test_who_holds_the_memory(self) -> None:
        said = text(terminal(document()))
        assert "memory    102.0 of 119.6 GiB held, " in said
        assert "vllm_node 92.0, vllm_embeddings 7.0, reranker 3.0" in said

    def test_what_blocks_comes_with_its_remedy_and_the_next_command_has_the_consent(self) -> None:
        lines = terminal(document())
        said = text(lines)
        assert "What blocks a deployment (1)" in said
        assert "✗ memory.occupied on spark-head" in styled(lines, "block")
        assert "→ If they may be stopped" in said
        assert "Not yet: 1 point blocks a deployment. Nothing was changed." in said
        assert "Next: if vllm_node may be stopped, serve the model" in said
        assert """    ansible-playbook site.yml -e '{"gb10_reclaim": ["vllm_node"]}'""" in said

    def test_a_ready_twin(self) -> None:
        lines = terminal(document(facts=twin()))
        said = text(lines)
        assert "Ready: nothing blocks a deployment" in styled(lines, "ok")
        assert said.rstrip().endswith("Next: serve the model\n    ansible-playbook site.yml")

    def test_what_no_word_can_allow(self) -> None:
        said = text(terminal(document(facts={HEAD: used_head(), WORKER: None})))
        assert "spark-worker · rank 1\n  did not answer" in said
        assert said.rstrip().endswith("ansible-playbook recon.yml --check")

    def test_the_rank_s_command_and_environment(self) -> None:
        made = document(facts=twin())
        said = text(terminal(made))
        assert "What would run\n  spark-head (rank 0)" in said
        assert "ray start --head --port=6379" in said
        assert "VLLM_HOST_IP=192.168.200.12" in said
        assert "VLLM_HOST_IP=192.168.200.13" in said
        assert "the model is downloaded" in said or "the model comes from" in said or made["plan"]["nodes"][HEAD]["model"]["action"] == "none"
        made["show_commands"] = False
        assert "What would run" not in text(terminal(made))
        assert "ray start --head" in markdown(made)

    def test_what_is_accepted_is_said_in_one_line(self) -> None:
        said = text(terminal(document(accept=["memory.occupied"])))
        assert "Accepted by you (1 finding): memory.occupied." in said
        assert "✗ memory.occupied" not in said

    def test_a_broken_tool_is_named(self) -> None:
        facts = spark()
        facts["probes"] = {
            "nvidia_smi": {"status": "timeout", "reason": "nvidia-smi: no answer in 10 s", "seconds": 10},
            "ibstat": {"status": "unavailable", "reason": "ibstat: not found", "seconds": 0},
        }
        made = document(facts={HEAD: facts, WORKER: worker()})
        assert "unread    nvidia_smi (nvidia-smi: no answer in 10 s)" in text(terminal(made))
        assert "ibstat" not in text(terminal(made))
        assert "not on this node: ibstat" in markdown(made)


class TestSite:
    def test_the_endpoint_and_its_speed(self) -> None:
        made = document("site", twin(), {"completion": COMPLETION, "models": ["qwen3.5-122b-a10b"], "changes": ["vllm_node was stopped"]})
        lines = terminal(made)
        said = " ".join(text(lines).split())
        assert "Qwen/Qwen3.5-122B-A10B-FP8 answers at http://192.0.2.10:8000/v1" in styled(lines, "ok")
        assert 'answer "Paris."' in said
        assert "26.9 tok/s, the first token after 0.41 s (44 tokens in 2.0 s)" in said
        assert "others 31.0 tok/s: single stream, two Sparks" in said
        assert "about 55 tok/s for a single stream" in said
        assert "2 ranks of 273 GB/s, and 10.0 GB to read for each token; this is 49 % of it" in said
        assert "changed vllm_node was stopped" in said

    def test_a_command_for_each_wish(self) -> None:
        said = text(terminal(document("site", twin(), {"completion": COMPLETION})))
        assert "curl http://192.0.2.10:8000/v1/chat/completions" in said
        assert 'client = OpenAI(base_url="http://192.0.2.10:8000/v1", api_key="none")' in said
        for name in ("status", "stop", "teardown"):
            assert f"    ansible-playbook {name}.yml" in said

    def test_with_a_key_the_examples_have_one(self) -> None:
        said = text(terminal(document("site", twin(), {"completion": COMPLETION}, api_key=True)))
        assert "Authorization: Bearer YOUR_KEY" in said
        assert 'api_key="YOUR_KEY"' in said

    def test_no_answer(self) -> None:
        lines = terminal(document("site", twin(), {"msg": "gb10-vllm.service has failed.\nThe first error: x"}))
        assert "No answer from http://192.0.2.10:8000/v1" in styled(lines, "block")
        assert "The first error: x" in text(lines)

    def test_only_thoughts(self) -> None:
        said = text(terminal(document("site", twin(), {"completion": {**COMPLETION, "text": "", "reasoning": "Hm,\nwell"}})))
        assert 'it thought: "Hm, well"' in said


class TestStatus:
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = twin()
        ours = {"labels": {"gb10.deployment": "x"}, "started": "2026-11-30T14:00:00.123456789Z"}
        facts[HEAD]["docker"]["containers"] += [
            container("gb10-ray", **ours),
            container("gb10-vllm", running=False, state="exited", exit_code=1, **ours),
        ]
        facts[HEAD]["services"]["units"] = [
            {"name": "gb10-vllm.service", "active": "failed", "sub": "failed", "enabled": "enabled"},
            {"name": "docker.service", "active": "active", "sub": "running", "enabled": "enabled"},
        ]
        facts[HEAD]["time"] = {"epoch": 1796054700.0, "synchronized": True}
        return facts

    def test_what_runs_and_what_does_not(self) -> None:
        lines = terminal(document("status", self.facts(), {"msg": "http://x: connection refused."}))
        said = text(lines)
        assert "gb10-ray: running for" in styled(lines, "ok")
        assert "gb10-vllm: exited with code 1" in styled(lines, "block")
        assert "gb10-vllm.service: failed (failed), starts at boot" in styled(lines, "block")
        assert "gb10-ray: not there" in said
        assert "docker.service" not in said
        assert "No answer from http://192.0.2.10:8000/v1\n  http://x: connection refused." in said
        assert said.rstrip().endswith("ask again in a minute\n    ansible-playbook status.yml")

    def test_nothing_runs(self) -> None:
        said = text(terminal(document("status", twin(), {"msg": "refused"})))
        assert said.rstrip().endswith("Next: bring it up again\n    ansible-playbook site.yml")
        said = text(terminal(document("status", None, {"msg": "refused"})))
        assert said.rstrip().endswith("Next: see what stands in the way\n    ansible-playbook recon.yml")

    def test_all_is_well(self) -> None:
        lines = terminal(document("status", twin(), {"completion": COMPLETION}))
        assert "qwen3.5-122b-a10b answers at http://192.0.2.10:8000/v1" in styled(lines, "ok")
        assert "26.9 tok/s" in text(lines)

    @pytest.mark.parametrize(
        ("record", "state"),
        [
            ({"running": True, "started": "2026-11-30T14:00:00Z", "restart_count": 0}, ("running for 2 h", "ok")),
            ({"running": True, "restart_count": 3}, ("running, restarted 3 times", "warn")),
            ({"running": False, "state": "exited", "exit_code": 137}, ("exited with code 137", "block")),
            ({"running": False, "state": "created"}, ("created", "block")),
        ],
    )
    def test_container_state(self, record: dict[str, Any], state: tuple[str, str]) -> None:
        epoch = parse_time("2026-11-30T16:00:00Z")
        assert container_state(record, epoch) == state

    def test_docker_s_never_is_no_time(self) -> None:
        assert parse_time("0001-01-01T00:00:00Z") is None
        assert parse_time("") is None
        assert parse_time("1970-01-01T01:00:10.5+01:00") == 10.0


class TestSecrets:
    def test_none_leaves(self) -> None:
        facts = twin()
        assert facts[HEAD] is not None
        facts[HEAD]["identity"]["serial"] = "1234567890123"
        facts[HEAD]["ssh"] = {"host_keys": [{"type": "ssh-ed25519", "key": "AAAAhostkey"}]}
        results = {"HF_TOKEN": "topsecret-token", "argv": ["vllm", "--api-key", "topsecret-key"], "log": "token hf_abcdefghijklmnopqrst"}
        made = document("recon", facts, results)
        everything = json.dumps(made) + markdown(made) + text(terminal(made))
        for secret in ("topsecret-token", "topsecret-key", "hf_abcdefghijklmnopqrst", "1234567890123", "AAAAhostkey"):
            assert secret not in everything

    def test_numbers_with_such_names_stay(self) -> None:
        made = document("site", twin(), {"completion": COMPLETION})
        assert made["results"]["completion"]["completion_tokens"] == 44
        assert made["results"]["completion"]["time_to_first_token"] == 0.41


class TestParts:
    def test_memory_that_could_not_be_told_apart(self) -> None:
        node = {"memory": {"total": 100 * GIB, "available": 40 * GIB}}
        assert text(list(memory_lines(node))) == "  memory    60.0 of 100.0 GiB in use, 40.0 left; by whom could not be read"
        assert text(list(memory_lines({}))) == "  memory    could not be read"

    def test_many_holders_and_page_cache(self) -> None:
        rows = [{"name": f"c{i}", "kind": "container", "memory": (9 - i) * GIB} for i in range(7)]
        rows[1] |= {"kind": "process", "name": "python3", "pids": [77]}
        lines = list(memory_lines({"memory": {"total": 100 * GIB, "available": 58 * GIB, "cached": 30 * GIB}, "workloads": rows}))
        assert lines[0].text == "  memory    42.0 of 100.0 GiB held, 58.0 left: c0 9.0, python3 (pid 77) 8.0, c2 7.0, c3 6.0, c4 5.0,"
        assert lines[1].text == "            2 more 7.0"
        assert "30.0 GiB of it are page cache" in lines[2].text

    def test_an_idle_machine(self) -> None:
        facts = hold(spark())
        assert "held by no workload" in text(list(memory_lines({"memory": facts["memory"], "workloads": []})))

    @pytest.mark.parametrize(
        ("ports", "said"),
        [
            (None, "could not be read"),
            ([], "no ConnectX-7 port is visible"),
            ([{"netdev": "enp1s0f0np0", "carrier": False}], "enp1s0f0np0: no link"),
            (
                [{"netdev": "enp1s0f1np1", "carrier": True, "speed": 200000, "mtu": 9000}],
                "enp1s0f1np1  up  200 Gb/s  no address  MTU 9000  no RDMA device",
            ),
        ],
    )
    def test_rails(self, ports: list[dict[str, Any]] | None, said: str) -> None:
        assert said in text(list(rail_lines(ports)))

    @pytest.mark.parametrize(
        ("record", "said"),
        [
            (None, "could not be read"),
            ({"present": False}, "none found"),
            ({"present": True}, "present"),
            ({"present": True, "driver": "580.142", "devices": [{"name": "NVIDIA GB10"}, {"name": "NVIDIA GB10"}]}, "2 NVIDIA GB10, driver 580.142"),
        ],
    )
    def test_gpu(self, record: dict[str, Any] | None, said: str) -> None:
        assert gpu(record) == said

    def test_a_short_answer_is_a_rough_measure(self) -> None:
        assert measured({"completion_tokens": 1, "seconds": 0.5}) == "too short an answer for a speed (1 token in 0.5 s)"
        assert "rough measure" in measured({"completion_tokens": 8, "seconds": 1, "tokens_per_second": 9.0})

    def test_roofline_needs_the_recipe_s_number(self) -> None:
        assert roofline({"recipe": {"model": {}}}) is None
        assert roofline({"recipe": {"model": {"active_bytes_per_token": 10e9}, "tensor_parallel": 2}}) == pytest.approx(54.6)

    def test_consents_of_several_findings_are_one_command(self) -> None:
        def block(remedy: str) -> dict[str, Any]:
            return {"id": "a.b", "severity": "block", "accepted": False, "remedy": remedy}

        first = block("""Stop it: -e '{"gb10_reclaim": ["a"]}'.""")
        second = block("""Stop it, or that: -e '{"gb10_reclaim": ["a", "b"]}', or move.""")
        third = block("""Let it: -e '{"gb10_consent": ["network"]}'""")
        assert consent([first, second, third]) == {"gb10_reclaim": ["a", "b"], "gb10_consent": ["network"]}
        assert consent([first, block("Plug the cable.")]) is None
        assert consent([first, block("""Think: -e '{"gb10_recipe_overrides": {"nodes": 1}}'.""")]) is None
        assert consent([{**first, "accepted": True}]) is None

    def test_a_command_is_broken_where_it_can_be_pasted(self) -> None:
        argv = ["vllm", "serve", "--served-model-name", "a name", *(f"--option-{i}=value" for i in range(8)), "-v"]
        lines = [line.text for line in shell(argv, indent=6)]
        assert len(lines) > 1
        assert all(line.endswith(" \\") for line in lines[:-1])
        assert max(map(len, lines)) <= WIDTH
        assert "--served-model-name 'a name'" in lines[0]

    def test_what_is_to_be_pasted_stays_whole(self) -> None:
        snippet = """-e '{"gb10_reclaim": ["vllm_node"]}'"""
        lines = [line.text for line in paragraph(f"{'word ' * 16}{snippet}.", 4)]
        assert lines[-1].strip() == f"{snippet}."

    def test_dig(self) -> None:
        assert dig({"a": {"b": 0}}, "a.b") == 0
        assert dig({"a": None}, "a.b", 7) == 7
        assert dig(None, "a") is None
