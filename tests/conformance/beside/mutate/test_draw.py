"""A draw depends on its seed alone, and gives each source place its turn."""

from __future__ import annotations

import hashlib
import itertools

import pytest
from tileproof.conformance.beside.mutate.draw import Pool, draw, places_named, stands_at, wanted
from tileproof.conformance.beside.mutate.operators import OPERATORS
from tileproof.conformance.beside.mutate.sources import SOURCE_OPERATORS
from tileproof.spec.machine.errors import TileproofError

from tests.kit.mutate import TEXT, code

SOURCE = """\
void run() {
  for (int k = 0; k < blocks; ++k) {
    first(k * 2);
    second(k % 3);
  }
}
"""


def words(pool: Pool, seed: int, count: int = 60) -> list[str]:
    """Operator and change of what a seed draws."""
    return [
        f"{mutant.operator}: {mutant.what}"
        for mutant in itertools.islice(draw(pool, list(OPERATORS), seed), count)
    ]


def test_a_seed_draws_the_same_everywhere():
    drawn = words(Pool(code()), 3)
    assert drawn == words(Pool(code(TEXT.replace('"kernel.cuh"', '"elsewhere/kernel.cuh"'))), 3)
    assert drawn != words(Pool(code()), 4)
    assert hashlib.sha256("\n".join(drawn).encode()).hexdigest()[:16] == "61336aaaf66500de"


def test_operators_take_turns_and_no_place_comes_again_before_all_had_their_turn():
    drawn = list(itertools.islice(draw(Pool(code()), ["rounding", "remove-sync"], 1), 6))
    assert [mutant.operator for mutant in drawn] == [
        "rounding",
        *["remove-sync"] * 3,
        "rounding",
        "remove-sync",
    ]
    every = list(draw(Pool(code()), ["rounding"], 1, rounds=1))
    assert len(every) == 1, "three fma of one line are one place"
    sync = list(draw(Pool(code()), ["remove-sync"], 1, rounds=1))
    assert len({mutant.frames for mutant in sync}) == len(sync)


def test_a_draw_ends_when_everything_was_drawn():
    drawn = list(draw(Pool(code()), ["parity", "wait-once"], 0))
    assert [mutant.operator for mutant in drawn] == ["parity", "wait-once"]


def test_sources_change_in_lines_that_were_compiled():
    text = TEXT.replace(".loc\t1 30 5", ".loc\t1 3 5").replace(".loc\t1 31 5", ".loc\t1 4 5")
    pool = Pool(code(text.replace(".loc\t1 12 0", ".loc\t1 2 0")), {"kernel.cuh": SOURCE})
    changed = {
        name: [mutant.sources["kernel.cuh"] for mutant in draw(pool, [name], 0)]
        for name in wanted(None)
        if name.startswith("source-")
    }
    assert any("k + 2" in text for text in changed["source-index"])
    assert any("k % 4" in text for text in changed["source-off-by-one"])
    assert any("k <= blocks" in text for text in changed["source-compare"])
    assert any("k < (blocks) - 1" in text for text in changed["source-last-block"])
    assert changed["source-stage-order"] == [
        SOURCE.replace("first(k * 2);\n    second(k % 3);", "second(k % 3);\n    first(k * 2);")
    ]
    assert any("first" not in text for text in changed["source-remove"])
    assert not any("run()" not in text for them in changed.values() for text in them)


@pytest.mark.parametrize(
    ("loop", "turns"),
    [
        ("for (int k = 0; k < blocks; ++k) {", ("k = (0) + 1;", "k < (blocks) - 1;", "k < (blocks) + 1;")),
        ("for (int at = 0; at < N; at += 32) {", ("at = (0) + 32;", "at < (N) - 32;", "at < (N) + 32;")),
        (
            "for (int k = a; k < b + c; k += x * y) {",
            ("(a) + (x * y);", "(b + c) - (x * y);", "(b + c) + (x * y);"),
        ),
        ("for (int k = n; k > 0; k /= 2) {", ()),
        ("for (int k = 0; k < n; other += 2) {", ()),
    ],
)
def test_a_loop_loses_or_gains_a_whole_turn(loop, turns):
    texts = [text for _, text in SOURCE_OPERATORS["source-last-block"]([loop], 0)]
    assert len(texts) == len(turns) and all(turn in text for turn, text in zip(turns, texts, strict=True))


