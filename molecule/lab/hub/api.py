"""The Hub's JSON: which fields it gives a repository, a file and a folder."""

from __future__ import annotations

from .repositories import File, Repository, Store

Json = dict[str, object]


def model(store: Store, repository: Repository, revision: str, *, blobs: bool) -> Json:
    """``/api/models/{repo}``; with ``blobs`` also the size and hashes of each file."""
    files = store.files(repository, revision)
    return {
        "_id": revision[:24],
        "id": repository.name,
        "modelId": repository.name,
        "author": repository.name.split("/")[0],
        "sha": revision,
        "lastModified": store.modified(repository, revision),
        "createdAt": store.modified(repository, revision),
        "private": False,
        "gated": repository.gated or False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "pipeline_tag": "text-generation",
        "library_name": "transformers",
        "siblings": [_sibling(file, blobs=blobs) for file in files.values()],
        "usedStorage": sum(file.size for file in files.values()),
        "spaces": [],
    }


def _sibling(file: File, *, blobs: bool) -> Json:
    entry: Json = {"rfilename": file.path}
    if blobs:
        entry.update({"size": file.size, "blobId": file.blob})
        if file.large:
            entry["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": file.pointer_size}
    return entry


def entry(file: File) -> Json:
    """A file as the tree lists it."""
    row: Json = {"type": "file", "oid": file.blob, "size": file.size, "path": file.path}
    if file.large:
        row["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": file.pointer_size}
    return row


def tree(files: dict[str, File], folder: str, *, recursive: bool) -> list[Json] | None:
    """``/api/models/{repo}/tree/{revision}/{folder}``, or nothing where there is no such folder."""
    prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
    inside = [file for path, file in files.items() if path.startswith(prefix)]
    if not inside and prefix:
        return None
    folders: dict[str, None] = {}
    rows: list[Json] = []
    for file in inside:
        rest = file.path[len(prefix) :].split("/")
        depths = range(1, len(rest)) if recursive else range(1, min(2, len(rest)))
        for depth in depths:
            folders[prefix + "/".join(rest[:depth])] = None
        if recursive or len(rest) == 1:
            rows.append(entry(file))
    # The Hub gives a folder git's tree hash; no client asks for it, and it is not computed here.
    return [{"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in folders] + rows


def paths_info(files: dict[str, File], paths: list[str]) -> list[Json]:
    """``/api/models/{repo}/paths-info/{revision}``: the named files; what does not exist is left out."""
    return [entry(files[path]) for path in paths if path in files]


def refs(repository: Repository) -> Json:
    """``/api/models/{repo}/refs``."""
    branches = [{"name": name, "ref": f"refs/heads/{name}", "targetCommit": revision} for name, revision in sorted(repository.branches().items())]
    return {"branches": branches, "converts": [], "tags": []}
