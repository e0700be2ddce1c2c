"""Compares verdicts of `emulate()` with the labels of Triton's own race checker: `python -m
tileproof.tools.labelled_gluon test_consan.py`.

The user gives `test_consan.py` of Triton's Gluon tests. Each of its tests, with each value
of its parameters, launches a small Gluon program and expects an error or none. Nothing of it is kept here.

The labels are about order and synchronisation. Some programs labelled correct store values that nobody wrote:
their outputs are arbitrary, which is an error of `emulate()` too. The table counts such errors apart.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import itertools
import json
import multiprocessing
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    import pytest

SECONDS = 300.0  # a program that takes longer is reported as "no verdict"


# Errors about values; the labels are about none.
VALUES = frozenset({"shared-uninitialised", "tmem-uninitialised", "global-uninitialised"})


class _Ran(Exception):
    """The program of a test has run; the rest of the test only reads the race checker's report."""


def on_the_cpu() -> AbstractContextManager[object]:
    """Tensors that a program asks for on a GPU are made on the CPU."""
    import torch

    class Cpu(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        """`device="cuda"` as `device="cpu"`; tensors are said to be on the GPU."""

        def __torch_function__(
            self,
            func: Callable[..., object],
            types: object,
            args: tuple[object, ...] = (),
            kwargs: Mapping[str, object] | None = None,
        ) -> object:  # fmt: skip
            kwargs = dict(kwargs or {})
            if func == torch.Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
                return True
            if str(kwargs.get("device", "")).startswith("cuda"):
                kwargs["device"] = "cpu"
            return func(*args, **kwargs)

    return Cpu()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class LabelledProgram:
    """A test of the file with values of its parameters."""

    name: str
    function: Callable[..., object]
    arguments: dict[str, object]

    def __str__(self) -> str:
        given = ", ".join(
            f"{k}={v}" for k, v in self.arguments.items() if k not in ("device", "run_wrapper", "monkeypatch")
        )
        return f"{self.name}({given})"


@dataclass(frozen=True)
class LabelledVerdict:
    """What became of a program."""

    name: str
    faulty: bool
    errors: list[str] = field(default_factory=list)  # codes of findings, most serious first
    warnings: list[str] = field(default_factory=list)
    text: str = ""
    refused: str = ""  # why there is no verdict

    @property
    def ordering(self) -> list[str]:
        """Errors about order and synchronisation."""
        return [code for code in self.errors if code not in VALUES]

    @property
    def right(self) -> bool:
        return not self.refused and bool(self.ordering) == self.faulty


class _Monkeypatch:
    """Leaves the environment alone: the emulator runs the program without Triton's instrumentation."""

    def setenv(self, *_: object, **__: object) -> None:
        """Do nothing."""

    delenv = setattr = setenv


def _leaves_out(mark: pytest.Mark) -> bool:
    """Whether a mark of pytest keeps the test from running on an SM100."""
    runs = mark.name == "xfail" and mark.kwargs.get("run", True)
    return mark.name in ("skipif", "xfail") and not runs and any(mark.args)


def programs(module: types.ModuleType) -> Iterator[LabelledProgram]:
    """The tests of the file for sm_100a, with each combination of their parameters."""
    fixture: dict[str, list[object]] = {"device": ["cpu"], "run_wrapper": [True]}
    fixture["monkeypatch"] = [_Monkeypatch()]
    for name, function in vars(module).items():
        if not name.startswith("test_"):
            continue
        marks = getattr(function, "pytestmark", [])
        if any(_leaves_out(mark) for mark in marks):
            continue
        choices: dict[str, list[object]] = {}
        for mark in marks:
            if mark.name == "parametrize":
                names, values = mark.args[:2]
                choices[names] = [getattr(value, "values", [value])[0] for value in values]
        signature = inspect.signature(function).parameters
        if "num_ctas" in signature:
            choices.setdefault("num_ctas", [1, 2, 4])
        names = [name for name in signature if name in choices or name in fixture]
        if set(names) != set(signature):
            continue  # asks for a fixture of the race checker
        for values in itertools.product(*(choices.get(name) or fixture[name] for name in names)):
            yield LabelledProgram(name, function, dict(zip(names, values, strict=True)))


def label(module: types.ModuleType, program: LabelledProgram) -> bool | None:
    """Whether the test expects an error; None where it is skipped or compares nothing.

    The test is given a report without an error; a test that accepts it expects none.
    """
    import pytest

    calls: list[None] = []
    instrumented = "TRITON_INSTRUMENTATION_MODE" in inspect.getsource(program.function)

    def reported(*_: object, **__: object) -> types.SimpleNamespace:
        calls.append(None)
        return types.SimpleNamespace(exc=None, driver_stderr_output="")

    module.run_in_process = reported  # type: ignore[attr-defined]
    try:
        program.function(**program.arguments)
    except pytest.skip.Exception:
        return None
    except AssertionError:
        return True
    except RuntimeError:
        # No driver: the test launches in its own process, which an error would end.
        if calls:
            raise
    return False if calls or instrumented else None


def run(module: types.ModuleType, program: LabelledProgram, faulty: bool) -> LabelledVerdict:
    """The program in an `emulate()` block."""
    import pytest
    import tileproof.triton

    def in_this_process(function: Callable[..., object], arguments: tuple[object, ...]) -> None:
        function(*arguments)
        raise _Ran

    module.run_in_process = in_this_process  # type: ignore[attr-defined]
    refused, block = "", None
    try:
        with on_the_cpu(), tileproof.triton.emulate(raises=False) as block:
            program.function(**program.arguments)
    except _Ran:
        pass
    except pytest.skip.Exception:
        raise
    except TileproofError as error:
        refused = f"{type(error).__name__}: {error}"
    except AssertionError as error:
        refused = "" if block and block.errors else f"its own assertion failed: {error}"
    except Exception as error:
        refused = f"{type(error).__name__}: {error}"
    if block is None or (not block.launches and not refused):
        refused = refused or "nothing was launched"
    errors = [finding.code for finding in block.errors] if block else []
    every = block.findings if block else ()
    return LabelledVerdict(
        str(program),
        faulty,
        list(dict.fromkeys(errors)),
        list(dict.fromkeys(finding.code for finding in every if finding.code not in errors)),
        block.text(block.errors) if block and errors else "",
        "" if errors else refused,
    )


def apart(module: types.ModuleType, program: LabelledProgram, faulty: bool) -> LabelledVerdict:
    """`run` in a process of its own: a compiler or an emulator that aborts costs only its own program."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def child(result: Connection) -> None:
        result.send(run(module, program, faulty))

    process = context.Process(target=child, args=(theirs,))
    process.start()
    theirs.close()
    try:
        row = (
            ours.recv()
            if ours.poll(SECONDS)
            else LabelledVerdict(str(program), faulty, refused=f"over {SECONDS} s")
        )
    except EOFError:
        row = LabelledVerdict(str(program), faulty, refused="its process ended")
    process.kill()
    process.join()
    return row


def loaded(path: Path) -> types.ModuleType:
    """The file as a module; imported in a block, so that its conditions see an SM100."""
    import tileproof.triton
    import torch

    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("labelled", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["labelled"] = module
    with tileproof.triton.emulate():
        spec.loader.exec_module(module)
    return module


def table(rows: list[LabelledVerdict]) -> str:
    """The figures, and each program on which label and verdict differ."""
    lines = []
    faulty = [row for row in rows if row.faulty]
    correct = [row for row in rows if not row.faulty]
    quiet = sum(row.right for row in correct)
    lines.append(f"faulty programs, found: {sum(row.right for row in faulty)} of {len(faulty)}")
    lines.append(f"correct programs, without an error of order or synchronisation: {quiet} of {len(correct)}")
    values = sum(row.right and bool(row.errors) for row in correct)
    lines.append(f"  of these, with an error about unwritten values: {values}")
    wrong = [row for row in rows if not row.right]
    for row in wrong:
        lines.append(
            f"  {'missed' if row.faulty else 'false '} {row.name}: {row.refused or ', '.join(row.errors)}"
        )
    counts = Counter(code for row in wrong for code in row.errors)
    lines += [f"{count:4} {code}" for code, count in counts.most_common()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="test_consan.py of Triton's Gluon tests")
    parser.add_argument("--only", default="", help="only programs whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--json", type=Path, help="write the rows, with the text of their errors, to this file"
    )
    given = parser.parse_args()
    module = loaded(given.file)
    labelled = [
        (program, label(module, program)) for program in programs(module) if given.only in str(program)
    ]
    chosen = [(program, faulty) for program, faulty in labelled if faulty is not None]

    def judged(chosen: tuple[LabelledProgram, bool]) -> LabelledVerdict:
        row = apart(module, *chosen)
        state = "" if row.right else ("MISSED" if row.faulty else "FALSE")
        print(f"{row.name}: {row.refused or ', '.join(row.errors) or 'clean'} {state}", flush=True)
        return row

    with ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(judged, chosen))
    print(table(rows))
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
