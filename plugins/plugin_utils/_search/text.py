# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Others' text and URLs, made safe to show: no control characters, no markup, no scheme but http and https, bounded length."""

from __future__ import annotations

import html
import re
import unicodedata
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

from ansible_collections.gb10.cluster.plugins.module_utils._words import plain, shorten

MAX_TEXT = 4000  # characters that are looked at
MAX_URL = 2000

_SCRIPT = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[/!?a-zA-Z][^<>]*>")
_OPEN_TAG = re.compile(r"<(?=[/!?a-zA-Z])")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_LINE_START = re.compile(r"^[ \t]*(?:(?:#{1,6}|>+|[-*+])[ \t]+)+", re.MULTILINE)
_EMPHASIS = re.compile(r"`+|\*\*+|__+|~~+")

# A public name: labels with a dot between them, the last one no number, so that addresses do not pass.
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?")
_TRACKING = re.compile(r"(?:utm_\w*|fbclid|gclid|ref|ref_src|source)(?:=|$)", re.IGNORECASE)
_THREAD = re.compile(r"(/[^/]+/[^/]+)/(?:issues|pull|discussions)/(\d+)(?:/.*)?")
# What may stand in a URL, without what ends one in Markdown or HTML.
_PATH, _QUERY = "/%:@!$&*+,;=~-._", "/%:@!$&*+,;=~-._?"


def clean(text: str, width: int) -> str:
    """One line of plain text, at most ``width`` characters."""
    text = plain(html.unescape(text[:MAX_TEXT]))
    # Joiners, marks that change the direction of writing, and other characters that cannot be seen: without them, what was around may be a tag.
    text = "".join(char for char in text if char.isspace() or not unicodedata.category(char).startswith("C"))
    text = _SCRIPT.sub(" ", text)
    # Taking a tag away may make another one of what was around it.
    while (without := _TAG.sub(" ", text)) != text:
        text = without
    text = _EMPHASIS.sub("", _LINK.sub(r"\1", _LINE_START.sub("", _OPEN_TAG.sub(" ", text))))
    return shorten(" ".join(text.split()), width)


def clean_url(url: str) -> str | None:
    """The URL without tracking, with everything quoted that has a meaning in Markdown or HTML; None if it is none of a public page."""
    parts = _split(url)
    if parts is None:
        return None
    query = "&".join(pair for pair in parts.query.split("&") if not _TRACKING.match(pair))
    return urlunsplit((parts.scheme, parts.netloc.lower(), quote(parts.path, _PATH), quote(query, _QUERY), quote(parts.fragment, _QUERY)))


def canonical(url: str) -> str:
    """The same for all URLs of one page: of a thread on GitHub, whichever of its comments or tabs they name."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    path = parts.path.rstrip("/")
    if host == "github.com":
        # An issue's number is also that of a pull request or discussion: GitHub leads from one to the other.
        thread = _THREAD.fullmatch(path)
        path = (f"{thread[1]}/issues/{thread[2]}" if thread else path).lower()
    return "?".join(part for part in (f"{host}{path}", "&".join(sorted(parts.query.split("&")))) if part)


def host_of(url: str) -> str:
    """The host of a URL without www, empty if it is none of a public page."""
    parts = _split(url)
    return (parts.hostname or "").removeprefix("www.") if parts else ""


def is_thread(url: str) -> bool:
    """Whether it is an issue, pull request or discussion on GitHub."""
    return host_of(url) == "github.com" and _THREAD.fullmatch(urlsplit(url).path.rstrip("/")) is not None


def _split(url: str) -> SplitResult | None:
    if len(url) > MAX_URL or any(char.isspace() or not char.isprintable() for char in url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    # A name before an @ makes a URL look like one of another host.
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not _HOST.fullmatch(parts.hostname or ""):
        return None
    return parts if port in (None, 80, 443) else None
