# Copyright: the gb10.cluster engineers
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The support bundle `gb10-support/1`: a directory, or the same as a .tar.gz.

    manifest.json           schema, names of the nodes in the order of ranks, variables, versions
    recipe.yml              the recipe as it was resolved, overrides merged
    recordings/NAME.json    a recording a node (docs/contracts.md, section 2); one without entries of a node that did not answer

A directory that only holds recordings is read as well: the order of ranks is then the order of the file names.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "gb10-support/1"
RECORDING = "gb10-recording/1"
#: A bundle of two nodes has half a megabyte. What unpacks to more than this is not one of ours.
LARGEST = 256 * 1024**2


class BundleError(ValueError):
    """This is no bundle; the text says what was found, where, and what to do."""


@dataclass(frozen=True)
class Recorded:
    """A node of the bundle, and the path of its recording."""

    name: str
    path: str


@dataclass(frozen=True)
class Bundle:
    """What a bundle holds, unpacked. ``recipe`` is a path, None in a directory of mere recordings."""

    nodes: tuple[Recorded, ...]
    recipe: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)


def pack(
    recordings: Mapping[str, str],
    unreachable: Mapping[str, str],
    order: Sequence[str],
    recipe: Mapping[str, Any],
    variables: Mapping[str, Any],
    versions: Mapping[str, str],
) -> bytes:
    """The bundle as a .tar.gz: ``recordings`` are JSON texts by node, ``unreachable`` reasons by node. Same input, same bytes."""
    manifest = {"schema": SCHEMA, "nodes": list(order), "variables": dict(variables), "versions": dict(versions)}
    files = {"manifest.json": _json(manifest), "recipe.yml": _json(recipe)}
    files |= {f"recordings/{name}.json": recordings.get(name) or _absent(name, unreachable.get(name)) for name in order}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"gb10-support/{name}")
            content = text.encode()
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def _absent(name: str, reason: str | None) -> str:
    return _json({"schema": RECORDING, "host": name, "unreachable": reason or "it was not recorded", "entries": []})


def _json(value: Any) -> str:
    """JSON, which is YAML as well."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def read(path: str, workspace: str) -> Bundle:
    """The bundle at ``path``, a directory or an archive; an archive is unpacked into the directory ``workspace``.

    Raises BundleError.
    """
    if os.path.isfile(path):
        path = _unpack(path, workspace)
    elif not os.path.isdir(path):
        raise BundleError(f"gb10_recordings is {path}, and there is no such directory or file. Give what playbooks/support.yml wrote.")
    manifest = os.path.join(path, "manifest.json")
    return _with_manifest(path, manifest) if os.path.isfile(manifest) else _recordings_only(path)


def _unpack(path: str, workspace: str) -> str:
    try:
        with tarfile.open(path, "r:gz") as archive:
            members = archive.getmembers()
            if sum(member.size for member in members) > LARGEST:
                raise BundleError(f"{path} unpacks to more than {LARGEST // 1024**2} MiB: this is not a support bundle.")
            archive.extractall(workspace, members, filter="data")
    except (OSError, EOFError, tarfile.TarError) as error:
        raise BundleError(f"{path} is not a support bundle (.tar.gz): {error}") from error
    return os.path.join(workspace, "gb10-support")


def _load(path: str) -> Mapping[str, Any]:
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError) as error:
        raise BundleError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, Mapping):
        raise BundleError(f"{path} holds {type(found).__name__}, not a mapping: this is not part of a support bundle.")
    return found


def _with_manifest(path: str, manifest_path: str) -> Bundle:
    manifest = _load(manifest_path)
    rows, variables = manifest.get("nodes"), manifest.get("variables", {})
    if manifest.get("schema") != SCHEMA or not isinstance(rows, list) or not rows or not isinstance(variables, Mapping):
        raise BundleError(f"{manifest_path} has schema {manifest.get('schema')!r} and is no list of nodes as {SCHEMA} has it.")
    nodes = []
    for name in rows:
        if not isinstance(name, str) or name in ("", ".", "..") or os.sep in name:
            raise BundleError(f"{manifest_path} lists a node whose name is {name!r}.")
        file = os.path.join(path, "recordings", f"{name}.json")
        if not os.path.isfile(file):
            raise BundleError(f"{path} has no recording of {name}, which {os.path.basename(manifest_path)} lists. Ask for the whole bundle.")
        nodes.append(Recorded(name, file))
    recipe = os.path.join(path, "recipe.yml")
    return Bundle(tuple(nodes), recipe if os.path.isfile(recipe) else None, dict(variables))


def _recordings_only(path: str) -> Bundle:
    nodes: dict[str, Recorded] = {}
    for entry in sorted(os.listdir(path)):
        file = os.path.join(path, entry)
        if not entry.endswith(".json") or not os.path.isfile(file):
            continue
        recording = _load(file)
        if recording.get("schema") != RECORDING:
            continue
        name = str(recording.get("host") or entry.removesuffix(".json"))
        if name in nodes:
            raise BundleError(f"{path} holds two recordings of {name}: {os.path.basename(nodes[name].path)} and {entry}. Keep one.")
        nodes[name] = Recorded(name, file)
    if not nodes:
        raise BundleError(f"{path} holds no recording ({RECORDING}). Give what playbooks/support.yml wrote, or a directory of recordings.")
    return Bundle(tuple(nodes.values()))
