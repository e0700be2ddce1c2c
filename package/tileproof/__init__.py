"""Tileproof: stage-by-stage, tile-by-tile verification of attention kernels for NVIDIA SM100, without a GPU.

The subpackages are `spec`, `reference`, `kernels`, `emulator`, `conformance` and `tools`; in a checkout they
are the folders of these names beside `package`. The command line is `tileproof`, or `python -m tileproof`.
"""

__version__ = "0.1.0"
