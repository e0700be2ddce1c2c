"""The model against clocks that an H200 measured (docs/evidence), with the programs that were measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tileproof.spec.machine.pages import marked, part
from tileproof.spec.machine.timing import CASES, HOPPER, Figure, timing_of
from tileproof.tools import time_page
from tileproof.tools.addition_rows import additions
from tileproof.tools.calibration import (
    FITS,
    Row,
    banks,
    exchanges,
    exports,
    latencies,
    parts,
    sharing_rows,
    sharings,
)

# How rows of softmax_parts.cu and additions.cu begin, which have tests of their own.
APART = (
    "softmax, ",
    "add 1 rows",
    "add 2 rows",
    "add 4 rows",
    "add 32 rows",
    "added to",
    "fence behind",
)
ALLOWED = 0.15  # of the measurement, what the likely case may be off

pytestmark = pytest.mark.slow  # each row is a kernel that is compiled and run


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = Path(tmp_path_factory.mktemp("calibration"))
    groups = latencies, banks, exchanges, sharings, exports, sharing_rows
    return [row for group in groups for row in group(folder)]


def test_the_page_says_what_the_program_prints(rows: list[Row]) -> None:
    """docs/time.md; `python -m tileproof.tools.time_page` writes it."""
    text = time_page.PAGE.read_text()
    assert part(text, "measured") == marked("measured", time_page.table(rows), "tools/time_page.py")
    other = [replace(row, measured=row.measured + 1) for row in rows]
    assert part(text, "measured") != marked("measured", time_page.table(other), "tools/time_page.py")


def test_the_likely_case_is_near_every_measurement(rows: list[Row]) -> None:
    assert not [row for row in rows if abs(row.off) > ALLOWED]


def test_the_interval_holds_every_measurement(rows: list[Row]) -> None:
    assert not [row for row in rows if not row.held]


def test_the_parts_of_the_softmax_are_as_near(tmp_path: Path) -> None:
    found = list(parts(tmp_path))
    text = time_page.PAGE.read_text()
    assert part(text, "parts") == marked("parts", time_page.table(found), "tools/time_page.py")
    assert len(found) == 13 and not [row for row in found if abs(row.off) > ALLOWED or not row.held]


def test_additions_and_fences_are_as_near(tmp_path: Path) -> None:
    found = list(additions(tmp_path))
    text = time_page.PAGE.read_text()
    assert part(text, "additions") == marked("additions", time_page.table(found), "tools/time_page.py")
    assert not [row for row in found if abs(row.off) > ALLOWED or not row.held]


def test_every_fit_names_a_row_and_figures_and_a_third_is_held_out(rows: list[Row]) -> None:
    known = HOPPER.figures()
    for start, figures in FITS.items():
        told = start.startswith(APART) or [row for row in rows if row.what.startswith(start)]
        assert told, start
        assert all(name in known for name in figures.split(", ")), start
    assert len([row for row in rows if not row.fits]) > len(rows) / 3


def test_a_wrong_figure_is_seen(rows: list[Row]) -> None:
    slow = replace(HOPPER, shuffle=replace(HOPPER.shuffle, best=60.0, likely=60.0, worst=60.0))
    first = next(row for row in rows if row.what.startswith("export loop"))
    best, likely, worst = (first.again(slow, case) for case in CASES)
    wrong = replace(first, best=best, likely=likely, worst=worst)
    assert wrong.off > ALLOWED and not wrong.held
    assert abs(first.off) <= ALLOWED and first.held


def test_every_figure_is_an_interval_with_a_source() -> None:
    for target in ("sm_90", "sm_100a"):
        for name, figure in timing_of(target).figures().items():
            assert isinstance(figure, Figure) and figure.source and figure.unit, name
            low, high = sorted((figure.best, figure.worst))
            assert low <= figure.likely <= high, name
