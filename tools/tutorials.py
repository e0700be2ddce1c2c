"""Tutorials of Triton and Gluon in an `emulate()` block: `python -m tileproof.tools.tutorials FILE...`.

A tutorial runs as a program, unmodified but for `--replace OLD NEW` (its sizes are a card's) and without its
benchmarks. It compares its values itself. Tensors that it asks for on a GPU are made on the CPU. Nothing of
the tutorials is kept here.
"""

from __future__ import annotations

import argparse
import contextlib
import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tileproof.tools.labelled_gluon import on_the_cpu


class _Benchmark:
    """What `triton.testing.perf_report` makes of a function: here, nothing runs."""

    def run(self, *_: object, **__: object) -> None:
        """Do nothing."""

    __call__ = run


@contextlib.contextmanager
def without_benchmarks() -> Iterator[None]:
    """`triton.testing` measures nothing."""
    import triton.testing

    def report(*_: object, **__: object) -> Callable[[object], _Benchmark]:
        return lambda function: _Benchmark()

    names = ("perf_report", "do_bench", "do_bench_cudagraph")
    before = {name: getattr(triton.testing, name) for name in names}
    triton.testing.perf_report = report
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = lambda *_, **__: 1.0
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(triton.testing, name, value)


def run(file: Path, replacements: list[tuple[str, str]], arguments: list[str]) -> str:
    """What became of a tutorial: a line, and the errors of its kernels."""
    import tileproof.triton

    text = file.read_text()
    for old, new in replacements:
        if old not in text:
            return f"{file.name}: `{old}` does not occur"
        text = text.replace(old, new)
    began, ended, block = time.monotonic(), "ended", None
    argv, sys.argv = sys.argv, [file.name, *arguments]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file.name
        path.write_text(text)
        try:
            with on_the_cpu(), without_benchmarks(), tileproof.triton.emulate(raises=False) as block:
                runpy.run_path(str(path), run_name="__main__")
        except SystemExit as exit_:
            ended = f"exit {exit_.code}"
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"
        finally:
            sys.argv = argv
    launches, errors = (len(block.launches), block.errors) if block else (0, ())
    lines = [
        f"{file.name}: {ended}, {launches} launches, {len(errors)} errors, {time.monotonic() - began:.0f} s"
    ]
    return "\n".join([*lines, block.text(errors)] if block and errors else lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="+", help="tutorials")
    parser.add_argument(
        "--replace", action="append", nargs=2, default=[], metavar=("OLD", "NEW"), help="text, as a size"
    )
    parser.add_argument("--argument", action="append", default=[], help="of the tutorial's command line")
    given = parser.parse_args()
    for file in given.file:
        print(run(file, [(old, new) for old, new in given.replace], given.argument), flush=True)


if __name__ == "__main__":
    main()
