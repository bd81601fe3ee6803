"""The lab's hub, asked by urllib for its wire format and by the real client for what that is worth."""

from __future__ import annotations

import hashlib
import http.client
import importlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[3] / "molecule" / "lab"
REPO = "acme/tiny"
GATED = "acme/gated"
OLD, NEW = "a" * 40, "b" * 40
GRANTED, OTHER = "hf_granted", "hf_other"
SHARD = bytes(range(256)) * 2048


sys.path.insert(0, str(LAB))
repositories = importlib.import_module("hub.repositories")
server = importlib.import_module("hub.server")
transfer = importlib.import_module("hub.transfer")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two repositories: one with two revisions, one behind a gate."""
    top = tmp_path_factory.mktemp("hub")
    for name, revision, text in ((REPO, OLD, "old"), (REPO, NEW, "new"), (GATED, NEW, "secret")):
        folder = top / name / revision
        (folder / "extra" / "deep").mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"is": text}))
        (folder / "extra" / "deep" / "notes.txt").write_text(text)
        (folder / "model.safetensors").write_bytes(SHARD + text.encode())
        (top / name / "main").write_text(f"{NEW}\n")
    (top / GATED / "access.json").write_text(json.dumps({"gated": "manual", "granted": [GRANTED]}))
    return top


@contextmanager
def serving(root: Path, rate: int = 0, cut: int = 0) -> Iterator[str]:
    hub = server.Hub(("127.0.0.1", 0), server.Settings(root, tokens=frozenset({OTHER}), rate=rate, cut=cut, quiet=True))
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{hub.server_address[1]}"
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join(10)


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    with serving(root) as address:
        yield address


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: object) -> None:
        return None


def ask(address: str, *, method: str = "GET", token: str = "", follow: bool = True, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body, whatever the status is."""
    request = urllib.request.Request(address, method=method, headers={key.replace("_", "-"): value for key, value in headers.items()})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    opener = urllib.request.build_opener(*([] if follow else [_NoRedirect]))
    try:
        with opener.open(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def test_model_info_names_the_revision_and_each_file(url: str) -> None:
    status, _, body = ask(f"{url}/api/models/{REPO}/revision/main?blobs=true")
    info = json.loads(body)
    files = {row["rfilename"]: row for row in info["siblings"]}
    assert (status, info["sha"], info["gated"]) == (200, NEW, False)
    assert sorted(files) == ["config.json", "extra/deep/notes.txt", "model.safetensors"]
    assert files["model.safetensors"]["lfs"]["sha256"] == hashlib.sha256(SHARD + b"new").hexdigest()
    assert files["config.json"]["blobId"] == hashlib.sha1(b'blob 13\0{"is": "new"}').hexdigest()
    assert "lfs" not in files["config.json"]


def test_blob_hashes_are_those_of_git(root: Path) -> None:
    store = repositories.Store(root)
    repository = store.repository(REPO)
    assert repository is not None
    for path in ("config.json", "extra/deep/notes.txt"):
        location = root / REPO / NEW / path
        wanted = subprocess.run(["git", "hash-object", "--no-filters", str(location)], capture_output=True, text=True, check=True)
        assert store.files(repository, NEW)[path].blob == wanted.stdout.strip()


def test_a_file_that_changes_gets_a_new_identity(tmp_path: Path) -> None:
    folder = tmp_path / REPO / OLD
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("one")
    store = repositories.Store(tmp_path)
    repository = store.repository(REPO)
    assert repository is not None
    assert repository.resolve("main") == OLD
    before = store.files(repository, OLD)["config.json"].etag
    (folder / "config.json").write_text("another")
    assert store.files(repository, OLD)["config.json"].etag != before


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("", ["config.json", "extra", "model.safetensors"]),
        ("?recursive=True", ["config.json", "extra", "extra/deep", "extra/deep/notes.txt", "model.safetensors"]),
        ("/extra", ["extra/deep"]),
        ("/extra?recursive=1", ["extra/deep", "extra/deep/notes.txt"]),
    ],
)
def test_tree(url: str, query: str, paths: list[str]) -> None:
    status, _, body = ask(f"{url}/api/models/{REPO}/tree/{NEW}{query}")
    assert (status, sorted(row["path"] for row in json.loads(body))) == (200, paths)


