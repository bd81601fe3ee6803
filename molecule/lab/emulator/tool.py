"""One program under many names: which tool it is, its own name says."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from .common import profile


def _tool(name: str) -> Callable[[dict[str, Any], list[str]], int]:
    if name == "nvidia-smi":
        from . import smi

        return smi.main
    if name in ("lspci", "ethtool", "dmidecode", "nvidia-ctk"):
        from . import host

        found: Callable[[dict[str, Any], list[str]], int] = getattr(host, name.replace("-", "_"))
        return found
    from . import rdma

    chosen: Callable[[dict[str, Any], list[str]], int] = getattr(rdma, name)
    return chosen


def main() -> int:
    """Answer as the tool by whose name we were called; a profile may make it fail, hang or be missing."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    name = os.path.basename(sys.argv[0])
    settings = profile()
    # A degraded machine: {"tools": {"nvidia-smi": {"sleep": 400}}} or {"stdout": "...", "stderr": "...", "rc": 6}.
    fault = settings["tools"].get(name)
    if fault is not None:
        time.sleep(fault.get("sleep", 0))
        sys.stdout.write(fault.get("stdout", ""))
        sys.stderr.write(fault.get("stderr", ""))
        if fault.keys() - {"sleep"}:
            return int(fault.get("rc", 0))
    return _tool(name)(settings, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
