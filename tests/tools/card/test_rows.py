"""A row of the first hour: its process, its limit, its answer, and the evidence file of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.spec.machine.timing import BLACKWELL
from tileproof.tools import evidence
from tileproof.tools.card import __main__, clocks, launches, maps
from tileproof.tools.card.readings import PAGE, TABLE, all_readings, readings
from tileproof.tools.card.record import FILES, ROOT
from tileproof.tools.card.row import Answer, Row, ask
from tileproof.tools.card.rows import rows

PTX = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b64 %a; .reg .b32 %t; .reg .b64 %d;
ld.param.u64 %a, [p]; mov.u32 %t, %tid.x; mad.wide.u32 %d, %t, 4, %a; st.global.u32 [%d], %t;
ret;
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recorded launches: the second launch's buffer was changed afterwards."""
    case = {
        "entry": "k", "text": PTX, "args": [{"buffer": 0}], "sizes": [8], "grid": [1, 1, 1],
        "block": [32, 1, 1], "cluster": [1, 1, 1], "shared": 0, "buffers": 1, "executed": ["st.global.u32"],
    }  # fmt: skip
    right = np.arange(32, dtype=np.uint32).view(np.uint8)
    wrong = right.copy()
    wrong[4] = 77
    cases = [case | {"test": f"tests/emulator/test_x.py::test_{name}[a::b]"} for name in ("right", "wrong")]
    np.savez(
        tmp_path / "test_x.npz", allow_pickle=False,
        cases=np.frombuffer(json.dumps(cases).encode(), np.uint8),
        **{"0_0": 0 * right, "0_1": right, "1_0": 0 * right, "1_1": wrong},
    )  # fmt: skip
    return tmp_path


def python(text: str, seconds: float = 30.0) -> tuple[Answer, float]:
    return ask(Row("g", "n", ("-c", text), seconds))


def test_an_answer_is_the_last_marked_line() -> None:
    answer = "Answer('differs', 'why', {'a': 1}).print()"
    assert python(f"from tileproof.tools.card.row import Answer; print('noise'); {answer}")[0] == Answer(
        "differs", "why", {"a": 1}
    )


def test_a_hang_and_a_fault_are_answers() -> None:
    hang, seconds = python("print('here', flush=True); import time; time.sleep(60)", 0.5)
    assert hang == Answer("hang", "no answer in 0.5 s", {"output": "here\n"}) and seconds < 10
    assert python("import os; os.abort()")[0].reason == "signal 6, without an answer"
    assert python("raise SystemExit(3)")[0].reason == "exit code 3, without an answer"
    assert python("pass")[0].outcome == "fault"


def test_a_child_that_holds_the_pipes_ends_with_its_row() -> None:
    text = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    answer, seconds = python(text, 0.5)
    assert answer.outcome == "hang" and seconds < 10


def test_a_row_without_a_program_is_not_run_and_says_why() -> None:
    assert ask(Row("g", "n", reason="no card")) == (Answer("not run", "no card"), 0.0)


def test_launches_are_compared_byte_by_byte(folder: Path) -> None:
    right = launches.run(folder, ["test_x.py::right"], "emulator")
    assert right == Answer("as expected", data={"launches": {"same": 1}, "on": {"emulator": 1}})
    wrong = launches.run(folder, ["test_x.py::"], "emulator")
    assert (wrong.outcome, wrong.reason) == ("differs", "1 of 2 launches")
    assert wrong.data is not None
    assert wrong.data["differs"][0][2][0]["first"] == [[4, "4d000000", "01000000"]]


def test_what_was_not_recorded_is_not_run(folder: Path) -> None:
    assert launches.run(folder, ["test_y.py::"], "emulator") == Answer(
        "not run", "test_y.py was not recorded"
    )
    nothing = launches.run(folder, ["test_x.py::other"], "emulator")
    assert (nothing.outcome, nothing.reason) == ("not run", "no launch was recorded for it")


def test_refused_launches_are_never_passed() -> None:
    same, refused = ("same", None), ("refused", "assemble: no")
    assert launches.answer([("t", "c", refused)]).outcome == "not run"
    assert launches.answer([("t", "c", refused), ("t", "c", same)]).outcome == "in part"
    assert launches.answer([("t", "c", ("failed", "card-hang")), ("t", "c", same)]).outcome == "differs"


