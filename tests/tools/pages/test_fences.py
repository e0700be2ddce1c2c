"""docs/fences.md shows each fence instruction of head64 and head128-columns, with what its removal causes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tileproof.kernels.registry import all_compiled
from tileproof.tools.pages import fences

from tests.kit.removals import removals, sources

KERNELS = {
    entry.title(variant): (entry, variant)
    for entry in all_compiled()
    for variant in entry.variants
    if entry.title(variant) in fences.FOLDERS
}


@pytest.mark.parametrize("title", fences.FOLDERS)
def test_each_fence_of_the_ptx_has_a_stored_removal(title: str) -> None:
    entry, variant = KERNELS[title]
    ptx = entry.build(variant).ptx
    at = sources(ptx)
    every = [
        (each.opcode, *fences.site(title, at[each.line])) for each in removals(ptx) if "fence" in each.opcode
    ]
    shown = [
        (row["line"], row["opcode"], place.file, place.line)
        for place in fences.places(title)
        for row in place.outcomes
    ]
    assert [row[1:] for row in sorted(shown)] == every, "run tests.kit.removals anew"


@pytest.mark.parametrize("title", fences.FOLDERS)
def test_the_page_shows_each_place_right_and_wrong(title: str) -> None:
    page = fences.PAGE.read_text(encoding="utf-8")
    places = fences.places(title)
    assert sum(len(place.outcomes) for place in places) == sum(r["kernel"] == title for r in fences.stored())
    for place in places:
        text = fences.toggle(place)
        assert text in page and f"### {place.file}, fence {place.number}:" in page
        marked, struck = (text.split(f"<{tag}>")[1].split(f"</{tag}>")[0] for tag in ("mark", "del"))
        assert marked == struck and "fence" in marked
        kinds = ("error race-", "warning race-", "note race-", "without a finding")
        assert any(kind in text for kind in kinds)


def test_an_error_comes_first_and_copies_without_a_finding_are_counted() -> None:
    place = next(each for each in fences.places("head64 d_qk 576") if "proxy" in each.opcode)
    assert place.counts() == "1 copy: an error"
    quiet = {**place.outcomes[0], "finding": "", "schedules": 6}
    both = replace(place, outcomes=(quiet, *place.outcomes))
    assert both.counts() == "2 copies: 1 with an error, 1 without a finding"
    assert "1 of the copies without a finding" in fences.toggle(both)
    assert "error race-proxy-fence" in fences.toggle(both)
