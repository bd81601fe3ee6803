"""The lab's ssh key and the nodes' host keys: made once, kept in the cache, so that a known_hosts stays valid."""

from __future__ import annotations

from pathlib import Path

from .config import HEAD, HOST_KEYS, KEY, KNOWN_HOSTS, NODES, STATE, WORKER, Node
from .shell import run


def _keygen(path: Path, comment: str, kind: str = "ed25519") -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and path.with_name(path.name + ".pub").exists():
        return
    for leftover in (path, path.with_name(path.name + ".pub")):
        leftover.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", comment, "-f", str(path)])
    path.chmod(0o600)


def ensure_keys() -> None:
    """Make the user's key and one pair of host keys a node unless they are there."""
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    _keygen(KEY, "lab user")
    for node in NODES:
        for kind in ("ed25519", "ecdsa"):
            _keygen(HOST_KEYS / node.name / f"ssh_host_{kind}_key", f"root@{node.name}", kind)
    _know_hosts()


def _know_hosts() -> None:
    """Our lines replace older ones for the same addresses; what a client has added for other names stays."""
    known = [(HEAD, HEAD.management), (HEAD, HEAD.rail_address), (WORKER, WORKER.rail_address)]
    ours = [f"{address} {key}" for node, address in known for key in _public_host_keys(node)]
    found = KNOWN_HOSTS.read_text().splitlines() if KNOWN_HOSTS.exists() else []
    if not set(ours) <= set(found):
        addresses = {address for _, address in known}
        kept = [line for line in found if line and line.split()[0] not in addresses]
        KNOWN_HOSTS.write_text("\n".join(ours + kept) + "\n")


def _public_host_keys(node: Node) -> list[str]:
    paths = sorted((HOST_KEYS / node.name).glob("*.pub"))
    return [" ".join(path.read_text().split()[:2]) for path in paths]


def lab_public_key() -> str:
    """The line for authorized_keys."""
    return KEY.with_name(KEY.name + ".pub").read_text()


def host_key_files(node_name: str) -> list[tuple[str, bytes, int]]:
    """Name, content and mode of every host key file of a node."""
    paths = sorted((HOST_KEYS / node_name).iterdir())
    return [(path.name, path.read_bytes(), 0o644 if path.suffix == ".pub" else 0o600) for path in paths]
