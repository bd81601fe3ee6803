# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server on loopback that speaks the API as vLLM does, and can fail in each of the ways that were seen."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Engine:
    """How the server behaves; tests set it, and read what was asked."""

    def __init__(self) -> None:
        self.models = ["tiny-qwen3"]
        self.key = ""
        self.pieces: list[dict[str, Any]] = [{"content": "Hello"}, {"content": " there"}, {"content": "."}]
        self.pause = 0.02
        self.usage: dict[str, int] | None = {"prompt_tokens": 9, "completion_tokens": 3}
        self.finish = "stop"
        self.mode = ""
        self.unready = 0
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def log_message(self, format: str, *args: Any) -> None:
        self.engine.paths.append(self.path)

    def answer(self, status: int, body: Any, content_type: str = "application/json") -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refused(self) -> bool:
        if self.engine.key and self.headers.get("Authorization") != f"Bearer {self.engine.key}":
            self.answer(401, {"error": "Unauthorized"})
            return True
        return False

    def do_GET(self) -> None:
        engine = self.engine
        if engine.unready > 0:
            engine.unready -= 1
            self.answer(503, {"error": {"message": "starting"}})
        elif engine.mode == "website":
            self.answer(200, "<html>Grafana</html>", "text/html")
        elif engine.mode == "no_models":
            self.answer(404, {"detail": "Not Found"})
        elif not self.refused():
            self.answer(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in engine.models]})

    def do_POST(self) -> None:
        engine = self.engine
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        engine.requests.append(request)
        if self.refused():
            return
        if engine.mode == "dead":
            self.answer(500, {"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", "code": 500}})
        elif engine.mode == "too_long":
            self.answer(400, {"error": {"message": "This model's maximum context length is 8 tokens."}})
        elif engine.mode == "hang":
            time.sleep(30)
            self.close_connection = True
        elif engine.mode == "whole":
            message = {"role": "assistant", "content": "All at once."}
            self.answer(200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 4, "completion_tokens": 5}})
        elif engine.mode == "garbage":
            self.answer(200, "data: {not json}\n\n", "text/event-stream")
        elif engine.mode == "drop":
            self.close_connection = True
        else:
            self.stream()

    def stream(self) -> None:
        engine = self.engine
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.chunk({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
        for piece in engine.pieces:
            time.sleep(engine.pause)
            self.chunk({"choices": [{"index": 0, "delta": piece, "finish_reason": None}]})
        if engine.mode == "error_in_stream":
            self.chunk({"error": {"message": "EngineDeadError", "type": "InternalServerError", "code": 500}})
        elif engine.mode != "broken":
            self.chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": engine.finish}]})
            if engine.usage is not None:
                self.chunk({"choices": [], "usage": engine.usage})
            self.wfile.write(b": a comment\n\ndata: [DONE]\n\n")

    def chunk(self, record: dict[str, Any]) -> None:
        try:
            self.wfile.write(b"data: " + json.dumps(record).encode() + b"\n\n")
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            # The client has had enough: so would vLLM see it.
            self.close_connection = True


@contextmanager
def serving(port: int = 0) -> Iterator[tuple[str, Engine]]:
    """The server's URL and its behaviour."""
    engine = Engine()
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Bound", (Handler,), {"engine": engine}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", engine
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
