# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image, the model in the cache, and the disk."""

from __future__ import annotations

from healthy import CACHE, HUB, cache, image, images
from replay import GIB, Facts, Patch, all_of, answers, fact, holds, rewritten, rows
from stories import SINGLE, fires, quiet

REFERENCE = "vllm/vllm-openai:v0.27.1"
DIGEST = "vllm/vllm-openai@sha256:0a51ea5b4ae2dc5d81890e5173f54203d2a3ae0cfffe51b8fd2afd4391bfd967"
REVISION = "a099dee70ccfcd8d5dda56aaa0b60cb8ecadabc9"
REPO = "Qwen/Qwen3.5-122B-A10B-FP8"
FOLDER = "hub/models--Qwen--Qwen3.5-122B-A10B-FP8"
#: The image as it is, without one that is derived from it.
PLAIN: Facts = {"image": {"ray": "included", "digest": None}}
MOVING: Facts = {"image": {"ray": "included", "digest": None, "reference": "vllm/vllm-openai:cu130-nightly"}}
DF = ("df", "--block-size=1", "--output=fstype,size,avail,iavail,target,file", "/")


def present(env: tuple[str, ...] = (), **changes: object) -> Patch:
    """The recipe's image is there."""
    return images(image(REFERENCE, digest=DIGEST, env=env, **changes))


def model(*files: str, size: int = 5 * 10**9, owner: str = "user", revision: str = REVISION, more: tuple[str, ...] = (), **changes: object) -> Patch:
    """The model in the cache: these files of a snapshot, and further paths below its folder."""
    lines = [(f"f {FOLDER}/snapshots/{revision}/{name}", size, owner) for name in files]
    lines += [(f"f {FOLDER}/{path}", 40, "user") for path in more]
    return cache(*lines, **changes)


WHOLE = model("config.json", "model.safetensors")
PART = model("config.json", "model-00001-of-00004.safetensors")
BLOB = f"models--{REPO.replace('/', '--')}/blobs/0356348691823997d56b40ff7b97e97a03542a1292c0630a7c5721bff49b0ca5.incomplete"
LOCK = f".locks/models--{REPO.replace('/', '--')}/0356348691823997d56b40ff7b97e97a03542a1292c0630a7c5721bff49b0ca5.lock"
NOW = 1777973069.25


def downloading(age: float, lock: bool = False, held: bool = False) -> Patch:
    """A download that last grew so many seconds ago, and perhaps its lock."""
    lines = f"{NOW - age}\t77\t{BLOB}\n" + (f"{NOW - age}\t78\t{LOCK}\n" if lock else "")
    locks = "1: FLOCK  ADVISORY  WRITE 4711 103:02:78 0 EOF\n" if held else ""
    part = model("config.json", more=(BLOB.partition("/")[2],), downloads=lines)
    return all_of(part, holds("/proc/locks", locks))


def main(revision: str) -> Patch:
    """What the branch main of the model is in the cache."""
    files = model("config.json", "model.safetensors", more=("refs/main",))
    return all_of(files, holds(f"{CACHE}/{FOLDER}/refs/main", f"{revision}\n"))


def disk(free: int = 3000 * GIB, inodes: int = 249000000, kind: str = "ext4") -> Patch:
    """The one file system of the machine."""
    mounts = ("/", "/var/lib/docker", "/home/user", "/home")
    return answers(
        *DF, out="Type 1B-blocks Avail IFree Mounted on File\n" + "".join(f"{kind} {3700 * GIB} {free} {inodes} / {path}\n" for path in mounts)
    )


CONTAINERD = rows(lambda info: info.update(Driver="overlayfs", DriverStatus=[["driver-type", "io.containerd.snapshotter.v1"]]), "docker", "info")

MISNAMED = (f"f {FOLDER.replace('Qwen--', 'Qwen-')}/snapshots/{REVISION}/config.json", 5, "user")
#: No collector reads the second variable yet.
DISABLED = {"NVIDIA_REQUIRE_CUDA": "cuda>=13.1", "NVIDIA_DISABLE_REQUIRE": "1"}

