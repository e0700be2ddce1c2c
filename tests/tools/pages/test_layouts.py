"""docs/layouts.md and its pictures are what the code says and draws."""

from __future__ import annotations

from pathlib import Path

import pytest
from tileproof.conformance.beside.layouts.picture import draw
from tileproof.spec.machine.contracts import CODES, check
from tileproof.tools.pages import layouts as layout_docs


def test_the_page_is_fresh(tmp_path: Path) -> None:
    assert layout_docs.main(["--check"]) == 0
    stale = tmp_path / "layouts.md"
    stale.write_text(
        layout_docs.PAGE.read_text(encoding="utf-8").replace("compile", "build", 1), encoding="utf-8"
    )
    assert layout_docs.main(["--check", "--output", str(stale)]) == 1


def test_every_code_has_an_example() -> None:
    assert {misfit.code for example in layout_docs.EXAMPLES for misfit in check(*example)} == set(CODES)


@pytest.mark.parametrize("file", layout_docs.PICTURES)
def test_the_pictures_are_fresh(file: str, tmp_path: Path) -> None:
    command, table, _ = layout_docs.PICTURES[file]
    assert command.endswith(file)
    draw(table, tmp_path / file)
    assert (tmp_path / file).read_text() == (layout_docs.PAGE.parent / file).read_text()
