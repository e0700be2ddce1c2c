"""Kernels for sm_90: the same PTX runs on a Hopper card and on the emulator, which models SM100."""
