# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was measured, what others measured, and what the memory's bandwidth allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._words import count, size

from .lines import Line, dig, labelled

BANDWIDTH = 273e9  # bytes per second of a GB10's unified memory
# An answer shorter than that says little about the speed.
_FEW = 16


def measured(completion: Mapping[str, Any]) -> str:
    """27.0 tok/s, the first token after 0.41 s (32 tokens in 1.6 s)."""
    tokens = int(completion.get("completion_tokens") or 0)
    parts = []
    speed = completion.get("tokens_per_second")
    parts.append(f"{speed:.1f} tok/s" if speed else "too short an answer for a speed")
    if completion.get("time_to_first_token") is not None:
        parts.append(f"the first token after {completion['time_to_first_token']:.2f} s")
    amount = f" ({count(tokens, 'token')} in {completion.get('seconds', 0):.1f} s)"
    few = "; so few tokens are a rough measure" if speed and tokens < _FEW else ""
    return ", ".join(parts) + amount + few


def roofline(plan: Mapping[str, Any]) -> float | None:
    """Tokens per second at which the weights that one token needs would take all of the memory's bandwidth; None if that is unknown."""
    active = dig(plan, "recipe.model.active_bytes_per_token")
    if not active:
        return None
    # Pipeline stages read one after the other: they add memory, not speed.
    ranks = int(dig(plan, "recipe.tensor_parallel", 1))
    return BANDWIDTH * ranks / float(active)


def speed_lines(plan: Mapping[str, Any], completion: Mapping[str, Any]) -> Iterator[Line]:
    """The three numbers below each other."""
    yield from labelled("speed", measured(completion))
    for number in dig(plan, "recipe.measured", []):
        yield from labelled("others", f"{number.get('value')} {number.get('unit', '')}: {number.get('what', '')}")
    limit = roofline(plan)
    if limit is None:
        return
    active, ranks = float(plan["recipe"]["model"]["active_bytes_per_token"]), int(dig(plan, "recipe.tensor_parallel", 1))
    speed = completion.get("tokens_per_second")
    share = f"; this is {100 * speed / limit:.0f} % of it" if speed else ""
    text = (
        f"about {limit:.0f} tok/s for a single stream, if nothing but memory took time: {count(ranks, 'rank')} of 273 GB/s, "
        f"and {size(active)} to read for each token{share}"
    )
    yield from labelled("limit", text)
