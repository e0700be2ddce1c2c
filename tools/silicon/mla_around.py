"""The kernels around the sparse MLA backward on inputs of a seed, for a card and for the emulator.

    python -m tileproof.tools.silicon.mla_around FOLDER           # kernels.ptx, the emulator's outputs
    ptxas -arch=sm_90a FOLDER/kernels.ptx -o kernels.cubin
    g++ -O2 -o mla_around benchmarks/silicon/mla_around.cpp -ldl  # needs no CUDA toolkit
    ./mla_around kernels.cubin CARD                               # on the card
    sha256sum CARD/*.bin

Both sides make the inputs by splitmix64. The digests that a card gave are in docs/evidence.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.conformance.api.calls import run
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.sm90.mla_around import launches
from tileproof.spec.machine.types import Array

U64 = npt.NDArray[np.uint64]
TOKENS_AND_HEADS = ((1, 1), (3, 64), (2, 128), (5, 7))
COUNTS = (4096, 4097, 4098, (1 << 18) + 3)  # with each remainder of 4


def mixed(seed: int, count: int) -> U64:
    """The first numbers of splitmix64."""
    z: Array = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> 30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> 27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> 31), np.uint64)


def launch_files(ptx: str = "") -> Iterator[tuple[str, str, LaunchFile]]:
    """Each launch: the name of its file, its output, the launch."""
    for number, (tokens, heads) in enumerate(TOKENS_AND_HEADS):
        bits = mixed(1000 + number, tokens * heads * 512)
        o = (bits & 0x807F) | ((118 + (bits >> 16 & 0xFF) % 12) << 7)
        dO = (bits >> 32 & 0x807F) | ((118 + (bits >> 48 & 0xFF) % 12) << 7)
        first, second = (
            x.astype(np.uint16).view(ml_dtypes.bfloat16).reshape(tokens, heads, 512) for x in (o, dO)
        )
        yield f"delta-{number}", "delta", launches.delta(first, second, ptx)
    for number, count in enumerate(COUNTS):
        given = wide(mixed(2000 + number, count))
        yield f"bf16-{number}", "narrow", launches.convert(given, "bfloat16", ptx)
        yield f"f16-{number}", "narrow", launches.convert(given, "float16", ptx)
        before = np.full(count + 5, 0xDEADBEEF, np.uint32).view(np.float32)
        yield f"clear-{number}", "values", launches.clear(before, count, ptx)


def wide(bits: U64) -> npt.NDArray[np.float32]:
    """f32 of any bits; of four the second beside or at the middle of two bf16, the third of two f16."""
    place = np.arange(bits.size) % 4
    found = bits & 0xFFFFFFFF
    found = np.where(place == 1, (found & 0xFFFF0000) | (0x7FFF + (bits >> 40) % 3), found)
    exponent = (96 + (bits >> 32 & 0xFF) % 50) << 23
    found = np.where(place == 2, (found & 0x807FE000) | exponent | 0x1000, found)
    return found.astype(np.uint32).view(np.float32)


def outputs(ptx: str = "") -> Iterator[tuple[str, bytes]]:
    """The emulator's bytes of each output, by the name of its file."""
    for name, output, launch in launch_files(ptx):
        result = run(launch)
        assert not result.findings, result.findings
        yield name, result.outputs[output].values.tobytes()


def digests(ptx: str = "") -> dict[str, str]:
    """SHA-256 of each output."""
    return {f"{name}.bin": hashlib.sha256(data).hexdigest() for name, data in outputs(ptx)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write kernels.ptx and the emulator's outputs into a folder."""
    parser = argparse.ArgumentParser(prog="python -m tileproof.tools.silicon.mla_around")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernels.ptx").write_text(launches.built().ptx)
    for name, data in outputs():
        (folder / f"{name}.bin").write_bytes(data)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
