"""Each synchronising instruction of a kernel removed in turn: `python -m tests.kit.removals [KERNEL]`.

A removal changes the PTX: the instruction is left out, a wait passes at once. One launch each under `early`
with race checking refutes it (an error), or certifies it with the outputs and additions of the original;
anything else is listed. One small problem of two k-blocks.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace

from tileproof.conformance.cases.generators import small
from tileproof.conformance.drivers import emulator
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule

KERNELS = (
    ("head64", 576),
    ("head64", 512),
    ("head128-columns", 576),
    ("head128-columns", 512),
    ("head128-part0", 576),
)
# Guard, opcode, operands of a line that holds a single instruction.
LINE = re.compile(r"^(\s*(?:@!?%\w+\s+)?)([a-z]\w*(?:[.:]+\w+)*)\s*([^;]*);\s*(?://.*)?$")
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
        result = re.match(r"(%\w+)\s*,", found[3])
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


@dataclass
class Outcomes:
    """How many removals one launch refutes, certifies with equal results, or neither; the latter by name."""

    refuted: int = 0
    certified: int = 0
    neither: list[str] = field(default_factory=list)


def outcomes(ptx: str, launched: Callable[[str], RunResult], unordered: tuple[str, ...] = ()) -> Outcomes:
    """What a launch of each removal says. `launched` runs a text on the same inputs; outputs named in
    `unordered` are compared by their additions. AssertionError where the text itself is not certified.
    """
    first, found = launched(ptx), Outcomes()
    assert first.certified and first.certificate is not None, first.certificate
    for removal in removals(ptx):
        place = f"line {removal.line}, {removal.opcode}"
        try:
            result = launched(without(ptx, removal))
        except TileproofError as error:
            found.neither.append(f"{place}: does not run: {error}")
            continue
        certificate = result.certificate
        equal = certificate is not None and certificate.additions == first.certificate.additions
        for name, output in first.outputs.items():
            other = result.outputs[name]
            equal &= name in unordered or output.values.tobytes() == other.values.tobytes()
        if result.errors:
            found.refuted += 1
        elif result.certified and equal:
            found.certified += 1
        else:
            why = "certified with other outputs" if result.certified else str(certificate)
            found.neither.append(f"{place}: {why}")
    return found


def measure(name: str, d_qk: int) -> Outcomes:
    """The removals of a kernel of the registry."""
    entry = kernel(name)
    variant = entry.variant(d_qk=d_qk)
    built, plan = entry.build(variant), entry.plan(variant)
    values = small(plan, 2).inputs()

    def launched(ptx: str) -> RunResult:
        launch = entry.launch(values, replace(built, ptx=ptx))
        return emulator.run(launch, plan, schedule=Schedule("early"), taps=False, races=True)

    return outcomes(built.ptx, launched, plan.unordered)


def main() -> None:
    """Prints a line per kernel, and what is neither; or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", help="kernel, or kernel:d_qk")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for name, d_qk in KERNELS:
        if args.kernels and not {name, f"{name}:{d_qk}"} & set(args.kernels):
            continue
        found = measure(name, d_qk)
        if args.json:
            print(json.dumps({"kernel": name, "d_qk": d_qk, **asdict(found)}), flush=True)
            continue
        counts = f"{found.refuted} refuted, {found.certified} certified, {len(found.neither)} neither"
        print(f"{name}, d_qk {d_qk}: {counts}", *found.neither, sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
