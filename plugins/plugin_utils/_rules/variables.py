# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL's and its neighbours' variables mean on a node: which HCAs and interfaces they name, which GID they pin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from .context import Node

GID_INDEX = "NCCL_IB_GID_INDEX"
#: Variables of the network, for which empty text is a value and not the same as no variable.
NETWORK = ("NCCL_", "GLOO_", "UCX_", "TP_SOCKET_")
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include", "UCX_NET_DEVICES")


def _names(value: str) -> tuple[str, list[str]]:
    """NCCL's grammar: ``=`` for exact names, ``^`` for all but these, each perhaps with ``:port``; and the names."""
    mark = value[: len(value) - len(value.lstrip("=^"))]
    return mark, [item.partition(":")[0].strip() for item in value[len(mark) :].split(",") if item.strip()]


def unknown_hcas(value: str, hcas: Sequence[str]) -> list[str]:
    """Names in NCCL_IB_HCA that no HCA of the node has, or begins with. Exclusions name what may be absent."""
    mark, wanted = _names(value)
    if "^" in mark:
        return []
    exact = "=" in mark
    return [name for name in wanted if not any(hca == name if exact else hca.startswith(name) for hca in hcas)]


def chosen_hcas(value: str | None, hcas: Sequence[str]) -> list[str]:
    """The HCAs that NCCL_IB_HCA leaves over; all if it is not set."""
    if not value:
        return list(hcas)
    mark, wanted = _names(value)
    matches = [hca for hca in hcas if any(hca == name if "=" in mark else hca.startswith(name) for name in wanted)]
    return [hca for hca in hcas if hca not in matches] if "^" in mark else matches


def bad_interfaces(environment: Mapping[str, Any], node: Node) -> Iterator[tuple[str, str, str]]:
    """Variable, interface and what is wrong with it, for each interface that the variables name and that cannot be used on the node.

    One of a list is enough, and so is one with the prefix, except where the variable takes a single exact name.
    """
    interfaces = node.interfaces()
    if not interfaces:
        return
    hcas = {str(row.get("hca")) for row in node.rows("fabric.ports") if row.get("hca")}
    for variable in _INTERFACES:
        value = environment.get(variable)
        if not value:
            continue
        mark, wanted = _names(str(value))
        if "^" in mark or (variable == "UCX_NET_DEVICES" and (wanted == ["all"] or hcas & set(wanted))):
            continue
        exact = "=" in mark or variable != "NCCL_SOCKET_IFNAME"
        found = [name for name in interfaces if any(name == each if exact else name.startswith(each) for each in wanted)]
        if not found:
            yield variable, str(value), "does not exist"
        elif not any(interfaces[name].get("addresses") for name in found):
            yield variable, str(value), "has no IPv4 address"


def gid_index(environment: Mapping[str, Any]) -> int | None:
    """The pinned GID index; None if none is, or if it is no number. NCCL takes -1 for "find it yourself"."""
    text = str(environment.get(GID_INDEX, "")).strip()
    return int(text) if text.isdecimal() else None


def wrong_gids(environment: Mapping[str, Any], node: Node, addressed: Mapping[str, Collection[str]]) -> list[str]:
    """HCAs, of those with these netdevs, on which the pinned index is not the RoCE v2 GID of one of the netdev's given addresses.

    Unknown tables are passed over.
    """
    index = gid_index(environment)
    if index is None:
        return []
    rows = [row for row in map(node.port, addressed) if row.get("hca") and row.get("gids")]
    chosen = chosen_hcas(environment.get("NCCL_IB_HCA"), [str(row["hca"]) for row in rows])
    wrong = []
    for row in rows:
        entry = next((gid for gid in row["gids"] if gid.get("index") == index), None)
        fits = entry is not None and entry.get("address") in addressed[row["netdev"]] and entry.get("type", "RoCE v2") == "RoCE v2"
        if row["hca"] in chosen and not fits:
            wrong.append(str(row["hca"]))
    return wrong


def empty(environment: Mapping[str, Any]) -> list[str]:
    """Variables of the network that are set to nothing."""
    return sorted(str(name) for name, value in environment.items() if str(name).startswith(NETWORK) and str(value or "").strip() == "")
