# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What should be the same on all nodes and is not. Differences are said, never levelled: nothing is upgraded, switched or flashed by us."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .base import Case, rule
from .context import Context, Node, listing
from .gpu import driver

_IMAGES = "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1910"
_UPGRADE = "https://github.com/eugr/spark-vllm-docker/issues/392"


def _differing(context: Context, read: Callable[[Node], object]) -> dict[str, str]:
    """The values by node, if two that are known differ; a node whose value is unknown is left out."""
    found = {node.name: str(value) for node in context.reachable if (value := read(node)) is not None}
    return found if len(set(found.values())) > 1 else {}


def _drift(
    id_: str,
    severity: str,
    what: str,
    path: str,
    source: str,
    expected: str,
    remedy: str,
    read: Callable[[Node], object] | None = None,
) -> None:
    """Register the rule that compares one fact between the nodes."""

    @rule(id_, severity, f"The nodes differ in {what}.", source=source, several=True)
    def differs(context: Context) -> Iterator[Case]:
        """The values of the nodes where they are known, if two differ."""
        found = _differing(context, read or (lambda node: node.get(path)))
        if found:
            seen = listing(f"{name} {value}" for name, value in found.items())
            yield Case(tuple(found), f"The nodes differ in {what}: {seen}.", expected, remedy, (path,))


_TOGETHER = "Bring both nodes to the same DGX OS update with the vendor's own tool, one after the other, when nothing is served."
_NOTHING = "Nothing has to be done: it is reported, and never switched."

_drift(
    "drift.driver",
    "warn",
    "the version of the NVIDIA driver",
    "gpu.driver",
    _UPGRADE,
    "All ranks have one driver.",
    _TOGETHER,
    driver,
)
_drift(
    "drift.kernel",
    "warn",
    "the kernel",
    "kernel.release",
    _UPGRADE,
    "All ranks run one kernel: one that keeps memory from RDMA stops the whole gang.",
    _TOGETHER,
)
_drift(
    "drift.ota",
    "info",
    "the update of DGX OS",
    "identity.ota_version",
    _UPGRADE,
    "Nodes are updated together.",
    "Nothing has to be done, unless something else differs that matters.",
)
_drift("drift.docker", "warn", "the version of Docker", "docker.version", _IMAGES, "All nodes have one version of Docker.", _TOGETHER)
_drift(
    "drift.toolkit",
    "warn",
    "the version of the NVIDIA Container Toolkit",
    "docker.toolkit",
    _IMAGES,
    "All nodes have one version of it: one machine of a pair froze with another one than its peer.",
    _TOGETHER,
)
_drift(
    "drift.toolkit_mode",
    "info",
    "how containers get the GPU",
    "docker.toolkit_mode",
    _IMAGES,
    "A pair with one mode is easier to compare; reports disagree on which mode is the stable one.",
    _NOTHING,
)
