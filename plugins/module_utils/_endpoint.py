# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client of the OpenAI API that measures and says what it found. /health is not part of it: only a completion is the truth."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
import urllib.error
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.urls import open_url
from ansible_collections.gb10.cluster.plugins.module_utils._words import listing, shorten

ARGUMENT_SPEC: dict[str, Any] = {
    "url": {"type": "str", "required": True},
    "api_key": {"type": "str", "no_log": True},
    "model": {"type": "str"},
    "prompt": {"type": "str", "default": "Say in one sentence what you are."},
    "max_tokens": {"type": "int", "default": 32, "no_log": False},
    "parameters": {"type": "dict", "default": {}},
    "completion": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 120},
    "wait": {"type": "int", "default": 0},
    "unit": {"type": "str"},
    "container": {"type": "str"},
    "label": {"type": "str"},
    "validate_certs": {"type": "bool", "default": True},
}

LISTING_SECONDS = 5.0
# The text of a streamed delta: what is said, and what is thought (vLLM's older and newer name).
_TEXTS = ("content",)
_THOUGHTS = ("reasoning_content", "reasoning")
_LOST = (urllib.error.URLError, http.client.HTTPException, OSError, ssl.SSLError)


class EndpointError(Exception):
    """No completion. `found` and `remedy` are sentences; `retry` says whether waiting may help."""

    def __init__(self, reason: str, found: str, remedy: str, retry: bool = False) -> None:
        self.reason = reason
        self.found = found
        self.remedy = remedy
        self.retry = retry
        super().__init__(f"{found} {remedy}")


@dataclass
class Completion:
    """One answer. Times are in seconds; tokens are the engine's own count, else the streamed pieces."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int = 0
    seconds: float = 0.0
    time_to_first_token: float | None = None
    tokens_per_second: float | None = None

    def to_dict(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in record.items() if value is not None}


class Endpoint:
    """The API below `url` (which ends in /v1)."""

    def __init__(self, url: str, api_key: str | None = None, validate_certs: bool = True, opener: Callable[..., Any] = open_url) -> None:
        self.url = url.rstrip("/")
        self._opener = opener
        self._options: dict[str, Any] = {
            # The way to an engine in one's own network never leads over a proxy.
            "use_proxy": False,
            "validate_certs": validate_certs,
            "http_agent": "gb10.cluster",
            "headers": {"Accept": "application/json"},
        }
        if api_key:
            self._options["headers"]["Authorization"] = f"Bearer {api_key}"

    def models(self, timeout: float = LISTING_SECONDS) -> list[str]:
        """The ids of the served models."""
        path = "/models"
        with self._open(path, timeout) as response:
            body = self._guard(path, timeout, response.read)
        try:
            return [str(entry["id"]) for entry in json.loads(body)["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise EndpointError(
                "not_api",
                f"{self.url}{path} answered, but not as an OpenAI-compatible API does: {shorten(_text(body), 120)!r}.",
                "Another service may listen on this port: check the address, the port, and that the URL ends in /v1.",
            ) from error

    def complete(self, model: str, prompt: str, max_tokens: int, timeout: float, parameters: Mapping[str, Any] | None = None) -> Completion:
        """One streamed chat completion, measured."""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **(parameters or {}),
        }
        path = "/chat/completions"
        started = time.monotonic()
        with self._open(path, timeout, body) as response:
            streamed = "event-stream" in (response.headers.get("Content-Type") or "")
            reader = _Reader(started)
            try:
                if streamed:
                    self._guard(path, timeout, lambda: reader.stream(self._lines(response, started, timeout)))
                else:
                    reader.whole(json.loads(self._guard(path, timeout, response.read)))
            except ValueError as error:
                raise EndpointError(
                    "not_api",
                    f"{self.url}{path} answered, but not as an OpenAI-compatible API does ({error}).",
                    "Check the address and the port, and that nothing rewrites the answers on the way.",
                ) from error
        return self._judged(path, reader, streamed)

    def _judged(self, path: str, reader: _Reader, streamed: bool) -> Completion:
        if reader.error:
            raise EndpointError(
                "server_error",
                f"{self.url}{path} began to answer and then said: {shorten(reader.error, 200)}.",
                "The engine's log names the cause.",
                retry=True,
            )
        if streamed and not reader.finished:
            raise EndpointError(
                "server_error", f"{self.url}{path} broke off in the middle of its answer.", "The engine died: its log names the cause.", retry=True
            )
        completion = reader.completion()
        if completion.completion_tokens == 0:
            raise EndpointError(
                "empty",
                f"{self.url}{path} answered without a single token (finish reason: {completion.finish_reason or 'none'}).",
                "Look at the chat template and the engine's log; try another prompt.",
                retry=True,
            )
        return completion

    def _lines(self, response: Iterable[bytes], started: float, timeout: float) -> Iterator[str]:
        """The socket's time-out bounds a silence, this bounds the whole answer."""
        for raw in response:
            if time.monotonic() - started > timeout:
                raise socket.timeout("the answer takes too long")
            yield raw.decode("utf-8", "replace").rstrip("\r\n")

    def _open(self, path: str, timeout: float, body: Mapping[str, Any] | None = None) -> Any:
        options = dict(self._options, timeout=timeout, method="GET")
        if body is not None:
            options["method"] = "POST"
            options["data"] = json.dumps(body)
            options["headers"] = dict(options["headers"], **{"Content-Type": "application/json", "Accept": "text/event-stream"})
        return self._guard(path, timeout, lambda: self._opener(f"{self.url}{path}", **options))

    def _guard(self, path: str, timeout: float, action: Callable[[], Any]) -> Any:
        """The action's result, with every way it can fail said in words."""
        try:
            return action()
        except urllib.error.HTTPError as error:
            raise self._refused(path, error) from error
        except _LOST as error:
            raise _lost(f"{self.url}{path}", error, timeout) from error

    def _refused(self, path: str, error: urllib.error.HTTPError) -> EndpointError:
        where, said = f"{self.url}{path}", _error_message(error.read())
        told = f": {shorten(said, 300)}" if said else ""
        if error.code in (401, 403):
            return EndpointError(
                "unauthorized", f"{where} refused the API key (HTTP {error.code}{told}).", "Set gb10_api_key (or GB10_API_KEY) to the engine's key."
            )
        if error.code == 404 and path == "/chat/completions":
            return EndpointError("model_unknown", f"{where} does not know the model (HTTP 404{told}).", "Ask for a model that is served there.")
        if error.code == 404:
            return EndpointError("not_api", f"{where} is not there (HTTP 404{told}).", "Check that the URL ends in /v1 and the port is the engine's.")
        if error.code >= 500 or error.code == 429:
            remedy = "The engine's log names the cause; if it has died behind its API, restart it."
            return EndpointError("server_error", f"{where} failed with HTTP {error.code}{told}.", remedy, retry=True)
        return EndpointError("bad_request", f"{where} refused the request (HTTP {error.code}{told}).", "Change what is asked for, as it says.")


