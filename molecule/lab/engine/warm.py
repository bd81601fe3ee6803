"""Serves the tiny model once inside the image under construction; runs in the container that becomes the image.

Python writes byte code beside everything that is imported on the way, which is what the image carries instead of byte
code for all of its 30,000 files. And an image that cannot answer is never tagged.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

URL = "http://127.0.0.1:8000"
PATIENCE = 240
KEPT = frozenset({"vllm", "modelinfos"})


def ask(path: str, body: dict[str, object] | None = None) -> dict[str, object] | None:
    """The answer as JSON, or nothing while no one answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            content: dict[str, object] = json.loads(answer.read() or b"{}")
            return content
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def tidy() -> None:
    """Keep byte code, and what vLLM has learnt about the model's class in a process of its own; nothing else."""
    for folder in (Path("/tmp"), Path("/root/.cache"), Path("/root/.cache/vllm")):
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name in KEPT:
                continue
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def main() -> int:
    """Start the server, wait for it, ask once, and leave nothing but byte code behind."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    command = ["vllm", "serve", "/mnt/model", "--served-model-name", "tiny", "--enforce-eager", "--max-model-len", "1024"]
    server = subprocess.Popen([*command, "--host", "127.0.0.1"], env=environment)
    deadline = time.monotonic() + PATIENCE
    try:
        while ask("/v1/models") is None:
            if server.poll() is not None or time.monotonic() > deadline:
                print("the server did not come up", file=sys.stderr)
                return 1
            time.sleep(0.5)
        question = [{"role": "user", "content": "Who are you?"}]
        answer = ask("/v1/chat/completions", {"model": "tiny", "messages": question, "max_tokens": 48})
        print(json.dumps(answer))
        return 0 if answer and answer.get("choices") else 1
    finally:
        server.terminate()
        server.wait(60)
        tidy()


if __name__ == "__main__":
    sys.exit(main())
