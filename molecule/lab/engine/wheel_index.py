"""Lays some of the fetched wheels out as a package index that any static file server can serve (PEP 503).

python3 wheel_index.py LOCK WHEELS TARGET KEY  ->  TARGET/simple/<name>/index.html, TARGET/files/*.whl
"""

from __future__ import annotations

import hashlib
import html
import os
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import quote


def normalised(name: str) -> str:
    """The one spelling of a package's name that an index uses."""
    return re.sub(r"[-_.]+", "-", name).lower()


def page(title: str, links: list[tuple[str, str]]) -> str:
    """A page of links, nothing else."""
    rows = "".join(f'<a href="{html.escape(target)}">{html.escape(text)}</a><br>\n' for target, text in links)
    return f"<!DOCTYPE html>\n<html><head><title>{html.escape(title)}</title></head>\n<body>\n{rows}</body></html>\n"


def main() -> None:
    """Build the tree beside the old one, then put its parts in place: the folder itself stays, since the outside has it mounted."""
    lock, wheels, target, key = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    pins = [line.split("==") for line in lock.read_text().split()]
    building = target.with_name(target.name + ".new")
    shutil.rmtree(building, ignore_errors=True)
    (building / "files").mkdir(parents=True)
    for name, version in pins:
        stem = f"{re.sub(r'[-_.]+', '_', name)}-{version}-"
        found = sorted(path for path in wheels.glob("*.whl") if path.name.lower().startswith(stem.lower()))
        if not found:
            raise SystemExit(f"no wheel of {name} {version} lies in {wheels}")
        links = []
        for wheel in found:
            shutil.copyfile(wheel, building / "files" / wheel.name)
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            links.append((f"../../files/{quote(wheel.name)}#sha256={digest}", wheel.name))
        folder = building / "simple" / normalised(name)
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(page(name, links))
    names = sorted(normalised(name) for name, _ in pins)
    (building / "simple" / "index.html").write_text(page("simple", [(f"{name}/", name) for name in names]))
    (building / ".key").write_text(key + "\n")
    target.mkdir(exist_ok=True)
    for part in ("files", "simple"):
        shutil.rmtree(target / part, ignore_errors=True)
    for part in ("files", "simple", ".key"):
        os.replace(building / part, target / part)
    building.rmdir()


if __name__ == "__main__":
    main()
