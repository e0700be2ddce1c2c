"""The code of docs/operator.md prints what the page shows, and the comparison there can fail."""

from __future__ import annotations

from pathlib import Path

from tileproof.tools.site import executed

from tests.kit.paths import ROOT

PAGE = ROOT / "docs" / "operator.md"


def test_the_code_of_the_page_prints_what_it_shows() -> None:
    assert executed.stale(PAGE) == []
    assert PAGE.read_text().count("```python run\n") == 4


def test_another_scale_is_seen_in_the_losses(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text().replace("D_QK**-0.5", "0.28868"))  # 12^-0.5 is 0.288675
    assert "+loss 2.5 to 0.0, within 1e-6: False" in "\n".join(executed.stale(page))