class _Reader:
    """Reads chunks of an answer and remembers when they came."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._first: float | None = None
        self._last: float | None = None
        self._pieces = 0
        self._usage: Mapping[str, Any] = {}
        self._answer = Completion()
        self.finished = False
        self.error = ""

    def stream(self, lines: Iterable[str]) -> None:
        for line in lines:
            if not line.startswith("data:"):
                continue
            data = line[5:].strip()
            if data == "[DONE]":
                self.finished = True
                return
            record = json.loads(data)
            if not isinstance(record, dict):
                raise ValueError(f"a chunk that is no object: {shorten(data, 60)}")
            self._chunk(record, "delta")
            if self.error:
                return

    def whole(self, record: Mapping[str, Any]) -> None:
        """An answer in one piece, from a server that does not stream."""
        if not isinstance(record, dict):
            raise ValueError("the answer is no object")
        self._chunk(record, "message")
        self.finished = True

    def _chunk(self, record: Mapping[str, Any], part: str) -> None:
        if record.get("error"):
            self.error = _message(record["error"])
            return
        self._usage = record.get("usage") or self._usage
        for choice in record.get("choices") or []:
            delta = choice.get(part) or {}
            said = "".join(delta.get(name) or "" for name in _TEXTS)
            thought = next((delta[name] for name in _THOUGHTS if delta.get(name)), "")
            self._answer.text += said
            self._answer.reasoning += thought
            if said or thought:
                self._pieces += 1
                self._last = time.monotonic()
                self._first = self._last if self._first is None else self._first
            self._answer.finish_reason = choice.get("finish_reason") or self._answer.finish_reason

    def completion(self) -> Completion:
        answer = self._answer
        answer.seconds = time.monotonic() - self._started
        answer.prompt_tokens = self._usage.get("prompt_tokens")
        counted = self._usage.get("completion_tokens")
        answer.completion_tokens = self._pieces if counted is None else int(counted)
        if self._first is not None and self._last is not None:
            answer.time_to_first_token = self._first - self._started
            # The first token's time is the prompt's; the speed is that of the ones after it.
            if answer.completion_tokens > 1 and self._last > self._first:
                answer.tokens_per_second = (answer.completion_tokens - 1) / (self._last - self._first)
        return answer


def unknown_model(url: str, wanted: str, served: list[str]) -> EndpointError:
    """The model is not among those that are served."""
    names = listing([f'"{name}"' for name in served]) or "no model"
    return EndpointError(
        "model_unknown",
        f'{url} does not serve "{wanted}"; it serves {names}.',
        "Ask for a name that is served, or set served_name in the recipe.",
    )


def _lost(where: str, error: BaseException, timeout: float) -> EndpointError:
    cause: Any = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, (socket.timeout, TimeoutError)):
        return EndpointError(
            "timeout",
            f"{where} did not answer within {timeout:.0f} s.",
            "If the engine's log shows it at work, give it a larger timeout; if the log stands still, it hangs: restart it.",
            retry=True,
        )
    if isinstance(cause, ConnectionRefusedError):
        return EndpointError(
            "refused", f"{where}: connection refused, nothing listens there.", "Start the engine, or check address and port.", retry=True
        )
    if isinstance(cause, ssl.SSLError):
        return EndpointError("tls", f"{where}: {cause}.", "Check whether this port speaks https, and its certificate.")
    if isinstance(cause, socket.gaierror):
        return EndpointError("unreachable", f"{where}: the name cannot be resolved.", "Use an address, or mend the name resolution.")
    if isinstance(cause, (ConnectionResetError, http.client.HTTPException)):
        return EndpointError(
            "server_error",
            f"{where} closed the connection without an answer ({cause}).",
            "The engine may be starting or dying: see its log.",
            retry=True,
        )
    return EndpointError("unreachable", f"{where} cannot be reached: {cause}.", "Check the address and the network in between.", retry=True)


def _text(body: bytes) -> str:
    return " ".join(body.decode("utf-8", "replace").split())


def _error_message(body: bytes) -> str:
    """The message of an error body: OpenAI's {"error": {"message": …}}, vLLM's older {"message": …}, FastAPI's {"detail": …}, or plain text."""
    text = _text(body)
    try:
        record = json.loads(text)
    except ValueError:
        return text
    return _message(record)


def _message(record: Any) -> str:
    while isinstance(record, dict):
        record = next((record[name] for name in ("error", "message", "detail") if record.get(name)), json.dumps(record))
    return str(record).rstrip(".")
