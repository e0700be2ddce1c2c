"""Each planted error is found at its place and named for what it is; a correct machine gives no finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.conformance.check.run import judge_run
from tileproof.conformance.diagnose.arrays import ALL_NAN
from tileproof.conformance.diagnose.faults import LAYOUTS
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.spec.plans import head128_part0
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES
from tileproof.spec.problems.sparse_mla_bwd.tiling import gather

from tests.kit.doubles import machine, p_tile, unplanted

PLAN = head128_part0.plan(576)
TWO_TOKENS = (Indices("permuted"), Indices("random", holes=((3, -1), (70, 2**31 - 1))))
VALUE_CLASSES = ("coordinates", "integers", "normal", "large", "tiny")


def P(q, k):
    return STAGES["P"].exact(q=q, k=k)


def case(values="integers", **changes):
    return SparseCase(576, s_kv=150, blocks=3, tokens=TWO_TOKENS, values=values, seed=7, **changes)


def verdict(inputs, plant=unplanted, probe_plant=None) -> JudgedRun:
    production = machine(PLAN, inputs, plant)
    return judge_run(
        PLAN, inputs, production, lambda: machine(PLAN, inputs, probe_plant or plant, probe=True)
    )


def only(stage, token, k_block, cta, change):
    """Plants `change(tile, value)` in one tile."""

    def plant(name, tile, value):
        here = (name, tile.token, tile.cta) == (stage, token, cta) and (
            name == "delta" or tile.k_block == k_block
        )
        return change(tile, value) if here else value

    return plant


@pytest.mark.parametrize("values", ("zeros", *VALUE_CLASSES))
def test_correct_machine_gives_no_finding(values):
    inputs = case(values, lengths=(150, 0), garbage_tail=True, poison=True).inputs()
    result = verdict(inputs)
    assert result.findings == []
    assert result.scores["P"].tiles == 2 * 2 * 3 and result.scores["delta"].tiles == 2 * 2 * 2


def find(values, change, stage="P", token=1, k_block=2, cta=1, **changes):
    inputs = case(values, **changes).inputs()
    result = verdict(
        inputs, only(stage, token, k_block, cta, lambda tile, value: change(inputs, tile, value))
    )
    assert result.findings, "the planted error was not found"
    finding = result.findings[0]
    place = (finding.problem.stage, finding.problem.group, finding.problem.cta, finding.problem.k_block)
    assert place == (stage, token, cta, None if stage == "delta" else k_block)
    return finding


def columns(part):
    """P with the operands of some columns changed by `part(q, k) -> (q, k)`."""

    def change(inputs, tile, value):
        q = inputs.q[tile.token, tile.rows].astype(np.float64)
        k = gather(inputs, tile.token, tile.cols).astype(np.float64)
        return P(*part(q, k))

    return change


def rope_missing(q, k):
    return q[:, :512], k[:, :512]


@pytest.mark.parametrize("values", VALUE_CLASSES)
def test_missing_rope_tile(values):
    finding = find(values, columns(rope_missing))
    assert finding.cause == "the contribution of columns 512..575 (RoPE) is missing"


@pytest.mark.parametrize("values", VALUE_CLASSES)
def test_doubled_column_tile(values):
    def part(q, k):
        k[:, 128:192] *= 2
        return q, k

    assert find(values, columns(part)).cause == "the contribution of columns 128..191 was added twice"


@pytest.mark.parametrize("values", ("integers", "normal", "large", "tiny"))
def test_missing_k_step(values):
    def part(q, k):
        k[:, 208:224] = 0
        return q, k

    assert find(values, columns(part)).cause == "the contribution of columns 208..223 is missing"


@pytest.mark.parametrize("values", VALUE_CLASSES)
@pytest.mark.parametrize("off", (-1, -2))
def test_stale_k_block(values, off):
    def stale(inputs, tile, value):
        other = tile.k_block + off
        return p_tile(inputs, replace(tile, k_block=other, cols=slice(64 * other, 64 * (other + 1))))

    finding = find(values, stale)
    assert f"the tile is that of k-block {2 + off}" in finding.cause and "behind" in finding.cause


@pytest.mark.parametrize("values", VALUE_CLASSES)
def test_one_stale_column_tile(values):
    def stale(inputs, tile, value):
        q = inputs.q[tile.token, tile.rows]
        k = gather(inputs, tile.token, tile.cols)
        k[:, 64:128] = gather(inputs, tile.token, slice(0, 64))[:, 64:128]
        return P(q, k)

    assert find(values, stale).cause == "columns 64..127 of operand k are those of k-block 0 (stale buffer)"


@pytest.mark.parametrize("values", VALUE_CLASSES)
def test_stale_half_of_the_keys(values):
    def stale(inputs, tile, value):
        old = p_tile(inputs, replace(tile, k_block=0, cols=slice(0, 64)))
        return np.concatenate([value[:, :32], old[:, 32:]], axis=1)

    finding = find(values, stale)
    assert "the tile is that of k-block 0" in finding.cause
    if values != "coordinates":
        assert "slots 160..191 (the half of the keys that CTA 1 loads)" in finding.pattern


@pytest.mark.parametrize("values", VALUE_CLASSES)
def test_accumulator_not_cleared(values):
    def dirty(inputs, tile, value):
        return value + p_tile(inputs, replace(tile, k_block=0, cols=slice(0, 64)))

    assert "k-block 0 was added to this one" in find(values, dirty).cause


@pytest.mark.parametrize("values", ("integers", "normal", "large", "tiny"))
def test_transposed_tile(values):
    assert "the tile is transposed" in find(values, lambda inputs, tile, value: value.T).cause


@pytest.mark.parametrize("values", ("integers", "normal", "large", "tiny"))
def test_swapped_cta_halves(values):
    def swapped(inputs, tile, value):
        return p_tile(inputs, replace(tile, rows=slice(0, 64)))

    assert "that of CTA 0: the halves of the heads are swapped" in find(values, swapped).cause


@pytest.mark.parametrize("values", VALUE_CLASSES)
def test_one_wrong_index_of_a_gather4(values):
    def gathered(inputs, tile, value):
        k = gather(inputs, tile.token, tile.cols)
        k[6] = k[7]
        return P(inputs.q[tile.token, tile.rows], k)

    inputs = case(values).inputs()
    finding = find(values, gathered)
    row = inputs.indices[1, 128 + 7]
    assert (
        f"slot 134 (index {inputs.indices[1, 134]}) holds kv row {row}, the row of slot 135" in finding.cause
    )
    assert finding.problem.column == 134


def test_wrong_row_in_one_column_tile():
    def gathered(inputs, tile, value):
        k = gather(inputs, tile.token, tile.cols)
        k[6, 512:] = k[9, 512:]
        return P(inputs.q[tile.token, tile.rows], k)

    finding = find("integers", gathered)
    assert "wrong kv row gathered in columns 512..575: slot 134" in finding.cause
    assert finding.cause.endswith("the row of slot 137")


def test_wrong_row_in_one_column_tile_of_each_cta():
    def gathered(inputs, tile, value):
        k = gather(inputs, tile.token, tile.cols)
        for first in (192, 448):
            k[6, first : first + 64] = inputs.kv[inputs.indices[1, 134] - 1, first : first + 64]
        return P(inputs.q[tile.token, tile.rows], k)

    cause = find("integers", gathered).cause
    assert cause.startswith("wrong kv row gathered in columns 192..255 and 448..511: slot 134")


def test_clamped_index_and_zero_fill():
    def clamped(inputs, tile, value):
        k = gather(inputs, tile.token, tile.cols)
        k[6] = inputs.kv[0]
        k[9] = 0
        return P(inputs.q[tile.token, tile.rows], k)

    finding = find("integers", clamped, token=1, k_block=1)
    assert "slot 70 (no key, index 2147483647) holds kv row 0" in finding.cause
    assert "holds zeros" in finding.cause


def test_every_fourth_index_is_one_too_low():
    """One of the rows below, which no slot names, holds NaN: its slot says nothing."""
    inputs = SparseCase(576, s_kv=2000, blocks=3, tokens=TWO_TOKENS, values="integers", seed=7).inputs()
    below = inputs.indices[1, 128:192:4] - 1
    inputs.kv[below[~np.isin(below, inputs.indices)][0]] = np.nan

    def gathered(tile, value):
        k = gather(inputs, tile.token, tile.cols)
        k[::4] = inputs.kv[below]
        return P(inputs.q[tile.token, tile.rows], k)

    (finding,) = verdict(inputs, only("P", 1, 2, 1, gathered)).findings
    poison = "1 more slots hold a row of NaN or inf"
    assert finding.cause == f"wrong kv row gathered: 15 slots hold the row of their index -1; {poison}"


@pytest.mark.parametrize(("first", "off"), [(64, 64), (0, 1), (512, 64)])
def test_column_tile_of_some_keys_from_other_columns(first, off):
    """Behind the last column a copy fills in zeros."""

    def gathered(inputs, tile, value):
        k = gather(inputs, tile.token, tile.cols)
        rows = np.concatenate([k[4:8], np.zeros_like(k[4:8])], axis=1)
        k[4:8, first : first + 64] = rows[:, first + off : first + off + 64]
        return P(inputs.q[tile.token, tile.rows], k)

    cause = find("integers", gathered).cause
    if first + off + 64 <= 576:
        where = f"columns {first}..{first + 63} of 4 slots are the columns {off:+d} of their kv row"
        assert cause.startswith(where)
    else:
        assert cause.startswith(f"wrong kv row gathered in columns {first}..{first + 63}")


def test_keys_that_are_nan_where_others_are_not():
    def gathered(inputs, tile, value):
        value = value.copy()
        value[:, [6, 9]] = np.nan
        return value

    cause = find("integers", gathered).cause
    assert cause.startswith("slots hold NaN or inf instead of their kv row") and ": 134 (index" in cause
    assert find("integers", lambda inputs, tile, value: np.nan * value).cause == ALL_NAN


def test_columns_of_zeros_are_not_those_of_a_token_without_keys():
    tokens = (Indices("permuted", dead_blocks=(0, 1, 2)), Indices("random"))
    inputs = SparseCase(576, s_kv=150, blocks=3, tokens=tokens, values="integers", seed=7).inputs()

    def zeros(tile, value):
        value[:, 4:12] = 0
        return value

    (finding,) = verdict(inputs, only("P", 1, 2, 1, zeros)).findings
    assert "holds zeros" in finding.cause and "token" not in finding.cause


@pytest.mark.parametrize("values", ("integers", "normal", "large", "tiny"))
@pytest.mark.parametrize("label", LAYOUTS)
def test_misread_operand(values, label):
    def part(q, k):
        return q, LAYOUTS[label](k, 2)

    assert find(values, columns(part)).cause == f"all columns of operand k: {label}"


def test_misread_of_one_column_tile():
    label = "read without the 128B swizzle that it is stored with"

    def part(q, k):
        k[:, 192:256] = LAYOUTS[label](k, 2)[:, 192:256]
        return q, k

    assert find("integers", columns(part)).cause == f"columns 192..255 of operand k: {label}"


@pytest.mark.parametrize("values", VALUE_CLASSES)
@pytest.mark.parametrize(
    ("factor", "words"), ((2.0, "2 (added twice)"), (576**-0.5, "sm_scale"), (-1.0, "-1 (sign)"))
)
def test_scale(values, factor, words):
    finding = find(values, lambda inputs, tile, value: value * factor)
    if words == "sm_scale" and values == "coordinates":
        words = "1 / sqrt(d_qk)"  # these cases have another sm_scale
    assert finding.cause in (
        f"every value is the expected one times {words}",
        "the contribution of all columns was added twice",
    )


@pytest.mark.parametrize("values", VALUE_CLASSES)
def test_zero_tile(values):
    assert find(values, lambda inputs, tile, value: 0 * value).cause == "the tile is all zeros"


@pytest.mark.parametrize("values", ("integers", "normal"))
def test_permuted_heads(values):
    def swapped(inputs, tile, value):
        return value[np.arange(64) ^ 1]

    assert find(values, swapped).cause.endswith("permuted: index i holds i XOR 1")


def test_tile_never_written():
    finding = find("integers", lambda inputs, tile, value: None)
    assert finding.kind == "missing" and finding.found is None and "it was never written" in finding.cause


@pytest.mark.parametrize("values", ("integers", "normal", "large", "tiny"))
def test_delta_over_half_the_row(values):
    def half(inputs, tile, value):
        o, dO = inputs.o[tile.token, tile.rows], inputs.dO[tile.token, tile.rows]
        return STAGES["delta"].exact(o=o[:, :256], dO=dO[:, :256])[:, None]

    finding = find(values, half, stage="delta")
    assert finding.cause == "the contribution of columns 256..511 (second half of the row) is missing"


def test_delta_of_the_wrong_operand():
    def squared(inputs, tile, value):
        o = inputs.o[tile.token, tile.rows]
        return STAGES["delta"].exact(o=o, dO=o)[:, None]

    assert find("integers", squared, stage="delta").cause == "all columns: o * o instead of o * dO"


def test_both_stages_wrong_names_the_first_of_the_graph_first():
    result = verdict(case().inputs(), lambda stage, tile, value: value + 1)
    assert [(f.problem.stage, f.problem.build) for f in result.findings] == [
        ("delta", "production"),
        ("P", "production"),
    ]
    assert result.findings[0].others == 3 and result.findings[1].others == 11


def test_another_group_tells_the_cause_where_the_first_one_cannot():
    """Each slot of the first token names the same key."""
    inputs = SparseCase(576, 150, 3, (Indices("same"), Indices("random")), values="integers", seed=7).inputs()

    def part(stage, tile, value):
        if stage != "P":
            return value
        q = inputs.q[tile.token, tile.rows].astype(np.float64)
        q[:, 64:80] = q[:, 144:160]
        return P(q, gather(inputs, tile.token, tile.cols).astype(np.float64))

    finding = verdict(inputs, part).findings[0]
    assert (finding.problem.stage, finding.problem.group) == ("P", 0)
    assert finding.cause.startswith("in token 1, k-block 0: columns 64..79 of operand q were not read")
    assert finding.cause.endswith("it read columns 144..159")


def test_probe_build_is_judged_as_well():
    result = verdict(case().inputs(), unplanted, lambda stage, tile, value: value + 1)
    assert [(f.problem.stage, f.problem.build) for f in result.findings] == [
        ("delta", "probe"),
        ("P", "probe"),
    ]


def test_builds_that_disagree_within_the_bound():
    def last_bit(stage, tile, value):
        if stage != "P" or (tile.token, tile.k_block, tile.cta) != (0, 1, 0):
            return value
        changed = value.copy()
        changed[5, 9] = np.nextafter(np.float32(value[5, 9]), np.float32(np.inf))
        return changed

    result = verdict(case("normal").inputs(), unplanted, last_bit)
    (finding,) = result.findings
    assert finding.kind == "disagree"
    assert (finding.problem.stage, finding.problem.group, finding.problem.cta, finding.problem.k_block) == (
        "P",
        0,
        0,
        1,
    )
    assert (finding.problem.row, finding.problem.column) == (5, 64 + 9)


def test_place_in_tensor_memory():
    def wrong(inputs, tile, value):
        value = value.copy()
        value[40, 50] += 1
        return value

    finding = find("integers", wrong, k_block=1)
    # Layout B: row 40 of CTA 1 and column 50 of N = 64 lie in lane 40 + 64, column 50 - 32 of stage 1.
    assert (finding.problem.row, finding.problem.column) == (104, 114)
    assert (finding.problem.lane, finding.problem.tmem_column) == (104, 32 + 18)
    assert finding.pattern == "head 104, slot 114"
