# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One file that lets somebody else see what this controller saw: recordings of the nodes, the recipe, the settings."""

from __future__ import annotations

from .bundle import SCHEMA, Bundle, BundleError, Recorded, pack, read

__all__ = ["SCHEMA", "Bundle", "BundleError", "Recorded", "pack", "read"]
