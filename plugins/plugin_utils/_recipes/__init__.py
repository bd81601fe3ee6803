# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes: how one model is served well. ``load_recipe`` finds, reads and checks one (docs/contracts.md, section 3)."""

from __future__ import annotations

from .loader import known_recipes, load_recipe, shipped_directory
from .schema import RecipeError, check_recipe, merge

__all__ = ["RecipeError", "check_recipe", "known_recipes", "load_recipe", "merge", "shipped_directory"]
