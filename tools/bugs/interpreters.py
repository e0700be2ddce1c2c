"""Triton's interpreter, alone and with the sanitizer of Triton-Viz, on cases in Triton; a process for each.

Triton-Viz 3.0 needs Triton 3.6, an older version than the compiler of the cases. The environment variable
TRITON_VIZ_PYTHON names a Python interpreter that can import both and this package; without it the answer of
Triton-Viz is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

from tileproof.tools.bugs.case import BugCase
from tileproof.tools.bugs.triton_cases import TritonCase

SECONDS = 120
VIZ = "TRITON_VIZ_PYTHON"
REPORT = "End of IMA Diagnostic Report"  # what the sanitizer prints behind an illegal memory access


@cache
def _run(python: str, program: str, mistake: str, viz: bool) -> tuple[int, str]:
    """Exit code and what is printed."""
    line = [python, "-m", "tileproof.tools.bugs.interpreted", program, mistake, *["--viz"] * viz]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout + done.stderr


def _kernel(case: BugCase) -> TritonCase | None:
    return case if isinstance(case, TritonCase) and case.form == "Triton" else None


Answer = tuple[bool, bool, bool, str]  # accepted, found, an alarm on the right form, why


def interpreter(case: BugCase) -> Answer:
    """Whether the case's own test of values fails on the interpreter, or the process ends with an error."""
    kernel = _kernel(case)
    if kernel is None:
        return False, False, False, ""
    code, text = _run(sys.executable, kernel.program, kernel.mistake, False)
    right = _run(sys.executable, kernel.program, "", False)
    if right[0] != 0:
        return False, False, False, right[1].strip().split("\n")[-1]
    found = code != 0 or text.split()[-1] != "right"
    return (
        True,
        found,
        right[1].split()[-1] != "right",
        ("wrong values", f"exit code {code}")[code != 0] * found,
    )


def triton_viz(case: BugCase) -> Answer | None:
    """Whether the sanitizer reports an access outside of its tensor; None where it is not installed."""
    python = os.environ.get(VIZ)
    kernel = _kernel(case)
    if python is None:
        return None
    if kernel is None:
        return False, False, False, ""
    (_, wrong), (code, right) = (_run(python, kernel.program, m, True) for m in (kernel.mistake, ""))
    if code != 0 and REPORT not in right:
        return False, False, False, right.strip().split("\n")[-1]
    return True, REPORT in wrong, REPORT in right, "access outside of a tensor" * (REPORT in wrong)
