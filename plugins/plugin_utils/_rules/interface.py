# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interface software would choose by itself. We name interfaces and addresses for every rank, so this is for information."""

from __future__ import annotations

from ipaddress import ip_address

from .base import Case, case, node_rule
from .context import Context, Node, listing


def _default(node: Node) -> str | None:
    """The interface of the first default route."""
    return next((str(row.get("interface")) for row in node.rows("fabric.routes") if row.get("destination") == "default"), None)


@node_rule(
    "interface.default_wireless",
    "info",
    "The default route is over Wi-Fi.",
    source="https://github.com/spark-arena/sparkrun/pull/219",
    several=True,
)
def default_wireless(context: Context, node: Node) -> Case | None:
    """Each node whose default route is wireless: software that is not told otherwise takes that address for the node's own."""
    name = _default(node)
    if name is None or node.interfaces().get(name, {}).get("kind", "wireless" if name.startswith("wl") else None) != "wireless":
        return None
    return case(
        node,
        f"The default route of {node.name} is over Wi-Fi ({name}).",
        "Ranks talk over the rails whatever the default route is.",
        "Nothing has to be done: addresses and interfaces are named for every rank. Loading the model over Wi-Fi takes long.",
        "fabric.routes",
        "fabric.interfaces",
    )


@node_rule(
    "interface.no_default_route",
    "warn",
    "The node that has to download has no default route.",
    source="https://github.com/spark-arena/sparkrun/issues/275",
)
def no_default_route(context: Context, node: Node) -> Case | None:
    """The node that downloads the model or pulls the image, without a way out. Others get both over the fabric and need none."""
    work = context.work[node.name]
    fetches = work["model"]["action"] == "download" or work["image"]["action"] in ("pull", "pull+derive", "derive")
    if not fetches or node.get("fabric.routes") is None or _default(node) is not None:
        return None
    return case(
        node,
        f"{node.name} has no default route, and has to fetch {context.model['repo']} or the image.",
        "The head reaches the Hub and the registry; the other ranks need no way out.",
        f"Give {node.name} a default route, make a node with one the head (gb10_head), or name a mirror that it reaches (gb10_hf_endpoint).",
        "fabric.routes",
    )


@node_rule(
    "interface.hostname_loopback",
    "info",
    "The node's own name means its loopback address.",
    source="https://github.com/aws-samples/aws-do-eks/pull/50",
    several=True,
)
def hostname_loopback(context: Context, node: Node) -> Case | None:
    """Each node whose name resolves to 127.0.0.0/8 only, as Ubuntu sets it: Gloo would take that for the address others reach it at."""
    addresses = [str(address) for address in node.get("identity.resolves_to") or []]
    if not addresses or not all(ip_address(address).is_loopback for address in addresses):
        return None
    return case(
        node,
        f"{node.get('identity.hostname') or 'Its own name'} is {listing(addresses)} on {node.name}.",
        "Software that asks for its own name gets an address that others reach; ours is told its interface.",
        "Nothing has to be done: GLOO_SOCKET_IFNAME is set for every rank.",
        "identity.resolves_to",
    )
