"""The runs that a mutant must pass to survive, cheapest first, and the original's results on each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from tileproof.conformance.cases.generators import small
from tileproof.conformance.check.property import drawn, edge_runs
from tileproof.conformance.check.run import KernelUnderTest, run_case
from tileproof.conformance.check.runs import Run
from tileproof.conformance.drivers.emulator import EmulatorDriver
from tileproof.conformance.observe.observation import observe
from tileproof.conformance.observe.tiles import StageTile
from tileproof.emulator.codes import CODES
from tileproof.kernels.compile import Built
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import headline
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import spread_of

Profile = Literal["quick", "full"]
LONGER = 20  # times the original's instructions that a mutant may run
MIN_INSTRUCTIONS = 2_000_000  # warp instructions that it may run in any case
# Of seed 2 each wait that has to wait gives up once, by `random`, `starve` and `pct` in orders of their own;
# in four of the others copies come late as well, so that waits for them give up.
RINGS = (
    Schedule("random", 1), Schedule("starve", 1), Schedule("pct", 1),
    Schedule("random", 2), Schedule("starve", 2), Schedule("pct", 2),
    Schedule("random", 5), Schedule("starve", 3), Schedule("late-random", 3),
    Schedule("late-random", 5), Schedule("pct", 3),
)  # fmt: skip
# One k-block, which fills no ring: what comes behind the last turn waits for nothing, unless others are slow.
FIRST_TURN = (Schedule("pct", 2), Schedule("random", 2))
_EXAMPLES = {"quick": 4, "full": 30}


def runs(plan: KernelPlan, profile: Profile) -> list[Run]:
    """The problems and schedules of a profile; `quick` has no launch of chosen clusters."""
    edges = edge_runs(plan, "all", 0)
    # Sorted by size: most mutants die on the smallest problem. The last of the edges has production size.
    edges.sort(key=_elements)
    more = [*drawn(plan, "all", 0, _EXAMPLES[profile])]
    if profile == "quick":
        largest = _elements(edges[-1])
        smaller = [edge for edge in edges if _elements(edge) < largest]
        return [edge for edge in smaller if spread_of(edge[0], edge[0].inputs()) is None][::2] + more
    rings = [(small(plan), schedule) for schedule in RINGS]
    rings += [(small(plan, 1), schedule) for schedule in FIRST_TURN]
    return edges[:-1] + more + rings + edges[-1:]


def _elements(run: Run) -> int:
    inputs = run[0].inputs()
    return sum(var.size for var in vars(inputs).values() if isinstance(var, np.ndarray))


@dataclass(frozen=True)
class Did:
    """What a build did on one run: bits of its outputs, captures and additions, its machine's remarks, its
    length; `certified`: for all schedules of the run.
    """

    bits: str
    instructions: int
    certified: bool = False


@dataclass(frozen=True)
class Letter:
    """Findings (code and source) of strict launches of a kernel that `check` passes, and the runs (indices)
    that end and can be compared with a mutant's.
    """

    found: frozenset[tuple[str, str]]
    runs: frozenset[int]


@dataclass(frozen=True)
class Original:
    """The unchanged build on every run of a profile; `strict`: judged by the letter of the ISA, as long as
    nothing is found in it so. Else mutants that `check` lets pass are judged by the letter too, but for what
    that finds in the original.
    """

    kernel: Kernel
    variant: Variant
    built: Built
    runs: tuple[Run, ...]
    did: tuple[Did, ...]
    strict: bool = True
    letter: Letter | None = None


class Recorder:
    """The emulator with races, `strict` or not, which keeps what the first launch of a run did."""

    name = "emulator"

    def __init__(self, limit: int = 0, strict: bool = True) -> None:
        self._emulator = EmulatorDriver(strict=strict, instruction_limit=limit)
        self.capabilities, self.products = self._emulator.capabilities, self._emulator.products
        self.first: RunResult | None = None

    def run(self, launch: LaunchFile, plan: KernelPlan, schedule: Schedule, taps: bool) -> RunResult:
        """One launch."""
        result = self._emulator.run(launch, plan, schedule, taps)
        self.first = self.first or result
        return result

    def did(self) -> Did:
        """What the first launch did."""
        assert self.first is not None
        return Did(_bits(self.first), self.first.counters["warp_instructions"], self.first.certified)


def _bits(result: RunResult) -> str:
    digest = hashlib.sha256()
    for name, output in sorted(result.outputs.items()):
        stored = output.elements_stored()  # of a large output a small part
        values, written = output.values.reshape(-1)[stored], output.written.reshape(-1)[stored]
        digest.update(name.encode() + stored.tobytes() + values.tobytes() + written.tobytes())
    for tile in sorted(
        result.captures, key=lambda capture: (capture.tile, capture.stage, capture.cta, capture.phase)
    ):
        digest.update(repr((tile.tile, tile.stage, tile.cta, tile.phase)).encode())
        digest.update(tile.data.tobytes() + tile.valid.tobytes())
    if result.certificate is not None:
        digest.update(repr(result.certificate.additions).encode())
    for finding in sorted((finding.code, finding.machine.source) for finding in result.findings):
        digest.update(repr(finding).encode())
    return digest.hexdigest()


def under_test_of(kernel: Kernel, variant: Variant, built: Built, driver: Recorder) -> KernelUnderTest:
    """The production build alone."""
    return KernelUnderTest(kernel, variant, built, None, driver)


def original(
    kernel: Kernel,
    variant: Variant,
    profile: Profile,
    progress: Callable[[int, int], None] = lambda n, m: None,
) -> Original:
    """Runs the unchanged build through the profile, by the letter and, where that finds something, as `check`
    does; TileproofError when something is found then too.
    """
    try:
        return _original(kernel, variant, profile, progress, True)
    except TileproofError:
        base = _original(kernel, variant, profile, progress, False)
        return replace(base, letter=_by_the_letter(base))


def _by_the_letter(base: Original) -> Letter | None:
    """What strict launches find in the original; None where each ends early. Of a launch that ends early, as
    some schedules alone may do, what was found counts as the original's, and the run as no judge.
    """
    found, whole = set(), set()
    for number, (case, schedule) in enumerate(base.runs):
        under_test = under_test_of(base.kernel, base.variant, base.built, Recorder(strict=True))
        seen = run_case(under_test, case, schedule, explain=False, again=False).findings
        machine = [finding for finding in seen if finding.kind == "machine"]
        found |= {(finding.code, finding.machine.source) for finding in machine}
        if len(machine) == len(seen) and not any(CODES[finding.code].strict_stops for finding in machine):
            whole.add(number)
    return Letter(frozenset(found), frozenset(whole)) if whole else None


def _original(
    kernel: Kernel, variant: Variant, profile: Profile, progress: Callable[[int, int], None], strict: bool
) -> Original:
    built = kernel.build(variant)
    did = []
    wanted = runs(kernel.plan(variant), profile)
    for number, (case, schedule) in enumerate(wanted):
        progress(number, len(wanted))
        driver = Recorder(strict=strict)
        verdict = run_case(under_test_of(kernel, variant, built, driver), case, schedule, explain=False)
        if verdict.findings:
            raise TileproofError(
                "the unchanged kernel is not clean, so its mutants cannot be judged",
                where=f"{kernel.title(variant)}, {case.as_json()}, schedule {schedule.policy}",
                found=headline(verdict.findings[0]),
                do="run `tileproof check` first",
            )
        did.append(driver.did())
    return Original(kernel, variant, built, tuple(wanted), tuple(did), strict)


@dataclass(frozen=True)
class Kill:
    """The run in which something was found; `findings` are the findings, with causes; `differs` is the first
    stage whose tiles are not the original's bits there, "" if none or unknown.
    """

    run: int
    findings: tuple[Finding, ...]
    differs: str


@dataclass(frozen=True)
class Likeness:
    """How a build's runs compare with the original's: `same` bits in every run, and `certified`: every run of
    both builds, for all its schedules.
    """

    same: bool = True
    certified: bool = True

    def after(self, did: Did, was: Did) -> Likeness:
        """After one more run."""
        return Likeness(
            self.same and did.bits == was.bits, self.certified and did.certified and was.certified
        )


def judge(build: Built, base: Original) -> tuple[Kill | None, Likeness]:
    """Runs a mutant's build until something is found: the kill, and how the runs before compare with the
    original's. Problems of which a run was certified for all schedules do not run under another schedule.
    """
    like, covered = Likeness(), set()
    for number, ((case, schedule), was) in enumerate(zip(base.runs, base.did, strict=True)):
        if case in covered:
            continue
        driver = Recorder(max(MIN_INSTRUCTIONS, LONGER * was.instructions), base.strict)
        under_test = under_test_of(base.kernel, base.variant, build, driver)
        verdict = run_case(under_test, case, schedule, explain=True)
        if verdict.findings:
            difference = _first_difference(base, number, driver.first)
            return Kill(number, tuple(verdict.findings), difference), like
        did = driver.did()
        like = like.after(did, was)
        if did.certified:
            covered.add(case)
    return (None if base.letter is None else _letter_kill(build, base, base.letter)), like


def _letter_kill(build: Built, base: Original, letter: Letter) -> Kill | None:
    """What a strict launch finds that it does not find in the original."""
    for number, ((case, schedule), was) in enumerate(zip(base.runs, base.did, strict=True)):
        if number not in letter.runs:
            continue
        driver = Recorder(max(MIN_INSTRUCTIONS, LONGER * was.instructions), True)
        under_test = under_test_of(base.kernel, base.variant, build, driver)
        seen = run_case(under_test, case, schedule, explain=False, again=False).findings
        new = [
            finding
            for finding in seen
            if finding.kind == "machine" and (finding.code, finding.machine.source) not in letter.found
        ]
        if new:
            return Kill(number, tuple(new), "")
    return None


def _first_difference(base: Original, number: int, seen: RunResult | None) -> str:
    """The first stage whose tiles are not the same in both launches of a run."""
    case, schedule = base.runs[number]
    if seen is None:
        return ""
    plan, inputs = base.kernel.plan(base.variant), case.inputs()
    driver = Recorder(strict=base.strict)
    run_case(under_test_of(base.kernel, base.variant, base.built, driver), case, schedule, explain=False)
    assert driver.first is not None
    was, now = (
        {tile.key: tile for tile in observe(plan, inputs, result, "production").tiles}
        for result in (driver.first, seen)
    )
    wrong, missing = set(), set()
    for key, tile in was.items():
        other = now.get(key)
        if other is None or not (other.written | ~tile.written).all():
            missing.add(key[0])
        if other is not None and not _equal(tile, other):
            wrong.add(key[0])
    stages = plan.problem.stages
    # A launch that was stopped lacks the tiles of every stage that had not come yet.
    order = (wrong, missing) if _stopped(seen) else (wrong | missing,)
    return next((name for them in order for name in stages if name in them), "")


def _stopped(seen: RunResult) -> bool:
    """Whether the launch ended before its end."""
    return any(CODES[finding.code].strict_stops for finding in seen.findings if finding.code in CODES)


def _equal(a: StageTile, b: StageTile) -> bool:
    """Whether what both wrote has the same bits, and the second wrote nothing that the first did not."""
    both = a.written & b.written
    return a.value[both].tobytes() == b.value[both].tobytes() and not (b.written & ~a.written).any()


def built_with(base: Original, ptx: str) -> Built:
    """The original's build with another PTX text."""
    return replace(base.built, ptx=ptx)


def names(findings: tuple[Finding, ...]) -> Iterator[str]:
    """Which checks spoke, in the order of the findings: the machine's code, or what was compared."""
    for finding in findings:
        yield finding.code if finding.kind == "machine" else f"{finding.kind} {finding.problem.stage}".strip()
