"""The command `tileproof explain`: looks what kind of log a file is, and has the right reader explain it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
from tileproof.conformance.beside.logs.builds import report
from tileproof.conformance.beside.logs.hangs.log import Log, load
from tileproof.conformance.beside.logs.hangs.reader import Progress, read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis
from tileproof.conformance.beside.logs.hangs.rewrite import NO_WORDS, Words, load_words
from tileproof.conformance.beside.logs.hangs.text import text as hang_text
from tileproof.conformance.cli.include import include_option
from tileproof.kernels import paths
from tileproof.spec.machine.errors import TileproofError
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


def explanation(
    path: Path,
    plan: KernelPlan | None = None,
    kind: Literal["build", "hang", ""] = "",
    options: HangOptions | None = None,
) -> dict[str, Any]:
    """What the log in `path` tells; "-" is standard input. `kind` forces a reader; "" lets the content
    decide.

    The result has the key "kind": "build" or "hang", with that reader's own keys beside it, or "both", with
    the two results under "build" and "hang". Raises TileproofError for what cannot be read or is neither.
    """
    options = options or HangOptions(plan)
    plan = options.plan
    text = load(path)
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
            return {"kind": "hang", **diagnosis(log, plan)}
        if parsed.is_build_log:
            return build
        raise TileproofError(
            "the log contains neither a compiler error nor a barrier",
            where=str(path),
            expected="compiler errors, or lines that name a role or warpgroup, a barrier, and wait, done or "
            "arrive",
            found=_sample(text),
            do="for a hang, print a line before and after each wait and after each arrive; "
            "for a build, give all that the compiler printed",
        )
    if log is None or len(log.events) < MIN_EVENTS:
        return build
    return {"kind": "both", "outcome": build["outcome"], "build": build, "hang": diagnosis(log, plan)}


def _hang(text: str, path: str, options: HangOptions) -> dict[str, Any]:
    return diagnosis(_read(text, path, options), options.plan)


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


def render(result: dict[str, Any], waits: bool = False) -> str:
    """The explanation in words; `waits`: of a hang, every cause and who waits for whom too."""
    if result["kind"] == "both":
        parts = ["The build:", report.text(result["build"]), "", "The run:", hang_text(result["hang"], waits)]
        return "\n".join(parts)
    return report.text(result) if result["kind"] == "build" else hang_text(result, waits)


def _show_progress(done: int, of: int) -> None:
    click.echo(f"{done} of {of} lines read", err=True)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "kind",
    type=click.Choice(["build", "hang"]),
    help="Read FILE as this; its content decides otherwise.",
)
@click.option("--kernel", metavar="NAME", help="The kernel that hung; its plan names the arriving roles.")
@click.option(
    "--waits", is_flag=True, help="For a hang: print every cause, the wait graph and each role's last action."
)
@click.option(
    "--cluster", default=0, metavar="N", type=click.IntRange(0, 16),
    help="CTAs of a cluster, where the log numbers the CTAs of the grid.",
)  # fmt: skip
@click.option(
    "--words", metavar="FILE", type=click.Path(path_type=Path),
    help="Your words for wait, done, arrive ...: `meaning: word, word` per line.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
@include_option("tileproof_log.cuh")
def explain(
    file: Path,
    kind: Literal["build", "hang"] | None,
    kernel: str | None,
    waits: bool,
    cluster: int,
    words: Path | None,
    as_json: bool,
) -> int:
    """Explain FILE: the output of a failed build, or the printf log of a kernel that hung. `-` is standard
    input.

    A build: what does not fit in the layouts, and what would. A hang: its root, the cause, a fix.
    Exit code 1: a build's log in which no error is understood, or none is. 2: what cannot be read as either.
    """
    from tileproof.conformance.cases import resolve

    if str(file) != "-":
        paths.require_file(file, "the output of a failed build, the printf log of a kernel that hung, or -")
    plan = None
    if kernel is not None:
        found = resolve.compiled_kernel(kernel, "a launch file has no plan whose barriers a log names")
        plan = found.plan(found.variants[0])
    own = load_words(words) if words is not None else NO_WORDS
    result = explanation(file, plan, kind or "", HangOptions(plan, own, cluster, _show_progress))
    click.echo(json.dumps(result, indent=1) if as_json else render(result, waits))
    return NOTHING if result["kind"] == "build" and result["outcome"] != "explained" else EXPLAINED
