# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshots that are whole and that are not: a real cache of every kind, through a real find."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import gather, select
from ansible_collections.gb10.cluster.plugins.module_utils._runner import LiveRunner, RecordedRunner, Recorder

REVISION = "a" * 40
BLOB = "blob-of-{}"


class Cache:
    """A Hugging Face cache in the making."""

    def __init__(self, path: Path, repo: str = "org/model") -> None:
        self.path = path
        self.folder = path / "hub" / f"models--{repo.replace('/', '--')}"
        (self.folder / "refs").mkdir(parents=True)
        (self.folder / "refs" / "main").write_text(REVISION)
        (self.folder / "blobs").mkdir()

    def put(self, name: str, content: str = "x", revision: str = REVISION) -> None:
        blob = self.folder / "blobs" / BLOB.format(name.replace("/", "-"))
        blob.write_text(content)
        link = self.folder / "snapshots" / revision / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path(*[".."] * (2 + name.count("/"))) / "blobs" / blob.name)

    def index(self, count: int, name: str = "model.safetensors.index.json", stem: str = "model") -> None:
        shards = {f"tensor{number}": shard(number, count, stem) for number in range(1, count + 1)}
        self.put(name, json.dumps({"weight_map": shards}))


def shard(number: int, count: int, stem: str = "model") -> str:
    return f"{stem}-{number:05d}-of-{count:05d}.safetensors"


