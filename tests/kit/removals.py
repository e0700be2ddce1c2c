"""Each synchronising instruction of a kernel removed in turn: `python -m tests.kit.removals [KERNEL]`.

A removal changes the PTX: the instruction is left out, a wait passes at once. One launch each under `early`
with race checking refutes it (an error), or certifies it with the outputs and additions of the original;
anything else is listed. One small problem of two k-blocks, or of as many as --blocks. A certified removal
runs under `SAMPLED` as well and must give the same again. `--resume FILE` appends a line of JSON per removal
and skips those that it has.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from tileproof.conformance.cases.generators import small
from tileproof.conformance.drivers import emulator
from tileproof.emulator.ptx import Instruction, parse_body, parse_module
from tileproof.kernels import tutorials
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.registry import all_compiled
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule

# Schedules of a certified removal beside `early`.
SAMPLED = ("late", "late-newest", "random:seed=1", "random:seed=2", "late-random:seed=3", "starve:seed=4")
# Guard, opcode, operands of a line that holds a single instruction.
LINE = re.compile(r"^(\s*(?:@!?%?\w+\s+)?)([a-z]\w*(?:[.:]+\w+)*)\s*([^;]*);\s*(?://.*)?$")
SYNCHRONISES = re.compile(
    r"(?:mbarrier\.(?!inval)|bar\.|barrier\.|fence\.|membar|tcgen05\.(?:fence|commit|wait)|cp\.async\.(?:bulk\.)?"
    r"(?:commit_group|wait_)|griddepcontrol)"
)


@dataclass(frozen=True)
class Removal:
    """Line of the PTX, from 1, the opcode, and the line without it."""

    line: int
    opcode: str
    instead: str


def removals(ptx: str) -> Iterator[Removal]:
    """The synchronising instructions of a text; none is left out but with `mbarrier.inval`."""
    for number, text in enumerate(ptx.split("\n"), 1):
        found = LINE.match(text)
        if not found or not SYNCHRONISES.match(found[2]):
            continue
        result = re.match(r"(?!_\s*,)(%?[a-zA-Z]\w*)\s*,", found[3])
        instead = ""
        if result and "_wait" in found[2]:
            instead = f"{found[1]}setp.eq.u32 {result[1]}, 0, 0;"
        elif result and "mbarrier.arrive" in found[2]:
            instead = f"{found[1]}mov.b64 {result[1]}, 0;"
        yield Removal(number, found[2], instead)


def without(ptx: str, removal: Removal) -> str:
    """The text with one instruction removed."""
    lines = ptx.split("\n")
    lines[removal.line - 1] = removal.instead
    return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """What the runs of one removal show: `why` has the codes of the errors, or what is open or differs.

    `at`: the source line of the instruction with its callers, or its PTX line. `schedules`: sampled beside
    `early`. `finding`: the first error, or warning, or note, as it is printed.
    """

    line: int
    opcode: str
    at: str
    outcome: Literal["refuted", "certified", "neither"]
    why: str = ""
    schedules: int = 0
    finding: str = ""


Launched = Callable[[str, str], RunResult]


def outcomes(
    ptx: str, launched: Launched, unordered: tuple[str, ...] = (), known: frozenset[int] = frozenset()
) -> Iterator[Outcome]:
    """The outcome of each removal but those of the lines `known`. `launched` runs a text under a schedule, on
    the same inputs; outputs named in `unordered` are compared by their additions. AssertionError where the
    text itself is not certified.
    """
    first = launched(ptx, "early")
    assert first.certified, first.certificate
    places = sources(ptx)
    for removal in removals(ptx):
        if removal.line in known:
            continue
        text = without(ptx, removal)
        at = places.get(removal.line, f"line {removal.line}")
        found = Outcome(removal.line, removal.opcode, at, "neither")
        try:
            result = launched(text, "early")
        except TileproofError as error:
            yield replace(found, why=f"does not run: {error}")
            continue
        worst = sorted(result.findings, key=lambda each: ("error", "warning", "note").index(each.severity))
        found = replace(found, finding=str(worst[0]) if worst else "")
        if result.errors:
            codes = ", ".join(dict.fromkeys(error.code for error in result.errors))
            yield replace(found, outcome="refuted", why=codes)
        elif not result.certified:
            yield replace(found, why=str(result.certificate))
        elif differs := _differs(first, result, unordered):
            yield replace(found, why=f"certified with other {differs}")
        else:
            yield _sampled(replace(found, outcome="certified"), text, launched, first, unordered)


def _sampled(
    found: Outcome, text: str, launched: Launched, first: RunResult, unordered: tuple[str, ...]
) -> Outcome:
    """A certified removal, run under `SAMPLED`."""
    for schedule in SAMPLED:
        result = launched(text, schedule)
        wrong = ", ".join(error.code for error in result.errors) or _differs(first, result, unordered)
        if not wrong and not result.certified:
            wrong = str(result.certificate)
        if wrong:
            return replace(found, outcome="neither", why=f"certified, but {wrong} under {schedule}")
    return replace(found, schedules=len(SAMPLED))


def _differs(first: RunResult, result: RunResult, unordered: tuple[str, ...]) -> str:
    """The first output whose bits differ, or the additions; empty: nothing does."""
    for name, output in first.outputs.items():
        if name not in unordered and output.values.tobytes() != result.outputs[name].values.tobytes():
            return name
    assert first.certificate and result.certificate
    return "" if first.certificate.additions == result.certificate.additions else "additions"


def sources(ptx: str) -> dict[int, str]:
    """The source place of each line of the PTX that has an instruction, with its callers."""
    module = parse_module(ptx)
    bodies = (parse_body(module, entry) for entry in module.entries.values())
    read = (each for body in bodies for each in body if isinstance(each, Instruction))
    return {each.line: each.source for each in read if each.source}


def measured(
    entry: Kernel,
    variant: Variant,
    known: frozenset[int] = frozenset(),
    blocks: int = 2,
    only: str = "",
) -> Iterator[Outcome]:
    """The outcomes of a registered kernel, of opcodes with `only`, on a small problem of as many k-blocks."""
    built, plan = entry.build(variant), entry.plan(variant)
    values = small(plan, blocks).inputs()

    def launched(ptx: str, schedule: str) -> RunResult:
        launch = entry.launch(values, replace(built, ptx=ptx))
        return emulator.run(launch, plan, schedule=Schedule.parse(schedule), taps=False, races=True)

    others = {removal.line for removal in removals(built.ptx) if only not in removal.opcode}
    return outcomes(built.ptx, launched, plan.unordered, known | others)


def main() -> None:
    """Print a line per kernel, and what is neither."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", help="kernels or their titles; none: all that are registered")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="outcomes as lines of JSON")
    parser.add_argument("--blocks", type=int, default=2, help="k-blocks (2)")
    parser.add_argument("--only", default="", metavar="WORD", help="opcodes with this word in them")
    args = parser.parse_args()
    before = args.resume.read_text().splitlines() if args.resume and args.resume.exists() else []
    rows = [json.loads(row) for row in before]
    for entry in [*all_compiled(), *tutorials.kernels().values()]:
        for variant in entry.variants:
            title = entry.title(variant)
            if args.kernels and not {entry.name, title} & {*args.kernels}:
                continue
            counts, neither = Counter[str](), []
            found = [Outcome(**row["outcome"]) for row in rows if row["kernel"] == title]
            known = frozenset(outcome.line for outcome in found)
            for outcome in measured(entry, variant, known, args.blocks, args.only):
                found.append(outcome)
                if args.resume:
                    with args.resume.open("a") as file:
                        file.write(json.dumps({"kernel": title, "outcome": asdict(outcome)}) + "\n")
            for outcome in found:
                counts[outcome.outcome] += 1
                if outcome.outcome == "neither":
                    neither.append(f"{outcome.at}, {outcome.opcode}: {outcome.why}")
            kinds = ", ".join(f"{counts[kind]} {kind}" for kind in ("refuted", "certified", "neither"))
            print(f"{title}: {len(found)} removed: {kinds}", *neither, sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
