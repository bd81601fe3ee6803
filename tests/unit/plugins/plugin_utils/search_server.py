# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server on loopback that speaks the search API as its reference documents it, and can fail in each of the ways that matter."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "5e1f-open-sesame-to-the-search"


@dataclass
class Api:
    """How the server behaves; tests set it, and read what was asked."""

    results: Callable[[str], list[dict[str, Any]]] = lambda query: []
    status: int = 200
    body: str | None = None
    failing: str = ""  # only queries with this word get `status` and `body`
    location: str = ""
    mode: str = ""  # hang | drip | flood | drop
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def queries(self) -> list[str]:
        return [request["query"] for request in self.requests]


class Handler(BaseHTTPRequestHandler):
    api: Api

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: tests read what was asked."""

    def answer(self, status: int, body: str) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.api.location:
            self.send_header("Location", self.api.location)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.api.paths.append(f"GET {self.path}")
        self.answer(200, json.dumps({"results": []}))

    def do_POST(self) -> None:
        api = self.api
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        api.paths.append(self.path)
        api.requests.append(request)
        api.headers.append({name.lower(): value for name, value in self.headers.items()})
        if api.mode:
            self.misbehave(api.mode)
        elif self.headers.get("x-api-key") != KEY:
            self.answer(401, json.dumps({"requestId": "1", "error": f"Invalid API key: {self.headers.get('x-api-key')}", "tag": "INVALID_API_KEY"}))
        elif (api.status != 200 or api.body is not None) and api.failing in request["query"]:
            self.answer(api.status, api.body or "")
        else:
            self.answer(200, json.dumps({"requestId": "1", "results": api.results(request["query"]), "costDollars": {"total": 0.007}}))

    def misbehave(self, mode: str) -> None:
        if mode == "hang":
            self.api.released.wait(120)
        elif mode in ("drip", "flood"):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            piece, pause = (b" ", 0.05) if mode == "drip" else (b" " * 65536, 0)
            try:
                while not self.api.released.is_set():
                    self.wfile.write(piece)
                    time.sleep(pause)
            except OSError:
                # The client has had enough.
                pass
        self.close_connection = True


@contextmanager
def serving() -> Iterator[tuple[str, Api]]:
    """The server's URL and its behaviour."""
    api = Api()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"api": api}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/search", api
    finally:
        api.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