@pytest.fixture
def module() -> Any:
    basic = pytest.importorskip("ansible.module_utils.basic")

    class Module(basic.AnsibleModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._debug = False

    return Module()


def models(module: Any, path: Path) -> dict[str, Any]:
    """The facts; those of the recording are the same."""
    recorder = Recorder(LiveRunner(module))
    facts = gather(recorder, select(["models"]), 10, str(path))
    assert facts["probes"]["hf_cache"]["status"] == "ok"
    replay = gather(RecordedRunner(json.loads(json.dumps(recorder.recording("x")))), select(["models"]), 10, str(path))
    assert replay["models"] == facts["models"]
    return dict(facts["models"])


def revision(module: Any, cache: Cache) -> dict[str, Any]:
    ((repository),) = models(module, cache.path)["repositories"]
    ((found),) = repository["revisions"]
    return dict(found)


def test_a_whole_snapshot(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path, "Qwen/Qwen3.5-122B-A10B-FP8")
    cache.put("config.json", "{}")
    cache.index(2)
    cache.put(shard(1, 2), "12345")
    cache.put(shard(2, 2), "123")
    (repository,) = models(module, tmp_path)["repositories"]
    assert repository["repo"] == "Qwen/Qwen3.5-122B-A10B-FP8"
    assert repository["refs"] == {"main": REVISION}
    assert repository["incomplete"] == []
    (found,) = repository["revisions"]
    assert (found["revision"], found["complete"], found["files"], found["missing"]) == (REVISION, True, 4, [])
    index_size = len((cache.folder / "blobs" / BLOB.format("model.safetensors.index.json")).read_text())
    assert found["size"] == 5 + 3 + 2 + index_size
    assert repository["size"] == found["size"] + 40  # refs/main; blobs count once


def test_a_shard_that_was_never_linked(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("config.json")
    cache.index(3)
    cache.put(shard(1, 3))
    cache.put(shard(3, 3))
    (cache.folder / "blobs" / "0123.incomplete").write_text("half")
    found = revision(module, cache)
    assert (found["complete"], found["missing"]) == (False, [shard(2, 3)])
    assert models(module, tmp_path)["repositories"][0]["incomplete"] == ["0123.incomplete"]


def test_a_link_without_its_blob(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("config.json")
    cache.put("model.safetensors")
    cache.put("tokenizer.json")
    (cache.folder / "blobs" / BLOB.format("tokenizer.json")).unlink()
    found = revision(module, cache)
    assert (found["complete"], found["missing"]) == (False, ["tokenizer.json"])


def test_no_index_but_numbered_shards(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("config.json")
    cache.put(shard(1, 2))
    assert revision(module, cache)["missing"] == [shard(2, 2)]


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["config.json"], ["*.safetensors"]),
        (["model.safetensors"], ["config.json"]),
        (["config.json", "model.safetensors"], []),
        (["model-Q4_K_M.gguf"], []),
        (["params.json", "consolidated.safetensors"], []),
        (["config.json", "pytorch_model.bin"], []),
    ],
)
def test_what_a_snapshot_needs(module: Any, tmp_path: Path, names: list[str], missing: list[str]) -> None:
    cache = Cache(tmp_path)
    for name in names:
        cache.put(name)
    found = revision(module, cache)
    assert (found["complete"], found["missing"]) == (not missing, missing)


def test_an_empty_weight_file_is_missing(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("config.json")
    cache.put("model.safetensors", "")
    assert revision(module, cache)["missing"] == ["*.safetensors", "model.safetensors"]


def test_an_index_in_a_folder(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("model_index.json")
    cache.index(2, "unet/model.safetensors.index.json")
    cache.put(f"unet/{shard(1, 2)}")
    assert revision(module, cache)["missing"] == [f"unet/{shard(2, 2)}"]


def test_a_broken_index_leaves_the_question_open(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("config.json")
    cache.put("model.safetensors")
    cache.put("model.safetensors.index.json", "{")
    found = revision(module, cache)
    assert "complete" not in found
    assert found["missing"] == []


def test_datasets_chunks_and_locks_are_left_out(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("config.json")
    cache.put("model.safetensors")
    for name in ("hub/datasets--org--data/x", "hub/.locks/models--org--model/y", "xet/chunks/z", "hub/version.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    recorder = Recorder(LiveRunner(module))
    gather(recorder, select(["models"]), 10, str(tmp_path))
    listings = [entry["stdout"] for entry in recorder.recording("x")["entries"] if entry.get("argv", [""])[0] == "find"]
    listing = next(text for text in listings if "models--" in text)
    assert "models--org--model/blobs" in listing
    assert not any(word in listing for word in ("datasets", ".locks", "xet", "version"))


def test_a_cache_elsewhere_behind_a_link(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "disk [1]")
    cache.put("config.json")
    cache.put("model.safetensors")
    (tmp_path / "cache").symlink_to(tmp_path / "disk [1]")
    assert models(module, tmp_path / "cache")["repositories"][0]["revisions"][0]["complete"] is True
    assert models(module, tmp_path / "disk [1]")["repositories"][0]["revisions"][0]["complete"] is True


def test_no_cache_and_an_empty_one(module: Any, tmp_path: Path) -> None:
    path = tmp_path / "none"
    facts = models(module, path)
    assert (facts["cache"], facts["exists"], facts["repositories"]) == (str(path), False, [])
    assert "writable" not in facts
    path.mkdir()
    facts = models(module, path)
    assert (facts["exists"], facts["repositories"]) == (True, [])


def test_entries_that_this_user_may_not_read() -> None:
    """find lists what it can and complains about the rest, as in a cache that a container filled as root."""
    from ansible_collections.gb10.cluster.plugins.module_utils._facts.models import _listing

    listing = f"d\t1\t1\tuser\t\nd\t1\t2\troot\thub/models--o--m\nd\t1\t3\troot\thub/models--o--m/snapshots/{REVISION}\n"
    entry = {
        "kind": "command",
        "argv": ["find", *_listing("/c")],
        "rc": 1,
        "stdout": listing,
        "stderr": "find: '/c/hub/models--o--m/blobs': Permission denied\n",
    }
    facts = gather(RecordedRunner({"schema": "gb10-recording/1", "host": "x", "entries": [entry]}), select(["models"]), 10, "/c")
    assert facts["probes"]["hf_cache"]["status"] == "ok"
    assert "Permission denied" in facts["probes"]["hf_cache"]["reason"]
    (found,) = facts["models"]["repositories"][0]["revisions"]
    assert found["complete"] is False


def download(cache: Cache, blob: str, lock: bool = True) -> Path:
    """A file that is being fetched, and its lock file."""
    (cache.folder / "blobs" / f"{blob}.incomplete").write_text("12345")
    path = cache.path / "hub" / ".locks" / cache.folder.name / f"{blob}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    if lock:
        path.write_text("")
    return path


def test_a_download_that_goes_on_and_one_that_was_given_up(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("config.json", "{}")
    held, given_up = download(cache, "aaa"), download(cache, "bbb")
    leftover = given_up.with_name(BLOB.format("config.json") + ".lock")
    leftover.write_text("")
    hour_ago = time.time() - 3600
    os.utime(given_up, (hour_ago, hour_ago))
    os.utime(cache.folder / "blobs" / "bbb.incomplete", (hour_ago, hour_ago))
    with held.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        (repository,) = models(module, tmp_path)["repositories"]
    assert repository["incomplete"] == ["aaa.incomplete", "bbb.incomplete"]
    assert repository["incomplete_size"] == 10
    assert 0 <= repository["incomplete_age"] < 600
    locks = {entry["path"].rpartition("/")[2]: entry for entry in repository["locks"]}
    assert set(locks) == {"aaa.lock", "bbb.lock"}  # the lock of a finished file is only a leftover
    assert (locks["aaa.lock"]["held"], locks["bbb.lock"]["held"]) == (True, False)
    assert 3500 < locks["bbb.lock"]["age"] < 4500
    assert locks["aaa.lock"]["path"] == ".locks/models--org--model/aaa.lock"


def test_nothing_under_way(module: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("config.json", "{}")
    facts = models(module, tmp_path)
    (repository,) = facts["repositories"]
    assert (repository["incomplete"], repository["incomplete_size"], repository["locks"], repository["foreign"]) == ([], 0, [], 0)
    assert "incomplete_age" not in repository
    assert facts["writable"] is True
    assert facts["filesystem"]


def test_another_repositorys_locks_are_not_mine(module: Any, tmp_path: Path) -> None:
    download(Cache(tmp_path, "org/model"), "aaa")
    download(Cache(tmp_path, "org/model-2"), "bbb")
    repositories = {entry["repo"]: entry for entry in models(module, tmp_path)["repositories"]}
    assert [entry["path"] for entry in repositories["org/model"]["locks"]] == [".locks/models--org--model/aaa.lock"]
    assert [entry["path"] for entry in repositories["org/model-2"]["locks"]] == [".locks/models--org--model-2/bbb.lock"]


def test_files_of_another_owner() -> None:
    """As after a download in a container that ran as root."""
    from ansible_collections.gb10.cluster.plugins.module_utils._facts.models import _listing

    base = "hub/models--o--m"
    listing = f"d\t1\t1\tuser\t\nd\t1\t2\troot\t{base}\nf\t5\t3\troot\t{base}/blobs/a\nf\t5\t3\troot\t{base}/snapshots/{REVISION}/a\n"
    listing += f"f\t5\t4\tuser\t{base}/blobs/b\n"
    entry = {"kind": "command", "argv": ["find", *_listing("/c")], "rc": 0, "stdout": listing}
    facts = gather(RecordedRunner({"schema": "gb10-recording/1", "host": "x", "entries": [entry]}), select(["models"]), 10, "/c")
    assert facts["models"]["repositories"][0]["foreign"] == 1
    assert not {"locks", "incomplete_age"} & set(facts["models"]["repositories"][0])


def test_variables_of_the_session(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_ENDPOINT", "https://user:swordfish@hub.example/")
    monkeypatch.setenv("HF_TOKEN", "swordfish")
    environment = models(module, tmp_path)["environment"]
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["HF_ENDPOINT"] == "https://user:REDACTED@hub.example/"
    assert "HF_TOKEN" not in environment
