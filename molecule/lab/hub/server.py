"""The HTTP side: routes, errors as the Hub words them, and downloads with redirect, range and ETag."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sys
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from . import api
from .repositories import File, Repository, Store
from .transfer import CHUNK, Throttle, UnsatisfiableRange, parse_range


@dataclass(frozen=True)
class Settings:
    """How one hub behaves."""

    root: Path
    #: Tokens of users without any grant; those that a repository's access.json grants are known as well.
    tokens: frozenset[str] = frozenset()
    rate: int = 0
    #: Cut each transfer after so many bytes, as a bad line would.
    cut: int = 0
    quiet: bool = False
    #: Signs the addresses of large files, as the Hub's storage does.
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(16))


class Refusal(Exception):
    """An answer that is an error, in the Hub's own words."""

    def __init__(self, status: int, message: str, code: str | None = None, commit: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Message": message}
        if code:
            self.headers["X-Error-Code"] = code
        if commit:
            self.headers["X-Repo-Commit"] = commit


class Hub(ThreadingHTTPServer):
    """A server that knows its repositories."""

    daemon_threads = True
    # Clients open eight connections at once; the default backlog of five resets some of them.
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings.root)
        self.throttle = Throttle(settings.rate)
        super().__init__(address, Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up in the middle of a download is a matter of course here."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # typed wider than the base class

    def signature(self, path: str) -> str:
        """The proof that this server gave out the address of a large file."""
        return hmac.new(self.settings.secret, path.encode(), hashlib.sha256).hexdigest()[:32]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Hub
    protocol_version = "HTTP/1.1"
    server_version = "gb10-lab-hub"
    # Headers and body leave in two writes; without this each answer waits 40 ms for the other side's acknowledgement.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer, or refuse as the Hub would."""
        try:
            self._route()
        except Refusal as refusal:
            body = json.dumps({"error": str(refusal)}).encode()
            self._send(refusal.status, {"Content-Type": "application/json", **refusal.headers}, body)

    do_HEAD = do_GET
    do_POST = do_GET

    # ---- routes ----

    def _route(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        # Split before unquoting: a revision may hold an encoded slash.
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = self._token()
        if parts == [""] or parts == ["api", "models"]:
            self._json([{"id": repository.name} for repository in self.server.store.repositories()])
        elif parts == ["api", "whoami-v2"]:
            if token is None:
                raise Refusal(401, "Invalid username or password.")
            self._json({"type": "user", "name": "aurora", "orgs": [], "auth": {"type": "access_token"}})
        elif parts[:2] == ["api", "models"] and len(parts) >= 4:
            self._model(self._repository("/".join(parts[2:4]), token), parts[4:], query, body)
        elif len(parts) >= 5 and parts[2] == "resolve":
            self._resolve(self._repository("/".join(parts[:2]), token), parts[3], "/".join(parts[4:]), token)
        elif parts[0] == "lfs" and len(parts) >= 5:
            self._storage(parts, query)
        else:
            raise Refusal(404, "Sorry, we can't find the page you are looking for.")

    def _model(self, repository: Repository, rest: list[str], query: dict[str, str], body: bytes) -> None:
        store = self.server.store
        what, revision = (rest[0] if rest else "revision"), (rest[1] if len(rest) > 1 else "main")
        if what == "refs":
            self._json(api.refs(repository))
            return
        commit = self._commit(repository, revision)
        if what == "revision":
            blobs = query.get("blobs", "").lower() in ("true", "1")
            self._json(api.model(store, repository, commit, blobs=blobs))
        elif what == "tree":
            recursive = query.get("recursive", "").lower() in ("true", "1")
            rows = api.tree(store.files(repository, commit), "/".join(rest[2:]), recursive=recursive)
            if rows is None:
                raise Refusal(404, "Entry not found", "EntryNotFound", commit)
            self._json(rows)
        elif what == "paths-info" and self.command == "POST":
            paths = self._paths(body)
            self._json(api.paths_info(store.files(repository, commit), paths))
        else:
            raise Refusal(404, "Sorry, we can't find the page you are looking for.")

    def _resolve(self, repository: Repository, revision: str, path: str, token: str | None) -> None:
        commit = self._commit(repository, revision)
        if repository.gated and token not in repository.granted:
            if token is None:
                message = f"Access to model {repository.name} is restricted. You must have access to it and be "
                raise Refusal(401, message + "authenticated to access it. Please log in.", "GatedRepo", commit)
            message = f"Access to model {repository.name} is restricted and you are not in the authorized list."
            raise Refusal(403, message, "GatedRepo", commit)
        file = self.server.store.files(repository, commit).get(path)
        if file is None:
            raise Refusal(404, "Entry not found", "EntryNotFound", commit)
        known = {"X-Repo-Commit": commit, "X-Linked-Etag": f'"{file.etag}"', "X-Linked-Size": str(file.size)}
        if not file.large:
            self._content(file, known)
            return
        target = f"/lfs/{repository.name}/{commit}/{path}"
        host = self.headers.get("Host") or "{}:{}".format(*self.server.server_address[:2])
        address = f"http://{host}{quote(target)}?signature={self.server.signature(target)}"
        self._send(302, {**known, "Location": address, "ETag": f'"{file.etag}"'}, b"Found. Redirecting\n")

    def _storage(self, parts: list[str], query: dict[str, str]) -> None:
        """A large file's own address: who has it was allowed to, so no token is asked for."""
        if not hmac.compare_digest(query.get("signature", ""), self.server.signature("/" + "/".join(parts))):
            raise Refusal(403, "Access denied")
        repository = self.server.store.repository("/".join(parts[1:3]))
        file = self.server.store.files(repository, parts[3]).get("/".join(parts[4:])) if repository else None
        if file is None:
            raise Refusal(404, "The specified key does not exist.")
        # The client follows a redirect within one host before it looks for these.
        known = {"X-Repo-Commit": parts[3], "X-Linked-Etag": f'"{file.etag}"', "X-Linked-Size": str(file.size)}
        self._content(file, known)

    # ---- who asks, and for what ----

    def _token(self) -> str | None:
        """The caller's token; one that nobody has is refused on every route, as the Hub does."""
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if not token or scheme.lower() != "bearer":
            return None
        known = set(self.server.settings.tokens)
        for repository in self.server.store.repositories():
            known |= repository.granted
        if token not in known:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return token

    def _repository(self, name: str, token: str | None) -> Repository:
        repository = self.server.store.repository(name)
        if repository is None:
            # Without a token the Hub does not tell whether a repository exists.
            status, message = (401, "Invalid username or password.") if token is None else (404, "Repository not found")
            raise Refusal(status, message, "RepoNotFound")
        return repository

    def _commit(self, repository: Repository, revision: str) -> str:
        commit = repository.resolve(revision)
        if commit is None:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    def _paths(self, body: bytes) -> list[str]:
        if self.headers.get("Content-Type", "").startswith("application/json"):
            try:
                paths = json.loads(body)["paths"]
            except (ValueError, KeyError, TypeError):
                raise Refusal(400, "paths are missing") from None
            return [str(path) for path in paths]
        return parse_qs(body.decode(errors="replace")).get("paths", [])

    # ---- answers ----

    def _json(self, value: object) -> None:
        self._send(200, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(value).encode())

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _content(self, file: File, headers: dict[str, str]) -> None:
        try:
            part = parse_range(self.headers.get("Range"), file.size)
        except UnsatisfiableRange:
            self._send(416, {"Content-Range": f"bytes */{file.size}"}, b"")
            return
        first, last = part or (0, file.size - 1)
        self.send_response(200 if part is None else 206)
        self.send_header("Content-Type", "application/octet-stream" if file.large else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{file.etag}"')
        if part is not None:
            self.send_header("Content-Range", f"bytes {first}-{last}/{file.size}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        with file.location.open("rb") as stream:
            stream.seek(first)
            left = last - first + 1
            allowed = self.server.settings.cut or left
            while left and allowed > 0:
                chunk = stream.read(min(CHUNK, left, allowed))
                if not chunk:
                    break
                self.server.throttle.wait_for(len(chunk))
                self.wfile.write(chunk)
                left -= len(chunk)
                allowed -= len(chunk)
            # Cut, or the file became shorter: closing the connection is the only way left to say so.
            self.close_connection = self.close_connection or left > 0

    def log_message(self, format: str, *args: object) -> None:
        """One line a request; signatures and tokens are in none of them."""
        if not self.server.settings.quiet:
            line = (format % args).split("?signature=")[0]
            print(f"{self.log_date_time_string()} {self.client_address[0]} {line}", file=sys.stderr, flush=True)