CASES = [
    fires("image.missing", "is pulled and gb10/qwen3.5-122b-a10b-fp8-ray:[0-9a-f]{12} made from it"),
    fires("image.missing", "spark-worker does not .* comes from spark-head over the fabric"),
    quiet("image.missing", overrides=PLAIN, both=(present(),)),
    fires(
        "image.differs",
        "on spark-worker is not the image",
        present(layers=("1", "2")),
        worker=(images(image(REFERENCE, 2, layers=("1", "3"))),),
        overrides=PLAIN,
    ),
    fires(
        "image.differs",
        "by its content: their image stores differ",
        present(layers=("1", "2")),
        worker=(images(image(REFERENCE, 2, layers=("1", "3"))), CONTAINERD),
        overrides=PLAIN,
    ),
    # One image in Docker's two stores: two ids, the same digest, or the same layers.
    quiet("image.differs", present(), worker=(images(image(REFERENCE, 2, digest=DIGEST)), CONTAINERD), overrides=PLAIN),
    quiet("image.differs", present(layers=("1", "2")), worker=(images(image(REFERENCE, 2, layers=("1", "2"))), CONTAINERD), overrides=PLAIN),
    # Neither digest nor layers: nobody can tell, so nobody says it.
    quiet("image.differs", present(), worker=(images(image(REFERENCE, 2)),), overrides=PLAIN),
    fires("image.store_differs", "spark-head overlay2 and spark-worker containerd", worker=(CONTAINERD,)),
    quiet("image.store_differs", both=(CONTAINERD,)),
    fires("image.moving_tag", "cu130-nightly may be another image tomorrow", overrides=MOVING),
    quiet("image.moving_tag", overrides=PLAIN),
    fires("image.no_digest", "is named by a tag alone", overrides=PLAIN),
    quiet("image.no_digest", overrides=MOVING),
    quiet("image.no_digest"),
    fires("image.architecture", "is made for amd64, the machine is arm64.*--platform linux/arm64", present(arch="amd64"), overrides=PLAIN),
    quiet("image.architecture", present(), overrides=PLAIN),
    fires(
        "image.driver_unmet",
        r"asks for cuda>=13.1; spark-head has driver 580.142 with CUDA 13.0",
        present(("NVIDIA_REQUIRE_CUDA=cuda>=13.1",)),
        overrides=PLAIN,
    ),
    fires("image.driver_unmet", r"asks for driver>=535,driver<576", present(("NVIDIA_REQUIRE_CUDA=driver>=535,driver<576",)), overrides=PLAIN),
    quiet(
        "image.driver_unmet", present(("NVIDIA_REQUIRE_CUDA=cuda>=13.1 brand=tesla,driver>=535,driver<536 driver>=580,driver<581",)), overrides=PLAIN
    ),
    quiet("image.driver_unmet", fact("docker.images", [{"tags": [REFERENCE], "environment": DISABLED}]), overrides=PLAIN),
    quiet("image.driver_unmet", present(("NVIDIA_REQUIRE_CUDA=cuda>=13.1",)), answers("nvidia-smi", "--version", rc=9), overrides=PLAIN),
    fires(
        "image.driver_newer",
        "built for driver 590.48.01 or later, spark-head has 580.142",
        present(("CUDA_DRIVER_VERSION=590.48.01",)),
        overrides=PLAIN,
    ),
    quiet("image.driver_newer", present(("CUDA_DRIVER_VERSION=580.159.03",)), overrides=PLAIN),
    fires("image.cuda_newer", "has CUDA 13.2.0, the driver of spark-head has 13.0", present(("CUDA_VERSION=13.2.0",)), overrides=PLAIN),
    quiet("image.cuda_newer", present(("CUDA_VERSION=13.0.2",)), overrides=PLAIN),
    quiet("image.cuda_newer", present(("CUDA_VERSION=13.2.0", "CUDA_DRIVER_VERSION=590.48.01")), overrides=PLAIN),
    fires("model.missing", r"spark-head .* downloaded \(118.3 GiB in all\)"),
    fires("model.missing", "spark-worker .* sent from spark-head over the fabric", WHOLE),
    quiet("model.missing", both=(WHOLE,)),
    fires("model.incomplete", "model-00002-of-00004.safetensors, model-00003-of-00004.safetensors and model-00004", PART),
    fires("model.incomplete", "has an index that cannot be read", model("config.json", "model.safetensors", "model.safetensors.index.json")),
    quiet("model.incomplete", WHOLE),
    fires(
        "model.misnamed",
        "models--Qwen-Qwen3.5-122B-A10B-FP8 .*looks like.*mv ",
        cache(MISNAMED),
    ),
    quiet("model.misnamed", cache(MISNAMED, (f"f {FOLDER}/snapshots/{REVISION}/config.json", 5, "user"))),
    quiet("model.misnamed", cache((f"f {FOLDER.replace('122B', '35B')}/snapshots/{REVISION}/config.json", 5, "user"))),
    fires(
        "model.revision_differs",
        "another revision on each node: spark-head b{12} and spark-worker a099dee70ccf",
        main("b" * 40),
        worker=(main(REVISION),),
    ),
    quiet("model.revision_differs", both=(main(REVISION),)),
    quiet("model.revision_differs", main(REVISION)),
    fires("model.too_large", "118.3 GiB of 121.6 GiB", alone=True, overrides={**SINGLE, "model": {"size": 127 * 10**9}}),
    quiet("model.too_large", alone=True, overrides={**SINGLE, "model": {"size": 80 * 10**9}}),
    fires("model.large", "leave little for the KV cache", alone=True, overrides={**SINGLE, "model": {"size": 80 * 10**9}}),
    quiet("model.large"),
    quiet("model.large", alone=True, overrides={**SINGLE, "model": {"size": 127 * 10**9}}),
    fires("model.cache_unwritable", "which belongs to root.*", cache((f"f {FOLDER}/refs/main", 40, "root"), owner="root", writable="")),
    fires("model.cache_unwritable", "sudo chown -R user", model("config.json", writable="")),
    quiet("model.cache_unwritable", model("config.json", "model.safetensors", writable="")),
    fires("model.foreign_files", "2 files of .* belong to another user than user", model("config.json", "model.safetensors", owner="root")),
    quiet("model.foreign_files", WHOLE),
    quiet("model.foreign_files", model("config.json", owner="root", writable="")),
    fires(
        "model.cache_network",
        "is on nfs4",
        WHOLE,
        answers("df", out=f"Type 1B-blocks Avail IFree Mounted on File\nnfs4 1 {3000 * GIB} 1 /home {CACHE}\n"),
    ),
    quiet("model.cache_network", WHOLE),
    fires("model.download_stalled", "did not grow for 25 minutes.*HF_HUB_DISABLE_XET=1", downloading(1500)),
    quiet("model.download_stalled", downloading(60)),
    fires("model.lock_held", rf"holds 1 lock of.*{HUB}/.locks.*Never remove a lock that is held", downloading(60, lock=True, held=True)),
    quiet("model.lock_held", downloading(60, lock=True)),
    fires("model.lock_orphan", rf"Nobody holds 1 lock of.*`rm {HUB}/.locks", downloading(1500, lock=True)),
    quiet("model.lock_orphan", downloading(60, lock=True, held=True)),
    fires("model.offline", "HF_HUB_OFFLINE=1 is set", rewritten("/proc/self/environ", "USER=user\0", "USER=user\0HF_HUB_OFFLINE=1\0")),
    quiet("model.offline", worker=(rewritten("/proc/self/environ", "USER=user\0", "USER=user\0HF_HUB_OFFLINE=1\0"),)),
    quiet("model.offline", rewritten("/proc/self/environ", "USER=user\0", "USER=user\0HF_HUB_OFFLINE=0\0")),
    fires("disk.too_small", "140.0 GiB free; the model needs 118.3 GiB and the image needs", disk(140 * GIB)),
    quiet("disk.too_small", disk(160 * GIB)),
    quiet("disk.too_small", disk(45 * GIB), both=(WHOLE,)),
    fires("disk.no_inodes", "can hold 1200 more files", disk(inodes=1200)),
    quiet("disk.no_inodes", disk(inodes=0, kind="btrfs")),
    quiet("disk.no_inodes", disk(inodes=900000)),
]
