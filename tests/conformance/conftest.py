"""The build logs of the wrong kernels, each compiled once in a test run, whichever worker comes first."""

import fcntl
import json
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import pytest
from tileproof.conformance.beside.logs.builds import report

from tests.kit.applied import remedied
from tests.kit.wrong_kernels import ALONE, WRONG, Compiled, command, compile_in_one_unit, run


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Compiled]:
    """The compiled kernel `wrong/<name>.cu`; workers of one run share what they compiled."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if base.name.startswith("popen-") else base) / "buildlog"
    shared.mkdir(exist_ok=True)

    def compile_one(name: str) -> Compiled:
        unit = name if name in ALONE else "together"
        kept = shared / f"{unit}.json"
        with (shared / f"{unit}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                kept.write_text(json.dumps({entry: astuple(log) for entry, log in logs_of(unit).items()}))
        return Compiled(*json.loads(kept.read_text())[name])

    def logs_of(unit: str) -> dict[str, Compiled]:
        if unit in ALONE:
            return {unit: run(command(unit, f"{unit}.cu", shared / f"{unit}.out"))}
        folder = shared / "copies"
        folder.mkdir()
        return compile_in_one_unit(folder)

    return compile_one


@pytest.fixture(scope="session")
def made_right(compiled: Callable[[str], Compiled], tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """The kernels with the advice for them written in, and the right ones, compiled to machine code."""
    folder = tmp_path_factory.mktemp("right")

    def row_of(name: str) -> dict[str, Any]:
        (row,) = report.explain(report.parse(compiled(name).log), WRONG / "build.log")["findings"]
        return dict(row)

    unit = folder / "right.cu"
    unit.write_text(remedied(row_of))
    words = [
        word if word != "-ptx" else "-cubin" for word in command("right", str(unit), folder / "right.out")
    ]
    return run(words)
