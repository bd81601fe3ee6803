# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where recipes are found, and what is said when one is not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from .._plan.nearest import nearest
from .schema import RecipeError, check_recipe, merge

_ENDINGS = (".yml", ".yaml")


def shipped_directory() -> str:
    """The directory of the recipes that come with the collection."""
    return os.path.dirname(os.path.abspath(__file__))


def known_recipes(directories: Iterable[str]) -> dict[str, str]:
    """Recipe names and their files; where two directories have one name, the first directory wins. A directory that is not there is empty."""
    found: dict[str, str] = {}
    for directory in directories:
        for entry in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
            name, ending = os.path.splitext(entry)
            if ending in _ENDINGS:
                found.setdefault(name, os.path.join(directory, entry))
    return found


def load_recipe(name: str, directories: Iterable[str], overrides: Mapping[str, Any] | None = None, base: str = ".") -> dict[str, Any]:
    """The recipe of that name, or at that path (anything with a slash or a YAML ending; relative to ``base``), overrides merged over it.

    ``directories`` are searched in their order, before the shipped ones. Raises RecipeError: not found, not readable, not a recipe.
    """
    searched = [*directories, shipped_directory()]
    path = _path(name, searched, base)
    try:
        with open(path, encoding="utf-8") as stream:
            content = yaml.safe_load(stream)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecipeError(f"The recipe {path} cannot be read: {error}") from error
    if not isinstance(content, Mapping):
        raise RecipeError(f"The recipe {path} is {type(content).__name__}, not a mapping of names and values.")
    recipe = check_recipe(content, path)
    if overrides:
        recipe = check_recipe(merge(recipe, overrides), f"gb10_recipe_overrides over {path}")
    return recipe


def _path(name: str, directories: list[str], base: str) -> str:
    """The file of a recipe."""
    if os.sep in name or name.endswith(_ENDINGS):
        path = os.path.join(base, os.path.expanduser(name))
        if not os.path.isfile(path):
            raise RecipeError(f"gb10_recipe is {name!r}, and there is no such file ({os.path.abspath(path)}).")
        return path
    known = known_recipes(directories)
    if name not in known:
        raise RecipeError(
            f"There is no recipe {name!r}.{nearest(name, known)} Known: {', '.join(sorted(known))}. "
            f"A recipe of your own goes into a directory recipes/ beside your inventory, or gb10_recipe is the path of its file."
        )
    return known[name]