@pytest.mark.parametrize(
    ("first", "second", "some"),
    [
        ("    smem.a.init(1);", "    smem.b[k % 2].init(2);", False),
        ("    smem.a[b].wait((k / n) & 1);", "    smem.b.wait(0);", False),
        ("    smem.a.wait_own(0);", "    this->wait_for_cluster(smem.b, 0);", False),
        ("    ptx::commit(smem.a.address());", "    ptx::commit_pair(smem.b.address(), mask);", False),
        ("    prefetch_tma_descriptor(&a);", "    prefetch_tma_descriptor(&b);", False),
        ("    ptx::init(ring.a(s), 1);", "    ptx::init(ring.b(s), 4);", False),
        ("    ptx::wait(ring.a(s), 0);", "    smem.b.wait(1);", False),
        ("    ptx::arrive_and_expect_tx(full, n);", "    ptx::tma_load_2d(to, &a, full, k, row);", False),
        ("    ptx::tma_load_2d(to, &a, full, k, row);", "    smem.full.arrive_and_expect_tx(n);", False),
        ("    ptx::arrive_and_expect_tx(a, n);", "    ptx::arrive_and_expect_tx(b, n);", True),
        ("    ptx::arrive(full);", "    ptx::tma_load_2d(to, &a, full, k, row);", True),
        ("    ptx::wait(ring.a(s), 0);", "    ptx::tma_load_2d(to, &a, full, k, row);", True),
        ("    smem.a.wait(0);", "    smem.b.init(1);", True),
        ("    smem.a.wait(0);", "    ptx::commit(smem.b.address());", True),
        ("    await(0);", "    smem.b.wait(1);", True),
        ("    ptx::load_tmem_32_columns(d, v[0]);", "    ptx::load_tmem_32_columns(d + 32, v[1]);", False),
        ("    ptx::load_tmem_32_columns(d, v);", "    ptx::load_tmem_32_columns(d + 32, v);", True),
        ("    prefetch_tma_descriptor(&map);", "    smem.a.arrive();", False),
        ("    smem.a.arrive();", "    smem.b.arrive();", True),
    ],
)
def test_two_statements_of_one_kind_are_not_exchanged(first, second, some):
    assert bool(list(SOURCE_OPERATORS["source-stage-order"]([first, second], 0))) == some


@pytest.mark.parametrize(
    ("statement", "some"),
    [
        ("    cute::prefetch_tma_descriptor(&params.kv_map);", False),
        ('    asm volatile("" : "+r"(low));', False),
        ('    asm volatile("" ::: "memory");', True),
        ('    asm volatile("bar.sync 1, 64;" ::: "memory");', True),
        ("    prefetch_tma_descriptor(&params.kv_map); smem.a.arrive();", True),
    ],
)
def test_a_statement_that_does_nothing_is_not_left_out(statement, some):
    assert bool(list(SOURCE_OPERATORS["source-remove"]([statement], 0))) == some


def test_an_unknown_operator_names_those_there_are():
    with pytest.raises(TileproofError, match="unknown operator"):
        wanted("remove-sync,none")


def test_two_inits_of_barriers_are_not_exchanged():
    from tileproof.conformance.beside.mutate.sources import stage_order

    lines = ["  full.init(1);", "  smem.free[b].init(2);", "  full.arrive();", "  free.wait(0);"]
    assert [bool(list(stage_order(lines, n))) for n in range(3)] == [False, True, True]


def test_a_draw_can_keep_to_a_place():
    every = list(draw(Pool(code()), list(OPERATORS), 1))
    (file, line) = every[0].frames[-1]
    name = file.rsplit("/", 1)[-1]
    there = [mutant for mutant in every if stands_at(mutant, places_named([f"{name}:{line}"]))]
    assert there and all((file, line) in mutant.frames for mutant in there)
    assert any(mutant not in there for mutant in every)
    assert all(
        stands_at(mutant, places_named([name]))
        for mutant in every
        if any(f == file for f, _ in mutant.frames)
    )
    assert not any(stands_at(mutant, places_named([name[1:]])) for mutant in every), (
        "the end of a name is no path"
    )


@pytest.mark.parametrize("text", ["", "kernel.cuh:", "kernel.cuh:0", "kernel.cuh:x", "a:b:1"])
def test_nonsense_for_a_place_is_refused_by_name(text):
    with pytest.raises(TileproofError, match="not a place"):
        places_named([text])
