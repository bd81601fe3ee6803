# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Support bundles: what is packed comes out again, and what is no bundle is said in one sentence."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.plugin_utils._support import SCHEMA, BundleError, bundle, pack, read

RECORDING = json.dumps({"schema": "gb10-recording/1", "host": "spark-head", "entries": []})
ORDER = ["spark-head", "spark-worker"]


def packed(**changes: Any) -> bytes:
    given: dict[str, Any] = {
        "recordings": {"spark-head": RECORDING},
        "unreachable": {"spark-worker": "Connection timed out"},
        "order": ORDER,
        "recipe": {"name": "reference"},
        "variables": {"gb10_reclaim": ["vllm_node"]},
        "versions": {"ansible-core": "2.19.14"},
    }
    return pack(**{**given, **changes})


def test_what_is_packed_comes_out_again(tmp_path: Path) -> None:
    archive = tmp_path / "b.tar.gz"
    archive.write_bytes(packed())
    found = read(str(archive), str(tmp_path / "work"))
    head, worker = found.nodes
    assert (head.name, worker.name) == ("spark-head", "spark-worker"), "in the order of ranks"
    assert Path(head.path).read_text() == RECORDING
    assert json.loads(Path(worker.path).read_text())["unreachable"] == "Connection timed out"
    assert found.variables == {"gb10_reclaim": ["vllm_node"]}
    assert found.recipe is not None
    assert json.loads(Path(found.recipe).read_text()) == {"name": "reference"}


def test_the_same_input_gives_the_same_bytes() -> None:
    assert packed() == packed()


def test_an_unpacked_bundle_is_read_as_well(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed())) as archive:
        archive.extractall(tmp_path, filter="data")
    assert [node.name for node in read(str(tmp_path / "gb10-support"), "").nodes] == ORDER


def test_mere_recordings_are_ordered_by_their_file_names(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(json.dumps({"schema": "gb10-recording/1", "host": "zed", "entries": []}))
    (tmp_path / "2.json").write_text(RECORDING)
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("not json")
    found = read(str(tmp_path), "")
    assert [node.name for node in found.nodes] == ["zed", "spark-head"]
    assert found.recipe is None


def manifest(tmp_path: Path, content: str) -> str:
    (tmp_path / "manifest.json").write_text(content)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "not a mapping"),
        ('{"schema": "gb10-support/9", "nodes": ["a"]}', "gb10-support/9"),
        (json.dumps({"schema": SCHEMA, "nodes": []}), "no list of nodes"),
        (json.dumps({"schema": SCHEMA, "nodes": [{"file": "x"}]}), "whose name is"),
        (json.dumps({"schema": SCHEMA, "nodes": ["../secret"]}), "whose name is"),
        (json.dumps({"schema": SCHEMA, "nodes": ["a"]}), "no recording of a"),
    ],
)
def test_a_wrong_manifest_is_one_sentence(content: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=words) as caught:
        read(manifest(tmp_path, content), "")
    assert str(tmp_path) in str(caught.value)


def test_two_recordings_of_one_node(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(RECORDING)
    with pytest.raises(BundleError, match=r"two recordings of spark-head: a\.json and b\.json"):
        read(str(tmp_path), "")


def archive_of(name: str, content: bytes, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size, member.type, member.linkname = len(content), kind, target
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", packed()[:200], archive_of("../outside", b"x"), archive_of("link", b"", tarfile.SYMTYPE, "/etc/passwd")],
    ids=["empty", "zip", "cut off", "outside", "link"],
)
def test_what_is_no_archive_of_ours_leaves_nothing_outside(content: bytes, tmp_path: Path) -> None:
    path, work = tmp_path / "x.tar.gz", tmp_path / "work"
    path.write_bytes(content)
    with pytest.raises(BundleError, match=r"x\.tar\.gz|holds no recording|no such directory"):
        read(str(path), str(work))
    assert {entry.name for entry in tmp_path.iterdir()} <= {"x.tar.gz", "work"}


def test_an_archive_that_unpacks_to_far_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "LARGEST", 10)
    path = tmp_path / "x.tar.gz"
    path.write_bytes(packed())
    with pytest.raises(BundleError, match="this is not a support bundle"):
        read(str(path), str(tmp_path / "work"))
