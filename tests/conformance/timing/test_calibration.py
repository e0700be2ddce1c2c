"""The model against clocks that an H200 measured (docs/evidence), with the programs that were measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tileproof.spec.machine.timing import HOPPER, Figure, timing_of
from tileproof.tools import calibration
from tileproof.tools.calibration import Row, banks, exchanges, exports, latencies, sharings

ALLOWED = 0.15  # of the measurement, what the likely case may be off


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = Path(tmp_path_factory.mktemp("calibration"))
    groups = latencies, exports, exchanges, sharings, banks
    return [row for group in groups for row in group(folder)]


def test_the_likely_case_is_near_every_measurement(rows: list[Row]) -> None:
    assert not [row for row in rows if abs(row.off) > ALLOWED]


def test_the_interval_holds_every_measurement(rows: list[Row]) -> None:
    assert not [row for row in rows if not row.held]


def test_a_wrong_figure_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = replace(HOPPER.shuffle, best=60.0, likely=60.0, worst=60.0)
    monkeypatch.setattr(calibration, "HOPPER", replace(HOPPER, shuffle=slow))
    old = next(exports(tmp_path))
    assert old.off > ALLOWED and not old.held


def test_every_figure_is_an_interval_with_a_source() -> None:
    for target in ("sm_90", "sm_100a"):
        for name, figure in timing_of(target).figures().items():
            assert isinstance(figure, Figure) and figure.source and figure.unit, name
            low, high = sorted((figure.best, figure.worst))
            assert low <= figure.likely <= high, name
