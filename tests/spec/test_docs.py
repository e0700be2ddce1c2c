"""docs/stages.md is what the spec says, and the check sees it when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tileproof.spec import docs
from tileproof.spec.problems.sparse_mla_bwd import page, stages


def test_page_on_disk_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(["--check"]) == 0, capsys.readouterr().err


def test_check_sees_a_stale_or_missing_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "docs" / "stages.md"
    assert docs.main(["--check", "--output", str(target)]) == 1
    assert docs.main(["--output", str(target)]) == 0
    assert docs.main(["--check", "--output", str(target)]) == 0
    target.write_text(target.read_text().replace("2^-23", "2^-22", 1))
    assert docs.main(["--check", "--output", str(target)]) == 1
    assert "stale" in capsys.readouterr().err


def test_page_follows_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    before = docs.page([])
    changed = dict(stages.STAGES)
    changed["P"] = changed["P"].with_function(
        lambda m, q, k: m.matmul(k, m.transpose(q)), tile=("B_TOPK", "h_q")
    )
    monkeypatch.setattr(page, "STAGES", changed)
    assert docs.page([]) != before and "k q^T" in docs.page([])


def test_page_has_every_stage_barrier_and_tile() -> None:
    plans = docs.known_plans()
    text = docs.page(plans)
    assert plans
    for name in [*stages.STAGES, *(b.name for b in plans[0].barriers), *(t.name for t in plans[0].smem)]:
        assert name in text
