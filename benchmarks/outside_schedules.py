"""Whether a schedule contradicts a certificate of a kernel from another project:
`python -m benchmarks.outside_schedules [PATTERN ...]`.

Runs the cases of `tests/outside` (docs/outside.md) whose name matches a pattern, by default all. Each launch
runs under `early`, then on the same memory under `--schedules` other schedules. Where the first run is
certified, these must be certified and have equal memory (equal additions where the launch adds floats in no
fixed order) and findings, else the exit code is 1. Launches without a certificate are counted apart.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from fnmatch import fnmatch
from multiprocessing import get_context
from unittest import mock

from tileproof.emulator import Module, RunResult
from tileproof.emulator.explore import planned
from tileproof.emulator.memory import Memory
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import UncheckedObject

from benchmarks.certified_schedules import report, unlike

Case = Callable[[], object]


def _cutlass() -> dict[str, Case]:
    from tests.kit.outside.cutlass_cases import EXAMPLES  # the headers of cuRAND
    from tests.kit.outside.cutlass_example import curand

    curand()
    return {example.name: lambda own=example: own.run(races=True) for example in EXAMPLES}


def _triton() -> dict[str, Case]:
    from tests.kit.outside.triton_cases import CASES  # Triton

    return {case.name: lambda own=case: own.run(races=True) for case in CASES}


def _tilelang() -> dict[str, Case]:
    import tilelang  # noqa: F401 - the test module skips where it is missing

    from tests.outside.test_tilelang import launched

    plain: UncheckedObject = {"threads": 128, "tl.disable_warp_specialized": True}
    return {"tilelang-matmul": lambda: launched(Schedule(), True, **plain)}


def cases() -> tuple[dict[str, Case], list[str]]:
    """The cases by name, and why the other projects have none."""
    found: dict[str, Case] = {}
    missing = []
    for project in (_cutlass, _triton, _tilelang):
        try:
            found |= project()
        except (ImportError, TileproofError) as error:
            missing.append(f"{project.__name__[1:]}: {error}")
    return found, missing


class _State:
    """The contents of a memory, with the marks of what is written, and of a module's variables."""

    def __init__(self, module: Module, memory: Memory) -> None:
        marks = [mark for own in memory.buffers for mark in (own._written, own._pages) if mark is not None]
        arrays = [own.numpy() for own in memory.buffers] + [data for _, data in module._globals.values()]
        self._arrays = [*arrays, *marks]
        self._values, self._outputs = [array.copy() for array in self._arrays], len(arrays)

    def restore(self) -> None:
        for array, value in zip(self._arrays, self._values, strict=True):
            if array.flags.writeable:
                array[...] = value

    def same(self, other: _State) -> bool:
        """Whether buffers and variables have the same bytes."""
        return all(
            own.tobytes() == others.tobytes()
            for own, others in zip(self._values[: self._outputs], other._values[: self._outputs], strict=True)
        )


@contextmanager
def other_schedules(title: str, count: int) -> Iterator[list[UncheckedObject]]:
    """Within the block each launch with race checking runs under `count` schedules more; yields a list that
    gets an answer for `report` of each launch. The memory stays as the first run leaves it.
    """
    answers: list[UncheckedObject] = []
    launch = Module.launch

    def under_all(module: Module, entry: str, **how: UncheckedObject) -> RunResult:
        memory = how.get("memory") or Memory()
        how["memory"] = memory
        before = _State(module, memory)
        result = launch(module, entry, **how)
        if result.certificate is None:
            return result
        after = _State(module, memory)
        policies, differ = Counter[str](), []
        for schedule in planned(count, points=result.counters.schedule_points):
            before.restore()
            other = launch(module, entry, **{**how, "schedule": schedule})
            policies[schedule.policy] += 1
            moved = not (result.certificate.sums or after.same(_State(module, memory)))
            if different := ["memory"] * moved + unlike(result, other):
                differ.append({"schedule": str(schedule), "what": different})
        after.restore()
        answer = {"title": title, "case": f"{len(answers)}", "policies": dict(policies), "differ": differ}
        answers.append(answer if result.certified else {**answer, "refused": str(result.certificate)})
        return result

    with mock.patch.object(Module, "launch", under_all):
        yield answers


def run(name: str, count: int) -> list[UncheckedObject]:
    """An answer for each launch of a case."""
    with other_schedules(name, count) as answers:
        cases()[0][name]()
    return answers


def main() -> None:
    """Prints a line per case, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--schedules", type=int, default=40, help="of each launch")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    found, missing = cases()
    for text in missing:
        print(f"not run: {text}")
    wanted = [name for name in found if any(fnmatch(name, own) for own in args.patterns or ["*"])]
    answers = []
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        runs = {pool.submit(run, name, args.schedules): name for name in wanted}
        for done in as_completed(runs):
            try:
                answers += done.result()
                print(f"{runs[done]}: done", file=sys.stderr)
            except TileproofError as error:
                print(f"not run: {runs[done]}: {error}")
    report(answers, args.json)


if __name__ == "__main__":
    main()
