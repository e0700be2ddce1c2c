"""Limits of a launch and of an SM of SM100, in bytes, threads and CTAs; counts of a B200.

The engine and the recorder's CUDA runtime take the same numbers: the build runs `limits.py HEADER`, which
writes each as `constexpr int`, `MAX_THREADS` as `kMaxThreads`. This module imports the standard library only.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Shared memory of a CTA with the attribute for more than DEFAULT_SHARED_BYTES, static and dynamic together:
# 227 KiB (cutlass/arch/arch.h, sm100_smem_capacity_bytes; the same on sm_90).
MAX_SHARED_BYTES = 227 * 1024
# CUDA C++ programming guide, technical specifications per compute capability (12.x).
SM120_MAX_SHARED_BYTES = 99 * 1024
DEFAULT_SHARED_BYTES = 48 * 1024
PROCESSOR_SHARED_BYTES = 228 * 1024
RESERVED_SHARED_BYTES = 1024  # of each CTA, for the system: where its own begin (Blackwell tuning guide 1.4)

# CUDA C++ programming guide, technical specifications per compute capability, 10.0.
MAX_THREADS = 1024  # of a CTA
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_CLUSTER = 8  # CTAs of a cluster of portable size
MAX_LARGE_CLUSTER = 16  # with the attribute for clusters of a size that is not portable
PROCESSOR_THREADS = 2048
PROCESSOR_CTAS = 32
REGISTERS = 65536  # of 32 bits, of a CTA and of a processor

PROCESSORS = 148  # of a B200


def header() -> str:
    """The numbers as a C++ header; values that are not a single number are omitted."""
    numbers = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)}
    lines = [f"constexpr int k{name.title().replace('_', '')} = {value};" for name, value in numbers.items()]
    return "\n".join(
        [
            "// Generated from spec/machine/limits.py.",
            "#pragma once",
            "",
            "namespace tileproof::limits {",
            *lines,
            "}  // namespace tileproof::limits",
            "",
        ]
    )


def main() -> None:
    """Writes the header; a file that would not change keeps its time stamp."""
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != header():
        path.write_text(header())


if __name__ == "__main__":
    main()
