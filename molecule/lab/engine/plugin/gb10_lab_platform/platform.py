"""The CPU platform with a GPU's place in Ray."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vllm.platforms.cpu import CpuPlatform  # type: ignore[import-not-found]  # is in the image only

if TYPE_CHECKING:
    from vllm.config import VllmConfig  # type: ignore[import-not-found]  # is in the image only


class LabPlatform(CpuPlatform):  # type: ignore[misc]  # of a class that mypy cannot see
    """One emulated GB10: Ray schedules it as a GPU, collectives go over the network."""

    ray_device_key = "GPU"
    # The sampler's small functions would otherwise be compiled by Inductor and g++ during the first completion.
    simple_compile_backend = "eager"

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        """Fork where the CPU platform spawns: a new process would import vLLM again, 10 s of CPU time each.

        Spawning is for binding OpenMP threads to cores; the lab has one thread a rank and binds none.
        """
        super().check_and_update_config(vllm_config)
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name the communicator that never uses shared memory."""
        return "gb10_lab_platform.communicator.LabCommunicator"
