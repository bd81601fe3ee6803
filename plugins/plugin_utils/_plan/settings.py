# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the user set (docs/contracts.md, section 7), checked.

Every error says what was found, where, and what to do: it is the one message that a user sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._rules import RULES
from .._rules.context import Recipe, Settings
from .nearest import nearest

BACKENDS = ("ray", "mp")
CONSENTS = ("network", "firewall")


class SettingsError(ValueError):
    """A variable has a value that cannot be used."""


def read_settings(variables: Mapping[str, Any], recipe: Recipe) -> Settings:
    """The settings from variables by their full names (``gb10_backend`` …); those that are absent or None have their defaults.

    Raises SettingsError on the first value that cannot be used.
    """
    backend = variables.get("gb10_backend") or recipe["backend"]
    if backend not in BACKENDS:
        raise SettingsError(f"gb10_backend is {backend!r}; it can be {' or '.join(BACKENDS)}.")
    return Settings(
        backend=str(backend),
        api_host=_text(variables, "gb10_api_host"),
        api_port=_port(variables, "gb10_api_port", 8000),
        api_key=bool(variables.get("gb10_api_key")),
        reclaim=_names(variables, "gb10_reclaim") or (),
        consent=_known(variables, "gb10_consent", CONSENTS),
        accept=_known(variables, "gb10_accept", tuple(RULES)),
        ulimits=_names(variables, "gb10_ulimits"),
    )


def order_hosts(hosts: Sequence[str], head: str | None, group: str) -> list[str]:
    """The hosts in the order of ranks: as the inventory has them, with ``head`` first where it is given.

    Raises SettingsError if there are none, or if the head is not among them.
    """
    if not hosts:
        raise SettingsError(f"The inventory has no host in the group {group!r}. List the nodes in it, head first, or name your group in gb10_group.")
    if head is None:
        return list(hosts)
    if head not in hosts:
        raise SettingsError(f"gb10_head is {head!r}, which is not in the group {group!r} ({', '.join(hosts)}).{nearest(head, hosts)}")
    return [head, *(host for host in hosts if host != head)]


def _text(variables: Mapping[str, Any], name: str) -> str | None:
    """A text, None if it is absent or empty."""
    value = variables.get(name)
    if value is not None and not isinstance(value, str):
        raise SettingsError(f"{name} is {value!r}; it has to be text.")
    return value or None


def _port(variables: Mapping[str, Any], name: str, default: int) -> int:
    """A TCP port. ``-e name=8000`` gives text, so text is read as well."""
    value = variables.get(name)
    if value is None:
        return default
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
        raise SettingsError(f"{name} is {variables[name]!r}; it has to be a TCP port, 1 to 65535.")
    return value


def _names(variables: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """A list of names, None if it is absent. A single text is refused: ``-e name=a,b`` would otherwise be read letter by letter."""
    value = variables.get(name)
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, str) for entry in value):
        raise SettingsError(f'{name} is {value!r}; it has to be a list of names: -e \'{{"{name}": ["a", "b"]}}\'.')
    return tuple(value)


def _known(variables: Mapping[str, Any], name: str, known: Sequence[str]) -> tuple[str, ...]:
    """A list of names that all have to be known."""
    values = _names(variables, name) or ()
    for value in values:
        if value not in known:
            hint = nearest(value, known) or f" Known: {', '.join(sorted(known))}."
            raise SettingsError(f"{name} has {value!r}, which does not exist.{hint}")
    return values
