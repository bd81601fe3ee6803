# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The all-reduce that runs inside the engine's image, on every rank at once."""

from __future__ import annotations

from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nccl import MARK

#: Arguments: seconds until it ends itself, rank, world size, address and port of rank 0, bytes of the large message.
#: Prints one line of JSON. The watchdog of faulthandler ends the process even while NCCL hangs in C, and with it its container.
SCRIPT = f"""
import datetime, faulthandler, json, sys, time

limit, rank, world, address, port, large = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5], int(sys.argv[6])
faulthandler.dump_traceback_later(limit, exit=True)


def say(**facts):
    print("\\n" + json.dumps({{"{MARK}": 1, "rank": rank, **facts}}), flush=True)


def measure(torch, dist, size, warm, rounds):
    data = torch.ones(size // 4, dtype=torch.float32, device="cuda")
    dist.all_reduce(data)
    correct = bool((data == world).all())
    data.zero_()
    for _ in range(warm):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / rounds
    return correct, {{"size": size, "seconds": seconds, "busbw": size / seconds * 2 * (world - 1) / world / 1e9}}


def main():
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        return say(skipped=f"this image has no torch ({{error}})")
    if torch.version.cuda is None:
        return say(skipped=f"torch {{torch.__version__}} of this image is built without CUDA", torch=torch.__version__)
    if not torch.cuda.is_available():
        return say(skipped=f"torch {{torch.__version__}} of this image sees no GPU", torch=torch.__version__)
    if not (dist.is_available() and dist.is_nccl_available()):
        return say(skipped=f"torch {{torch.__version__}} of this image is built without NCCL", torch=torch.__version__)
    facts = {{"torch": torch.__version__, "nccl": ".".join(str(part) for part in torch.cuda.nccl.version())}}
    try:
        torch.cuda.set_device(0)
        dist.init_process_group(
            "nccl",
            init_method=f"tcp://{{address}}:{{port}}",
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(seconds=limit * 0.8),
        )
        first, small = measure(torch, dist, 4096, 20, 100)
        second, big = measure(torch, dist, large, 5, 20)
        say(correct=first and second, runs=[small, big], **facts)
        dist.destroy_process_group()
    except Exception as error:
        say(error=f"{{type(error).__name__}}: {{error}}"[:400], **facts)


main()
"""
