# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""models: what the Hugging Face cache holds, and whether it is whole"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.downloads import Downloads, look, of_repository
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Noted, Probe, Seen, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import ModelFacts, Repository, Revision, known
from ansible_collections.gb10.cluster.plugins.module_utils._facts.system import connecting_home
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.df import Filesystem
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.hf_cache import (
    LISTING_FORMAT,
    Entry,
    parse_index,
    parse_listing,
    reduce_index,
)
from ansible_collections.gb10.cluster.plugins.module_utils._redact import redact_text
from ansible_collections.gb10.cluster.plugins.module_utils._runner import NO_SUCH_FILE

_FOLDER = "hub/models--"
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth")
_CONFIGURATIONS = ("config.json", "model_index.json", "params.json")
_SHARD = re.compile(r"^(?P<stem>.*-)(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.\w+)$")
_UNFINISHED = ".incomplete"
_DEPTH = "12"  # folders below the cache; a snapshot's own folders begin at the fourth


@dataclass
class _Folder:
    """One `models--…` folder of the cache."""

    entries: list[Entry] = field(default_factory=list)
    refs: dict[str, str] = field(default_factory=dict)
    indexes: dict[str, tuple[str, ...] | None] = field(default_factory=dict)  # path below the cache; None: unreadable


@dataclass(frozen=True)
class Cache:
    path: str
    owner: str | None  # None: it does not exist
    folders: dict[str, _Folder]
    writable: bool | None = None
    downloads: Downloads | None = None


def probes(hf_home: str | None) -> tuple[Probe, ...]:
    return (
        probe("hf_cache", "models", lambda node: _cache(node, cache_path(node, hf_home))),
        probe("hf_environment", "models", _environment),
    )


def _environment(node: Node) -> dict[str, str]:
    """Variables that decide where the Hub's client looks. Those that name a secret are not even read; an endpoint's password is left out."""
    return {name: redact_text(value) for name, value in sorted(node.environment().items()) if name.startswith("HF_")}


def cache_path(node: Node, hf_home: str | None) -> str:
    path = hf_home or node.environment().get("HF_HOME")
    if not path:
        return f"{connecting_home(node)}/.cache/huggingface"
    return f"{connecting_home(node)}{path[1:]}" if path.startswith("~/") else posixpath.normpath(path)


def _cache(node: Node, path: str) -> Cache | Noted:
    result = node.run("find", *_listing(path))
    listing = result.stdout
    if not listing:
        if "No such file or directory" in result.stderr:
            return Cache(path, None, {})
        raise Failed(complaint(result))
    entries = parse_listing(listing)
    folders: dict[str, _Folder] = {}
    for entry in entries:
        if entry.path.startswith(_FOLDER):
            name = entry.path[len(_FOLDER) :].partition("/")[0]
            folders.setdefault(name, _Folder()).entries.append(entry)
    for name, folder in folders.items():
        _read(node, path, f"{_FOLDER}{name}", folder)
    notes = [f"{len(unreadable)} entries could not be read, the first: {unreadable[0]}" for unreadable in [_lines(result.stderr)] if unreadable]
    downloads = None
    try:
        downloads = look(node, path)
    except (Failed, ParseError, Unavailable) as error:
        notes.append(f"downloads under way: {error}")
    cache = Cache(path, next(entry.owner for entry in entries), folders, _writable(node, path), downloads)
    return Noted(cache, "; ".join(notes)) if notes else cache


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _writable(node: Node, path: str) -> bool | None:
    """Whether this user may put a model into it: into its hub, where there is one."""
    try:
        result = node.run("find", "-L", path, f"{path}/hub", "-maxdepth", "0", "-writable", "-printf", r"%p\n")
    except Unavailable:
        return None
    writable = _lines(result.stdout)
    return f"{path}/hub" in writable or (path in writable and NO_SUCH_FILE in result.stderr)


def _listing(path: str) -> list[str]:
    """One find over the hub's models: links followed, so that a broken one shows as a link; other parts of the cache left out."""
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", path)
    hub = f"{pattern}/hub"
    return [
        "-L", path, "-maxdepth", _DEPTH,
        "(", "-path", f"{pattern}/*", "!", "-path", hub, "!", "-path", f"{hub}/models--*", ")", "-prune",
        "-o", "-printf", LISTING_FORMAT,
    ]  # fmt: skip