def test_a_difference_counts_against_the_spelling_under_test() -> None:
    """Every launch executes `mov` and `st`."""
    ran = [(("mov", "st", "add"), "same")] * 3 + [
        (("mov", "st", "ex2"), "differs"),
        (("mov", "st", "cos"), "refused"),
    ]
    assert launches.by_spelling(ran) == {
        "add": {"same": 3}, "mov": {"same": 3}, "st": {"same": 3}, "ex2": {"differs": 1},
    }  # fmt: skip
    data = launches.answer([("t", "c", ("differs", []))], ran, {"a": "b"}).data
    assert data is not None and data["spellings"]["ex2"] == {"differs": 1} and data["words"] == {"a": "b"}


def test_maps_beside_the_table() -> None:
    lines = evidence.read_text(maps.TABLE).splitlines()[1:200]
    table = [json.loads(line) for line in lines]
    assert {row["result"] == 0 for row in table} == {True, False}
    assert maps.compare(table, lambda row: (row["result"], row["bytes"])).outcome == "as expected"
    planted = dict(next(row for row in table if not row["result"]))
    flipped = maps.compare([planted], lambda row: (0, "ff" + row["bytes"][2:]))
    assert (flipped.outcome, flipped.reason) == ("differs", "1 of 1 calls")
    taken = maps.compare([planted | {"result": 1}], lambda row: (0, row["bytes"])).data
    assert taken is not None and taken["calls"] == {"taken here only": 1}


@pytest.mark.parametrize("name", clocks.LOOPS)
def test_every_loop_runs_and_names_figures(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "STEPS", 2)
    assert clocks.run(name, "emulator").outcome == "recorded"
    assert set(clocks.LOOPS[name].figures) <= set(BLACKWELL.figures())


def test_clocks_beside_their_prediction() -> None:
    name, likely = "tensor memory: load of 1 column and wait", BLACKWELL.tmem_load_latency.likely
    assert clocks.answer(name, likely, "sm_100a").outcome == "as expected"
    slow = clocks.answer(name, 1000.0, "sm_100a")
    assert (slow.outcome, slow.reason) == ("differs", "1000.0 clocks; predicted 20 to 150")


def test_every_guessed_figure_has_a_row() -> None:
    """A figure of SM100 whose source is a guess is measured, or named with the reason."""
    named = {figure for loop in clocks.LOOPS.values() for figure in loop.figures} | set(clocks.WITHOUT)
    guessed = {name for name, figure in BLACKWELL.figures().items() if "guess" in figure.source}
    assert guessed <= named


def test_every_reading_that_a_run_settles_has_a_program_or_a_reason() -> None:
    found = all_readings()
    assert all(bool(reading.tests) != bool(reading.not_run) for reading in found)
    assert sum(bool(reading.tests) for reading in found) >= 26
    for pattern in {pattern for reading in found for pattern in reading.tests}:
        file, expression = pattern.split("::")
        assert file in FILES
        text = (ROOT / "tests" / "emulator" / file).read_text()
        assert f"def {expression.split('.*')[0]}" in text, pattern


def test_a_reading_without_an_entry_and_an_entry_without_a_reading() -> None:
    page = "| reading | effect | settled by |\n|---|---|---|\n| A word reads so | values | run |\n"
    with pytest.raises(Exception, match="needs one entry"):
        readings(page, {"reading": []})
    with pytest.raises(Exception, match="begins so"):
        readings("", {"reading": [{"begins": "Two", "not_run": "x"}]})
    assert readings(page, {"reading": [{"begins": "A word", "not_run": "x"}]})[0].not_run == "x"
    assert PAGE.exists() and TABLE.exists()


def test_a_run_writes_every_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [row for row in rows(folder, "emulator", 1) if row.group in ("card", "speed")]
    program = ("-P", "-m", "tileproof.tools.card.launches", str(folder), "emulator", "test_x.py::")
    found.append(Row("instructions", "x", program))
    monkeypatch.setattr(__main__, "rows", lambda *_: iter(found))
    monkeypatch.setattr(__main__, "recorded", lambda _: {})
    out = folder / "evidence.json.xz"
    done = CliRunner().invoke(__main__.main, [str(out), "--driver", "emulator"])
    body = evidence.read_json(out)
    assert done.exit_code == 1 and body["outcomes"] == {"not run": len(found) - 1, "differs": 1}
    assert [row["row"] for row in body["rows"]] == [row.name for row in found]
    assert all(row["reason"] for row in body["rows"])
