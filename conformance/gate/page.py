"""The evidence as a self-contained page: no script, no other file, no network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from tileproof.conformance.gate.difference import MUTATION, stages_of
from tileproof.conformance.gate.evidence import ReleaseEvidence, reasons, required, titled
from tileproof.conformance.gate.failing import close_up, unpacked
from tileproof.conformance.gate.pictures import heatmap, plot, timeline
from tileproof.conformance.gate.source_lines import SECTION, places
from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord, named_check
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import place, root, source_or_line
from tileproof.spec.machine.types import JsonObject, UncheckedObject

MAX_REASONS_SHOWN = 12  # reasons at the top
SHOWN = 200  # instructions of one kernel that did not run


def page(made: ReleaseEvidence) -> str:
    """The HTML of an evidence. Everything in it is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    kernels = [_kernel(kernel) for kernel in made.kernels]
    names = list(dict.fromkeys(check.name for kernel in made.kernels for check in kernel.checks))
    return environment.get_template("report.html.j2").render(
        e=made,
        kernels=kernels,
        names=names,
        mutation=MUTATION,
        required=required,
        drawn=any(kernel["mutants"] for kernel in kernels),
        failures=[failure for kernel in kernels for failure in kernel["failures"]],
        reasons=reasons(made),
        anchor=anchor,
        hidden=(MUTATION, SECTION),
        limit=MAX_REASONS_SHOWN,
        shown=SHOWN,
        check_table=lambda checks, prefix, label: check_table(checks, prefix, label, made.run.checks),
        facts=facts,
        root=root,
    )


def anchor(text: str) -> str:
    """A text as an id."""
    return re.sub(r"\W+", "-", text).strip("-").lower()


class _KernelPart(TypedDict):
    v: VerdictRecord
    title: str
    anchor: str
    checks: Mapping[str, Mapping[str, object]]
    stages: Mapping[str, Mapping[str, float]]
    mutants: UncheckedObject | None
    plot: Markup
    failures: list[JsonObject]


def _kernel(verdict: VerdictRecord) -> _KernelPart:
    title = titled(verdict)
    name = anchor(title)
    stages = stages_of(verdict)
    return {
        "v": verdict,
        "title": title,
        "anchor": name,
        "checks": {check.name: {"o": check, "anchor": anchor(check.name)} for check in verdict.checks},
        "stages": stages,
        "mutants": _mutants(verdict),
        "plot": plot({n: float(s["worst_error_over_bound"]) for n, s in stages.items()}, title),
        "failures": [
            _failure(title, name, check.details["failure"])
            for check in verdict.checks
            if check.details.get("failure")
        ],
    }


# What the page shows of a score; one that another tool wrote may lack some, and is shown as it is.
_SCORE = (
    "killed", "of", "score", "survived", "equivalent", "refused", "seed", "profile", "drawn", "synchronising",
    "with a cause", "value findings", "survivors", "by operator", "by check", "operators", "count",
)  # fmt: skip


def _mutants(record: VerdictRecord) -> UncheckedObject | None:
    """The score of a kernel's mutants; None without one."""
    part = record.sections.get(MUTATION)
    if not isinstance(part, dict) or any(name not in part for name in _SCORE):
        return None
    sizes = ",".join(f"{name}={size}" for name, size in record.program.variant.items())
    words = [
        f"tileproof mutate {record.program.kernel}", *([f"--variant {sizes}"] if sizes else []),
        f"--seed {part['seed']}", f"--count {part['count']}", f"--operators {','.join(part['operators'])}",
        *(f"--at {mutant}" for mutant in part.get("at", ())),
        f"--profile {part['profile']}", *(f"--only {row['number']}" for row in part["survivors"][:1]),
    ]  # fmt: skip
    columns = list(part["by operator"][0]) if part["by operator"] else []
    return {**part, "columns": columns, "replay": " ".join(words)}


def _failure(title: str, name: str, failure: UncheckedObject) -> JsonObject:
    tile = failure.get("tile")
    picture = heatmap(tile, unpacked(tile)) if tile else ""
    where = tile["title"] if tile else "the first finding"
    return {
        "anchor": f"{name}-failure",
        "title": f"{title}: {where}",
        "text": "\n".join(failure["text"]),
        "trace": "\n".join(failure["trace"]),
        "timeline": timeline(failure["trace"]) + timeline(close_up(failure["trace"]), narrow=True),
        "replay": failure["replay"],
        "tile": tile,
        "picture": picture,
    }


def check_table(
    checks: Sequence[CheckOutcome], prefix: str, label: str, times: Mapping[str, float]
) -> Markup:
    """The checks with outcome, seconds (`RunFacts.checks`) and reason; each row can be linked to."""
    rows = Markup("").join(
        Markup(
            '<tr id="{id}"><th scope="row">{name}</th><td><span class="word {kind}">{outcome}</span></td>'
            '<td class="n">{seconds:.1f}</td><td>{reason}</td></tr>'
        ).format(
            id=f"{prefix}-{anchor(check.name)}",
            name=check.name,
            kind="error" if check.fault else _kind(check),
            outcome=check.outcome + ("" if check.required else ", optional"),
            seconds=times.get(named_check(label, check.name), 0.0),
            reason=check.fault or check.reason,
        )
        for check in checks
    )
    return Markup(
        '<table aria-label="Checks"><thead><tr>'
        '<th scope="col">check</th><th scope="col">outcome</th><th scope="col">seconds</th>'
        '<th scope="col">why</th></tr></thead><tbody>{}</tbody></table>'
    ).format(rows)


def _kind(outcome: CheckOutcome) -> str:
    if outcome.outcome in ("unsupported", "not run") and not outcome.required:
        return "optional"
    return outcome.outcome.replace(" ", "-")


def facts(
    finding: Finding, lines_of: Mapping[str, str]
) -> Iterable[tuple[str, str, Sequence[tuple[str, str]]]]:
    """A finding's rows: name, text, and the source lines that the text names, each with its place; without
    empty rows. `lines_of`: the section `source lines` of its verdict.
    """
    at, race = finding.machine, finding.machine.race
    value = "" if finding.expected is None else f"{finding.expected!r}"
    bound = "" if finding.bound is None else f"{finding.bound:.3g}"
    lines = (
        ("where", place(finding)),
        ("expected", value),
        ("bound", bound),
        ("found", "" if finding.found is None else f"{finding.found!r}"),
        ("wrong", f"{finding.wrong} of {finding.elements}" if finding.elements else ""),
        ("pattern", finding.pattern),
        ("state", finding.message) if root(finding) else ("cause", finding.cause),
        ("source", at.source),
        ("PTX line", str(at.ptx_line or "")),
        ("instruction", at.instruction),
        ("PTX ISA", at.isa_section),
        ("earlier access", source_or_line(race.source, race.ptx_line) if race else ""),
        ("evidence", "; ".join(finding.evidence)),
        ("alike", str(finding.count + finding.others) if finding.count + finding.others > 1 else ""),
        ("replay", finding.replay),
    )
    return [
        (name, text, [(at, lines_of[at]) for at in places(text) if at in lines_of])
        for name, text in lines
        if text
    ]
