# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Version numbers as drivers, kernels and images write them."""

from __future__ import annotations

import re
from typing import Any

Version = tuple[int, ...]
_OPERATORS = ("<=", ">=", "!=", "==", "=", "<", ">")


def version(text: Any) -> Version | None:
    """The numbers that a version begins with (``6.17.0-1014-nvidia`` is 6, 17, 0, 1014), None if it begins with none."""
    match = re.match(r"\d+([.-]\d+)*", str(text)) if text is not None else None
    return tuple(int(number) for number in re.split(r"[.-]", match.group())) if match else None


def requirement_met(requirement: str, driver: Version | None, cuda: Version | None) -> bool:
    """Whether ``NVIDIA_REQUIRE_CUDA`` of an image allows this driver and its CUDA.

    Blanks separate alternatives, commas what has to hold together. What cannot be judged (a brand, a version that is not known) counts as
    met: only what is certain may say no. https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
    """
    alternatives = requirement.split()
    known = {"driver": driver, "cuda": cuda}
    return not alternatives or any(all(_holds(term, known) for term in alternative.split(",")) for alternative in alternatives)


def _holds(term: str, known: dict[str, Version | None]) -> bool:
    """One comparison, such as ``cuda>=13.0``."""
    for operator in _OPERATORS:
        name, found, text = term.partition(operator)
        if found:
            have, wanted = known.get(name.strip()), version(text.strip())
            if have is None or wanted is None:
                return True
            length = max(len(have), len(wanted))
            a, b = (number + (0,) * (length - len(number)) for number in (have, wanted))
            return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "!=": a != b}.get(operator, a == b)
    return True
