"""The verdict on a dump of tensors: group after group, then the sums over groups."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tileproof.conformance.compare.compare import StageScore
from tileproof.conformance.tensors.groups import GroupComparer, given_before, held_stages, summed
from tileproof.conformance.tensors.hypotheses import explained, ranked_for_rows
from tileproof.conformance.tensors.named import NamedDump
from tileproof.conformance.tensors.sum_causes import ROWS as WRONG_ROWS
from tileproof.conformance.tensors.sum_causes import WrongRows, explain_sums
from tileproof.conformance.tensors.sums import SummedOutput
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import CheckOutcome, JudgedProgram, VerdictRecord
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.types import JsonObject
from tileproof.spec.problems.base import ProblemType, added_rows

ROWS = 256  # of one group, by which hypotheses are compared
EXPLAINED = 2  # groups whose wrong tiles are asked for a cause, per stage
Progress = Callable[[str], None]


@dataclass
class _Seen:
    """What was found so far: the first finding of each stage, with the number of the others."""

    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    scores: dict[str, StageScore] = field(default_factory=dict)
    groups: list[int] = field(default_factory=list)

    def needs_cause(self) -> bool:
        return len(self.findings) == 0 or any(not finding.cause for finding in self.findings.values())

    def note(self, findings: Sequence[Finding], scores: Mapping[str, StageScore]) -> None:
        for finding in findings:
            key = (finding.code, finding.problem.stage)
            before = self.findings.get(key)
            if before is None:
                self.findings[key] = finding
            else:
                better = finding if finding.cause and not before.cause else before
                count = before.others + finding.others + 1
                self.findings[key] = replace(better, others=count)
        for name, one_score in scores.items():
            self.scores.setdefault(name, StageScore()).add(one_score)


def judge_tensors(
    problem: ProblemType,
    dump: NamedDump,
    name: str,
    *,
    groups: int | None = None,
    seed: int = 0,
    progress: Progress = lambda line: None,
    interrupts: tuple[type[BaseException], ...] = (KeyboardInterrupt,),
) -> VerdictRecord:
    """The verdict on a dump. `groups`: compare so many groups, drawn by `seed`; None compares all.

    An exception of `interrupts` ends it with what is known.
    """
    total = dump.forms.groups(dump.inputs)
    comparer = GroupComparer.of(problem, dump, name)
    chosen = _chosen(dump, comparer, total, groups, seed)
    seen = _Seen()
    outputs = _summed(problem, dump, comparer, chosen, total)
    interrupted = False
    try:
        for number, group in enumerate(chosen):
            progress(f"{problem.unit} {group} ({number + 1} of {len(chosen)})")
            explain = len(seen.groups) < EXPLAINED or seen.needs_cause()
            compared = comparer.compare(group, explain)
            for output in outputs:
                output.add(compared.chain)
            seen.note(compared.findings, compared.scores)
            seen.groups.append(group)
    except interrupts:
        interrupted = True
    unjudged_rows = {}
    if not interrupted:
        for output in outputs:
            score, findings, rows = output.compare(dump.tensors[output.form])
            findings = [_explained(comparer, dump, output, finding, chosen) for finding in findings]
            seen.note(findings, {output.form.stage: score})
            unjudged_rows[output.form.name] = rows
    return _record(problem, dump, name, seed, seen, total, unjudged_rows, interrupted)


def _explained(
    comparer: GroupComparer, dump: NamedDump, output: SummedOutput, finding: Finding, chosen: Sequence[int]
) -> Finding:
    """The finding with hypotheses about earlier stages, by wrong rows that only one group adds to."""
    stage, array = output.form.stage, dump.tensors[output.form]
    if finding.kind != "value" or finding.code == "surplus" or finding.cause:
        return finding
    rows = np.sort(
        output.wrong_rows[np.argsort(output.groups_of(output.wrong_rows), kind="stable")][:WRONG_ROWS]
    )
    seen = WrongRows(rows, np.asarray(array[rows]).astype(np.float64), output.is_wrong(rows))
    if cause := explain_sums(comparer, stage, array, chosen, seen):
        return replace(finding, cause=cause)
    if given_before(comparer.problem, dump, stage):
        return finding
    wrong = np.zeros(array.shape[0], bool)
    wrong[output.wrong_rows] = True
    for group in chosen:
        inputs = dump.forms.group_inputs(dump.inputs, group)
        own = added_rows(comparer.problem, inputs, comparer.tiling, stage)
        own = own[wrong[own] & (output.groups_of(own) == 1)][:ROWS]
        if own.size:
            found = np.asarray(array[own]).astype(np.float64)
            chain = comparer.chain(group)
            ranked = ranked_for_rows(chain, stage, found, output.is_wrong(own), own)
            return explained(finding, ranked)
    return replace(
        finding, evidence=(*finding.evidence, f"no wrong row belongs to a single {comparer.problem.unit}")
    )


def _chosen(dump: NamedDump, comparer: GroupComparer, total: int, groups: int | None, seed: int) -> list[int]:
    """The groups to compare, ascending: those of which the dump has parts; of whole tensors the first, the
    last, and others drawn.
    """
    partly = [group for group in range(total) if comparer.holds(group)] if dump.parts else []
    if not dump.tensors:
        return partly
    if groups is None or groups >= total:
        return list(range(total))
    ends = list(dict.fromkeys((*partly, 0, total - 1)))[: max(groups, len(partly))]
    others = [int(at) for at in np.random.default_rng(seed).permutation(total) if at not in ends]
    return sorted({*ends, *others[: max(groups - len(ends), 0)]})


def _summed(
    problem: ProblemType, dump: NamedDump, comparer: GroupComparer, chosen: Sequence[int], total: int
) -> list[SummedOutput]:
    """The outputs that groups add to, with the rows that the chosen groups reach."""
    made = []
    picked = set(chosen)
    for form in dump.tensors:
        if not summed(problem, form):
            continue
        length = dump.tensors[form].shape[0]
        number, elsewhere = np.zeros(length, np.int64), np.zeros(length, bool)
        for group in range(total):
            inputs = dump.forms.group_inputs(dump.inputs, group)
            own = added_rows(problem, inputs, comparer.tiling, form.stage)
            number[own] += 1
            if group not in picked:
                elsewhere[own] = True
        rows = np.flatnonzero(number)
        sums = RowSums.of(rows, dump.tensors[form].shape[1])
        made.append(SummedOutput(problem, form, sums, elsewhere[rows], number[rows]))
    return made


def _record(
    problem: ProblemType,
    dump: NamedDump,
    name: str,
    seed: int,
    seen: _Seen,
    total: int,
    unjudged_rows: Mapping[str, int],
    interrupted: bool,
) -> VerdictRecord:
    order = list(problem.stages)
    findings = sorted(
        (
            replace(finding, check="outputs" if finding.kind == "chain" else "stages")
            for finding in seen.findings.values()
        ),
        key=lambda finding: (finding.kind == "chain", order.index(finding.problem.stage)),
    )
    held = held_stages(dump)
    judged_from = {stage: _from(problem, dump, stage) for stage in order if stage in held}
    checks = [
        CheckOutcome(
            "stages",
            True,
            "failed" if any(finding.check == "stages" for finding in findings) else "passed",
            details={"outputs": _scores(seen.scores, judged_from)},
        ),
    ]
    if any(finding.check == "outputs" for finding in findings):
        checks.append(CheckOutcome("outputs", True, "failed"))
    if absent := [stage for stage in order if stage not in held]:
        checks.append(CheckOutcome("not judged", False, "not run", f"not in the dump: {', '.join(absent)}"))
    if len(seen.groups) < total:
        checks.append(
            CheckOutcome(
                "not judged", False, "not run", f"{total - len(seen.groups)} of {total} {problem.unit}s"
            )
        )
    for output, rows in unjudged_rows.items():
        if rows:
            checks.append(
                CheckOutcome(
                    "not judged", False, "not run",
                    f"{rows} rows of {output}, to which {problem.unit}s that were not compared add",
                )
            )  # fmt: skip
    return programs.record(
        JudgedProgram(name, dict(problem.sizes(dump.inputs)), problem.name, ""),
        seed,
        checks,
        findings=findings,
        sections={
            "tensors": {
                "problem": problem.name,
                "unit": problem.unit,
                "groups": seen.groups,
                "of": total,
                "sha256": digest(dump),
            }
        },
        interrupted=interrupted,
        runs_code=False,
    )


def _scores(scores: Mapping[str, StageScore], judged_from: Mapping[str, str]) -> list[JsonObject]:
    """What was compared, with what each stage was compared with."""
    return [
        {
            "name": f"{name}, {judged_from[name]}" if name in judged_from else name,
            "elements": score.elements,
            "wrong": score.wrong,
            "worst": score.worst,
            "stated": True,
        }
        for name, score in scores.items()
    ]


def _from(problem: ProblemType, dump: NamedDump, stage: str) -> str:
    """What a stage was computed from for the comparison, in words."""
    held, own, rest = held_stages(dump), dict[str, bool](), False
    todo = [name for name in problem.stages[stage].inputs if name in problem.stages]
    while todo:
        name = todo.pop(0)
        before = [other for other in problem.stages[name].inputs if other in problem.stages]
        if name in held:
            own[name] = held[name]
        if not held.get(name):
            todo += before
            rest |= not before
    words = [name if held[name] else f"part of {name}" for name in problem.stages if name in own]
    return " and ".join(
        [f"from your {words[0]}", *words[1:], *["the reference"] * rest] if words else ["from the reference"]
    )


def digest(dump: NamedDump) -> str:
    """SHA-256 over the stages and outputs, by name, index, dtype, shape and content."""
    found = hashlib.sha256()
    pieces = [(form.name, tensor) for form, tensor in dump.tensors.items()]
    pieces += [(f"{part.form.name}{part.index}", part.values) for part in dump.parts]
    for name, tensor in pieces:
        found.update(f"{name} {tensor.dtype.name} {tensor.shape}".encode())
        for row in tensor:
            found.update(np.ascontiguousarray(row).tobytes())
    return found.hexdigest()
