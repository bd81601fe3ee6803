#!/usr/bin/env python3
"""Entry point of the lab: ``python3 molecule/lab/lab.py --help``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    # The package lies beside this file, whatever folder this is called from.
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    sys.exit(import_module("gb10lab.cli").main())
