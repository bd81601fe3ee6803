# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""endpoint_info against a real HTTP server: measures, every way to fail, and what is said about it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.modules import endpoint_info
from module_runner import program, run_module, use_programs
from openai_server import Engine, serving

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def server() -> Iterator[tuple[str, Engine]]:
    with serving() as pair:
        yield pair


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    # A proxy that is set must not be used.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr(endpoint_info, "PAUSE", 0.1)

    def call(check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
        return run_module(endpoint_info.main, capsys, check_mode, **arguments)

    return call


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_completion_is_measured(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    engine.pause = 0.1
    result = ask(url=url + "/", prompt="Say hello", max_tokens=7, parameters={"temperature": 0})
    answer = result["completion"]
    assert (result["changed"], result["url"], result["models"], result["model"]) == (False, url, ["tiny-qwen3"], "tiny-qwen3")
    assert (answer["text"], answer["finish_reason"], answer["prompt_tokens"], answer["completion_tokens"]) == ("Hello there.", "stop", 9, 3)
    # The first token comes after 0.1 s and the last after 0.3 s, later where the machine is busy.
    assert 0.1 <= answer["time_to_first_token"] < answer["seconds"]
    assert answer["seconds"] >= 0.3
    assert answer["tokens_per_second"] > 2 / answer["seconds"]
    request = engine.requests[0]
    assert request["messages"] == [{"role": "user", "content": "Say hello"}]
    assert (request["max_tokens"], request["temperature"], request["stream"]) == (7, 0, True)


def test_health_is_never_asked(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    ask(url=url)
    assert set(engine.paths) == {"/v1/models", "/v1/chat/completions"}


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_a_model_that_only_thinks_works(server: tuple[str, Engine], ask: Ask, field: str) -> None:
    url, engine = server
    engine.pieces, engine.finish = [{field: "Hm"}, {field: ", well", "content": None}], "length"
    answer = ask(url=url)["completion"]
    assert (answer["text"], answer["reasoning"], answer["finish_reason"]) == ("", "Hm, well", "length")
    assert answer["time_to_first_token"] > 0


def test_without_usage_the_pieces_count(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    engine.usage = None
    answer = ask(url=url)["completion"]
    assert answer["completion_tokens"] == 3
    assert "prompt_tokens" not in answer


def test_tokens_without_text_count_and_have_no_speed(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    engine.pieces = []
    answer = ask(url=url)["completion"]
    assert answer["completion_tokens"] == 3
    assert "tokens_per_second" not in answer
    assert "time_to_first_token" not in answer


def test_an_answer_in_one_piece(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    engine.mode = "whole"
    answer = ask(url=url)["completion"]
    assert (answer["text"], answer["completion_tokens"]) == ("All at once.", 5)


def test_only_the_models(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    result = ask(check_mode=True, url=url, completion=False)
    assert result["models"] == ["tiny-qwen3"]
    assert "completion" not in result
    assert engine.requests == []


def test_the_key_is_sent_and_never_said(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    engine.key = "open-sesame"
    assert ask(url=url, api_key="open-sesame")["completion"]["text"] == "Hello there."
    wrong = ask(url=url, api_key="open-barley", wait=30)
    assert (wrong["reason"], wrong["retry"]) == ("unauthorized", False)
    assert "open-barley" not in str(wrong)
    assert "gb10_api_key" in wrong["msg"]


def test_an_unknown_model_names_the_known(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    engine.models = ["a", "b"]
    result = ask(url=url, model="c", wait=30)
    assert (result["reason"], result["retry"]) == ("model_unknown", False)
    assert 'does not serve "c"; it serves "a" and "b"' in result["msg"]
    assert engine.requests == []


@pytest.mark.parametrize(
    ("mode", "reason", "retry", "word"),
    [
        ("dead", "server_error", True, "HTTP 500: EngineCore encountered an issue"),
        ("too_long", "bad_request", False, "maximum context length is 8 tokens"),
        ("error_in_stream", "server_error", True, "began to answer and then said: EngineDeadError"),
        ("broken", "server_error", True, "broke off in the middle"),
        ("drop", "server_error", True, "closed the connection"),
        ("garbage", "not_api", False, "not as an OpenAI-compatible API does"),
        ("website", "not_api", False, "Grafana"),
        ("no_models", "not_api", False, "the URL ends in /v1"),
    ],
)
def test_each_failure_has_its_words(server: tuple[str, Engine], ask: Ask, mode: str, reason: str, retry: bool, word: str) -> None:
    url, engine = server
    engine.mode = mode
    result = ask(url=url)
    assert (result["failed"], result["reason"], result["retry"]) == (True, reason, retry)
    assert word in result["msg"]
    assert url in result["msg"]
    assert "What to do: " in result["msg"]


def test_no_token_at_all_is_no_completion(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    engine.pieces, engine.usage = [], {"prompt_tokens": 9, "completion_tokens": 0}
    result = ask(url=url)
    assert result["reason"] == "empty"
    assert "without a single token (finish reason: stop)" in result["msg"]


def test_a_hung_engine_is_given_up(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    engine.mode = "hang"
    started = time.monotonic()
    result = ask(url=url, timeout=1)
    assert (result["reason"], result["retry"]) == ("timeout", True)
    assert "did not answer within 1 s" in result["msg"]
    assert time.monotonic() - started < 15


def test_an_endless_trickle_is_given_up(server: tuple[str, Engine], ask: Ask) -> None:
    url, engine = server
    engine.pieces, engine.pause = [{"content": "x"}] * 300, 0.1
    started = time.monotonic()
    assert ask(url=url, timeout=1)["reason"] == "timeout"
    assert time.monotonic() - started < 15


def test_nobody_listens(ask: Ask, free_port: int) -> None:
    result = ask(url=f"http://127.0.0.1:{free_port}/v1")
    assert (result["reason"], result["retry"]) == ("refused", True)
    assert "connection refused" in result["msg"]


def test_a_name_that_does_not_exist(ask: Ask) -> None:
    result = ask(url="http://nowhere.invalid:8000/v1", wait=30)
    assert (result["reason"], result["retry"]) == ("unreachable", False)


def test_waits_for_a_slow_start(ask: Ask, free_port: int) -> None:
    stop = threading.Event()

    def later() -> None:
        time.sleep(0.6)
        with serving(free_port) as (_url, engine):
            engine.unready = 2
            stop.wait(10)

    thread = threading.Thread(target=later)
    thread.start()
    try:
        result = ask(url=f"http://127.0.0.1:{free_port}/v1", wait=20)
    finally:
        stop.set()
        thread.join()
    assert result["completion"]["text"] == "Hello there."
    assert result["waited"] >= 0.6


def test_waiting_is_bounded(ask: Ask, free_port: int) -> None:
    started = time.monotonic()
    result = ask(url=f"http://127.0.0.1:{free_port}/v1", wait=1)
    assert result["reason"] == "refused"
    assert time.monotonic() - started < 15


class TestTheEngineBehind:
    """With stand-ins for systemctl and docker on the PATH."""

    @pytest.fixture
    def node(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        use_programs(tmp_path, monkeypatch)
        program(tmp_path, "systemctl", "#!/bin/sh\necho LoadState=loaded\necho ActiveState=active\n")
        program(tmp_path, "docker", "#!/bin/sh\nexit 0\n")
        program(tmp_path, "journalctl", "#!/bin/sh\necho 'Started gb10-vllm.service.'\necho 'the unit says why'\n")
        return tmp_path

    def test_a_failed_unit_ends_the_waiting(self, node: Path, ask: Ask, free_port: int) -> None:
        state = "LoadState=loaded\\nActiveState=failed\\nResult=exit-code\\nExecMainStatus=1\\nNRestarts=3\\n"
        program(node, "systemctl", f"#!/bin/sh\nprintf '{state}'\n")
        log = (
            "2026-11-30T15:00:02.000000000Z (EngineCore pid=153) ERROR 11-30 15:00:02 [core.py:9] "
            "ValueError: Free memory on device cuda:0 (9.53/121.69 GiB) on startup is less than desired\\n"
            "2026-11-30T15:00:03.000000000Z (APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. "
            "token=hf_abcdefghijklmnopqrst\\n"
        )
        program(node, "docker", f"#!/bin/sh\nprintf '{log}' >&2\nprintf '2026-11-30T15:00:01Z INFO before it all\\n'\n")
        started = time.monotonic()
        result = ask(url=f"http://127.0.0.1:{free_port}/v1", wait=600, unit="gb10-vllm.service", container="gb10-vllm")
        assert time.monotonic() - started < 60
        assert (result["reason"], result["retry"]) == ("ended", False)
        assert "gb10-vllm.service has failed (exit-code, exit code 1, 3 restarts)" in result["msg"]
        assert "The first error in its log: ValueError: Free memory on device cuda:0" in result["msg"]
        lines = result["msg"].splitlines()
        assert lines.index("The last lines of gb10-vllm:") == len(lines) - 4
        assert lines[-3] == "  INFO before it all"
        assert "hf_abc" not in result["msg"]

    def test_a_stopped_unit_ends_the_waiting(self, node: Path, ask: Ask, free_port: int) -> None:
        program(node, "systemctl", "#!/bin/sh\necho LoadState=loaded\necho ActiveState=inactive\n")
        result = ask(url=f"http://127.0.0.1:{free_port}/v1", wait=600, unit="gb10-vllm.service")
        assert result["reason"] == "ended"
        assert "gb10-vllm.service is not running" in result["msg"]
        assert "  the unit says why" in result["msg"]

    def test_a_unit_that_is_not_there(self, node: Path, ask: Ask, free_port: int) -> None:
        program(node, "systemctl", "#!/bin/sh\necho LoadState=not-found\necho ActiveState=inactive\n")
        result = ask(url=f"http://127.0.0.1:{free_port}/v1", wait=600, unit="gb10-vllm.service")
        assert "There is no unit gb10-vllm.service" in result["msg"]

    @pytest.mark.parametrize(
        ("inspect", "word"),
        [
            ("echo exited 1", "The container gb10-vllm has ended with exit code 1."),
            ("echo Error: No such container: gb10-vllm >&2; exit 1", "There is no container gb10-vllm on this node."),
        ],
    )
    def test_without_a_unit_a_dead_container_ends_the_waiting(self, node: Path, ask: Ask, free_port: int, inspect: str, word: str) -> None:
        program(node, "docker", f'#!/bin/sh\n[ "$1" != inspect ] || {{ {inspect}; }}\n')
        result = ask(url=f"http://127.0.0.1:{free_port}/v1", wait=600, container="gb10-vllm")
        assert (result["reason"], result["retry"]) == ("ended", False)
        assert word in result["msg"]

    def test_a_loading_engine_is_waited_for_and_quoted(self, node: Path, ask: Ask, free_port: int) -> None:
        bar = "2026-11-30T15:00:02Z \\rLoading safetensors checkpoint shards:  40%% Completed | 2/5 [00:00<00:00,  4.99it/s]\\n"
        program(node, "docker", f"#!/bin/sh\nprintf '{bar}' >&2\n")
        result = ask(url=f"http://127.0.0.1:{free_port}/v1", unit="gb10-vllm.service", container="gb10-vllm")
        assert (result["reason"], result["retry"]) == ("refused", True)
        assert result["activity"] == "Loading safetensors checkpoint shards: 40 % (2 of 5)"

    def test_docker_that_may_not_be_used_is_no_failure_of_its_own(self, node: Path, ask: Ask, free_port: int) -> None:
        program(node, "docker", "#!/bin/sh\necho 'permission denied while trying to connect to the Docker daemon socket' >&2\nexit 1\n")
        result = ask(url=f"http://127.0.0.1:{free_port}/v1", container="gb10-vllm")
        assert result["reason"] == "refused"
        assert "permission denied while trying" in result["msg"]
