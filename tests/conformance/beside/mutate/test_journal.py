"""A draw that was interrupted goes on where it stopped; what is of another draw is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.journal import Journal
from tileproof.conformance.beside.mutate.judged import BY_SOLVER, SAME_CODE, SAME_IN_SCHEDULES, Judgement
from tileproof.conformance.beside.mutate.score import as_json, interval, score
from tileproof.conformance.gate.difference import SCORES
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json

DRAW = {"kernel": "one", "variant": {"d": 64}, "seed": 3, "operators": ["parity", "count"], "ptx": "ab"}
DRAWN = [Drawn(n, "parity" if n % 2 else "count", f"change {n}", (("k.cuh", n),)) for n in range(4)]
JUDGED = [
    Judgement(DRAWN[0], "killed", "hang", "machine", place=True, findings=("hang", "livelock"), seconds=1.5),
    Judgement(DRAWN[1], "survived", same=True),
    Judgement(DRAWN[2], "killed", "value dQ", "value", "dQ", "dQ", "a step is missing", run=2),
    Judgement(DRAWN[3], "refused", "ptxas", message="Unknown modifier"),
]


def fresh(*numbers: int) -> Iterator[Judgement]:
    """Judgements as they come, of these numbers only."""
    yield from (JUDGED[n] for n in numbers)


def test_an_interrupted_draw_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "draw.jsonl"
    first = Journal(path, DRAW, DRAWN)
    came = first.judged(DRAWN, fresh(0, 1, 2, 3))
    assert [next(came), next(came)] == JUDGED[:2]  # and the process dies here
    again = Journal(path, DRAW, DRAWN)
    assert again.done == {0: JUDGED[0], 1: JUDGED[1]} and not again.notes
    assert list(again.judged(DRAWN, fresh(2, 3))) == JUDGED
    whole = Journal(path, DRAW, DRAWN)
    assert list(whole.judged(DRAWN, fresh())) == JUDGED
    assert score(list(whole.done.values())) == score(JUDGED)


def test_a_larger_count_goes_on_with_the_same_draw(tmp_path: Path) -> None:
    path = tmp_path / "draw.jsonl"
    list(Journal(path, DRAW, DRAWN[:2]).judged(DRAWN[:2], fresh(0, 1)))
    assert list(Journal(path, DRAW, DRAWN).judged(DRAWN, fresh(2, 3))) == JUDGED
    only = [DRAWN[3]]
    assert list(Journal(path, DRAW, only).judged(only, fresh())) == [JUDGED[3]]


@pytest.mark.parametrize("cut", [3, 40])
def test_a_line_that_was_cut_off_is_judged_again(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "draw.jsonl"
    list(Journal(path, DRAW, DRAWN).judged(DRAWN, fresh(0, 1, 2, 3)))
    path.write_bytes(path.read_bytes()[:-cut])
    again = Journal(path, DRAW, DRAWN)
    assert sorted(again.done) == [0, 1, 2] and "line 5 is truncated" in again.notes[0]
    assert list(again.judged(DRAWN, fresh(3))) == JUDGED
    assert len(Journal(path, DRAW, DRAWN).done) == 4


def test_what_is_of_another_draw_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "draw.jsonl"
    list(Journal(path, DRAW, DRAWN).judged(DRAWN, fresh(0, 1, 2, 3)))
    with pytest.raises(TileproofError, match="belong to another draw") as raised:
        Journal(path, {**DRAW, "seed": 4, "ptx": "cd"}, DRAWN)
    assert raised.value.expected == "seed 4, ptx cd" and raised.value.found == "seed 3, ptx ab"
    changed = [Drawn(0, "count", "another change", (("k.cuh", 0),)), *DRAWN[1:]]
    assert sorted(Journal(path, DRAW, changed).done) == [1, 2, 3]
    for text in ("not JSON\n", '{"schema": "tileproof-gate-run"}\n'):
        path.write_text(text)
        with pytest.raises(TileproofError, match="not a file of saved results of a draw"):
            Journal(path, DRAW, DRAWN)
        assert path.read_text() == text


def test_a_full_disk_and_a_folder_that_is_not_there_are_named(tmp_path: Path) -> None:
    for path in (Path("/dev/full"), tmp_path / "no" / "draw.jsonl"):
        with pytest.raises(TileproofError, match="cannot be written"):
            Journal(path, DRAW, DRAWN)


def test_the_score_as_json_has_what_a_comparison_of_releases_reads() -> None:
    part = json.loads(json.dumps(as_json(JUDGED, **DRAW)))
    assert set(SCORES) <= set(part) and part["seed"] == 3
    assert part["score"] == pytest.approx(2 / 3, abs=1e-4) and part["drawn"] == 4
    (survivor,) = part["survivors"]
    assert survivor["number"] == 1 and survivor["at"] == ["k.cuh:1"]
    assert {
        "operator": "parity",
        "drawn": 2,
        "killed": 0,
        "survived": 1,
        "equivalent": 0,
        "refused": 1,
    } in part["by operator"]


def test_a_score_says_by_what_equivalent_mutants_are_shown_to_be_that():
    arguments = (SAME_CODE, SAME_CODE, SAME_IN_SCHEDULES, f"{BY_SOLVER}all")
    judged = [
        Judgement(DRAWN[n % 4], "equivalent", argument=argument) for n, argument in enumerate(arguments)
    ]
    found: Json = as_json([*judged, JUDGED[1]], **DRAW)
    shown = ("the same machine code", "equal by the solver", SAME_IN_SCHEDULES)
    assert [found[name] for name in shown] == [2, 1, 1] and found["equivalent"] == 4
    assert [mutant["argument"] for mutant in found["equivalents"]] == list(arguments)
    alone = as_json(judged, **DRAW)  # nothing was counted: no score, and no interval of it
    assert alone["score"] is None and alone["interval"] is None


def test_the_interval_of_a_score_is_wilsons():
    assert interval(0, 0) is None and interval(784, 861) == [0.8896, 0.9279]
    low, high = interval(10, 10) or [0, 0]
    assert high == 1.0 and 0.72 < low < 0.73
