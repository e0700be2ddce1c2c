"""Known cheats against judges of kernels: each is a defect, or cannot be done, and the test says why."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.api.page import lines
from tileproof.conformance.judging.expected import Expected
from tileproof.conformance.launches.modules import compiled
from tileproof.kernels.foreign import isolation
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.arguments import LaunchArgument, PointerArgument, ScalarArgument
from tileproof.kernels.launch.contents import InlineBytes, NormalDraw, UniformDraw
from tileproof.kernels.launch.model import (
    BufferWrite,
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
    PtxText,
)
from tileproof.spec.machine.errors import TileproofError

from tests.kit.judging import check, judged
from tests.kit.paths import ROOT

ROWS, COLUMNS = 40, 24
SOURCE = ROOT / "tests/kit/cheats/cheats.cu"
X = LaunchBuffer("x", "float32", (ROWS, COLUMNS), "input", NormalDraw(1))


def values() -> Any:
    made = X.elements(Path())
    assert made is not None
    return made


@cache
def ptx() -> str:
    answers = ",".join(f"{answer!r}f" for answer in map(float, values().sum(axis=1)))
    known = f"#define STORED {answers}\n#define FIRST {float(values()[0, 0])!r}f\n"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / SOURCE.name
        source.write_text(known + SOURCE.read_text())
        return compiled(source, (), "sm_100a").read_text()


def sums(x: Any) -> Any:
    """A sum of n terms in f32, in any order: (n - 1) roundings of at most the sum of the magnitudes."""
    return Expected(x.sum(axis=1), bound=(COLUMNS - 1) * 2.0**-24 * np.abs(x).sum(axis=1))


def launch(entry: str, y: LaunchBuffer | None = None, **changes: Any) -> LaunchFile:
    """The launch of an entry; `other` is a buffer that the kernel is given and nobody wrote."""
    y = y or LaunchBuffer.output("y", (ROWS,), np.float32)
    other = LaunchBuffer("other", "float32", (ROWS,), "scratch")
    arguments: tuple[LaunchArgument, ...] = (
        *map(PointerArgument, ("y", "x", "other")),
        ScalarArgument("s32", ROWS),
    )
    step = KernelLaunch(entry, (1,), (64,), arguments)
    made = LaunchFile("sums", (LaunchModule("m", PtxText(ptx())),), (y, X, other), (step,))
    return replace(made, **changes)


# By entry of the source: a code of the findings that the verdict must have.
DEFECTS = {
    "zeros": "value",
    "constant": "value",
    "nothing": "output-unwritten",
    "left_in_output": "global-uninitialised",
    "copy_of_other": "global-uninitialised",
    "stored_answers": "value",
    "known_input": "value",
    "right_when_called_again": "value",
    "skipped_tail": "output-unwritten",
    "zero_tail": "value",
    "fewer_columns": "value",
    "scaled_sample": "value",
    "last_row": "race-unordered",
    "all_nan": "value",
    "one_nan": "value",
    "infinity": "value",
    "rounded": "value",
    "slightly_off": "value",
    "changed_input": "global-read-only",
    "beyond_output": "global-out-of-bounds",
    "scan_after": "global-out-of-bounds",
    "scan_before": "global-out-of-bounds",
    "scan_addresses": "global-out-of-bounds",
    "left_in_shared": "value missing",
    "left_in_local": "value",
    "right_if_early": "race-unordered",
    "atomic_twice": "global-uninitialised",
    "endless": "livelock",
    "by_the_clock": "value",
    "printed_verdict": "value",
    "answers_in_constant": "value",
    "restored_input": "global-read-only",
    "scan_parameters": "param-out-of-bounds",
    "flood": "value",
    "trapped": "trap",
    "in_half": "value",
    "first_column_only": "value",
    "zeroed_by_others": "race-unordered",
    "sum_of_differences": "value",
}


def test_the_right_kernel_is_clean() -> None:
    made = judged(launch("right"), sums)
    assert made.verdict == "clean", made.why
    assert check(made, "values").details["inputs drawn anew"] == {"buffers": ["x"], "outcome": "passed"}


@pytest.mark.parametrize("entry", DEFECTS)
def test_a_cheat_in_a_kernel(entry: str) -> None:
    made = judged(launch(entry), sums, seconds=10 if entry == "endless" else 30)
    assert made.verdict == "defect"
    assert {finding.code for finding in made.findings} & set(DEFECTS[entry].split()), made.why


# ---- in a launch file


def answers() -> InlineBytes:
    return InlineBytes(values().sum(axis=1).tobytes())


def given(name: str) -> LaunchBuffer:
    """A buffer that holds the answers before anything is launched."""
    return LaunchBuffer(name, "float32", (ROWS,), "inout" if name == "y" else "scratch", answers())


def test_answers_that_lie_in_memory_before_the_launch() -> None:
    in_output = launch("nothing", given("y"))
    y, x, _ = launch("right").buffers
    in_scratch = launch("copy_of_other", buffers=(y, x, given("other")))
    step = launch("nothing").steps[0]
    by_the_host = launch("nothing", steps=(step, BufferWrite("y", answers(), 4 * ROWS)))
    for made in (in_output, in_scratch, by_the_host):
        verdict = judged(made, sums)
        assert verdict.verdict == "defect"
        (finding,) = verdict.findings
        assert finding.code == "value" and "other draws of the inputs" in " ".join(finding.evidence)


def test_an_output_that_is_the_input() -> None:
    made = launch("right")
    step = made.launches[0]
    aliased = replace(step, arguments=(PointerArgument("x"), *step.arguments[1:]))
    verdict = judged(replace(made, steps=(aliased,)), sums)
    assert verdict.verdict == "defect" and verdict.findings[0].code == "global-read-only"


def test_an_output_that_is_hidden_or_made_smaller() -> None:
    y, x, other = launch("zeros").buffers
    hidden = launch("zeros", buffers=(replace(y, role="scratch"), x, other))
    assert judged(hidden, lambda x: {}).verdict == "incomplete"
    assert judged(hidden, lambda x: {"y": sums(x)}).verdict == "error"
    smaller = launch("zeros", LaunchBuffer.output("y", (1,), np.float32))
    assert judged(smaller, sums).verdict == "error"


@pytest.mark.parametrize(("entry", "word"), [("cached", "defect"), ("right", "clean")])
def test_results_of_an_earlier_launch(entry: str, word: str) -> None:
    plain = launch(entry)
    y, x, other = plain.buffers
    second = replace(x, name="x2", content=NormalDraw(2)), replace(y, name="y2")
    again = replace(
        plain.launches[0],
        arguments=(*map(PointerArgument, ("y2", "x2")), *plain.launches[0].arguments[2:]),
    )
    both = replace(plain, buffers=(y, x, other, *second), steps=(*plain.steps, again))
    assert judged(both, lambda x, x2: {"y": sums(x), "y2": sums(x2)}).verdict == word


def test_what_no_judge_of_one_launch_sees_is_said() -> None:
    """The author of the launch file chooses the inputs: the answers of fixed inputs may be stored."""
    y, x, other = launch("stored_answers").buffers
    chosen = replace(x, content=InlineBytes(values().tobytes()))
    made = judged(launch("stored_answers", buffers=(y, chosen, other)), sums)
    assert made.verdict == "clean" and check(made, "values").details["fixed inputs"] == ["x"]
    assert "a stored answer for x would not be noticed" in "\n".join(lines(made))


def test_the_default_bound_is_said_where_a_reference_states_none() -> None:
    """A part of the largest value: small results may be left out where large values stand beside them."""
    made = judged(launch("slightly_off"), lambda x: x.sum(axis=1))
    assert made.verdict == "defect"
    (score,) = check(judged(launch("right"), lambda x: x.sum(axis=1)), "values").details["outputs"]
    assert score["stated"] is False


def test_draws_that_always_give_the_same_values_are_fixed_inputs() -> None:
    """All answers are zero then: the page says that stored answers would not be noticed."""
    y, x, other = launch("zeros").buffers
    for content in (NormalDraw(1, 0.0, 0.0), UniformDraw(1, 0.0, 0.0), NormalDraw(1, 1.0, 1e-12)):
        made = judged(launch("zeros", buffers=(y, replace(x, content=content), other)), sums)
        details = check(made, "values").details
        assert details["fixed inputs"] == ["x"] and "x" not in str(details.get("inputs drawn anew", ""))
        assert made.verdict == ("defect" if content == NormalDraw(1, 1.0, 1e-12) else "clean")


def test_buffers_that_lie_over_each_other() -> None:
    """An output over its input, or over a buffer that holds the answers."""
    y, x, other = launch("nothing").buffers
    at = 1 << 32
    for buffers in (
        (replace(y, address=at), replace(x, address=at), other),
        (replace(y, address=at), x, replace(given("other"), address=at)),
        (replace(y, address=at + 64), x, replace(given("other"), address=at)),
    ):
        assert judged(launch("nothing", buffers=buffers), sums).verdict == "error"


def test_two_buffers_of_one_name() -> None:
    y, x, other = launch("zeros").buffers
    for second in (replace(y, role="scratch"), replace(x, name="y"), replace(y, shape=(1,))):
        with pytest.raises(TileproofError, match="share a name"):
            launch("zeros", buffers=(y, x, other, second))


def test_an_output_that_need_not_be_whole_is_compared_whole() -> None:
    for entry in ("nothing", "skipped_tail"):
        part = launch(entry, LaunchBuffer.output("y", (ROWS,), np.float32, whole=False))
        assert judged(part, sums).verdict == "defect"


def test_an_output_that_begins_as_a_draw() -> None:
    kept = launch("nothing", LaunchBuffer("y", "float32", (ROWS,), "inout", NormalDraw(3)))
    assert judged(kept, lambda x, y: sums(x)).verdict == "defect"


def test_nothing_launched() -> None:
    y, x, other = launch("nothing").buffers
    for buffers in ((y, x, other), (given("y"), x, other)):
        with pytest.raises(TileproofError, match="nothing is launched"):
            launch("nothing", buffers=buffers, steps=())


# ---- in a launch file in Python, of a kernel that gives zeros

PATCH = "import tileproof.conformance.judging.values as v, tileproof.conformance.compare.compare as c\n"
TAMPERING = {
    "a patched judge": PATCH + "v.within_bound = c.within_bound = lambda found, *rest: found == found\n",
    "a verdict of its own": "import os\nprint('CLEAN')\nos.write(1, b'CLEAN')\n",
    "the judge's output": "import os\nopen(f'/proc/{os.getppid()}/fd/1', 'w').write('CLEAN')\n",
    "another reference": "open('ref.py', 'w').write('def reference(x): return 0 * x[:, 0]')\n",
    "another verdict later": "import subprocess\nsubprocess.Popen(['sh', '-c', "
    "'sleep 3; echo \"{}\" > out.json'], start_new_session=True)\n",
    "the end of the judge": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
    "the judge's memory": "import os\nopen(f'/proc/{os.getppid()}/mem', 'r+b')\n",
}
GUARDED = "try:\n{}except OSError:\n    pass\n"


@pytest.mark.parametrize("tampering", TAMPERING)
def test_a_python_file_that_tampers(tmp_path: Path, tampering: str) -> None:
    jsonform.write(launch("zeros"), tmp_path / "right.json")
    (tmp_path / "ref.py").write_text("def reference(x):\n    return x.sum(axis=1)\n")
    code = "".join(f"    {line}\n" for line in TAMPERING[tampering].splitlines())
    (tmp_path / "launch.py").write_text(
        GUARDED.format(code)
        + "from tileproof.launches import read\ndef launch():\n    return read('right.json')\n"
    )
    isolation.missing() and pytest.skip(f"the system lacks {isolation.missing()}")
    done = subprocess.run(
        [sys.executable, "-m", "tileproof", "judge", "launch.py", "--expect", "ref.py", "--schedules", "2",
         "--json", "out.json", "--isolate"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and done.stdout.startswith("DEFECT"), done
    if "later" in tampering:
        time.sleep(4)
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "defect"
