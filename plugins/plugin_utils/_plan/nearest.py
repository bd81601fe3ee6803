# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody who mistyped a name may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence with the known names most like this one, with a blank before it; empty if none is like it."""
    close = get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(close)}?" if close else ""
