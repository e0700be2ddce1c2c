"""Kernels for sm_90: the same PTX runs on a Hopper card and on SM100, which the emulator is."""
