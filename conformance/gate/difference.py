"""The differences between two evidence files: verdicts, worst errors over their bounds, clocks, mutants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, hypot

from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord, worst
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json

# What, before, after, and whether it speaks against the later evidence.
Figure = tuple[str, object, object, bool]
Key = tuple[str, tuple[tuple[str, int], ...]]
STAGES = "stage conformance"
MUTATION = "mutation"  # the section that `tileproof mutate --into` writes
SHARES = ("score", "synchronising")  # killed of all, and of removed synchronising instructions
SCORES = (*SHARES, "drawn", "killed", "survived", "refused", "equivalent", "with a cause")
CLOCKS = "timing budget"
AGAINST = "against the baseline"
DRAW = ("seed", "count", "profile", "operators", "ptx")  # of two scores that are of the same mutants
CHANCE = 0.05  # of two draws, that as low a share comes of kernels that are equally well checked


@dataclass(frozen=True)
class Changed:
    """One figure of one kernel variant, before and after; None where an evidence lacks it. `worse`: the
    later evidence is worse.
    """

    kernel: str
    what: str
    before: object
    after: object
    worse: bool


def key(verdict: VerdictRecord) -> Key:
    """What names a variant in two evidences."""
    return verdict.program.kernel, tuple(sorted(verdict.program.variant.items()))


def changes(before: Sequence[VerdictRecord], after: Sequence[VerdictRecord]) -> list[Changed]:
    """Everything that differs, kernel by kernel."""
    old, new = ({key(record): record for record in which} for which in (before, after))
    found: list[Changed] = []
    for name in dict.fromkeys([*old, *new]):
        before_record, after_record = old.get(name), new.get(name)
        some = before_record or after_record
        assert some is not None
        where = some.label
        if before_record is None or after_record is None:
            words = (
                before_record.verdict if before_record else None,
                after_record.verdict if after_record else None,
            )
            found.append(Changed(where, "verdict", *words, worse=after_record is None))
            continue
        figures: list[Figure] = [
            ("verdict", before_record.verdict, after_record.verdict, _worse_word(before_record, after_record))
        ]
        figures.append(
            ("PTX", before_record.program.ptx_sha256[:12], after_record.program.ptx_sha256[:12], False)
        )
        figures += list(_outcomes(before_record.checks, after_record.checks))
        try:
            figures += list(_errors(before_record, after_record))
            figures += list(_scores(before_record, after_record))
            figures += list(_clocks(before_record, after_record))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise TileproofError(
                "the figures of the evidence do not match its schema",
                where=where,
                found=f"{type(error).__name__}: {error}",
                do="generate it again with this version of Tileproof",
            ) from None
        found += [Changed(where, what, a, b, bad) for what, a, b, bad in figures if a != b]
    return found


def of_release(before: Sequence[CheckOutcome], after: Sequence[CheckOutcome]) -> list[Changed]:
    """What differs between the checks of two releases, but for that against a baseline."""
    found = _outcomes(before, after)
    return [Changed("release", n, a, b, bad) for n, a, b, bad in found if a != b and n != AGAINST]


def worse(before: Sequence[VerdictRecord], after: Sequence[VerdictRecord]) -> list[str]:
    """The reasons against the later evidence, a line each. A kernel that only the later evidence judged is
    not a reason; a kernel of the baseline that was not judged now is.
    """
    return [f"{c.kernel}: {c.what} was {c.before}, is {c.after}" for c in changes(before, after) if c.worse]


def _worse_word(verdict: VerdictRecord, two: VerdictRecord) -> bool:
    return verdict.verdict != two.verdict and worst([verdict.verdict, two.verdict]) == two.verdict


def _outcomes(before: Sequence[CheckOutcome], after: Sequence[CheckOutcome]) -> Iterable[Figure]:
    old, new = ({c.name: c for c in which} for which in (before, after))
    for name in dict.fromkeys([*old, *new]):
        a, b = old.get(name), new.get(name)
        was = a is not None and a.outcome == "passed"
        yield name, a and a.outcome, b and b.outcome, was and (b is None or b.outcome != "passed")


def stages_of(verdict: VerdictRecord) -> dict[str, dict[str, float]]:
    """What was compared of each stage: of a kernel's the stages of its problem, of a launch file outputs and
    captures by name.
    """
    for check in verdict.checks:
        if check.name == STAGES and check.details.get("stages"):
            return dict(check.details["stages"])
    scores = [row for check in verdict.checks for row in check.details.get("outputs", ())]
    return {
        row["name"]: {
            "tiles": 1, "elements": row["elements"], "exact_elements": 0, "elements_without_bound": 0,
            "worst_error_over_bound": row["worst"],
        }
        for row in scores
    }  # fmt: skip


def _stages(verdict: VerdictRecord) -> dict[str, float]:
    return {name: float(row["worst_error_over_bound"]) for name, row in stages_of(verdict).items()}


def _errors(verdict: VerdictRecord, two: VerdictRecord) -> Iterable[Figure]:
    """Within the bound an error may move: other problems were drawn, or sums were reordered."""
    old, new = _stages(verdict), _stages(two)
    for name in dict.fromkeys([*old, *new]):
        a, b = old.get(name), new.get(name)
        exceeded = b is not None and not b <= 1.0
        yield f"worst error / bound of {name}", a, b, exceeded and (a is None or a <= 1.0)


def _scores(verdict: VerdictRecord, two: VerdictRecord) -> Iterable[Figure]:
    old, new = (which.sections.get(MUTATION) or {} for which in (verdict, two))
    for name in SCORES:
        a, b = old.get(name), new.get(name)
        less = name in SHARES and a is not None and (b is None or b < a)
        yield f"mutants: {name}", a, b, less and not (name == "score" and _by_chance(old, new))


def _by_chance(old: Mapping[str, Json], new: Mapping[str, Json]) -> bool:
    """Whether a lower score may be chance: of other mutants, and no less than two draws of the same kernel
    and checks differ in one case of twenty (Fisher's exact test, one-sided).
    """
    if not old or not new or all(old.get(name) == new.get(name) for name in DRAW):
        return False
    was, of_old = (int(old.get(name, 0)) for name in ("killed", "of"))
    now, of_new = (int(new.get(name, 0)) for name in ("killed", "of"))
    killed = was + now
    fewest = max(killed - of_old, 0)
    ways = sum(comb(of_new, k) * comb(of_old, killed - k) for k in range(fewest, now + 1))
    return of_old > 0 < of_new and ways / comb(of_old + of_new, killed) > CHANCE


def _clocks(verdict: VerdictRecord, two: VerdictRecord) -> Iterable[Figure]:
    """More clocks are worse beyond the noise of both; 2% if an evidence has no noise."""
    was, now = (next((c.details for c in which.checks if c.name == CLOCKS), {}) for which in (verdict, two))
    old, new = was.get("clocks"), now.get("clocks")
    errors = [details.get("noise") for details in (was, now)]
    worse = False
    if old and new:
        known = [error for error in errors if error is not None]
        worse = new - old > (hypot(*known) if len(known) == 2 else 0.02 * old)
    yield "clocks", old, new, worse
