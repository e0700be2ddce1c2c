"""Compares random kernels on the emulator: from their PTX, and from ptxas's machine code.

    python -m tileproof.tools.silicon.fuzz.compare EVIDENCE.json.xz --kernels 10240 --jobs 2

Needs no card: machine code is read back as PTX (read_back.py). A kernel whose code of -O3 gives other words
than its PTX is read at -O0 as well, the referee, and reduced. Where -O0 gives the words of the PTX, the
optimiser changed them: bits of a NaN that PTX leaves open, or wrong code. Otherwise the reading, the emulator
or PTX's own freedom is the cause.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click
import numpy as np
from tileproof.kernels import toolchain
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject
from tileproof.tools import evidence
from tileproof.tools.silicon.fuzz import emulated, read_back
from tileproof.tools.silicon.fuzz.build import ARCH, cubin_of, ptx_of
from tileproof.tools.silicon.fuzz.program import RandomKernel, program
from tileproof.tools.silicon.fuzz.reduce import reduced

# Lane by lane; what lanes exchange and atomics are for a card.
FAMILIES = ("integer", "packed", "float", "half", "small")
BATCH = 128
HEADER = f".version 9.0\n.target {ARCH}\n.address_size 64\n"
Words = np.ndarray | str
_FIELDS = {
    "f32": ((0, 0x7F800000, 0x7FFFFFFF),),
    "f64": ((0, 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF),),
    "f16": ((0, 0x7C00, 0x7FFF),),
    "bf16": ((0, 0x7F80, 0x7FFF),),
}


def read_words(name: str, code: list[read_back.SassLine | str], given: np.ndarray | None = None) -> Words:
    """What the machine code writes on these inputs, or why it was not read."""
    try:
        text = HEADER + read_back.ptx_of(name, code)
    except read_back.NotRead as why:
        return "not read: " + re.sub(r"\d+", "#", str(why)).split(" ")[0]
    try:
        return emulated.results(text, [name], given, struct=True)[name]
    except TileproofError as error:
        return "not read: " + str(error).splitlines()[0]


def words_at(programs: Sequence[RandomKernel], level: int) -> list[tuple[Words, Words]]:
    """For each kernel what its PTX gives, and its machine code at a level of ptxas."""
    ptx = ptx_of(programs)
    want = emulated.results(ptx, [p.name for p in programs])
    code = read_back.lines_of(cubin_of(ptx, level))
    return [(want[p.name], read_words(p.name, code[p.name])) for p in programs]


def differ(want: Words, got: Words) -> bool:
    """Whether both were run and any word differs."""
    return not isinstance(want, str) and not isinstance(got, str) and bool((want != got).any())


def only_nan(kind: str, want: np.ndarray, got: np.ndarray) -> bool:
    """Whether the words of one output differ in bits of NaN only."""
    base, halves = kind.removesuffix("x2"), 2 if kind.endswith("x2") else 1
    if base not in _FIELDS:
        return bool((want == got).all())
    _, infinity, mask = _FIELDS[base][0]
    for half in range(halves):
        a, b = ((w >> np.uint64(16 * half)) & np.uint64(0xFFFF) if halves == 2 else w for w in (want, got))
        unlike = a != b
        nan = ((a & np.uint64(mask)) > infinity) & ((b & np.uint64(mask)) > infinity)
        if (unlike & ~nan).any():
            return False
    return True


def batch(seed: str, first: int, count: int) -> UncheckedObject:
    """The kernels of one batch: counts, and each difference reduced."""
    programs = [program(f"{seed}/{n}", f"k{n}", FAMILIES) for n in range(first, first + count)]
    tally: Counter[str] = Counter()
    found = []
    for kernel, (want, got) in zip(programs, words_at(programs, 3), strict=True):
        if isinstance(want, str):
            tally["not executed: " + want.splitlines()[0][:80]] += 1
        elif isinstance(got, str):
            tally[got] += 1
        elif not differ(want, got):
            tally["same"] += 1
        else:
            found.append(_explained(kernel))
            tally[found[-1]["kind"]] += 1
    return {"tally": dict(tally), "differences": found}


def _explained(kernel: RandomKernel) -> UncheckedObject:
    """A difference, with the smallest kernel that shows it."""
    small = reduced(kernel, lambda programs: [differ(*pair) for pair in words_at(programs, 3)])
    (want, got), (_, plain) = words_at([small], 3)[0], words_at([small], 0)[0]
    assert isinstance(want, np.ndarray) and isinstance(got, np.ndarray)
    slot, lane = map(int, np.argwhere(want != got)[0])
    nan = all(only_nan(v.type, want[k], got[k]) for k, v in enumerate(small.outputs))
    if isinstance(plain, str):
        kind = "referee " + plain
    elif differ(want, plain):
        kind = "differs at -O0 too" + (", NaN" if nan else "")
    else:
        kind = "optimiser, NaN bits" if nan else "optimiser"
    code = read_back.lines_of(cubin_of(ptx_of([small]), 3))[small.name]
    return {
        "kernel": kernel.name,
        "kind": kind,
        "statements": [step.text() for step in small.steps],
        "lane": lane,
        "ptx": f"{int(want[slot, lane]):#x}",
        "code": f"{int(got[slot, lane]):#x}",
        "sass": [f"{c.opcode} {', '.join(c.operands)}" for c in code if not isinstance(c, str) and _tells(c)],
    }


def _tells(line: read_back.SassLine) -> bool:
    return line.root not in ("NOP", "BRA", "LDC", "ULDC", "S2R", "LDG", "STG", "EXIT") and line.word != 8


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--kernels", default=10240, help="How many.")
@click.option("--seed", default="1", help="Of all of them.")
@click.option("--jobs", default=2, help="Processes.")
def main(out: Path, kernels: int, seed: str, jobs: int) -> None:
    """Compare random kernels with their machine code and write every difference."""
    tally: Counter[str] = Counter()
    found: list[UncheckedObject] = []
    starts = range(0, kernels, BATCH)
    with ProcessPoolExecutor(jobs) as pool:
        work = [pool.submit(batch, seed, n, min(BATCH, kernels - n)) for n in starts]
        for n, task in enumerate(work):
            done = task.result()
            tally.update(done["tally"])
            found += done["differences"]
            click.echo(f"{n + 1}/{len(work)} {dict(tally.most_common(6))}")
            evidence.write_json(
                out,
                {
                    "date": datetime.date.today().isoformat(),
                    "compiler": toolchain.find().version,
                    "kernels": min(kernels, BATCH * (n + 1)),
                    "seed": seed,
                    "tally": dict(tally.most_common()),
                    "differences": found,
                },
            )


if __name__ == "__main__":
    main()
