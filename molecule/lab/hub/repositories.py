"""What the hub holds: a folder of repositories, read anew for each request.

ROOT/<org>/<name>/<40 hexadecimal digits>/...   one revision's files
ROOT/<org>/<name>/main                          a branch: a file that names a revision
ROOT/<org>/<name>/access.json                   {"gated": "manual", "granted": ["token", ...]}: files need a token
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

_REVISION = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: What the Hub's default .gitattributes keeps in large file storage, so that it is served by redirect.
_LARGE = frozenset({".safetensors", ".bin", ".gguf", ".pt", ".onnx"})
_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"


@dataclass(frozen=True)
class File:
    """One file of a revision, with the hashes by which git and the large file storage know it."""

    path: str
    location: Path
    size: int
    sha256: str
    #: The hash of git's object: of the content, or of the pointer that stands for a large file.
    blob: str

    @property
    def large(self) -> bool:
        """Whether the file is in large file storage."""
        return Path(self.path).suffix in _LARGE

    @property
    def etag(self) -> str:
        """The file's identity, under which the client's cache stores it."""
        return self.sha256 if self.large else self.blob

    @property
    def pointer_size(self) -> int:
        """Bytes of the pointer that git holds for a large file."""
        return len(_POINTER.format(sha256=self.sha256, size=self.size))


@dataclass(frozen=True)
class Repository:
    """A model repository."""

    name: str
    folder: Path
    gated: str | None
    granted: frozenset[str]

    def revisions(self) -> list[str]:
        """All revisions, in the order of their names."""
        return sorted(path.name for path in self.folder.iterdir() if _REVISION.fullmatch(path.name) and path.is_dir())

    def branches(self) -> dict[str, str]:
        """Branch name → revision; a lone revision is ``main`` even where nothing says so."""
        known = self.revisions()
        found = {}
        for path in self.folder.iterdir():
            if path.is_file() and path.name != "access.json":
                target = path.read_text(encoding="utf-8", errors="replace").strip()
                if target in known:
                    found[path.name] = target
        if "main" not in found and len(known) == 1:
            found["main"] = known[0]
        return found

    def resolve(self, revision: str) -> str | None:
        """The 40-digit revision that a branch or a revision names."""
        if revision in self.revisions():
            return revision
        return self.branches().get(revision)


@dataclass
class Store:
    """The repositories under a root folder, and the hashes of their files once they have been computed."""

    root: Path
    _hashes: dict[tuple[str, int, int], tuple[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def repositories(self) -> list[Repository]:
        """All repositories, in the order of their names."""
        found = (self.repository(f"{path.parent.name}/{path.name}") for path in sorted(self.root.glob("*/*")))
        return [repository for repository in found if repository is not None]

    def repository(self, name: str) -> Repository | None:
        """The repository ``org/name``, or nothing."""
        parts = name.split("/")
        if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in parts):
            return None
        folder = self.root.joinpath(*parts)
        if not folder.is_dir():
            return None
        access: dict[str, object] = {}
        if (folder / "access.json").is_file():
            access = json.loads((folder / "access.json").read_text(encoding="utf-8"))
        granted = access.get("granted", [])
        repository = Repository(
            name=name,
            folder=folder,
            gated=str(access["gated"]) if access.get("gated") else None,
            granted=frozenset(str(token) for token in granted) if isinstance(granted, list) else frozenset(),
        )
        return repository if repository.revisions() else None

    def files(self, repository: Repository, revision: str) -> dict[str, File]:
        """Path → file of one revision."""
        top = repository.folder / revision
        found = {}
        for location in sorted(top.rglob("*")):
            if location.is_file():
                path = location.relative_to(top).as_posix()
                found[path] = self._file(path, location)
        return found

    def _file(self, path: str, location: Path) -> File:
        status = location.stat()
        key = (str(location), status.st_size, status.st_mtime_ns)
        with self._lock:
            if key not in self._hashes:
                self._hashes[key] = _hashes(location, status.st_size, Path(path).suffix in _LARGE)
            sha256, blob = self._hashes[key]
        return File(path=path, location=location, size=status.st_size, sha256=sha256, blob=blob)

    def modified(self, repository: Repository, revision: str) -> str:
        """When the revision was written, as the Hub spells a time."""
        seconds = int((repository.folder / revision).stat().st_mtime)
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _hashes(location: Path, size: int, large: bool) -> tuple[str, str]:
    sha256, sha1 = hashlib.sha256(), hashlib.sha1(f"blob {size}\0".encode())
    with location.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            sha256.update(chunk)
            sha1.update(chunk)
    if large:
        pointer = _POINTER.format(sha256=sha256.hexdigest(), size=size).encode()
        sha1 = hashlib.sha1(b"blob %d\0" % len(pointer) + pointer)
    return sha256.hexdigest(), sha1.hexdigest()