def _read(node: Node, cache: str, base: str, folder: _Folder) -> None:
    """The few small files whose content matters: what the branches point at, which shards there should be."""
    for entry in folder.entries:
        path = entry.path[len(base) + 1 :]
        if entry.kind != "f":
            continue
        if path.startswith("refs/"):
            content = node.read(f"{cache}/{entry.path}")
            if content:
                folder.refs[path[len("refs/") :]] = content.strip()
        elif path.startswith("snapshots/") and path.endswith(".index.json"):
            content = node.file(f"{cache}/{entry.path}", reduce_index).content
            try:
                folder.indexes[entry.path] = parse_index(content) if content else None
            except ParseError:
                folder.indexes[entry.path] = None


def model_facts(seen: Seen) -> ModelFacts:
    cache: Cache | None = seen.get("hf_cache")
    if cache is None:
        return {}
    filesystems: list[Filesystem] = seen.get("df") or []
    facts: ModelFacts = known(
        cache=cache.path,
        exists=cache.owner is not None,
        owner=cache.owner,
        writable=cache.writable,
        filesystem=next((entry.filesystem for entry in filesystems if entry.path == cache.path), None),
        environment=seen.get("hf_environment"),
        repositories=[_repository(name, folder, cache) for name, folder in sorted(cache.folders.items())],
    )
    return facts


def _repository(name: str, folder: _Folder, cache: Cache) -> Repository:
    base = f"{_FOLDER}{name}/"
    files = [(entry, entry.path[len(base) :]) for entry in folder.entries if entry.kind == "f"]
    snapshots: dict[str, list[Entry]] = {}
    for entry in folder.entries:
        parts = entry.path[len(base) :].split("/", 2)
        if parts[0] == "snapshots" and len(parts) > 1:
            entries = snapshots.setdefault(parts[1], [])
            if len(parts) > 2:
                entries.append(entry)
    unfinished = [(entry, path) for entry, path in files if path.endswith(_UNFINISHED)]
    blobs = [posixpath.basename(path) for _entry, path in files if path.startswith("blobs/") and not path.endswith(_UNFINISHED)]
    return known(  # type: ignore[no-any-return]
        repo=name.replace("--", "/", 1),
        refs=dict(sorted(folder.refs.items())),
        size=_size(entry for entry, _path in files),
        incomplete=sorted(posixpath.basename(path) for _entry, path in unfinished),
        incomplete_size=_size(entry for entry, _path in unfinished),
        foreign=len({entry.inode for entry, _path in files if entry.owner != cache.owner}),
        **of_repository(cache.downloads, f"models--{name}", blobs),
        revisions=[_revision(f"{base}snapshots/{revision}/", revision, entries, folder) for revision, entries in sorted(snapshots.items())],
    )


def _size(entries: Iterable[Entry]) -> int:
    """Bytes on disk: a blob and the links to it are one inode."""
    return sum({entry.inode: entry.size for entry in entries}.values())


def _revision(base: str, revision: str, entries: list[Entry], folder: _Folder) -> Revision:
    files = {entry.path[len(base) :]: entry for entry in entries if entry.kind == "f"}
    broken = {entry.path[len(base) :] for entry in entries if entry.kind == "l"}
    indexes = {path: shards for path, shards in folder.indexes.items() if path.startswith(base)}
    missing = sorted(broken | set(_missing(base, files, indexes)))
    # An index that cannot be read hides what should be there.
    certain = missing or None not in indexes.values()
    return known(  # type: ignore[no-any-return]
        revision=revision,
        complete=not missing if certain else None,
        files=len(files),
        size=_size(files.values()),
        missing=missing,
    )


def _missing(base: str, files: dict[str, Entry], indexes: dict[str, tuple[str, ...] | None]) -> Iterator[str]:
    weights = [path for path, entry in files.items() if path.endswith(_WEIGHTS) and entry.size > 0]
    yield from (path for path, entry in files.items() if path.endswith(_WEIGHTS) and entry.size == 0)
    for path, shards in indexes.items():
        folder = posixpath.dirname(path[len(base) :])
        yield from (name for shard in shards or () if (name := posixpath.join(folder, shard)) not in files)
    yield from (name for name in _numbered(weights) if name not in files)
    if not weights:
        yield "*.safetensors"
    elif not all(path.endswith(".gguf") for path in weights) and not any(name in files for name in _CONFIGURATIONS):
        yield "config.json"


def _numbered(weights: list[str]) -> Iterator[str]:
    """All shards that the names of some speak of: `model-00007-of-00039.safetensors`"""
    for path in weights:
        match = _SHARD.match(path)
        if match is not None and int(match.group("count")) <= 10000:
            count = int(match.group("count"))
            yield from (f"{match.group('stem')}{number:05d}-of-{count:05d}{match.group('suffix')}" for number in range(1, count + 1))
