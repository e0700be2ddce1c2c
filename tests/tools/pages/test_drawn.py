"""docs/drawn-problems.md is what `check` draws, and what it draws has the shares that were asked for."""

from __future__ import annotations

from pathlib import Path

from tileproof.spec.problems.sparse_mla_bwd.case import ORDERS
from tileproof.spec.problems.sparse_mla_bwd.values import OUTLIERS, VALUES
from tileproof.tools.pages import drawn


def test_the_page_is_fresh(tmp_path: Path) -> None:
    assert drawn.main(["--check"]) == 0
    stale = tmp_path / "drawn.md"
    stale.write_text(drawn.PAGE.read_text(encoding="utf-8").replace("%", "", 1), encoding="utf-8")
    assert drawn.main(["--check", "--output", str(stale)]) == 1


def test_few_draws_are_zeros_and_every_class_is_drawn() -> None:
    found = drawn.histograms(drawn.cases())
    values = found["values"]
    assert values["zeros"] <= 0.05 * drawn.DRAWS and values["normal"] >= 0.15 * drawn.DRAWS
    assert set(values) == set(VALUES)
    assert all(values[name] >= 0.04 * drawn.DRAWS for name in VALUES if name != "zeros")
    assert set(found["magnitudes over the rest"]) == {name or "none" for name in OUTLIERS}
    assert found["lse"]["extremes"] >= 0.05 * drawn.DRAWS and len(found["sm_scale"]) == 3
    assert 0 < sum(count for topk, count in found["topk"].items() if int(topk) > 256) <= 0.04 * drawn.DRAWS
    index_sets = found["index orders, of tokens"]
    assert all(index_sets[name] >= 0.05 * index_sets.total() for name in ORDERS)
