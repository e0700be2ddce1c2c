"""docs/seven-stages.md and the figures are what the spec says, and a change of the spec is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES
from tileproof.tools.pages import seven_stages
from tileproof.tools.site import figures


def test_the_page_is_what_the_spec_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert seven_stages.main(["--check"]) == 0, capsys.readouterr().err
    page = seven_stages.page()
    for name, stage in STAGES.items():
        assert f"## {name}\n" in page and f"$${stage.latex}$$" in page and f"stage-{name}.svg" in page


def test_the_figures_are_what_the_spec_draws(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_figure_and_one_without_a_source_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path / "figures")
    assert figures.main(["--check"]) == 1
    assert figures.main([]) == 0 and figures.main(["--check"]) == 0
    (tmp_path / "figures" / "other.svg").write_text("<svg/>")
    stage = tmp_path / "figures" / "stage-P.svg"
    stage.write_text(stage.read_text().replace("576", "512"))
    capsys.readouterr()
    assert figures.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "other.svg is stale" in told and "stage-P.svg is stale" in told and "stage-S" not in told
