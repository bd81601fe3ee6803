# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider that asks Exa's search API (https://exa.ai/docs/reference/search), or a gateway that speaks it."""

from __future__ import annotations

import http.client
import json
import queue
import re
import socket
import ssl
import threading
import time
import urllib.error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ansible.module_utils.urls import open_url
from ansible_collections.gb10.cluster.plugins.module_utils._words import listing, redact

from .base import Found, Hit, SearchError, Subject
from .subject import MAX_QUERIES, Query, is_public, queries, worries
from .text import clean

ENDPOINT = "https://api.exa.ai/search"
ENDPOINT_VARIABLE = "gb10_recon_search_endpoint"
KEY_VARIABLE = "EXA_API_KEY"

WINDOW = timedelta(days=365)
RESULTS = 10  # of one request
HIGHLIGHT = 600  # characters
MAX_BYTES = 2**21

_KEY = re.compile(r"[\x21-\x7e]+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LOST = (urllib.error.URLError, http.client.HTTPException, OSError)
# Words of ids that say nothing by themselves.
_COMMON = frozenset(("no", "not", "same", "too", "without"))
_REFUSALS = {
    401: f"refused the key in {KEY_VARIABLE} (HTTP 401{{said}}): check it",
    402: "wants to be paid (HTTP 402{said}): the account has no credits left",
    403: f"does not allow this to the key in {KEY_VARIABLE} (HTTP 403{{said}}): check what the account may do",
    404: f"has no search API at this address (HTTP 404{{said}}): check {ENDPOINT_VARIABLE}",
    429: "was asked too often (HTTP 429{said}): try again in a minute",
}


@dataclass(frozen=True)
class Exa:
    """Asks all queries at once. ``timeout`` bounds all of it, in seconds; ``own_hub`` says that models are not from the public Hub."""

    key: str = field(repr=False)
    endpoint: str
    timeout: float
    today: date
    own_hub: bool = False
    name: str = "exa"

    def find(self, subject: Subject) -> Found:
        """Results of all queries that were answered, which may be none. Raises SearchError if no query was, or none could be asked."""
        url = self._url()
        named = is_public(subject) and not self.own_hub
        asked = queries(subject, named)
        omitted = [] if named or not subject.repo else ["The model was not asked about: its name may not be a public one."]
        if not asked:
            raise SearchError(
                "there is nothing to ask about: the model's name may not be a public one, and nothing blocks or warns"
                if subject.repo
                else "there is nothing to ask about"
            )
        untold = [concern.id for concern in worries(subject) if not any(concern.id in query.about for query in asked)]
        if untold:
            omitted.append(f"Not asked about, for {MAX_QUERIES} requests are the most: {listing(untold)}.")
        hits: list[Hit] = []
        failures: list[SearchError] = []
        for query, outcome in zip(asked, self._outcomes(url, asked), strict=True):
            if isinstance(outcome, SearchError):
                failures.append(outcome)
                omitted.append(f"No answer about {listing(query.about)}: {outcome}.")
            else:
                hits += outcome
        if len(failures) == len(asked):
            raise failures[0]
        return Found(tuple(hits), tuple(omitted))

    def _url(self) -> str:
        """Where to ask. Raises SearchError if there is no key or no such place."""
        if not self.key:
            raise SearchError(f"{KEY_VARIABLE} is not set")
        if not _KEY.fullmatch(self.key):
            # The HTTP library would say the key in its error.
            raise SearchError(f"{KEY_VARIABLE} holds characters that no key has: set it again")
        try:
            parts = urlsplit(self.endpoint)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good or not _KEY.fullmatch(self.endpoint):
            raise SearchError(f"{ENDPOINT_VARIABLE} is no URL that starts with http:// or https://: correct it")
        return urlunsplit(parts._replace(path="/search" if parts.path in ("", "/") else parts.path))

    @staticmethod
    def _host(url: str) -> str:
        # Without what stands before an @, which may be a password.
        return urlsplit(url).netloc.rpartition("@")[2]

    def _outcomes(self, url: str, asked: Sequence[Query]) -> list[list[Hit] | SearchError]:
        """What came of each query, in their order. A thread that hangs is left behind: it must not keep Ansible from ending."""
        deadline = time.monotonic() + self.timeout
        done: queue.SimpleQueue[tuple[int, list[Hit] | Exception]] = queue.SimpleQueue()

        def work(index: int) -> None:
            try:
                done.put((index, self._ask(url, asked[index], deadline)))
            except Exception as error:
                done.put((index, error))

        for index in range(len(asked)):
            threading.Thread(target=work, args=(index,), daemon=True, name=f"search {index}").start()
        outcomes: list[list[Hit] | SearchError] = [self._late(url)] * len(asked)
        for _ in asked:
            try:
                # The sockets' own time-out is a little earlier, and says more.
                index, outcome = done.get(timeout=max(deadline - time.monotonic(), 0) + 0.2)
            except queue.Empty:
                break
            if isinstance(outcome, Exception) and not isinstance(outcome, SearchError):
                raise outcome
            outcomes[index] = outcome
        return outcomes

    def _late(self, url: str) -> SearchError:
        return SearchError(f"{self._host(url)} did not answer within {self.timeout:g} s")

    def _ask(self, url: str, query: Query, deadline: float) -> list[Hit]:
        body = {
            "query": query.text,
            "type": "auto",
            "numResults": RESULTS,
            "startPublishedDate": f"{self.today - WINDOW}T00:00:00.000Z",
            "contents": {"highlights": {"maxCharacters": HIGHLIGHT}},
        }
        return parse(self._fetch(url, json.dumps(body), deadline), query, self._host(url))

    def _fetch(self, url: str, body: str, deadline: float) -> bytes:
        """The body of the answer, with every way it can fail said in words."""
        try:
            with open_url(
                url,
                method="POST",
                data=body,
                headers={"x-api-key": self.key, "Content-Type": "application/json", "Accept": "application/json"},
                timeout=max(deadline - time.monotonic(), 0.1),
                http_agent="gb10.cluster",
                # The key is for this host alone.
                follow_redirects="none",
                use_netrc=False,
                decompress=False,
            ) as response:
                return self._read(url, response, deadline)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(url, error) from None
        except (*_LOST, ValueError) as error:
            raise self._lost(url, error) from None

    def _read(self, url: str, response: Any, deadline: float) -> bytes:
        """At most MAX_BYTES, and not after the deadline: a socket's time-out bounds only a silence."""
        data = b""
        while chunk := response.read1(65536):
            data += chunk
            if time.monotonic() > deadline:
                raise self._late(url)
            if len(data) > MAX_BYTES:
                raise SearchError(f"{self._host(url)} answered with more than {MAX_BYTES // 2**20} MiB: check {ENDPOINT_VARIABLE}")
        return data

    def _refused(self, url: str, error: urllib.error.HTTPError) -> SearchError:
        message = clean(redact(_message(error), [self.key]), 120).rstrip(".")
        said = f", it says: {message}" if message else ""
        if error.code in _REFUSALS:
            return SearchError(f"{self._host(url)} {_REFUSALS[error.code].format(said=said)}")
        if error.code >= 500:
            return SearchError(f"{self._host(url)} has failed (HTTP {error.code}{said}): try again later")
        if 300 <= error.code < 400:
            return SearchError(f"{self._host(url)} leads elsewhere (HTTP {error.code}), where the key is not sent: check {ENDPOINT_VARIABLE}")
        return SearchError(f"{self._host(url)} did not accept the request (HTTP {error.code}{said})")

    def _lost(self, url: str, error: Exception) -> SearchError:
        cause: Any = error.reason if isinstance(error, urllib.error.URLError) else error
        host = self._host(url)
        if isinstance(cause, TimeoutError):
            return self._late(url)
        if isinstance(cause, ssl.SSLError):
            return SearchError(f"{host} has no certificate that this machine trusts, or speaks no TLS ({cause.reason or 'no reason given'})")
        if isinstance(cause, socket.gaierror):
            return SearchError(f"the name {host} cannot be resolved: there may be no network")
        if isinstance(cause, ConnectionRefusedError):
            return SearchError(f"{host} cannot be reached: connection refused")
        if isinstance(cause, OSError) and cause.strerror:
            return SearchError(f"{host} cannot be reached: {cause.strerror.lower()}")
        if str(cause).startswith("Tunnel connection failed"):
            return SearchError(f"{host} cannot be reached: the proxy refused the way ({clean(str(cause), 120)})")
        # The texts of other errors may quote the request.
        return SearchError(f"{host} cannot be reached: the connection broke ({type(cause).__name__})")


def parse(data: bytes, query: Query, host: str) -> list[Hit]:
    """The results of an answer. Raises SearchError if it is none of this API."""
    try:
        results = json.loads(data)["results"]
    except (ValueError, KeyError, TypeError, RecursionError):
        results = None
    if not isinstance(results, list):
        raise SearchError(f"{host} answered, but not as the search API does: check {ENDPOINT_VARIABLE}")
    usable = [result for result in results if isinstance(result, dict) and isinstance(result.get("url"), str)]
    return [_hit(result, query, relevance) for result, relevance in zip(usable, _relevances(usable), strict=True)]


def _relevances(results: Sequence[Mapping[str, Any]]) -> list[float]:
    """By the API's score where all have one (some kinds of search give none), relative to the best; else by its order, which is by relevance."""
    scores = [result.get("score") for result in results]
    numbers = [float(score) for score in scores if isinstance(score, (int, float)) and not isinstance(score, bool) and 0 <= score < 1e9]
    best = max(numbers, default=0.0)
    if len(numbers) == len(results) and best > 0:
        return [number / best for number in numbers]
    return [max(1 - 0.06 * position, 0.1) for position in range(len(results))]


def _hit(result: Mapping[str, Any], query: Query, relevance: float) -> Hit:
    highlights = result.get("highlights")
    pieces = [piece for piece in highlights if isinstance(piece, str)] if isinstance(highlights, list) else []
    texts = [" … ".join(pieces), *(result.get(name) for name in ("summary", "text"))]
    excerpt = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    title = result.get("title")
    title = title if isinstance(title, str) else ""
    return Hit(result["url"], title, excerpt, _about(query, f"{title} {excerpt}"), relevance, _date(result.get("publishedDate")))


def _about(query: Query, text: str) -> tuple[str, ...]:
    """Of the findings that one query asked about, those that the page speaks of; all of them if that cannot be told."""
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    spoken = tuple(id_ for id_ in query.about if words & (set(id_.partition(".")[2].split("_")) - _COMMON))
    return spoken or query.about


def _date(value: Any) -> date | None:
    match = _DATE.match(value) if isinstance(value, str) else None
    try:
        return date.fromisoformat(match[0]) if match else None
    except ValueError:
        return None


def _message(error: urllib.error.HTTPError) -> str:
    """What the API says of an error: {"error": "…"}; nothing if it says it in another way."""
    try:
        record = json.loads(error.read(4096))
    except (ValueError, OSError, http.client.HTTPException, RecursionError):
        return ""
    message = record.get("error") or record.get("message") if isinstance(record, dict) else None
    return message if isinstance(message, str) else ""
