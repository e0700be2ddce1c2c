"""Compares random kernels on a card and on the emulator, from a fat binary per batch.

    python -m tileproof.tools.silicon.fuzz.on_card EVIDENCE.json.xz --kernels 20480 --jobs 16 [--words W.npz]

The card runs the fat binary's machine code (-O3), the emulator its PTX, both on the same inputs. The card
also runs the code of -O0, the referee. A kernel whose words differ is reduced on the card, and put down as

- `same but for NaN`: only bits of NaN differ, and the code of -O0 gives the emulator's words;
- `optimiser`: values differ, and the code of -O0 gives the emulator's words;
- `optimiser, NaN`: likewise, and nothing differs once inputs and constants hold 1.5 for NaN, or only bits of
  NaN do: PTX leaves the bits of a NaN open, and the optimiser exchanges operands and folds constants;
- `card`: the code of -O0 differs from the emulator too.

`defects` names the known defects of ptxas that the reduced kernel shows (kernels/wrong_code.py).

`--words` keeps a hash of the words of each kernel and level, so that another emulator needs no card
(`--against W.npz`).
"""

from __future__ import annotations

import datetime
import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import click
import numpy as np
from tileproof.conformance.beside.record import fatbin
from tileproof.conformance.drivers.card import Card, CardError, CardFacts
from tileproof.kernels.wrong_code import WrongCode, wrong_code
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject
from tileproof.tools import evidence
from tileproof.tools.silicon.fuzz import build, emulated
from tileproof.tools.silicon.fuzz.compare import Words, differ, only_nan
from tileproof.tools.silicon.fuzz.program import (
    SLOTS,
    THREADS,
    RandomKernel,
    inputs,
    inputs_without_nan,
    program,
)
from tileproof.tools.silicon.fuzz.reduce import reduced

BATCH = 64
REFEREE, OPTIMISED = 0, 3


