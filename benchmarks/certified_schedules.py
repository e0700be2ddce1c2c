"""Whether a schedule contradicts a certificate: `python benchmarks/certified_schedules.py [KERNEL ...]`.

Draws problems of each kernel variant and runs each under `--schedules` / number of problems schedules. Where
the run under `early` is certified for all schedules, the other runs must be certified too, with the same
findings, outputs (of sums of floats within twice their bound) and multiset of additions. Otherwise the exit
code is 1. Problems without a certificate are counted apart: their schedules may differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

from tileproof.conformance.cases.generators import from_json, small
from tileproof.conformance.check import property as checking
from tileproof.conformance.explore.explored import Explored
from tileproof.emulator import RunResult
from tileproof.emulator.explore import planned
from tileproof.emulator.heap import keep_freed_memory
from tileproof.emulator.schedule_run import Signature
from tileproof.kernels.registry import all_compiled, kernel
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import UncheckedObject

CHUNK = 50  # schedules of a task


@dataclass(frozen=True)
class Task:
    """Schedules `first` .. `first` + `count` - 1 of a problem of a kernel variant."""

    kernel: str
    variant: int
    case: str
    first: int
    count: int


def unlike(first: RunResult, other: RunResult) -> list[str]:
    """What two runs with race checking differ in, beside their memory."""
    assert first.certificate is not None and other.certificate is not None
    found, again = ({str(Signature.of(finding)) for finding in run.findings} for run in (first, other))
    equal = {
        "additions": first.certificate.additions == other.certificate.additions,
        "certificate": first.certified == other.certified,
        "findings": found == again,
    }
    return [name for name, same in equal.items() if not same]


def run(task: Task) -> UncheckedObject:
    """The number of schedules that ran, those that differ from `early`, and why `early` is not certified."""
    keep_freed_memory()
    chosen = kernel(task.kernel)
    variant = chosen.variants[task.variant]
    case = from_json(chosen.plan(variant).problem.name, task.case)
    explored = Explored.of(chosen, chosen.build(variant), case)
    result, outputs = explored(schedule=Schedule("early"), races=True)
    policies, differing = Counter[str](), []
    plan = planned(task.first + task.count, points=result.counters.schedule_points)
    for schedule in plan[task.first :]:
        other, seen = explored(schedule=schedule, races=True)
        policies[schedule.policy] += 1
        differ = [name for name in outputs if explored.compare(name, outputs[name], seen[name]).any()]
        if differ := differ + unlike(result, other):
            differing.append({"schedule": str(schedule), "what": differ})
    refused = {} if result.certified else {"refused": str(result.certificate)}
    title = chosen.title(variant)
    return {"title": title, "case": task.case, "policies": dict(policies), "differ": differing, **refused}


def prepare(variant: tuple[str, int]) -> None:
    """Builds a kernel variant and its host code into the cache."""
    chosen = kernel(variant[0])
    own = chosen.variants[variant[1]]
    Explored.of(chosen, chosen.build(own), small(chosen.plan(own)))


def tasks(variants: list[tuple[str, int]], schedules: int, problems: int, seed: int) -> list[Task]:
    """Of each variant its small problem and drawn problems, the schedules shared out evenly."""
    cases = []
    for name, number in variants:
        plan = kernel(name).plan(kernel(name).variants[number])
        drawn = [case.as_json() for case, _ in checking.drawn(plan, "early", seed, problems - 1)]
        texts = dict.fromkeys([small(plan).as_json(), *drawn])
        cases += [(name, number, text) for text in texts]
    each = -(-schedules // len(cases))
    parts = [(first, min(CHUNK, each - first)) for first in range(0, each, CHUNK)]
    return [Task(*case, *part) for case in cases for part in parts]


def main() -> None:
    """Prints a line per kernel variant, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", help="all without a name, except those built on demand")
    parser.add_argument("--schedules", type=int, default=20_000)
    parser.add_argument("--problems", type=int, default=12, help="of each variant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    chosen = [kernel(name) for name in args.kernels] or all_compiled()
    variants = [(own.name, number) for own in chosen for number in range(len(own.variants))]
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        list(pool.map(prepare, variants))
    with ProcessPoolExecutor(args.jobs, get_context("fork")) as pool:
        answers = list(pool.map(run, tasks(variants, args.schedules, args.problems, args.seed)))
    report(answers, args.json)


def report(answers: list[UncheckedObject], file: str | None) -> None:
    """Prints a line per title for its certified runs and a line for the others; exits with 1 if a schedule
    contradicts a certificate.
    """
    rows: dict[tuple[str, bool], list[UncheckedObject]] = {}
    for answer in answers:
        rows.setdefault((answer["title"], "refused" not in answer), []).append(answer)
    total, contradicted = Counter[bool](), 0
    for (title, certified), own in rows.items():
        policies = sum((Counter(answer["policies"]) for answer in own), Counter[str]())
        differing = [found for answer in own for found in answer["differ"]]
        values = sum(set(found["what"]) - {"findings", "certificate"} != set() for found in differing)
        contradicted += certified * len(differing)
        total[certified] += policies.total()
        cases, not_ = len({answer["case"] for answer in own}), "" if certified else "not "
        print(
            f"{title:<46} {cases:3} {not_}certified, {policies.total():5} schedules, "
            f"{len(differing):4} differ, {values:4} in values"
        )
    print(f"{total[True]} schedules of certified runs, {contradicted} contradictions;")
    print(f"{total[False]} schedules of other runs")
    if file:
        Path(file).write_text(json.dumps(answers, indent=1) + "\n")
    sys.exit(contradicted > 0)


if __name__ == "__main__":
    main()
