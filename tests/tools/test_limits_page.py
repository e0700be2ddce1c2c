"""docs/limits.md takes what the model says from the command: a stale figure is noticed."""

from __future__ import annotations

import pytest
from tileproof.tools import limits_page
from tileproof.tools.limits_page import PAGE, kernels_table, marked, part, peers_table, written


def test_the_published_rows_are_what_the_command_prints() -> None:
    assert part(PAGE.read_text(), "published") == marked("published", peers_table())


@pytest.mark.slow
def test_the_kernels_rows_are_what_the_command_prints() -> None:
    assert part(PAGE.read_text(), "kernels") == marked("kernels", kernels_table())


def test_a_stale_figure_is_noticed() -> None:
    text = PAGE.read_text()
    stale = text.replace(part(text, "published"), part(text, "published").replace("4.019", "4.018"))
    assert written(stale, {"published": peers_table()}) == text != stale


def test_a_page_without_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="substring not found"):
        part(PAGE.read_text().replace("<!-- end of kernels -->", ""), "kernels")


def test_the_command_tells_a_stale_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits_page, "kernels_table", lambda: ["| another |"])
    assert limits_page.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().out
