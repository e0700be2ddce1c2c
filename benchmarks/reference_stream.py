"""What the reference of many tokens costs: `python benchmarks/reference_stream.py [--tokens 1024]`.

Evaluates delta, dQ and dKV with the bounds of the whole chain (`reference.stream`) for normal values and
distinct keys, on one core. Prints progress on standard error, CPU seconds, and the largest resident
memory beyond what was resident with the inputs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def memory(name: str) -> int:
    """A size of this process in KiB, of /proc/self/status."""
    return next(
        int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith(f"{name}:")
    )


def reset_peak() -> int:
    """Reset the peak of resident memory (proc(5), clear_refs); return what is resident, in KiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def main() -> None:
    """Print one line of figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--topk", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=8192, help="of kv")
    parser.add_argument("--heads", type=int, default=64)
    given = parser.parse_args()

    from tileproof.reference.stream import pieces
    from tileproof.spec.problems.base import Tiling
    from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
    from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK
    from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

    def of(tokens: int) -> SparseCase:
        blocks, some = given.topk // B_TOPK, (Indices("permuted"),) * tokens
        return SparseCase(576, given.rows, blocks, some, values="normal", h_q=given.heads)

    def progress(stage: str, done: int, total: int) -> None:
        if done % max(total // 100, 1) == 0:
            print(f"\r{stage}: {done} of {total}", end="", file=sys.stderr, flush=True)

    stages = ("delta", "dQ", "dKV")
    inputs = of(given.tokens).inputs()
    before = reset_peak()
    start, elements = time.process_time(), 0
    for piece in pieces(inputs, stages, problem=SPARSE_MLA_BWD, tiling=Tiling(B_TOPK, 1), progress=progress):
        elements += piece.known.value.size
    seconds = time.process_time() - start
    grown = (memory("VmHWM") - before) / 1024
    print(
        f"\n{given.tokens} tokens of topk {given.topk}, {given.rows} kv rows: {elements} elements,"
        f" {seconds:.1f} CPU s, at most {grown:.0f} MB beside the inputs"
    )


if __name__ == "__main__":
    main()
