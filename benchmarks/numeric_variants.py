"""Whether `check` finds lost bits: `python benchmarks/numeric_variants.py [--kernel K] [--only NAME] [-j N]`.

Makes every numeric variant of `benchmarks/numeric` (fewer bits, another rounding, a constant off by 2^-k, a
narrower type, a limit of sizes or indices, an approximation of exp2), compiles it, and runs `check` as it is
shipped until the first finding. A variant that keeps what the kernel's plan declares must have no finding.

Each variant runs in a process of its own at the lowest priority, under a limit of CPU seconds. `--out FILE`
appends a line of JSON per variant, and skips those that the file has. `--part I/N` runs every N-th variant.
Exit code 1 where a wrong variant survived or a right variant was found.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does
os.environ.setdefault("OMP_NUM_THREADS", "1")

from numeric import attention, host, products, softmax
from numeric.variant import NumericVariant
from tileproof.spec.machine.types import UncheckedObject

VARIANTS = {
    each.name: each for each in (*attention.VARIANTS, *softmax.VARIANTS, *products.VARIANTS, *host.VARIANTS)
}
SEEN = ("found", "survived")


def judged(variant: NumericVariant, examples: int, seed: int) -> UncheckedObject:
    """What `check` says of a variant, in this process."""
    from tileproof.conformance.check import property as engine
    from tileproof.conformance.check.under_test import on_driver, on_emulator
    from tileproof.conformance.drivers.host import HostDriver
    from tileproof.conformance.planted.defects import planted_reference
    from tileproof.kernels.called import HOST
    from tileproof.kernels.registry import kernel
    from tileproof.spec.machine.errors import TileproofError

    found, planted = kernel(variant.kernel), variant.planted()
    with planted_reference(planted):
        try:
            if found.arch == HOST:
                under_test = on_driver(found, found.variants[0], HostDriver(), planted=planted)
            else:
                under_test = on_emulator(found, found.variants[0], planted=planted)
                if under_test.probe is not None:
                    under_test.probe()
        except TileproofError as error:
            return {"verdict": "refused", "message": f"{error.what}: {error.found}"[:400]}
        report = engine.check(under_test, examples=examples, seed=seed, shrink_seconds=0.0)
    if report.failure is None:
        return {"verdict": "survived", "examples": report.examples}
    first = report.failure.findings[0]
    return {
        "verdict": "found", "examples": report.examples, "stage": first.problem.stage, "code": first.code,
        "message": first.message, "cause": first.cause, "case": report.failure.case.as_json(),
    }  # fmt: skip


def in_process(variant: NumericVariant, examples: int, seed: int, limit: int) -> UncheckedObject:
    """The row of a variant, by a process of its own."""

    def confine() -> None:
        os.nice(19)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))

    began = time.monotonic()
    command = [
        sys.executable,
        __file__,
        "--here",
        variant.name,
        "--examples",
        str(examples),
        "--seed",
        str(seed),
    ]
    run = subprocess.run(command, capture_output=True, text=True, preexec_fn=confine)
    row = {"name": variant.name, "title": variant.title, "right": variant.right}
    try:
        row |= json.loads(run.stdout.strip().split("\n")[-1])
    except ValueError:
        row |= {"verdict": "ended", "message": f"exit code {run.returncode}: {run.stderr[-400:]}"}
    return {**row, "seconds": round(time.monotonic() - began, 1)}


def rows(wanted: list[NumericVariant], given: argparse.Namespace) -> Iterator[UncheckedObject]:
    """The rows of the variants as they come."""
    with ThreadPoolExecutor(given.jobs) as pool:
        coming = [
            pool.submit(in_process, variant, given.examples, given.seed, given.limit) for variant in wanted
        ]
        for done in as_completed(coming):
            yield done.result()


def as_wished(row: UncheckedObject) -> bool:
    """Whether a wrong variant was found, and a right variant was not."""
    return bool(row["verdict"] == ("survived" if row["right"] else "found"))


def line(row: UncheckedObject) -> str:
    """A row of the table."""
    where = " ".join(filter(None, (row.get("stage"), row.get("code")))) or "-"
    about = row["right"] or row.get("cause") or row.get("message", "")
    mark = " " if as_wished(row) else "!"
    return (
        f"{mark} {row['name']:44} {row['verdict']:9} {where:12} {row['title']}"
        f" | {about[:90]} | {row.get('cpu', 0):.1f} s"
    )


def main() -> None:
    """Print the table of variants; exit code 1 as above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--kernel", action="append", default=[], choices=sorted({v.kernel for v in VARIANTS.values()})
    )
    parser.add_argument("--only", action="append", default=[], choices=sorted(VARIANTS), metavar="NAME")
    parser.add_argument("--here", choices=sorted(VARIANTS), help=argparse.SUPPRESS)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=600, help="CPU seconds of a variant")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--part", default="0/1", metavar="I/N")
    parser.add_argument("--out", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.here:
        row = judged(VARIANTS[given.here], given.examples, given.seed)
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        print(json.dumps({**row, "cpu": round(sum(usage.ru_utime + usage.ru_stime for usage in used), 1)}))
        return
    part, parts = (int(number) for number in given.part.split("/"))
    earlier = (
        [json.loads(text) for text in given.out.read_text().splitlines()]
        if given.out and given.out.exists()
        else []
    )
    done = {row["name"]: row for row in earlier}
    wanted = [
        variant
        for number, variant in enumerate(VARIANTS.values())
        if number % parts == part
        and variant.name not in done
        and (not given.kernel or variant.kernel in given.kernel)
        and (not given.only or variant.name in given.only)
    ]
    for row in done.values():
        print(line(row))
    for row in rows(wanted, given):
        done[row["name"]] = row
        print(line(row), flush=True)
        if given.out:
            with given.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
    count = Counter((row["verdict"], bool(row["right"])) for row in done.values())
    for (verdict, right), number in sorted(count.items()):
        print(f"{number} {'right' if right else 'wrong'} variants: {verdict}")
    sys.exit(not all(as_wished(row) for row in done.values()))


if __name__ == "__main__":
    main()
