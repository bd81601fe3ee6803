"""Collectives that cross the rail, as NCCL's do between two Sparks."""

from __future__ import annotations

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator  # type: ignore[import-not-found]  # is in the image only


class LabCommunicator(CpuCommunicator):  # type: ignore[misc]  # of a class that mypy cannot see
    """Gloo over the network even where the ranks could share memory."""

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        return False
