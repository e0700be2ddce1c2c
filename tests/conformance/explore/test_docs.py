"""The page's table names every policy."""

from __future__ import annotations

import re

from tileproof.spec.machine.schedule import POLICIES, Hold, Schedule

from tests.kit.paths import ROOT

PAGE = (ROOT / "docs/explore.md").read_text()


def test_every_policy_is_explained_and_every_schedule_in_it_can_be_read() -> None:
    for policy in POLICIES:
        assert f"| `{policy}` |" in PAGE
    for text in re.findall(r"`((?:random|pct|replay):[^`]*)`", PAGE):
        assert str(Schedule.parse(text)) == text
    for text in re.findall(r"^\| `([wqsc]\d[^`]*)` \|", PAGE, re.M):
        assert str(Hold.parse(text)) == text
