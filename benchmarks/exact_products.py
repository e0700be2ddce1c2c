"""What exact products cost on vectors and singly: `python benchmarks/exact_products.py [--pairs 9]`.

Standard normal operands of an instruction, 512 rows and 256 columns, at each level of the processor. The two
ways alternate in the same process; each figure is the median of processor seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from tileproof.spec.machine import kinds

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kit.exact_words import KINDS, LEVELS, Kind, Words, result, typed

ROWS, COLUMNS = 512, 256


def operands(kind: Kind) -> Words:
    """Standard normal values, scale factors of 1."""
    rng, form = np.random.default_rng(0), kinds.format_of(kind.format)
    a, b = (rng.standard_normal(shape) for shape in ((ROWS, form.k), (form.k, COLUMNS)))
    c = typed(rng.standard_normal((ROWS, COLUMNS)), "f16")
    scales = (np.full((ROWS, form.scales), 1, np.float32), np.full((form.scales, COLUMNS), 1, np.float32))
    return Words(kind, c, typed(a, kind.a), typed(b, kind.b), *scales)


def main() -> None:
    """Prints a line per kind and level."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    args = parser.parse_args()
    print("kind                         level  G products/s on vectors      singly  ratio")
    for kind in KINDS:
        drawn = operands(kind)
        for level in LEVELS:
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(args.pairs):
                for carefully in (False, True):
                    start = time.process_time()
                    if result(drawn, level, carefully=carefully) is None:
                        break
                    seconds[carefully].append(time.process_time() - start)
            if not seconds[True]:
                continue
            fast, slow = (drawn.a.size * COLUMNS / median(seconds[way]) / 1e9 for way in (False, True))
            name = f"{kind.format} {kind.a} {kind.b}" + " into f16" * kind.half
            print(f"{name:<28} {level:<6} {fast:>23.2f} {slow:>11.2f} {fast / slow:>6.1f}")


if __name__ == "__main__":
    main()
