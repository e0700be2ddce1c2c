"""What one example of `check` costs in several checkouts: `python benchmarks/in_turn.py NAME=CHECKOUT ...`.

Each checkout (a folder with its `.venv` and its engine built) runs the same examples in a process of its own,
example by example in turn, so that a busy machine slows all alike: CPU seconds, the best of `--rounds`. The
first is what the others are divided by. `--ptx PRODUCTION PROBE` (files) takes the place of both builds in
every checkout, so that only the checkers differ; `--write-ptx FOLDER` writes those of the first. Says how
many verdicts are the same to the last bit, and fails where a result is not and `--same` asks for it.

A checkout as old as issue 10's base is run by its own rules: it launches production again in
every example, and knows neither "starve" nor "pct" schedules, which become "random" there.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tileproof.spec.machine.schedule import Policy

Verdict = Any  # of a checkout of any age
UnderTest = Any
Run = Callable[[str, str, int], Verdict]


def of_this_package(kernel_name: str, ptx: list[str]) -> tuple[UnderTest, Run]:
    """The kernel under test of this process's package, and what runs an example of it."""
    from tileproof.kernels.registry import kernel

    found: UnderTest = kernel(kernel_name)
    try:
        from tileproof.conformance.check import run as now
        from tileproof.conformance.check.under_test import on_emulator
        from tileproof.spec.machine.schedule import Schedule
    except ImportError:
        rooms = importlib.import_module("tileproof.conformance").__path__
        names = [module.name for module in pkgutil.iter_modules(rooms, "tileproof.conformance.")]
        modules = (importlib.import_module(name) for name in names if not name.endswith("__main__"))
        build = next(module.on_emulator for module in modules if hasattr(module, "on_emulator"))
        under_test = _with_ptx(build(found, found.d_qks[0]), ptx)
        # What runs a case stands beside the class of what is under test.
        old = vars(sys.modules[type(under_test).__module__])
        run_case = next(value for name, value in old.items() if name.startswith("run_"))

        def run_old(text: str, policy: str, seed: int) -> Verdict:
            known = policy if policy in ("early", "late", "random") else "random"
            return run_case(
                under_test, old["Case"].from_json(text), old["Schedule"](known, seed), explain=False
            )

        return under_test, run_old

    under_test = _with_ptx(on_emulator(found, found.variants[0]), ptx)
    generator = under_test.plan().problem.generator

    def run_now(text: str, policy: Policy, seed: int) -> Verdict:
        case, schedule = generator.from_json(text), Schedule(policy, seed)
        again = now.every_fourth(case, schedule)
        return now.run_case(under_test, case, schedule, explain=False, again=again)

    return under_test, run_now


def _settle() -> Callable[[], None]:
    """What `check` does after its first example."""
    try:
        from tileproof.conformance.check import runs
    except ImportError:
        return lambda: None
    return gc.freeze if hasattr(runs, "settled") else lambda: None


def _with_ptx(under_test: UnderTest, ptx: list[str]) -> UnderTest:
    if not ptx:
        return under_test
    built = []
    for build, path in zip((under_test.production, under_test.probe()), ptx, strict=True):
        text = Path(path).read_text()
        built.append(replace(build, ptx=text, entry=text.split(".entry ")[1].split("(")[0].strip()))
    production, probe = built
    return replace(under_test, production=production, probe=lambda: probe)


def serve(kernel_name: str, ptx: list[str]) -> None:
    """Runs the examples that come in, a line each; answers with the CPU seconds and the verdict."""
    _, run = of_this_package(kernel_name, ptx)
    settle = _settle()
    print("ready", flush=True)
    for number, line in enumerate(sys.stdin):
        case, policy, seed = json.loads(line)
        start = time.process_time()
        verdict = run(case, policy, seed)
        took = time.process_time() - start
        scores = {
            name: [score.tiles, score.elements, score.exact, score.worst, score.unbounded]
            for name, score in verdict.scores.items()
        }
        findings = [finding.message for finding in verdict.findings]
        print(json.dumps([took, [findings, verdict.agreed, dict(verdict.remarks), scores]]), flush=True)
        if number == 0:
            settle()


class Checkout:
    """A process that runs examples with a checkout's package."""

    def __init__(self, folder: Path, kernel_name: str, ptx: list[str]) -> None:
        command = [folder / ".venv/bin/python", Path(__file__).resolve(), "--serve", "--kernel", kernel_name]
        self._process = subprocess.Popen(
            [*command, *(["--ptx", *ptx] if ptx else [])],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        self.best: list[float] = []
        self.verdicts: list[Verdict] = []
        assert self._process.stdout and self._process.stdout.readline() == "ready\n"

    def run(self, example: list[str | int]) -> tuple[float, Verdict]:
        """CPU seconds and verdict of one example."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(example) + "\n")
        self._process.stdin.flush()
        took, verdict = json.loads(self._process.stdout.readline())
        return took, verdict

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Prints the cost per example of each checkout, as part of the first's; exit code 1 as `--same` says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", metavar="NAME=CHECKOUT")
    parser.add_argument("--kernel", default="head64")
    parser.add_argument("--examples", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="examples of the seed that are left out")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ptx", nargs=2, default=[], metavar=("PRODUCTION", "PROBE"))
    parser.add_argument("--write-ptx", type=Path, metavar="FOLDER")
    parser.add_argument("--same", action="store_true", help="exit 1 unless every verdict is the first's")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.kernel, args.ptx)
        return
    if args.write_ptx:
        under_test, _ = of_this_package(args.kernel, [])
        for name, built in (("production", under_test.production), ("probe", under_test.probe())):
            (args.write_ptx / f"{name}.ptx").write_text(built.ptx)
        return

    from tileproof.conformance.check import property as engine
    from tileproof.conformance.check.under_test import on_emulator
    from tileproof.kernels.registry import kernel

    found = kernel(args.kernel)
    drawn = engine.drawn(
        on_emulator(found, found.variants[0]).plan(), "all", args.seed, args.first + args.examples
    )
    runs = {
        name: Checkout(Path(folder).resolve(), args.kernel, [str(Path(path).resolve()) for path in args.ptx])
        for name, folder in (checkout.split("=", 1) for checkout in args.checkouts)
    }
    examples = [[case.as_json(), schedule.policy, schedule.seed] for case, schedule in drawn[args.first :]]
    for run in runs.values():
        run.run(examples[0])  # parses, decodes and builds
    for example in examples:
        took: dict[str, list[float]] = {name: [] for name in runs}
        for number in range(args.rounds):
            for name, run in runs.items():
                seconds, verdict = run.run(example)
                took[name].append(seconds)
                if number == 0:
                    run.verdicts.append(verdict)
        for name, run in runs.items():
            run.best.append(min(took[name]))
    first = next(iter(runs.values()))
    equal = True
    for name, run in runs.items():
        run.close()
        same = sum(mine == other for mine, other in zip(run.verdicts, first.verdicts, strict=True))
        equal &= same == len(examples)
        print(
            f"{name}: {sum(run.best) / len(examples):.4f} s of CPU per example, "
            f"{sum(first.best) / sum(run.best):.3f} times as fast, "
            f"verdicts: {same} of {len(examples)} the first's, "
            f"{sum(bool(verdict[0]) for verdict in run.verdicts)} with findings"
        )
    sys.exit(args.same and not equal)


if __name__ == "__main__":
    main()
