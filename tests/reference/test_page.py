"""The page of reference/: its example runs and stops where it says; its table names every file."""

from __future__ import annotations

import re
import sys

import pytest

from tests.kit.paths import ROOT

FOLDER = ROOT / "reference"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_example_stops_at_the_tile_that_it_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python[^\n]*\n(.*?)```", PAGE, re.S)
    stops = []

    def stop() -> None:
        tile = sys._getframe(1).f_locals["tile"]
        stops.append((tile.stage, tile.coord.cta, tile.coord.k_block, tile.partial, tile.value.shape))

    monkeypatch.setattr(sys, "breakpointhook", stop)
    exec(example, {})
    assert stops == [("dQ", cta, 0, True, (32, 576)) for cta in (0, 1)]
    assert "dQ 0 1 1 (32, 576) so far\n" in capsys.readouterr().out


def test_every_file_of_the_folder_is_in_the_table() -> None:
    table = {
        name for row in PAGE.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+\.py)`", row)
    }
    assert table == {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
