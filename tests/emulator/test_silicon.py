"""What the table of instructions states about cards: from evidence files, and for every form of Hopper."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path

import pytest
from tileproof.emulator import isa
from tileproof.emulator.registry import ROWS, Row
from tileproof.emulator.silicon import NONE, card_runs, opcode_of, seen
from tileproof.emulator.spelling import Target

assert isa
HOPPER = Target.of("sm_90a", "8.8")
# Forms of sm_90a without a launch or form on a card that had the emulator's words, and why.
APPROXIMATE = "the card's last bit differs, inside the documented error"
UNSEEN = {
    "trap ": "it ends the launch with an error",
    "cvt {.rn,.rz,.rm,.rp}.f32.bf16": "the bits of a NaN differed; mended since",
    "mbarrier.inval [.shared[::cta]].b64": "its test names a variable where ptxas takes a register",
    "mbarrier.try_wait [.parity].relaxed.{cta,cluster}[.shared[::cta]].b64": "it saw a later arrival",
    **{f"{base} .approx[.ftz].f32": APPROXIMATE for base in ("cos", "sin", "lg2", "sqrt", "rcp", "rsqrt")},
    **{f"{base} .approx.{{f16,f16x2}}": APPROXIMATE for base in ("tanh", "ex2")},
    "tanh .approx.{bf16,bf16x2}": APPROXIMATE,
    "tanh .approx.f32": APPROXIMATE,
    "ex2 .approx.ftz.{bf16,bf16x2}": APPROXIMATE,
    "rcp .approx.ftz.f64": APPROXIMATE,
}
RUNS = card_runs()


def write(folder: Path, name: str, card: str, spellings: Mapping[str, Mapping[str, int]]) -> None:
    facts = {"row": "facts", "data": {"name": card}}
    counted = {"row": "test_x.py", "data": {"spellings": spellings, "words": {"a": "b"}}}
    body = {"date": name[:10], "rows": [facts, counted, {"row": "idle", "data": None}]}
    (folder / name).write_bytes(lzma.compress(json.dumps(body).encode()))


def row_of(base: str) -> Row:
    (row,) = (row for row in ROWS if row.base == base and row.decode is not None)
    return row


def cells(folder: Path, base: str) -> list[str]:
    row = row_of(base)
    return [seen(row, pattern, card_runs(folder)) for pattern in row.spellings.patterns]


def test_a_form_is_seen_by_its_spellings(tmp_path: Path) -> None:
    assert cells(tmp_path, "lop3") == [NONE]
    spellings = {
        "lop3.b32": {"same": 3},
        "xor.b32": {"same": 1},
        "xor.b16": {"differs": 2},
        "frob.b32": {"same": 1},
    }
    write(tmp_path, "2026-01-02-x-card.json.xz", "NVIDIA X", spellings)
    assert cells(tmp_path, "lop3") == ["X 2026-01-02"]
    assert cells(tmp_path, "xor") == ["X 2026-01-02, 1 of 3, 2 launches differ", NONE]
    assert cells(tmp_path, "not") == [NONE, NONE]


def test_a_form_that_only_differs_is_not_seen(tmp_path: Path) -> None:
    write(tmp_path, "2026-01-02-x-card.json.xz", "NVIDIA X", {"lop3.b32": {"differs": 1}})
    assert cells(tmp_path, "lop3") == ["X 2026-01-02, 0 of 1, 1 launch differs"]


def test_the_newest_evidence_of_each_card_counts(tmp_path: Path) -> None:
    write(tmp_path, "2026-01-02-x-card.json.xz", "NVIDIA X", {"lop3.b32": {"same": 3}})
    write(tmp_path, "2026-01-03-x-card.json.xz", "NVIDIA X", {"xor.pred": {"same": 3}})
    write(tmp_path, "2026-01-01-y-card.json.xz", "NVIDIA Y", {"lop3.b32": {"same": 3}})
    assert cells(tmp_path, "lop3") == ["X 2026-01-02; Y 2026-01-01"]
    assert cells(tmp_path, "xor") == [NONE, "X 2026-01-03"]
    write(tmp_path, "2026-01-04-x-card.json.xz", "NVIDIA X", {"lop3.b32": {"differs": 3}})
    assert cells(tmp_path, "lop3") == ["X 2026-01-04, 0 of 1, 3 launches differ; Y 2026-01-01"]


def test_the_newest_file_of_a_day_counts(tmp_path: Path) -> None:
    write(tmp_path, "2026-01-02-a-card.json.xz", "X", {"xor.b32": {"differs": 3}, "xor.b16": {"differs": 1}})
    write(tmp_path, "2026-01-02-b-card.json.xz", "X", {"xor.b32": {"same": 2}})
    assert cells(tmp_path, "xor") == ["X 2026-01-02, 1 of 3, 1 launch differs", NONE]
    write(tmp_path, "2026-01-03-a-card.json.xz", "X", {"xor.b16": {"same": 1}})
    assert cells(tmp_path, "xor") == ["X 2026-01-03, 2 of 3", NONE]


def test_words_of_wgmma_are_evidence(tmp_path: Path) -> None:
    forms = [{"form": "s32_u8_s8_satfinite", "differ": 0}, {"form": "f32_tf32_n24_r0_sp1", "differ": 0}]
    body = {"card": "NVIDIA X\n", "forms": [*forms, {"form": "f32_bf16_n8_01", "differ": 7}]}
    (tmp_path / "2026-01-02-x-wgmma.json.xz").write_bytes(lzma.compress(json.dumps(body).encode()))
    found = [cell for cell in cells(tmp_path, "wgmma.mma_async") if cell != NONE]
    assert found == ["X 2026-01-02, 0 of 32, 1 launch differs", "X 2026-01-02, 1 of 72"]
    assert opcode_of("s32_b1_b1") == "wgmma.mma_async.sync.aligned.m64n64k256.s32.b1.b1.and.popc"
    assert [cell for cell in cells(tmp_path, "wgmma.mma_async.sp") if cell != NONE] == [
        "X 2026-01-02, 1 of 32"
    ]
    assert cells(tmp_path, "wgmma.fence") == ["X 2026-01-02, 1 launch differs"]
    with pytest.raises(ValueError, match="not a form"):
        opcode_of("f32_bf16_nine")


@pytest.mark.parametrize("row", [row for row in ROWS if row.decode is not None], ids=lambda row: row.base)
def test_every_form_of_hopper_is_seen_or_named(row: Row) -> None:
    runs = [run for run in RUNS if run.card.startswith(("H100", "H200"))]
    for pattern in row.spellings.patterns:
        if all(HOPPER.meets(need) for need in pattern.requires):
            name = f"{row.base} {pattern.text}"
            same = [
                v for run in runs for v in run.forms.get((row.base, pattern.text), {}).values() if v["same"]
            ]
            assert bool(same) != (name in UNSEEN), name
