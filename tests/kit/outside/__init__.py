"""Kernels that were not written for Tileproof, and other compilers' output, on the emulator."""
