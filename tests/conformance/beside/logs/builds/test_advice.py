"""The advice for each wrong kernel, written into it, makes it compile; half of an advice does not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tileproof.conformance.beside.logs.builds import report

from tests.kit.applied import FLAGS, WAYS, WORDS_ONLY, written
from tests.kit.mistakes import MISTAKES
from tests.kit.wrong_kernels import WRONG, Compiled, command, run


def row_of(name: str, compiled: Callable[[str], Compiled]) -> dict[str, Any]:
    """The one finding of a wrong kernel's log."""
    (row,) = report.explain(report.parse(compiled(name).log), WRONG / "build.log")["findings"]
    return row


def test_every_kind_of_advice_is_applied(compiled: Callable[[str], Compiled]) -> None:
    assert {*WAYS, *FLAGS, *WORDS_ONLY} == MISTAKES.keys()
    for name in MISTAKES:
        assert bool(row_of(name, compiled)["edits"]) == (name not in WORDS_ONLY), name
    used = {name: "".join(new for way in ways for _, new in way.places) for name, ways in WAYS.items()}
    for name, text in used.items():
        for edit in row_of(name, compiled)["edits"]:
            known = edit["of"] == "MMA" and "{2}" in text
            assert f"{{{edit['of']}}}" in text or known, f"{name}: the edit of {edit['of']} is never made"


@pytest.mark.slow
def test_kernels_with_the_advice_written_in_compile(made_right: Compiled) -> None:
    """All in one translation unit."""
    assert sum(map(len, WAYS.values())) >= 45
    assert made_right.status == 0, report.text(report.explain(report.parse(made_right.log)))


def test_flags_that_are_advised_compile(compiled: Callable[[str], Compiled], tmp_path: Path) -> None:
    for name, of in FLAGS.items():
        (edit,) = row_of(name, compiled)["edits"]
        assert edit["of"] == of
        words = command(name, f"{name}.cu", tmp_path / "out")
        words = [word for word in words if not (of == "-arch" and word.startswith("-arch="))]
        assert run([words[0], edit["code"], *words[1:]]).status == 0


def test_half_of_an_advice_does_not_compile(compiled: Callable[[str], Compiled], tmp_path: Path) -> None:
    """The transposed view without the atom's major, and the major without the view: each fails on its own."""
    row, (way,) = row_of("b_not_transposed", compiled), WAYS["b_not_transposed"]
    halves = [written("b_not_transposed", way, row, n, omitted) for n, omitted in enumerate(("MMA", "B"))]
    unit = tmp_path / "halves.cu"
    unit.write_text("\n".join(halves))
    done = run(command("halves", str(unit), tmp_path / "halves.ptx"))
    result = report.explain(report.parse(done.log), unit)
    assert done.status != 0
    remedies = [[edit["of"] for edit in row["edits"]] for row in result["findings"]]
    assert remedies == [["MMA"], ["B"]], "what is missing is what is advised next"
