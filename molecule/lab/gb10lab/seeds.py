"""Seeding a new node: the owner's containers and the HF cache, as its profile describes them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from .config import LAB_MODEL, MODELS, USER, USER_HOME, Node
from .docker import docker_argv, exec_in
from .images import ensure_tiny_image
from .nodes import SEEDED, Files
from .profiles import Profile
from .shell import pipe

HF_CACHE = f"{USER_HOME}/.cache/huggingface"


def seed(node: Node, profile: Profile) -> None:
    """Do everything that needs a running node; the marker is written last, so an aborted seeding is done again."""
    wanted = profile.settings["seed"]
    if wanted["containers"]:
        _containers(node, wanted["containers"])
    _hf_cache(node, wanted["hf_cache"])
    if not wanted["docker_group"]:
        exec_in(node.name, "gpasswd", "--delete", USER, "docker")
    exec_in(node.name, "sh", "-c", f"echo {profile.name} >{SEEDED}")


def _containers(node: Node, wanted: list[dict[str, Any]]) -> None:
    tiny = ensure_tiny_image()
    pipe(docker_argv("save", tiny), docker_argv("exec", "-i", node.name, "docker", "load", "-q"))
    lines = ["set -e"]
    for name in dict.fromkeys(one["image"] for one in wanted):
        lines.append(f"docker tag {tiny} {name}")
    lines.append(f"docker rmi {tiny} >/dev/null")
    for one in wanted:
        lines.append(f"docker rm -f {one['name']} >/dev/null 2>&1 || true")
        lines.append(_run_line(one))
    exec_in(node.name, "sh", "-c", "\n".join(lines), timeout=120)


def _run_line(one: dict[str, Any]) -> str:
    """A container that holds memory and answers on its port with the model it claims to serve."""
    models = json.dumps({"object": "list", "data": [{"id": one["model"], "object": "model", "owned_by": "vllm"}]})
    serve = f"mkdir -p /www/v1 && echo ok >/www/health && echo '{models}' >/www/v1/models "
    # A first process that ends when it is told to: a real server does, a bare httpd would be killed after ten seconds.
    serve += f"&& trap 'exit 0' TERM && {{ httpd -f -p {one['port']} -h /www & wait; }}"
    options = " ".join(one["options"])
    labels = f"--label lab.memory_gib={one['memory_gib']} --label lab.process={one['process']}"
    quoted = serve.replace("'", "'\\''")
    return f"docker run -d --name {one['name']} --restart unless-stopped {options} {labels} {one['image']} sh -c '{quoted}' >/dev/null"


def _model() -> tuple[str, dict[str, bytes]]:
    """Revision and files of the lab's model as the hub serves them; made-up ones while the model is not built."""
    repository = MODELS / LAB_MODEL
    reference = repository / "main"
    if reference.is_file():
        revision = reference.read_text().strip()
        found = {path.name: path.read_bytes() for path in sorted((repository / revision).iterdir()) if path.is_file()}
        return revision, found
    made_up = {"config.json": b'{"model_type": "qwen3"}\n', "model-00001-of-00002.safetensors": b"\0" * 4096}
    return hashlib.sha1(LAB_MODEL.encode()).hexdigest(), {**made_up, "model-00002-of-00002.safetensors": b"\0" * 8192}


def _blob_name(name: str, content: bytes) -> str:
    """The name that the Hub's client gives a blob: sha256 for large files, git's own for the others."""
    if name.endswith(".safetensors"):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _hf_cache(node: Node, kind: str) -> None:
    """An interrupted download: some files and the first shard are there, the second stopped half-way, the rest never began."""
    if kind == "empty":
        return
    revision, contents = _model()
    shards = [name for name in contents if name.endswith(".safetensors")]
    whole = [name for name in contents if name.endswith(".json") and name != "tokenizer.json"] + shards[:1]
    repo = f"{HF_CACHE}/hub/models--{LAB_MODEL.replace('/', '--')}"
    files = Files()
    files.add(f"{repo}/refs/main", revision, uid=1000)
    files.owned_parents(f"{repo}/snapshots/{revision}/x", 1000)
    for name in whole:
        blob = _blob_name(name, contents[name])
        files.add(f"{repo}/blobs/{blob}", contents[name], uid=1000)
        files.link(f"{repo}/snapshots/{revision}/{name}", f"../../blobs/{blob}", uid=1000)
    half = contents[shards[1]][: len(contents[shards[1]]) // 2]
    files.add(f"{repo}/blobs/{_blob_name(shards[1], contents[shards[1]])}.incomplete", half, uid=1000)
    files.send(node.name)
