"""The command `tileproof explain`: looks what kind of log a file is, and has the right reader explain it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import click
from tileproof.conformance.logs.builds import report
from tileproof.conformance.logs.hangs.log import Log, load, read_text
from tileproof.conformance.logs.hangs.render import diagnosis
from tileproof.conformance.logs.hangs.render import text as hang_text
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

Kind = Literal["build", "hang", "both"]
EXPLAINED, NOTHING = 0, 1
MIN_EVENTS = 3  # beside the errors of a build, fewer lines than these about barriers are chance

_SPEAKS = re.compile(
    r"(?i)^(?=.*(?:\b(?:cta|wg|warpgroup|warp|role|block)[\s=_]?\d|\[\w+\s*cta))(?=.*(?:wait|arrive|signal|phase|passed|done)).*$",
    re.MULTILINE,
)


def explanation(
    path: Path, plan: KernelPlan | None = None, kind: Literal["build", "hang", ""] = ""
) -> dict[str, Any]:
    """What the log in `path` tells. `kind` forces a reader; "" lets the content decide.

    The result has the key "kind": "build" or "hang", with that reader's own keys beside it, or "both", with
    the two results under "build" and "hang". Raises TileproofError for what cannot be read or is neither.
    """
    text = load(path)
    if kind == "hang":
        return {"kind": "hang", **diagnosis(read_text(text, str(path), plan), plan)}
    parsed = report.parse(text)
    build = {"kind": "build", **report.explain(parsed, path)}
    if kind == "build":
        return build
    has_build = build["verdict"] != "no errors"
    rest = parsed.rest() if has_build else text
    # The hang reader takes seconds for a megabyte: of a build, it gets what a role seems to have said.
    log = _hang_log(rest, str(path), plan) if not parsed.is_build_log or _SPEAKS.search(rest) else None
    if not has_build:
        if log is not None:
            return {"kind": "hang", **diagnosis(log, plan)}
        if parsed.is_build_log:
            return build
        raise TileproofError(
            "the log tells neither of a failed build nor of a barrier",
            where=str(path),
            expected="compiler errors, or lines that name a role or warpgroup, a barrier, and wait, done or "
            "arrive",
            found=_sample(text),
            do="for a hang, print a line before and after each wait and after each arrive; "
            "for a build, give all that the compiler printed",
        )
    if log is None or len(log.events) < MIN_EVENTS:
        return build
    return {"kind": "both", "verdict": build["verdict"], "build": build, "hang": diagnosis(log, plan)}


def _hang_log(text: str, path: str, plan: KernelPlan | None) -> Log | None:
    try:
        return read_text(text, path, plan)
    except TileproofError:
        return None


def _sample(text: str) -> str:
    lines = text.splitlines()
    first = next((line.strip()[:80] for line in lines if line.strip()), "")
    return f"{len(lines)} lines, such as: {first}" if first else f"{len(lines)} lines"


def render(result: dict[str, Any]) -> str:
    """The explanation in words."""
    if result["kind"] == "both":
        parts = ["The build:", report.text(result["build"]), "", "The run:", hang_text(result["hang"])]
        return "\n".join(parts)
    return report.text(result) if result["kind"] == "build" else hang_text(result)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "kind",
    type=click.Choice(["build", "hang"]),
    help="Read FILE as this; its content decides otherwise.",
)
@click.option("--kernel", metavar="NAME", help="The kernel that hung: its plan tells who arrives where.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def explain(file: Path, kind: Literal["build", "hang"] | None, kernel: str | None, as_json: bool) -> int:
    """Explain FILE: the output of a failed build, or the printf log of a kernel that hung.

    A build: what does not fit in the layouts, and what would. A hang: who waits for whom, the root, causes.
    Exit code 1: a build's log in which no error is understood, or none is.
    """
    plan = None
    if kernel is not None:
        from tileproof.kernels.registry import kernel as find_kernel

        found = find_kernel(kernel)
        plan = found.plan(found.variants[0])
    result = explanation(file, plan, kind or "")
    click.echo(json.dumps(result, indent=1) if as_json else render(result))
    return NOTHING if result["kind"] == "build" and result["verdict"] != "explained" else EXPLAINED