class FuzzCard(Card):
    """The card, with the buffers of every kernel of a campaign."""

    def __init__(self) -> None:
        super().__init__()
        self._out_bytes, self._scratch_bytes = 8 * SLOTS * THREADS, 16 * THREADS
        self._in = int(self._call("cuMemAlloc", inputs().nbytes))
        self._out = int(self._call("cuMemAlloc", self._out_bytes))
        self._scratch = int(self._call("cuMemAlloc", self._scratch_bytes))

    def words(self, image: bytes, names: Sequence[str], given: np.ndarray) -> dict[str, np.ndarray]:
        """What each kernel of a fat binary or cubin writes, [SLOTS, THREADS] u64. Raises CardError."""
        self._call("cuMemcpyHtoD", self._in, given.ctypes.data, given.nbytes)
        module = self._call("cuModuleLoadData", image)
        try:
            return {name: self._one(module, name) for name in names}
        finally:
            self._api.cuModuleUnload(module)

    def _one(self, module: object, name: str) -> np.ndarray:
        function = self._call("cuModuleGetFunction", module, name.encode())
        self._call("cuMemsetD8", self._out, 0, self._out_bytes)
        self._call("cuMemsetD8", self._scratch, 0, self._scratch_bytes)
        pointers = np.array([self._in, self._out, self._scratch], np.uint64)
        places = np.array([pointers.ctypes.data + 8 * n for n in range(3)], np.uint64)
        self._call("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, 0, places.ctypes.data, 0)
        self._call("cuCtxSynchronize")
        out = np.empty((SLOTS, THREADS), np.uint64)
        self._call("cuMemcpyDtoH", out.ctypes.data, self._out, out.nbytes)
        return out


@cache
def _card() -> FuzzCard:
    return FuzzCard()


def both(
    kernels: Sequence[RandomKernel], given: np.ndarray | None = None
) -> list[tuple[Words, Words, Words]]:
    """For each kernel the emulator's words, and the card's from the code of -O3 and of -O0."""
    given = inputs() if given is None else given
    names = [k.name for k in kernels]
    ptx = build.ptx_of(kernels)
    image = build.fatbin_of(ptx, build.cubin_of(ptx, OPTIMISED))
    want = emulated.results(fatbin.ptx_of(image, hopper=True), names, given)
    try:
        fast, plain = (_card().words(code, names, given) for code in (image, build.cubin_of(ptx, REFEREE)))
    except CardError as error:
        raise TileproofError(
            "a random kernel does not run on the card", where=" ".join(names), found=str(error)
        ) from None
    return [(want[n], fast[n], plain[n]) for n in names]


def kind_of(kernel: RandomKernel, want: Words, fast: Words, plain: Words) -> str:
    """How the words of one kernel compare, before any reduction."""
    if isinstance(want, str):
        return "not executed: " + want.splitlines()[0][:80]
    if differ(want, plain):
        return "card"
    if not differ(want, fast):
        return "same"
    assert isinstance(fast, np.ndarray)
    nan = all(only_nan(v.type, want[k], fast[k]) for k, v in enumerate(kernel.outputs))
    return "same but for NaN" if nan else "optimiser"


def batch(seed: str, first: int, count: int) -> UncheckedObject:
    """The kernels of one batch: how each compares, and the hashes of the card's words."""
    kernels = [program(f"{seed}/{n}", f"k{n}") for n in range(first, first + count)]
    rows = both(kernels)
    kinds = [kind_of(k, *row) for k, row in zip(kernels, rows, strict=True)]
    return {"first": first, "kinds": kinds, "hashes": [[_hash(w) for w in row[1:]] for row in rows]}


def _hash(words: Words) -> str:
    assert isinstance(words, np.ndarray)
    return hashlib.sha256(words.tobytes()).hexdigest()[:16]


def explained(seed: str, number: int) -> UncheckedObject:
    """A difference, with the smallest kernel that shows it."""
    kernel = program(f"{seed}/{number}", f"k{number}")
    start = kind_of(kernel, *both([kernel])[0])
    small = reduced(
        kernel, lambda some: [kind_of(k, *r) == start for k, r in zip(some, both(some), strict=True)]
    )
    want, fast, plain = both([small])[0]
    ptx = build.ptx_of([small])
    got = plain if start == "card" else fast
    assert isinstance(want, np.ndarray) and isinstance(got, np.ndarray)
    slot, lane = map(int, np.argwhere(want != got)[0])
    nan = all(only_nan(v.type, want[k], got[k]) for k, v in enumerate(small.outputs))
    if not nan:
        plain_kernel = small.without_nan()
        nan = kind_of(plain_kernel, *both([plain_kernel], inputs_without_nan())[0]) == "same"
    return {
        "kernel": kernel.name,
        "kind": start + (", NaN" if nan else ""),
        "statements": [step.text() for step in small.steps],
        "lanes": int((want[slot] != got[slot]).sum()),
        "lane": lane,
        "emulator": f"{int(want[slot, lane]):#x}",
        "card": f"{int(got[slot, lane]):#x}",
        "defects": sorted({found.pattern.name for found in _defects(ptx)}),
        "ptx": ptx,
    }


def _defects(ptx: str) -> Sequence[WrongCode]:
    return wrong_code(ptx, (build.tool("ptxas"), build.disassembler()))


def rerun(seed: str, first: int, hashes: Sequence[Sequence[str]]) -> list[str]:
    """How the emulator of now compares with the card's words of an earlier campaign."""
    kernels = [program(f"{seed}/{n}", f"k{n}") for n in range(first, first + len(hashes))]
    want = emulated.results(build.ptx_of(kernels), [k.name for k in kernels])
    kinds = []
    for kernel, (fast, plain) in zip(kernels, hashes, strict=True):
        words = want[kernel.name]
        if isinstance(words, str):
            kinds.append("not executed: " + words.splitlines()[0][:80])
        else:
            mine = _hash(words)
            kinds.append("card" if mine != plain else "same" if mine == fast else "optimiser")
    return kinds


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--kernels", default=20480, help="How many.")
@click.option("--seed", default="card 1", help="Of all of them.")
@click.option("--jobs", default=16, help="Processes.")
@click.option("--seconds", default=240.0, help="For reductions; what is left then is listed by number.")
@click.option("--only", type=click.Path(path_type=Path), help="Kernels that this evidence left unexplained.")
@click.option("--words", type=click.Path(path_type=Path), help="Write the hashes of the card's words here.")
@click.option("--against", type=click.Path(path_type=Path), help="Hashes of an earlier campaign: no card.")
def main(
    out: Path, kernels: int, seed: str, jobs: int, seconds: float, words: Path | None, against: Path | None,
    only: Path | None,
) -> None:  # fmt: skip
    """Compare random kernels on the card with the emulator and write every difference."""
    if only is not None:
        _again(out, only, jobs, seconds)
        return
    starts = range(0, kernels, BATCH)
    kinds: dict[int, str] = {}
    made: UncheckedObject = {"date": datetime.date.today().isoformat(), "seed": seed, "kernels": kernels}
    with ProcessPoolExecutor(jobs) as pool:
        if against is not None:
            hashes = np.load(against)["hashes"]
            rerun_work = [pool.submit(rerun, seed, n, hashes[n : n + BATCH].tolist()) for n in starts]
            for first, task in zip(starts, rerun_work, strict=True):
                kinds.update(enumerate(task.result(), first))
        else:
            rows: list[list[str]] = []
            work = [pool.submit(batch, seed, n, min(BATCH, kernels - n)) for n in starts]
            for batch_task in work:
                done = batch_task.result()
                kinds.update(enumerate(done["kinds"], done["first"]))
                rows += done["hashes"]
            if words is not None:
                np.savez_compressed(words, hashes=np.array(rows))
            made |= {"card": vars(pool.submit(_facts).result()), "compiler": build.version()}
        made["tally"] = dict(Counter(kinds.values()).most_common())
        click.echo(f"{made['tally']}")
        unlike = [n for n, kind in kinds.items() if kind in ("card", "optimiser")]
        made["differences"], made["not reduced"] = [], unlike
        evidence.write_json(out, made)
        if against is None:
            made["differences"], made["not reduced"] = _reduced(pool, seed, unlike, seconds)
    evidence.write_json(out, made)
    click.echo(f"{Counter(d['kind'] for d in made['differences'])}, {len(made['not reduced'])} not reduced")


def _again(out: Path, before: Path, jobs: int, seconds: float) -> None:
    """The evidence `before`, with what it did not reduce or name a cause for reduced again."""
    made = evidence.read_json(before)
    open_ = [n for n in made["differences"] if not n["defects"] and not n["kind"].endswith("NaN")]
    numbers = sorted({int(n["kernel"][1:]) for n in open_} | set(made["not reduced"]))
    with ProcessPoolExecutor(jobs) as pool:
        found, made["not reduced"] = _reduced(pool, made["seed"], numbers, seconds)
    done = {n["kernel"]: n for n in made["differences"]} | {n["kernel"]: n for n in found}
    made["differences"] = sorted(done.values(), key=lambda n: int(n["kernel"][1:]))
    evidence.write_json(out, made)
    click.echo(f"{Counter((d['kind'], *d['defects']) for d in made['differences'])}")


def _reduced(
    pool: ProcessPoolExecutor, seed: str, unlike: list[int], seconds: float
) -> tuple[list[UncheckedObject], list[int]]:
    """Every difference that is reduced in time, and the numbers of the others."""
    end = time.monotonic() + seconds
    work = {n: pool.submit(explained, seed, n) for n in unlike}
    found, unreduced = [], []
    for n, task in work.items():
        try:
            found.append(task.result(max(0.0, end - time.monotonic())))
        except TimeoutError:
            task.cancel()
            unreduced.append(n)
        except TileproofError as error:
            click.echo(f"k{n}: {error}")
            unreduced.append(n)
    return found, unreduced


def _facts() -> CardFacts:
    return _card().facts


if __name__ == "__main__":
    main()
