"""Whether a schedule contradicts a certificate: `python benchmarks/certified_schedules.py [KERNEL ...]`.

Draws problems of each kernel variant. Where the run under `early` is certified for all schedules, the problem
runs under `--schedules` / number of problems other schedules: each must be certified too, with the same
findings, outputs (of sums of floats within twice their bound) and multiset of additions. Otherwise the exit
code is 1.
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

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

from tileproof.conformance.cases.generators import from_json, small
from tileproof.conformance.check import property as checking
from tileproof.conformance.explore.explored import Explored
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


def run(task: Task) -> UncheckedObject:
    """The number of schedules that ran, and what contradicts the certificate."""
    keep_freed_memory()
    chosen = kernel(task.kernel)
    variant = chosen.variants[task.variant]
    case = from_json(chosen.plan(variant).problem.name, task.case)
    explored = Explored.of(chosen, chosen.build(variant), case)
    result, outputs = explored(schedule=Schedule("early"), races=True)
    answer: UncheckedObject = {"title": chosen.title(variant), "policies": {}, "wrong": [], "case": task.case}
    if not result.certified:
        return {**answer, "refused": str(result.certificate)}
    findings = {str(Signature.of(finding)) for finding in result.findings}
    policies, wrong = Counter[str](), []
    plan = planned(task.first + task.count, points=result.counters.schedule_points)
    for schedule in plan[task.first :]:
        other, seen = explored(schedule=schedule, races=True)
        policies[schedule.policy] += 1
        assert result.certificate is not None
        differ = [name for name in outputs if explored.compare(name, outputs[name], seen[name]).any()]
        if not other.certified or other.certificate is None:
            differ.append(str(other.certificate))
        elif other.certificate.additions != result.certificate.additions:
            differ.append("additions")
        if {str(Signature.of(finding)) for finding in other.findings} != findings:
            differ.append("findings")
        if differ:
            wrong.append({"schedule": str(schedule), "what": differ})
    return {**answer, "policies": dict(policies), "wrong": wrong}


def tasks(names: list[str], schedules: int, problems: int, seed: int) -> list[Task]:
    """Of each variant its small problem and drawn problems, the schedules shared out evenly."""
    chosen = [kernel(name) for name in names] or all_compiled()
    cases = []
    for own in chosen:
        for number, variant in enumerate(own.variants):
            own.build(variant)  # once, and not in each process
            plan = own.plan(variant)
            drawn = [case.as_json() for case, _ in checking.drawn(plan, "early", seed, problems - 1)]
            texts = dict.fromkeys([small(plan).as_json(), *drawn])
            cases += [(own.name, number, text) for text in texts]
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
    planned_tasks = tasks(args.kernels, args.schedules, args.problems, args.seed)
    with ProcessPoolExecutor(args.jobs, get_context("fork")) as pool:
        answers = list(pool.map(run, planned_tasks))
    rows: dict[str, UncheckedObject] = {}
    for answer in answers:
        row = rows.setdefault(
            answer["title"], {"policies": Counter(), "problems": set(), "refused": {}, "wrong": []}
        )
        row["policies"].update(answer["policies"])
        row["wrong"] += [{"case": answer["case"], **found} for found in answer["wrong"]]
        if "refused" in answer:
            row["refused"][answer["case"]] = answer["refused"]
        else:
            row["problems"].add(answer["case"])
    for title, row in rows.items():
        row["problems"] = len(row["problems"])
        total = sum(row["policies"].values())
        print(
            f"{title:<44} {row['problems']:3} certified problems, {len(row['refused'])} not, "
            f"{total:6} schedules, {len(row['wrong'])} contradictions {dict(row['policies'])}"
        )
    print(f"{sum(sum(row['policies'].values()) for row in rows.values())} schedules")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)
    sys.exit(any(row["wrong"] for row in rows.values()))


if __name__ == "__main__":
    main()
