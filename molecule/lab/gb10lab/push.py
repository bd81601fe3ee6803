"""Putting images into the lab's registry without `docker push`.

The engine's own push compresses with one thread (two minutes for the engine image) and refuses a registry without TLS unless
its configuration says otherwise. Here the registry's HTTP API takes the layers as they are: on one machine, packing and unpacking
costs more than it saves.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from .config import OUTSIDE_ADDRESS
from .shell import LabError

PORT = 5000
CHUNK = 4 << 20
CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
LAYER_TYPE = "application/vnd.docker.image.rootfs.diff.tar"
MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


def _request(
    method: str, path: str, body: bytes | Iterator[bytes] | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(OUTSIDE_ADDRESS, PORT, timeout=300)
    try:
        chunked = body is not None and not isinstance(body, bytes)
        connection.request(method, path, body=body, headers=headers or {}, encode_chunked=chunked)
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise LabError(f"the lab's registry does not answer: {error}") from error
    finally:
        connection.close()


def exists(repository: str, reference: str) -> bool:
    """Whether the registry has this tag."""
    try:
        return _request("HEAD", f"/v2/{repository}/manifests/{reference}", headers={"Accept": MANIFEST_TYPE})[0] == 200
    except LabError:
        return False


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    while data := source.read(CHUNK):
        yield data


class _Counted:
    """Passes chunks on and knows their digest and length afterwards."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._hash = hashlib.sha256()
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._hash.update(chunk)
            self.size += len(chunk)
            yield chunk

    @property
    def digest(self) -> str:
        """The digest as the registry writes it."""
        return f"sha256:{self._hash.hexdigest()}"


def _upload(repository: str, chunks: Iterator[bytes]) -> dict[str, Any]:
    """Upload one blob and return its digest and size."""
    status, headers, text = _request("POST", f"/v2/{repository}/blobs/uploads/", b"")
    if status != 202:
        raise LabError(f"the lab's registry refuses an upload ({status}): {text.decode(errors='replace')[:200]}")
    counted = _Counted(chunks)
    status, headers, text = _request(
        "PATCH",
        headers["location"].split(str(PORT), 1)[1],
        iter(counted),
        {"Content-Type": "application/octet-stream", "Transfer-Encoding": "chunked"},
    )
    if status not in (202, 204):
        raise LabError(f"the upload to the lab's registry failed ({status}): {text.decode(errors='replace')[:200]}")
    location = headers["location"].split(str(PORT), 1)[1]
    joint = "&" if "?" in location else "?"
    status, _, text = _request("PUT", f"{location}{joint}digest={counted.digest}", b"")
    if status != 201:
        raise LabError(f"the lab's registry did not keep a blob ({status}): {text.decode(errors='replace')[:200]}")
    return {"digest": counted.digest, "size": counted.size}


def push_archive(archive: Path) -> list[str]:
    """Push every tagged image of a `docker save` archive; a layer that several share is uploaded once."""
    pushed: list[str] = []
    layers: dict[str, dict[str, Any]] = {}
    with tarfile.open(archive) as tar:

        def content(name: str) -> IO[bytes]:
            member = tar.getmember(name)
            # An older engine writes a layer that it has already written as a link to it.
            found = tar.extractfile(member)
            if found is None:
                raise LabError(f"the archive of the engine image lacks {name}")
            return found

        for entry in json.load(content("manifest.json")):
            config = content(entry["Config"]).read()
            diff_ids: list[str] = json.loads(config)["rootfs"]["diff_ids"]
            for tag in entry["RepoTags"]:
                repository, version = tag.rsplit(":", 1)
                for diff_id, name in zip(diff_ids, entry["Layers"], strict=True):
                    if diff_id not in layers:
                        layers[diff_id] = _upload(repository, _chunks(content(name)))
                manifest = {
                    "schemaVersion": 2,
                    "mediaType": MANIFEST_TYPE,
                    "config": {"mediaType": CONFIG_TYPE, **_upload(repository, iter([config]))},
                    "layers": [{"mediaType": LAYER_TYPE, **layers[diff_id]} for diff_id in diff_ids],
                }
                path = f"/v2/{repository}/manifests/{version}"
                status, _, text = _request("PUT", path, json.dumps(manifest).encode(), {"Content-Type": MANIFEST_TYPE})
                if status != 201:
                    raise LabError(f"the lab's registry did not take {tag} ({status}): {text.decode(errors='replace')[:200]}")
                pushed.append(tag)
    return pushed
