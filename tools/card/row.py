"""One question to a card: a program in its own process with a time limit, and the answer in its last line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tileproof.spec.machine.types import Json

Outcome = Literal["as expected", "differs", "in part", "not run", "hang", "fault", "recorded"]
MARK = "tileproof card: "  # before the answer, in a line of standard output
MAX_TEXT = 2000


@dataclass(frozen=True)
class Row:
    """A row of the evidence file.

    program: arguments of the Python interpreter; empty for a row that cannot be run, whose `reason` says why.
    seconds: the time limit of its process.
    """

    group: str
    name: str
    program: tuple[str, ...] = ()
    seconds: float = 60.0
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """What came of a row: its outcome, the reason if it is not "as expected", and data."""

    outcome: Outcome
    reason: str = ""
    data: Mapping[str, Json] | None = None

    def print(self) -> None:
        """Print the answer, as the last act of a row's program."""
        sys.stdout.write(MARK + json.dumps(vars(self)) + "\n")
        sys.stdout.flush()


def ask(row: Row) -> tuple[Answer, float]:
    """Run a row and return its answer and its seconds. A process without an answer is a fault, a process
    over its limit a hang; either costs this row alone.
    """
    if not row.program:
        return Answer("not run", row.reason), 0.0
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *row.program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = process.communicate(timeout=row.seconds)
    except subprocess.TimeoutExpired:
        # The process may wait in the driver; its children hold the pipes.
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        return Answer("hang", f"no answer in {row.seconds:g} s", _tail(out, errors)), time.monotonic() - start
    seconds = time.monotonic() - start
    lines = [line for line in out.splitlines() if line.startswith(MARK)]
    if not lines or process.returncode:
        code = process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Answer("fault", f"{how}, without an answer", _tail(out, errors)), seconds
    return Answer(**json.loads(lines[-1].removeprefix(MARK))), seconds


def _tail(out: str, errors: str) -> dict[str, str]:
    found = {"output": out[-MAX_TEXT:], "errors": errors[-MAX_TEXT:]}
    return {name: text for name, text in found.items() if text}
