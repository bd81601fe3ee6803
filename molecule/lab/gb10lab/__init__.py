"""The emulated twin: two NVIDIA DGX Sparks on one machine, real in everything but the silicon."""
