# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine is doing and what failed first, by recorded lines of vLLM and Ray."""

from __future__ import annotations

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils import _engine_log as engine_log
from ansible_collections.gb10.cluster.plugins.module_utils._words import screen_lines
from hypothesis import given
from hypothesis import strategies as st

# Machine output, cut: vLLM 0.32.0 on CPU in this project's lab, 2026-11-30.
START = """(APIServer pid=1) INFO 11-30 15:33:00 [api_utils.py:347]   █▄█▀ █     █     █     █  model   /model
(APIServer pid=1) INFO 11-30 15:33:00 [api_utils.py:286] non-default args: {'model_tag': '/model', 'api_key': '***'}
(APIServer pid=1) WARNING 11-30 15:33:00 [system_utils.py:255] Found ulimit of 20000 and failed to automatically increase with error current limit
(APIServer pid=1) INFO 11-30 15:33:20 [model.py:733] Resolved architecture: Qwen3ForCausalLM
(EngineCore pid=98) INFO 11-30 15:33:40 [core.py:121] Initializing a V1 LLM engine (v0.32.0) with config: model='/model', speculative_config=None
(EngineCore pid=98) INFO 11-30 15:33:41 [parallel_state.py:1600] world_size=1 rank=0 local_rank=0 distributed_init_method=file:///tmp/x backend=gloo
(Worker pid=105) INFO 11-30 15:33:42 [cpu_model_runner.py:88] Starting to load model /model...
"""
SHARDS = (
    "(Worker pid=105) \rLoading safetensors checkpoint shards:   0% Completed | 0/6 [00:00<?, ?it/s]\n"
    "(Worker pid=105) \rLoading safetensors checkpoint shards:  33% Completed | 2/6 [00:00<00:00, 61.20it/s]\n"
)
# vLLM 0.19 and 0.26 on a GB10, public logs (djangodevreng/dgx-spark-benchmarks, 2026-05 and 2026-08), cut.
GRAPHS = "(EngineCore pid=153) \rCapturing CUDA graphs (mixed prefill-decode, PIECEWISE):  42%|████▏     | 21/51 [00:03<00:05,  5.9it/s]\n"
SERVING = """(APIServer pid=1) INFO 05-05 08:53:12 [api_server.py:602] Starting vLLM server on http://0.0.0.0:8000
(APIServer pid=1) INFO 05-05 08:53:12 [launcher.py:46] Route: /health, Methods: GET
(APIServer pid=1) INFO:     172.17.0.1:58420 - "POST /v1/chat/completions HTTP/1.1" 200 OK
(APIServer pid=1) INFO 05-05 09:01:29 [loggers.py:271] Engine 000: Avg prompt throughput: 371.5 tokens/s, Avg generation throughput: 26.9 tokens/s
"""
CRASH = """(EngineCore pid=277) ERROR 08-14 08:00:55 [core.py:1330] EngineCore failed to start.
(EngineCore pid=277) ERROR 08-14 08:00:55 [core.py:1330] Traceback (most recent call last):
(EngineCore pid=277) ERROR 08-14 08:00:55 [core.py:1330]   File "/usr/lib/python3.12/vllm/model_executor/layers/linear.py", line 473
(EngineCore pid=277) ERROR 08-14 08:00:55 [core.py:1330]     raise ValueError(
(EngineCore pid=277) ERROR 08-14 08:00:55 [core.py:1330] ValueError: Failed to find a kernel that can implement the ScaledMM linear layer. Reasons:
(EngineCore pid=277)     raise e
(EngineCore pid=277) ValueError: Failed to find a kernel that can implement the ScaledMM linear layer. Reasons:
(APIServer pid=1)     raise RuntimeError(
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
# vLLM 0.32.0, this project's lab: a model directory that was empty.
CONFIG = """(APIServer pid=1) INFO 11-30 15:24:02 [compilation.py:317] Enabled custom fusions: norm_quant, act_quant
(APIServer pid=1) ERROR 11-30 15:24:02 [repo_utils.py:126] Error parsing config for /model: Unrecognized model in /model., retrying 1 of 2
Traceback (most recent call last):
  File "/usr/local/bin/vllm", line 6, in <module>
    sys.exit(main())
             ^^^^^^
ValueError: Couldn't instantiate the backend tokenizer from one of:
(1) a `tokenizers` library serialization file,
"""
# Ray 2.58 in the lab.
RAY = "2026-11-30 15:22:00,416\tINFO scripts.py:1266 -- Running subprocesses are monitored and a message will be printed if any of them terminate.\n"


@pytest.mark.parametrize(
    ("log", "doing"),
    [
        ("", ""),
        (START[: START.index("(APIServer pid=1) INFO 11-30 15:33:20")], ""),
        (START[: START.index("(EngineCore")], "Resolved architecture: Qwen3ForCausalLM"),
        (START[: START.index("(Worker")], "Initializing a V1 LLM engine (v0.32.0)"),
        (START, "Starting to load model /model"),
        (START + SHARDS, "Loading safetensors checkpoint shards: 33 % (2 of 6)"),
        (GRAPHS, "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 42 % (21 of 51)"),
        (SERVING, "Starting vLLM server on http://0.0.0.0:8000"),
        (START + CRASH, "error: RuntimeError: Engine core initialization failed. See root cause above. Failed core…"),
        (CONFIG, "error: ValueError: Couldn't instantiate the backend tokenizer from one of:"),
        (RAY, "Running subprocesses are monitored and a message will be printed if any of them terminate"),
        ("\x1b[0;36m(APIServer pid=1)\x1b[0;0m INFO 11-30 15:33:20 [model.py:733] Using max model len 1024\n", "Using max model len 1024"),
    ],
)
def test_what_it_is_doing(log: str, doing: str) -> None:
    assert engine_log.activity(screen_lines(log)) == doing


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (START + SHARDS + SERVING, ""),
        (CRASH, "ValueError: Failed to find a kernel that can implement the ScaledMM linear layer. Reasons:"),
        (CRASH[CRASH.index("(APIServer") :], "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"),
        (CONFIG, "Error parsing config for /model: Unrecognized model in /model., retrying 1 of 2"),
        ("node-1:77:101 [0] NCCL WARN Call to ibv_modify_qp failed with 61 No data available\n", "node-1:77:101 [0] NCCL WARN Call to ibv_modify_qp"),
        ("vllm: error: unrecognized arguments: --foo\n", "vllm: error: unrecognized arguments: --foo"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n", "torch.OutOfMemoryError: CUDA out of memory"),
    ],
)
def test_what_failed_first(log: str, error: str) -> None:
    found = engine_log.first_error(screen_lines(log))
    assert found.startswith(error)
    assert bool(found) == bool(error)


def test_both_streams_in_the_order_of_time() -> None:
    stdout = "2026-11-30T15:00:01.1Z one\n2026-11-30T15:00:03.1Z three\n"
    stderr = "2026-11-30T15:00:02.1Z two\n\n"
    assert engine_log.merged(stdout, stderr) == ["one", "two", "three"]
    assert engine_log.merged("", "Error: No such container: x\n") == ["Error: No such container: x"]


def test_the_end_without_the_access_log() -> None:
    assert engine_log.tail(screen_lines(SERVING), 2) == screen_lines(SERVING)[1:2] + screen_lines(SERVING)[3:]


@given(st.lists(st.text()))
def test_any_log_is_read(lines: list[str]) -> None:
    assert len(engine_log.activity(lines)) <= 2 * engine_log.WIDTH
    assert len(engine_log.first_error(lines)) <= 300
