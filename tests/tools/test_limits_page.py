"""docs/limits.md takes what the model says from the command: a stale figure is noticed."""

from __future__ import annotations

import re
from math import ceil

import pytest
from tileproof.spec.machine.pages import marked, part, written
from tileproof.spec.published import PEERS
from tileproof.tools import limits_page
from tileproof.tools.limits_page import BY, PAGE, kernels_table, peers_table


def test_the_published_rows_are_what_the_command_prints() -> None:
    assert part(PAGE.read_text(), "published") == marked("published", peers_table(), BY)


@pytest.mark.slow
def test_the_kernels_rows_are_what_the_command_prints() -> None:
    assert part(PAGE.read_text(), "kernels") == marked("kernels", kernels_table(), BY)


def test_a_stale_figure_is_noticed() -> None:
    text = PAGE.read_text()
    stale = text.replace(part(text, "published"), part(text, "published").replace("4.019", "4.018"))
    assert written(stale, {"published": peers_table()}, BY) == text != stale


def test_a_page_without_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="substring not found"):
        part(PAGE.read_text().replace("<!-- end of kernels -->", ""), "kernels")


def test_the_command_tells_a_stale_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits_page, "kernels_table", lambda: ["| another |"])
    assert limits_page.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().out


# What the page says in clocks or TFLOPS outside of its tables, and where that comes from.
_BLOCKS, _WAVES = 1024 // 64, ceil(4096 / 148)
ACCOUNTED = {
    "3": "how near the rule is to published counts: test_peers.py",
    "7,600": "cuDNN's published times",
    "7,465": "head64 at d_qk 512 before, as the page had it in commit 3ddc3fe",
    "654": "a claim that the page withdraws",
    "7,231": "the kernel before, as the page had it in commit 3ddc3fe",
    "789": "the same",
}


def told_in_prose(text: str) -> set[str]:
    for name in ("kernels", "published"):
        text = text.replace(part(text, name), "")
    prose = " ".join(line.strip() for line in text.splitlines() if not line.strip().startswith(("|", "#")))
    return set(re.findall(r"([\d][\d,.]*)(?= (?:MMA )?(?:clocks|TFLOPS))", prose))


def test_no_clocks_in_the_prose_are_unaccounted_for() -> None:
    assert told_in_prose(PAGE.read_text()) == set(ACCOUNTED)
    stale = PAGE.read_text().replace("An earlier form of", "With 24,916 clocks an earlier form of")
    assert told_in_prose(stale) - set(ACCOUNTED) == {"24,916"}


def test_the_clocks_in_the_prose_follow_from_what_they_name() -> None:
    """Two published times."""
    long, short = (peer.published_ms for peer in (PEERS[3], PEERS[2]))
    assert (long - short) * 1e-3 * 1.83e9 / (_BLOCKS * _WAVES) == pytest.approx(7600, rel=0.01)
