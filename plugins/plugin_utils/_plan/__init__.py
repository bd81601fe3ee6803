# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner. ``make_plan(facts, recipe, settings)`` is all of it; :mod:`.settings` reads what the user set."""

from __future__ import annotations

from .planner import make_plan
from .settings import SettingsError, read_settings

__all__ = ["SettingsError", "make_plan", "read_settings"]
