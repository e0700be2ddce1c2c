"""What other ways to find bugs without a card report of a case: outputs compared, ptxas, and other tools."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
from tileproof.conformance.check.machine_causes import known_code
from tileproof.conformance.planted.synchronisation.run import SCHEDULES
from tileproof.kernels import toolchain
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import Output
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Array, Json
from tileproof.tools.bugs import interpreters
from tileproof.tools.bugs.case import BugCase, run_launch
from tileproof.tools.crosscheck.opinion import Budget, second_opinion

TOLERANCE = 1e-2  # absolute and relative, as KernelBench compares outputs of 16 and 32 bits
SECONDS = 60.0  # of sentryward, for each form
PARTS = frozenset({"head128-part0"})  # parts of a kernel, whose product P is no output


@dataclass(frozen=True)
class ToolAnswer:
    """A tool's answer on a case: `accepted` says whether it can judge it, `why` has its first words."""

    accepted: bool
    found: bool = False
    alarm: bool = False
    why: str = ""

    def as_dict(self) -> dict[str, Json]:
        """For the stored result."""
        return asdict(self)


Outputs = Mapping[str, Output]


def output_tests(case: BugCase) -> tuple[ToolAnswer, ToolAnswer]:
    """A comparison of the wrong form's outputs with the right form's: in a single order, and in ten.

    It has no race checker. A hang, or an error that ends the launch, counts as found. What it does not find
    in a program that writes no output, or in a part of a kernel, is not accepted.
    """
    right = run_launch(case.launch(False), SCHEDULES[0], races=False)
    first = _seen(case, right.outputs, SCHEDULES[0])
    seen = first or next((found for each in SCHEDULES[1:] if (found := _seen(case, right.outputs, each))), "")
    whole = case.base not in PARTS and any(np.any(output.values != 0) for output in right.outputs.values())
    return (
        ToolAnswer(whole or bool(first), bool(first), why=first or ("" if whole else NO_OUTPUT)),
        ToolAnswer(whole or bool(seen), bool(seen), why=seen or ("" if whole else NO_OUTPUT)),
    )


NO_OUTPUT = "what the bug changes is no output"


def _seen(case: BugCase, right: Outputs, schedule: Schedule) -> str:
    """What a test of the outputs sees of a run; empty: nothing."""
    try:
        run = run_launch(case.launch(True), schedule, races=False)
    except TileproofError as error:
        return f"does not run: {error.what}"
    for finding in run.errors:
        code = known_code(finding.code)
        if finding.code in ("hang", "livelock") or (code is not None and code.stops):
            return f"{finding.code} under {schedule}"
    for name, output in right.items():
        if not close(output.values, run.outputs[name].values, output.written):
            return f"{name} differs under {schedule}"
    return ""


def close(right: Array, found: Array, written: Array) -> bool:
    """Whether all written elements agree within the tolerance; NaN agrees with NaN."""
    a, b = (np.asarray(each, np.float64)[written] for each in (right, found))
    return bool(np.allclose(b, a, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))


def compilers(case: BugCase) -> ToolAnswer:
    """Whether ptxas refuses or warns of the wrong form only."""
    before = _ptxas(_text(case, False))
    if refused := next((line for line in before if re.search("error|fatal|failed", line)), ""):
        return ToolAnswer(False, why=refused)  # such as a version of PTX that it does not read
    found = [line for line in _ptxas(_text(case, True)) if line not in before]
    return ToolAnswer(True, bool(found), bool(before), found[0] if found else "")


def _text(case: BugCase, wrong: bool) -> str:
    return str(case.launch(wrong).modules[0].code.text)  # type: ignore[union-attr]


@cache
def _ptxas(text: str) -> tuple[str, ...]:
    """Warnings and errors, without their lines."""
    target = re.search(r"^\.target\s+(\w+)", text, re.M)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.ptx"
        path.write_text(text)
        command = [str(toolchain.find().ptxas), f"-arch={target[1] if target else 'sm_100a'}", str(path)]
        done = subprocess.run(
            [*command, "-o", str(Path(folder) / "k.cubin")], capture_output=True, text=True, check=False
        )
    lines = (done.stdout + done.stderr).replace(str(path), "k.ptx").split("\n")
    said = [re.sub(r"line \d+", "line", line) for line in lines if re.search("warning|error|fatal", line)]
    return tuple(said) or (("ptxas failed",) if done.returncode else ())


def sentryward(case: BugCase) -> ToolAnswer | None:
    """The static verifier on both forms; None where it is not installed."""
    if find_spec("sentryward") is None:
        return None
    if case.form == "kernel" and (reason := _kernel_refused(case)):
        return ToolAnswer(False, why=reason)
    try:
        right, wrong = (second_opinion(case.launch(form), Budget(SECONDS)) for form in (False, True))
    except TileproofError as error:
        return ToolAnswer(False, why=error.what)
    alarm = right.outcome == "error"
    if wrong.outcome == "no opinion":
        return ToolAnswer(False, alarm=alarm, why=wrong.lines[0] if wrong.lines else wrong.kinds[0])
    return ToolAnswer(True, wrong.outcome == "error", alarm, ", ".join(wrong.kinds))


_REFUSED: dict[str, str] = {}


def _kernel_refused(case: BugCase) -> str:
    """Why it has no opinion of a kernel as it is; empty where it has."""
    if case.base not in _REFUSED:
        opinion = second_opinion(case.launch(False), Budget(SECONDS))
        no_opinion = opinion.outcome == "no opinion"
        _REFUSED[case.base] = (opinion.lines[0] if opinion.lines else "no opinion") if no_opinion else ""
    return _REFUSED[case.base]


Tool = Literal[
    "output test", "output test, 10 orders", "ptxas", "sentryward", "Triton's interpreter", "Triton-Viz"
]  # fmt: skip
COMPARED: tuple[Tool, Tool] = ("output test", "output test, 10 orders")  # the right form is their reference
TOOLS: tuple[Tool, ...] = (*COMPARED, "ptxas", "sentryward", "Triton's interpreter", "Triton-Viz")


def answers(case: BugCase) -> dict[str, Json]:
    """The answers of all tools that are installed."""
    early, ten = output_tests(case)
    viz = interpreters.triton_viz(case)
    found = (
        early,
        ten,
        compilers(case),
        sentryward(case),
        ToolAnswer(*interpreters.interpreter(case)),
        None if viz is None else ToolAnswer(*viz),
    )
    return {name: each.as_dict() for name, each in zip(TOOLS, found, strict=True) if each is not None}
