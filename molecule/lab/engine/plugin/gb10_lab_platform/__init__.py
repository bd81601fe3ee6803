"""A vLLM platform plugin: the CPU plays the GPU that Ray counts and the machine that a cable separates from its twin.

vLLM's own CPU platform declares no Ray resource and lets tensor-parallel ranks talk through shared memory. On two
Sparks neither holds, and the lab is to be like them without the product knowing it.
"""

from __future__ import annotations


def register() -> str:
    """Name the platform class; vLLM imports it when it is ready to."""
    return "gb10_lab_platform.platform.LabPlatform"
