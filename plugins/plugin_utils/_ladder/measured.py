# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the measurements of ping and perftest are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .base import FAIL, PASS, SKIPPED, WARN, End, Rung, Step, pairs, sentence
from .thresholds import BOTH_BANDWIDTH, LANES, MTU_ENDS, RATE, WRITE_BANDWIDTH, WRITE_LATENCY, Threshold

#: Results of link_bench by host and by the id of the step.
Results = Mapping[str, Mapping[str, Mapping[str, Any]]]

_PING = "Packets that fill the MTU come back, unfragmented."


def result_of(results: Results, host: str, step: Step) -> Mapping[str, Any]:
    return (results.get(host) or {}).get(step.id) or {}


def not_measured(step: Step, results: Results) -> tuple[str, str] | None:
    """Why a step has nothing to say, and the remedy; None if all its nodes measured."""
    if step.skipped:
        return step.skipped, step.remedy
    for host in step.hosts:
        result = result_of(results, host, step)
        if result.get("unreachable"):
            return f"{host} did not answer", ""
        if result.get("failed"):
            return f"the task failed on {host}: {' '.join(str(result.get('msg')).split())[:300]}", ""
        if not result.get("ran"):
            return f"on {host}, {result.get('reason') or 'it was not run'}", str(result.get("remedy") or "")
    return None


def skipped(step: Step, why: tuple[str, str], expected: str) -> Rung:
    """Aloud, and never as passed."""
    return Rung(step.name, step.rail, step.hosts, sentence(f"not measured: {why[0]}"), expected, SKIPPED, why[1])


def ping_rungs(step: Step, results: Results, plan: Mapping[str, Any], rails: Sequence[Mapping[str, End]]) -> list[Rung]:
    """One rung a rail and direction."""
    why = not_measured(step, results)
    if why:
        return [skipped(step, why, _PING)]
    rungs = []
    for rail in rails:
        for sender, receiver in (pair for pair in pairs(plan) if rail.keys() >= set(pair)):
            links = result_of(results, sender, step).get("links") or []
            far = rail[receiver].address
            found: Mapping[str, Any] = next((row for row in links if row.get("netdev") == rail[sender].netdev and row.get("address") == far), {})
            rungs.append(_ping(found, rail[sender], rail[receiver]))
    return rungs


def _ping(found: Mapping[str, Any], sender: End, receiver: End) -> Rung:
    sent, received, way = found.get("transmitted"), found.get("received"), f"{sender} to {receiver.node}"
    nodes, packet = (sender.node, receiver.node), f"packets of {sender.mtu} bytes"
    if sent is None:
        why = found.get("error") or "its MTU is not known"
        return Rung("ping", sender.rail, nodes, f"Not measured from {way}: {sentence(str(why))}", _PING, FAIL if found.get("error") else SKIPPED)
    if received == sent:
        seen = f"{packet} came back on the way from {way}, in {found.get('round_trip') or 0:.2f} ms"
        return Rung("ping", sender.rail, nodes, sentence(seen), _PING, PASS, "", MTU_ENDS)
    said = f" ({found['error']})" if found.get("error") else ""
    seen = f"{sent - (received or 0)} of {sent} {packet} were lost on the way from {way}{said}"
    remedy = (
        f"Give the whole way one MTU: {receiver} and what is between have to carry {sender.mtu} bytes. If a small ping "
        f"(`ping -I {sender.netdev} {receiver.address}`) is lost too, it is not the MTU: look at address, cable and firewall."
    )
    return Rung("ping", sender.rail, nodes, sentence(seen), _PING, WARN if received else FAIL, remedy, MTU_ENDS)


def write_rung(step: Step, results: Results, rails: Sequence[Mapping[str, End]]) -> Rung:
    """Bandwidth or latency of one rail, or the bandwidth of all at once."""
    threshold = _threshold(step)
    why = not_measured(step, results)
    if why:
        return skipped(step, why, threshold.expected)
    links = result_of(results, step.hosts[0], step).get("links") or []
    key = "latency" if step.name == "write_latency" else "bandwidth"
    values = [float(link[key]) for link in links if link.get(key) is not None]
    if values and len(values) == len(links):
        return _judge(step, threshold, values, [str(link.get("hca")) for link in links], _rate(rails, step))
    broken = next((link for host in step.hosts for link in result_of(results, host, step).get("links") or [] if link.get("error")), None)
    if broken is None:
        return skipped(step, (f"{step.hosts[0]} returned no {key}", ""), threshold.expected)
    seen, remedy = f"{broken.get('hca')}: {broken['error']}", str(broken.get("remedy") or "")
    if broken.get("own_limit"):
        return skipped(step, (seen, remedy), threshold.expected)
    seen = f"{step.hosts[0]} to {step.hosts[1]}, {seen}"
    return Rung(step.name, step.rail, step.hosts, sentence(seen), threshold.expected, FAIL, remedy, threshold.bands[0].source)


def _threshold(step: Step) -> Threshold:
    if step.name == "write_latency":
        return WRITE_LATENCY
    return BOTH_BANDWIDTH if step.rail is None else WRITE_BANDWIDTH


def _judge(step: Step, threshold: Threshold, values: list[float], hcas: list[str], rate: float | None) -> Rung:
    """The band of the value; of several links that of the sum, unless one of them alone is broken."""
    value = sum(values)
    band = threshold.band(value)
    if threshold is BOTH_BANDWIDTH:
        slowest = WRITE_BANDWIDTH.band(min(values))
        band = slowest if slowest.verdict == FAIL else band
    shares = f" ({', '.join(f'{hca} {each:.1f}' for hca, each in zip(hcas, values))})" if len(values) > 1 else f" over {hcas[0]}"
    digits = 2 if threshold is WRITE_LATENCY else 1
    seen = f"{step.hosts[0]} to {step.hosts[1]}: {value:.{digits}f} {threshold.unit}{shares}, {band.means}"
    if threshold is not WRITE_LATENCY and band.verdict != PASS and rate is not None and rate < RATE:
        seen = f"{step.hosts[0]} to {step.hosts[1]}: {value:.1f} {threshold.unit}{shares} on a link of {rate:g} Gb/s"
        band = replace(band, remedy="Mend the link first: see the rung `link`.", source=LANES)
    return Rung(step.name, step.rail, step.hosts, f"{seen}.", threshold.expected, band.verdict, band.remedy, band.source)


def _rate(rails: Sequence[Mapping[str, End]], step: Step) -> float | None:
    """The slowest rate among the ends of the step, in Gb/s; None if none is known."""
    ends = [end for rail in rails for host, end in rail.items() if host in step.hosts and step.rail in (None, end.rail)]
    rates = [float(end.port["rate"]) for end in ends if end.port.get("rate") is not None]
    return min(rates, default=None)


def slowest_twin(steps: Sequence[Step], results: Results) -> float | None:
    """The least bandwidth that perftest measured on a single rail, in Gb/s; None unless it measured all of them."""
    alone = [step for step in steps if step.name == "write_bandwidth" and step.rail is not None]
    values = [link.get("bandwidth") for step in alone for link in result_of(results, step.hosts[0], step).get("links") or []]
    known = [float(value) for value in values if value is not None]
    return min(known) if known and len(known) == len(alone) else None
