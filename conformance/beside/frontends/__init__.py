"""Frontends: kernels of other compilers' languages, launched on the emulator by their own host code."""
