"""What README.md shows is what the commands print."""

from __future__ import annotations

import pytest
from tileproof.tools.pages import readme


def test_readme_shows_what_is_printed() -> None:
    assert readme.main(["--check"]) == 0


def test_a_stale_block_and_one_that_is_not_there_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "a\n\n<!-- verify -->\n\n    CLEAN in ... s\n\n<!-- end -->\n"
    assert readme.without_seconds("    CLEAN in 4.1 s, 7.5 stages") == "    CLEAN in ... s, 7.5 stages"
    assert readme.replaced(page, {"verify": "    CLEAN in ... s"}) == page
    assert readme.replaced(page, {"verify": "    CLEAN in ... s, 7 tiles"}) != page
    with pytest.raises(ValueError, match="0 blocks finding"):
        readme.replaced(page, {"finding": "x"})
    monkeypatch.setattr(readme, "shown", lambda words: "    something else")
    assert readme.main(["--check"]) == 1
