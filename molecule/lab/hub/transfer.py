"""Moving bytes: which part of a file is asked for, and how fast it may go."""

from __future__ import annotations

import re
import threading
import time

#: Bytes sent at a time.
CHUNK = 64 * 1024
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class UnsatisfiableRange(Exception):
    """The part asked for does not lie in the file."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte asked for, or nothing where the whole file is.

    A header that makes no sense is ignored, as HTTP wants it; one that lies outside the file is an error.
    """
    match = _RANGE.fullmatch((header or "").strip())
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        length = min(int(last), size)
        if length == 0:
            raise UnsatisfiableRange
        return size - length, size - 1
    start, end = int(first), min(int(last), size - 1) if last else size - 1
    if last and int(last) < start:
        return None
    if start >= size:
        raise UnsatisfiableRange
    return start, end


class Throttle:
    """Holds all transfers of a server together to a number of bytes per second, so that progress can be watched."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._free_at = time.monotonic()

    def wait_for(self, count: int) -> None:
        """Return when ``count`` more bytes may go."""
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            start = max(now, self._free_at)
            self._free_at = start + count / self._rate
        time.sleep(max(0.0, start - now))