def test_small_file_is_answered_at_once(url: str) -> None:
    status, headers, body = ask(f"{url}/{REPO}/resolve/{OLD}/config.json")
    assert (status, body, headers["X-Repo-Commit"]) == (200, b'{"is": "old"}', OLD)
    assert headers["ETag"] == '"' + hashlib.sha1(b'blob 13\0{"is": "old"}').hexdigest() + '"'
    status, headers, body = ask(f"{url}/{REPO}/resolve/{OLD}/config.json", method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", "13")


def test_large_file_is_redirected_to_a_signed_address(url: str) -> None:
    status, headers, _ = ask(f"{url}/{REPO}/resolve/main/model.safetensors", method="HEAD", follow=False)
    digest = hashlib.sha256(SHARD + b"new").hexdigest()
    assert (status, headers["X-Repo-Commit"], headers["X-Linked-Size"]) == (302, NEW, str(len(SHARD) + 3))
    assert headers["X-Linked-Etag"] == f'"{digest}"'
    assert ask(headers["Location"])[2] == SHARD + b"new"
    assert ask(headers["Location"].split("?")[0] + "?signature=0")[0] == 403


@pytest.mark.parametrize(("part", "expected"), [("bytes=5-", slice(5, None)), ("bytes=2-9", slice(2, 10)), ("bytes=-4", slice(-4, None))])
def test_part_of_a_file(url: str, part: str, expected: slice) -> None:
    whole = SHARD + b"new"
    status, headers, body = ask(f"{url}/{REPO}/resolve/main/model.safetensors", Range=part)
    assert (status, body) == (206, whole[expected])
    assert headers["Content-Range"].endswith(f"/{len(whole)}")


def test_part_outside_the_file(url: str) -> None:
    status, headers, _ = ask(f"{url}/{REPO}/resolve/main/config.json", Range="bytes=13-")
    assert (status, headers["Content-Range"]) == (416, "bytes */13")


@pytest.mark.parametrize("header", [None, "", "bytes=-", "bytes=7-3", "lines=1-2", "bytes=1-2,4-5"])
def test_range_without_a_meaning_is_the_whole_file(header: str | None) -> None:
    assert transfer.parse_range(header, 10) is None


def test_range_beyond_the_end() -> None:
    assert transfer.parse_range("bytes=4-99", 10) == (4, 9)
    assert transfer.parse_range("bytes=-99", 10) == (0, 9)
    for header in ("bytes=10-", "bytes=-0"):
        with pytest.raises(transfer.UnsatisfiableRange):
            transfer.parse_range(header, 10)


@pytest.mark.parametrize(
    ("path", "token", "status", "code"),
    [
        ("/api/models/acme/none", "", 401, "RepoNotFound"),
        ("/api/models/acme/none", OTHER, 404, "RepoNotFound"),
        (f"/lfs/{REPO}/{NEW}/model.safetensors", "", 403, None),
        (f"/{REPO}/resolve/nowhere/config.json", "", 404, "RevisionNotFound"),
        (f"/{REPO}/resolve/main/none.json", "", 404, "EntryNotFound"),
        (f"/{REPO}/resolve/main/../../../{GATED}/access.json", "", 404, "EntryNotFound"),
        (f"/api/models/{REPO}/tree/main/none", "", 404, "EntryNotFound"),
        (f"/{GATED}/resolve/main/config.json", "", 401, "GatedRepo"),
        (f"/{GATED}/resolve/main/config.json", OTHER, 403, "GatedRepo"),
        (f"/{GATED}/resolve/main/config.json", GRANTED, 200, None),
        (f"/{GATED}/resolve/main/config.json", "hf_wrong", 401, None),
        (f"/api/models/{GATED}", "", 200, None),
        ("/elsewhere", "", 404, None),
    ],
)
def test_refusals(url: str, path: str, token: str, status: int, code: str | None) -> None:
    answer, headers, body = ask(url + path, token=token)
    assert (answer, headers.get("X-Error-Code")) == (status, code)
    if status >= 400:
        assert json.loads(body)["error"] == headers["X-Error-Message"]


def test_a_wrong_token_is_named_as_such(url: str) -> None:
    _, headers, _ = ask(f"{url}/api/models/{REPO}", token="hf_wrong")
    assert headers["X-Error-Message"] == "Invalid credentials in Authorization header"


def test_throttle_holds_all_transfers_together(root: Path) -> None:
    started = time.monotonic()
    with serving(root, rate=len(SHARD) * 4) as address:
        threads = [threading.Thread(target=ask, args=(f"{address}/{REPO}/resolve/{rev}/model.safetensors",)) for rev in (OLD, NEW)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    # The first chunk goes at once, so two shards at four a second take a little less than half a second.
    assert time.monotonic() - started > 0.35
    started = time.monotonic()
    transfer.Throttle(0).wait_for(1 << 40)
    # At the rate above it would take days.
    assert time.monotonic() - started < 60


def test_command_line(root: Path) -> None:
    """From a folder that is not its own, and with a Python that has nothing installed."""
    code = f"import runpy, sys; sys.path.insert(0, {str(LAB)!r}); runpy.run_module('hub', run_name='__main__')"
    command = [sys.executable, "-I", "-c", code]
    process = subprocess.Popen([*command, "--root", str(root), "--port", "0", "--bind", "127.0.0.1"], stderr=subprocess.PIPE, text=True, cwd="/")
    assert process.stderr is not None
    with process.stderr:
        try:
            line = process.stderr.readline()
            address = line.rsplit(" ", 1)[1].strip()
            assert line.startswith("Hub of 2 models")
            assert ask(f"{address}/{REPO}/resolve/main/config.json")[0] == 200
            assert "GET /acme/tiny/resolve/main/config.json" in process.stderr.readline()
        finally:
            process.terminate()
            process.wait(10)
    missing = subprocess.run([*command, "--root", str(root / "none")], capture_output=True, text=True, check=False, timeout=30)
    assert missing.returncode == 2 and "is not a folder" in missing.stderr


CLIENT = """
import json, sys
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub import hf_hub_download

repo, gated, granted, other, cache = sys.argv[1:]

def failure(call):
    try:
        call()
    except HfHubHTTPError as error:
        return [type(error).__name__, error.response.status_code]

info = HfApi().model_info(repo, files_metadata=True)
print(json.dumps({
    "sha": info.sha,
    "sizes": {row.rfilename: row.size for row in info.siblings},
    "snapshot": snapshot_download(repo, cache_dir=cache),
    "no repository": failure(lambda: HfApi().model_info(repo + "x")),
    "no revision": failure(lambda: snapshot_download(repo, revision="none", cache_dir=cache)),
    "no entry": failure(lambda: hf_hub_download(repo, "none.json", cache_dir=cache)),
    "no token": failure(lambda: hf_hub_download(gated, "config.json", cache_dir=cache, token=False)),
    "other token": failure(lambda: hf_hub_download(gated, "config.json", cache_dir=cache, token=other)),
    "wrong token": failure(lambda: HfApi(token="hf_wrong").model_info(repo)),
    "gated": snapshot_download(gated, cache_dir=cache, token=granted),
}))
"""


def client_environment(url: str, home: Path) -> dict[str, str]:
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING", "HTTP", "http"))}
    return {**keep, "HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}


def run_client(code: str, url: str, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the client reads its endpoint when it is imported."""
    argv = [sys.executable, "-c", code, *arguments]
    return subprocess.run(argv, env=client_environment(url, home), capture_output=True, text=True, check=False, timeout=120)


def test_real_client(url: str, tmp_path: Path) -> None:
    done = run_client(CLIENT, url, tmp_path, REPO, GATED, GRANTED, OTHER, str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["sha"], seen["sizes"]["model.safetensors"]) == (NEW, len(SHARD) + 3)
    assert Path(seen["snapshot"]).name == NEW
    assert (Path(seen["snapshot"]) / "model.safetensors").read_bytes() == SHARD + b"new"
    assert (Path(seen["snapshot"]) / "extra" / "deep" / "notes.txt").read_text() == "new"
    assert (Path(seen["gated"]) / "config.json").read_text() == '{"is": "secret"}'
    assert seen["no repository"][0] == "RepositoryNotFoundError"
    assert seen["no revision"] == ["RevisionNotFoundError", 404]
    assert seen["no entry"][0] in ("EntryNotFoundError", "RemoteEntryNotFoundError")
    assert seen["no token"] == ["GatedRepoError", 401]
    assert seen["other token"] == ["GatedRepoError", 403]
    assert seen["wrong token"] == ["HfHubHTTPError", 401]


def test_real_client_survives_a_line_that_breaks(tmp_path: Path) -> None:
    """It goes on where the line broke; no answer here is as long as the file."""
    weights = tmp_path / "root" / REPO / NEW / "model.safetensors"
    weights.parent.mkdir(parents=True)
    # The client writes 10 MiB at a time: what breaks before that is lost to it.
    content = SHARD * 50
    weights.write_bytes(content)
    code = f"from huggingface_hub import hf_hub_download; print(hf_hub_download({REPO!r}, 'model.safetensors', cache_dir={str(tmp_path)!r}))"
    with serving(tmp_path / "root", cut=11 << 20) as address:
        with pytest.raises(http.client.IncompleteRead):
            ask(f"{address}/{REPO}/resolve/main/model.safetensors")
        done = run_client(code, address, tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_bytes() == content


def test_real_client_keeps_the_files_of_a_killed_download(root: Path, tmp_path: Path) -> None:
    """The next download fetches only what is missing: the mark in the file that was complete survives."""
    code = f"from huggingface_hub import snapshot_download; print(snapshot_download({REPO!r}, cache_dir={str(tmp_path)!r}, max_workers=1))"
    snapshot = tmp_path / "models--acme--tiny" / "snapshots" / NEW
    with serving(root, rate=len(SHARD) // 20) as slow:
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=client_environment(slow, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + 60
            while not (snapshot / "config.json").exists():
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait(10)
    assert not (snapshot / "model.safetensors").exists()
    (snapshot / "config.json").write_text("marked")
    with serving(root) as address:
        done = run_client(code, address, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (snapshot / "config.json").read_text() == "marked"
    assert (snapshot / "model.safetensors").read_bytes() == SHARD + b"new"
