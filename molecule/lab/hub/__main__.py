"""The command line of the hub."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from .server import Hub, Settings


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python3 -m hub", description="A local Hugging Face Hub.")
    parser.add_argument("--root", type=Path, required=True, help="folder of the repositories: ORG/NAME/REVISION/...")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--bind", default="0.0.0.0", help="address to listen on")
    parser.add_argument("--rate", type=int, default=0, help="bytes per second for all downloads together (0: no limit)")
    parser.add_argument("--cut", type=int, default=0, help="break each transfer after so many bytes (0: never)")
    parser.add_argument("--token", action="append", default=[], help="the token of a user who is granted nothing")
    parser.add_argument("--quiet", action="store_true", help="do not log requests")
    arguments = parser.parse_args()
    if not arguments.root.is_dir():
        parser.error(f"{arguments.root} is not a folder")
    settings = Settings(
        root=arguments.root,
        tokens=frozenset(arguments.token),
        rate=arguments.rate,
        cut=arguments.cut,
        quiet=arguments.quiet,
    )
    try:
        hub = Hub((arguments.bind, arguments.port), settings)
    except OSError as error:
        parser.error(f"cannot listen on {arguments.bind}:{arguments.port}: {error.strerror}")
    count = len(hub.store.repositories())
    print(f"Hub of {count} models on http://{arguments.bind}:{hub.server_address[1]}", file=sys.stderr, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        hub.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
