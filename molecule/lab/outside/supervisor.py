"""The outside world's only process: keeps the registry, the hub and the wheel index running.

Runs inside the container ``spark-outside`` with nothing but the standard library. A service whose files are not
there yet is waited for; one that ends is started again, at most once in two seconds.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

HOME = Path("/srv/lab")


@dataclass
class Service:
    """One program, the file without which it makes no sense, and its running process."""

    name: str
    argv: list[str]
    needs: Path
    process: subprocess.Popen[bytes] | None = None
    waiting_said: bool = False

    def keep(self) -> None:
        """Start the program if it is not running."""
        if self.process is not None:
            if self.process.poll() is None:
                return
            print(f"{self.name} ended with {self.process.returncode}", flush=True)
            self.process = None
        if not self.needs.exists():
            if not self.waiting_said:
                print(f"{self.name} waits for {self.needs}", flush=True)
                self.waiting_said = True
            return
        print(f"{self.name} starts", flush=True)
        self.process = subprocess.Popen(self.argv, cwd=HOME, stdin=subprocess.DEVNULL)


SERVICES = [
    Service("registry", ["docker-registry", "serve", str(HOME / "registry.yml")], HOME / "registry.yml"),
    Service("hub", [sys.executable, "-m", "hub", "--root", "/srv/models", "--port", "8080"], HOME / "hub" / "__main__.py"),
    Service("wheels", [sys.executable, "-m", "http.server", "8081", "--directory", "/srv/wheels"], Path("/srv/wheels")),
]


def stop(signum: int, frame: FrameType | None) -> None:
    """End every service and then ourselves."""
    for service in SERVICES:
        if service.process is not None:
            service.process.terminate()
    sys.exit(0)


def renew(signum: int, frame: FrameType | None) -> None:
    """New hub code has arrived: end the old hub, the loop starts the new one."""
    for service in SERVICES:
        if service.name == "hub" and service.process is not None:
            service.process.terminate()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, renew)
    while True:
        for one in SERVICES:
            one.keep()
        time.sleep(2 if any(one.process is None for one in SERVICES) else 0.5)
