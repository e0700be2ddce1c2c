"""`tileproof explain`: determines the kind of a log and calls its reader."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
from tileproof.conformance.beside.logs.builds import report
from tileproof.conformance.beside.logs.hangs.as_data import Diagnosis
from tileproof.conformance.beside.logs.hangs.log import Log, load
from tileproof.conformance.beside.logs.hangs.reader import Progress, read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis
from tileproof.conformance.beside.logs.hangs.rewrite import NO_WORDS, Words, load_words
from tileproof.conformance.beside.logs.hangs.template.explain import UserLines, explained, user_lines
from tileproof.conformance.beside.logs.hangs.template.propose import proposed
from tileproof.conformance.beside.logs.hangs.text import proposal
from tileproof.conformance.beside.logs.hangs.text import text as hang_text
from tileproof.conformance.cli.include import include_option
from tileproof.conformance.cli.options import json_option
from tileproof.kernels import paths
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json, UncheckedObject
from tileproof.spec.plan import KernelPlan

Kind = Literal["build", "hang", "both"]
EXPLAINED, NOTHING = 0, 1
MIN_EVENTS = 3  # beside the errors of a build, fewer lines than these about barriers are chance

_SPEAKS = re.compile(
    r"(?i)^(?=.*(?:\b(?:cta|wg|warpgroup|warp|role|block)[\s=_]?\d|\[\w+\s*cta))(?=.*(?:wait|arrive|signal|phase|passed|done)).*$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class HangOptions:
    """How a hang log is read: a kernel's plan, a user's words, CTAs of a cluster (0: found out), progress
    shown.
    """

    plan: KernelPlan | None = None
    words: Words = NO_WORDS
    cluster: int = 0
    progress: Progress | None = None
    lines: UserLines | None = None


class NotUnderstood(TileproofError):
    """A log that no reader understands. `proposal`: line templates for the user to complete."""

    def __init__(self, what: str, *, proposal: list[str], **parts: str) -> None:
        super().__init__(what, **parts)
        self.proposal = proposal


def explanation(
    path: Path,
    plan: KernelPlan | None = None,
    kind: Literal["build", "hang", ""] = "",
    options: HangOptions | None = None,
) -> UncheckedObject:
    """The explanation of the log at `path` ("-": standard input). `kind` selects a reader; "" selects by
    content.

    The result has the key "kind": "build" or "hang", with the keys of that reader, or "both", with
    the two results under "build" and "hang". Raise TileproofError if the log cannot be read or is of neither
    kind.
    """
    options = options or HangOptions(plan)
    plan = options.plan
    text = load(path)
    if options.lines is not None:
        return {"kind": "hang", **explained(text, str(path), options.lines)}
    if kind == "hang":
        return {"kind": "hang", **_hang(text, str(path), options)}
    parsed = report.parse(text)
    build = {"kind": "build", **report.explain(parsed, path)}
    if kind == "build":
        return build
    has_build = build["outcome"] != "no errors"
    rest = parsed.rest() if has_build else text
    # The hang reader takes seconds for a megabyte: of a build, it gets what a role seems to have said.
    log = _hang_log(rest, str(path), options) if not parsed.is_build_log or _SPEAKS.search(rest) else None
    if not has_build:
        if log is not None:
            return {"kind": "hang", **_with_proposal(diagnosis(log, plan), text)}
        if parsed.is_build_log:
            templates = proposed(text)  # a hang log behind a build, in words that are not known
            speaks = any(not template.startswith("?") for template in templates)
            return {**build, "proposal": templates if speaks else []}
        raise NotUnderstood(
            "the log contains neither a compiler error nor a barrier",
            where=str(path),
            expected="compiler errors, or lines that name a role or warpgroup, a barrier, and wait, done or "
            "arrive",
            found=_sample(text),
            do="for a hang, print a line before and after each wait and after each arrive; "
            "for a build, give the complete output of the compiler",
            proposal=proposed(text),
        )
    if log is None or len(log.events) < MIN_EVENTS:
        return build
    return {"kind": "both", "outcome": build["outcome"], "build": build, "hang": diagnosis(log, plan)}


def _hang(text: str, path: str, options: HangOptions) -> Diagnosis:
    try:
        log = _read(text, path, options)
    except TileproofError as error:
        raise NotUnderstood(**error.as_dict(), proposal=proposed(text)) from error
    return _with_proposal(diagnosis(log, options.plan), text)


def _with_proposal(found: Diagnosis, text: str) -> Diagnosis:
    """The diagnosis, with templates to complete where the log is not understood."""
    return {**found, "proposal": proposed(text) if found["outcome"] == "unclear" else []}


def _read(text: str, path: str, options: HangOptions) -> Log:
    return read_text(text, path, options.plan, options.words, options.cluster, options.progress)


def _hang_log(text: str, path: str, options: HangOptions) -> Log | None:
    try:
        return _read(text, path, options)
    except TileproofError:
        return None


def _sample(text: str) -> str:
    lines = text.splitlines()
    first = next((line.strip()[:80] for line in lines if line.strip()), "")
    return f"{len(lines)} lines, such as: {first}" if first else f"{len(lines)} lines"


def render(result: Json, waits: bool = False) -> str:
    """The explanation in words; `waits`: of a hang, every cause and who waits for whom too."""
    if result["kind"] == "both":
        parts = ["The build:", report.text(result["build"]), "", "The run:", hang_text(result["hang"], waits)]
        return "\n".join(parts)
    if result["kind"] == "build":
        templates = result.get("proposal")
        return "\n".join([report.text(result), *(("", *proposal(templates)) if templates else ())])
    return hang_text(result, waits)


def _show_progress(done: int, of: int) -> None:
    click.echo(f"{done} of {of} lines read", err=True)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "kind",
    type=click.Choice(["build", "hang"]),
    help="Kind of FILE (default: detected from its content).",
)
@click.option("--kernel", metavar="NAME", help="The kernel that hung; its plan names the arriving roles.")
@click.option(
    "--waits", is_flag=True, help="For a hang: print every cause, the wait graph and each role's last action."
)
@click.option(
    "--cluster", default=0, metavar="N", type=click.IntRange(0, 16),
    help="CTAs per cluster, if the log numbers the CTAs of the grid.",
)  # fmt: skip
@click.option(
    "--words", metavar="FILE", type=click.Path(path_type=Path),
    help="File with your words for wait, done, arrive ...: `meaning: word, word` per line.",
)  # fmt: skip
@click.option(
    "--line",
    "lines",
    multiple=True,
    metavar="TEMPLATE",
    help="Line template: `wait: {role} waiting on {barrier}[{stage}] phase {phase}` (repeatable).",
)
@click.option(
    "--line-regex",
    "regexes",
    multiple=True,
    metavar="REGEX",
    help="The same as a regular expression with named groups: `wait: (?P<role>...) ...`.",
)
@click.option(
    "--lines",
    "lines_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with a template per line, and lines `event wait=WORD`, `role NAME=WORD`.",
)
@click.option(
    "--event", "events", multiple=True, metavar="EVENT=WORD", help="The word that {event} prints: wait=enter."
)
@click.option("--role", "roles", multiple=True, metavar="NAME=WORD", help="Another name of a role.")
@json_option()
@include_option("tileproof_log.cuh")
def explain(
    file: Path,
    kind: Literal["build", "hang"] | None,
    kernel: str | None,
    waits: bool,
    cluster: int,
    words: Path | None,
    lines: tuple[str, ...],
    regexes: tuple[str, ...],
    lines_file: Path | None,
    events: tuple[str, ...],
    roles: tuple[str, ...],
    as_json: bool,
) -> int:
    """Explain FILE: the output of a failed build, or the printf log of a kernel that hung. `-` is standard
    input.

    A build: what does not fit in the layouts, and what would. A hang: its root, the cause, a fix. A hang log
    of any form is read with line templates (--line); where a log is not understood, templates to complete
    are printed.

    Exit code 1: a build's log in which no error is understood, or none is. 2: what cannot be read as either.
    """
    from tileproof.conformance.cases import resolve

    if str(file) != "-":
        paths.require_file(file, "the output of a failed build, the printf log of a kernel that hung, or -")
    plan = None
    if kernel is not None:
        found = resolve.compiled_kernel(kernel, "a launch file has no plan with names of barriers")
        plan = found.plan(found.variants[0])
    own = load_words(words) if words is not None else NO_WORDS
    if lines_file is not None:
        paths.require_file(lines_file, "a file of line templates")
    user = user_lines(lines, regexes, lines_file, events, roles)
    try:
        result = explanation(file, plan, kind or "", HangOptions(plan, own, cluster, _show_progress, user))
    except NotUnderstood as error:
        if error.proposal and not as_json:
            click.echo("\n".join(proposal(error.proposal)) + "\n", err=True)
        raise
    click.echo(json.dumps(result, indent=1) if as_json else render(result, waits))
    return NOTHING if result["kind"] == "build" and result["outcome"] != "explained" else EXPLAINED
