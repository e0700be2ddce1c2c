"""Runs a Triton case on Triton's interpreter: ``python -m tileproof.tools.bugs.interpreted CASE [MISTAKE]``.

``--viz`` adds the sanitizer of Triton-Viz. Prints `right` or `wrong`: the outcome of the program's own test
of values, which is of no use with ``--viz``: the sanitizer computes addresses, not values.
"""

from __future__ import annotations

import argparse
import os

os.environ["TRITON_INTERPRET"] = "1"  # read where a kernel is decorated

from tileproof.tools.bugs import triton_kernels, triton_programs


def main() -> None:
    """Run a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=triton_programs.CASES)
    parser.add_argument("mistake", nargs="?", default="")
    parser.add_argument("--viz", action="store_true")
    options = parser.parse_args()
    if options.viz:
        import triton_viz  # type: ignore[import-not-found]

        for name in triton_programs.CASES:
            traced = triton_viz.trace("sanitizer")(getattr(triton_kernels, name))
            setattr(triton_kernels, name, traced)
    program, _ = triton_programs.CASES[options.case]
    print("right" if program(options.mistake) else "wrong")


if __name__ == "__main__":
    main()
