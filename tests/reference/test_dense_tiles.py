"""reference/dense_attention_bwd.py equals the stages, autograd and numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, seed, settings
from tileproof.reference import dense_attention_bwd, dense_oracle
from tileproof.reference.evaluate import Evaluation
from tileproof.reference.tile import TileValue, outputs_of_walk
from tileproof.spec.arithmetic import F32
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.problems.base import TileCoord, Tiling
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.generator import cases
from tileproof.spec.problems.dense_attention_bwd.inputs import DenseProblem, Dropout, Inputs
from tileproof.spec.problems.dense_attention_bwd.masks import Mask
from tileproof.spec.problems.dense_attention_bwd.problem import DenseAttentionBwd

from tests.kit.dense_problems import CUT, exact, small
from tests.kit.evaluated import outputs_over, with_edits, worst_element, worst_output
from tests.kit.uncancelled import Uncancelled

TOLERANCE = 1e-12  # of the magnitudes that an element is a sum of
ORACLE_TOLERANCE = 1e-11  # of the largest element, as tests/reference/test_dense_oracle.py
WHOLE = DenseAttentionBwd(F32)
OUTPUTS = ("delta", "dQ", "dK", "dV", "dB")
BLOCKS = {"queries": CUT.block, "keys": CUT.tile("n")}


def of_spec(evaluation: Evaluation, tile: TileValue) -> Any:
    """The sums of dQ, dK and dV after a k-block, and what it adds to dQ, of the spec's D and dS."""
    group, k_block, m = tile.coord.group, tile.coord.k_block, evaluation.m
    if k_block is None or tile.stage not in ("dQ", "dQ_part", "dK", "dV"):
        return None
    rows, cols = evaluation.region("P", tile.coord)
    dS = evaluation.earlier("dS", group, F32)
    if tile.stage in ("dQ", "dQ_part"):  # over keys
        seen = slice(0 if tile.stage == "dQ" else cols.start, cols.stop)
        return m.matmul(dS[rows, seen], evaluation.term("k", group, F32)[seen])
    done = slice(0, rows.stop)  # over the queries of one head after another
    if tile.stage == "dK":
        return m.matmul(dS[done, cols].T, evaluation.term("q", group, F32)[done])
    return m.matmul(
        evaluation.earlier("D", group, F32)[done, cols].T, evaluation.term("dO", group, F32)[done]
    )


def from_stages(inputs: Inputs, reference: Any = dense_attention_bwd, cut: Tiling = CUT) -> float:
    """The largest difference of a tile's element from the stages."""
    tiles = reference.tiles(inputs, queries=cut.block, keys=cut.tile("n"))
    return worst_element(tiles, inputs, WHOLE, cut, of_spec)


def from_oracle(inputs: Inputs, reference: Any = dense_attention_bwd) -> float:
    """The largest difference of an output from autograd."""
    got = outputs_of_walk(reference.tiles(inputs, **BLOCKS))
    terms = outputs_over(inputs, OUTPUTS, problem=WHOLE, tiling=CUT, m=Uncancelled(), dtype=complex)
    return worst_output(got, dense_oracle.gradients(inputs), terms)


@pytest.mark.parametrize("start", [1, 2])
def test_every_tile_is_what_the_stages_give(start: int) -> None:
    @seed(start)
    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases("bf16"))
    def holds(case: DenseCase) -> None:
        assert from_stages(case.inputs()) <= TOLERANCE

    holds()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases("f32"))
@example(DenseCase("f32", m=3, n=5, packed=((0, 2), (3, 0), (2, 3))))
@example(small(form="f16", bias=True, dropout=0.5, stream=(9, 7)))
def test_outputs_equal_autograd(case: DenseCase) -> None:
    assert from_oracle(exact(case)) <= ORACLE_TOLERANCE


def test_tiles_of_one_key_block_are_those_of_a_kernel_that_walks_its_queries() -> None:
    inputs = exact(small(packed=((20, 60), (0, 3), (50, 73)), align="bottom right"))
    problem, scale = DenseAttentionBwd(by_key_block=True), inputs.problem.sm_scale
    evaluation, found = Evaluation(problem, inputs, CUT, EXACT), {}
    for tile in dense_attention_bwd.tiles(inputs, **BLOCKS):
        if tile.stage == "dQ_part" or (tile.stage in ("dK", "dV") and not tile.partial):
            found[tile.stage, tile.coord.group, tile.coord.k_block, tile.rows.start] = tile.value
    blocks = len(problem.groups(inputs, CUT)) // len(WHOLE.groups(inputs, CUT))
    for group in problem.groups(inputs, CUT):
        head, first = divmod(group, blocks)
        before = sum(problem.k_blocks(inputs, CUT, head * blocks + block) for block in range(first))
        for k_block in range(problem.k_blocks(inputs, CUT, group)):
            rows, _ = evaluation.region("dQ", TileCoord(group, 0, k_block))
            got = found.pop(("dQ_part", head, before + k_block, rows.start))
            want = evaluation.whole("dS", group).value[rows] @ evaluation.term("k", group, F32)
            np.testing.assert_allclose(got, scale * want, rtol=1e-11, atol=1e-13)
        keys = problem.extent(inputs, CUT, group, "n")
        if keys.stop > keys.start:
            for name, factor in (("dK", scale), ("dV", 1.0)):
                want = evaluation.whole(f"{name}_acc", group).value
                got = found.pop((name, head, None, keys.start))
                np.testing.assert_allclose(got, factor * want, rtol=1e-11, atol=1e-13)
    assert not found


def by_hand(mask: Mask, lse: Any, o: Any, kept: Any = None, **more: Any) -> Inputs:
    """Two queries, two keys, two columns, one head; sm_scale 1/2."""
    f64 = np.float64
    p = DenseProblem(1, 2, 2, 1, 1, 2, 2, "f32", 0.5, mask, Dropout(0.5 if kept is not None else 0.0))
    inputs = Inputs(
        p,
        q=np.array([[2, 0], [0, 4]], f64).reshape(1, 2, 1, 2),
        k=np.array([[1, 1], [3, 1]], f64).reshape(1, 2, 1, 2),
        v=np.array([[1, 0], [0, 2]], f64).reshape(1, 2, 1, 2),
        o=np.array(o, f64).reshape(1, 2, 1, 2),
        dO=np.array([[5, 1], [2, 3]], f64).reshape(1, 2, 1, 2),
        lse=np.array(lse, f64).reshape(1, 1, 2),
        **more,
    )
    if kept is not None:
        vars(inputs)["kept"] = np.array(kept).reshape(1, 1, 2, 2)
    return inputs


def test_causal_tiles_worked_out_by_hand() -> None:
    # P = q k^T = (2, 6; 4, 4); half of it: (1, 3; 2, 2). Causal: query 0 sees key 0 alone, so lse = 1, and
    # query 1 sees both alike, so lse = 2 + log 2. S = (1, 0; 1/2, 1/2); o = (1, 0), (1/2, 1).
    # delta = 5, and 1 + 3 = 4. dP = dO v^T = (5, 2; 2, 6).
    # dB = S (dP - delta) = (0, 0; -1, 1); dS is half of it.
    inputs = by_hand(Mask(right=0), [1, 2 + np.log(2)], [[1, 0], [0.5, 1]])
    found = [
        (tile.stage, tile.coord.k_block, tile.partial, tile.value.tolist())
        for tile in dense_attention_bwd.tiles(inputs, queries=1, keys=1)
        if tile.stage not in ("D", "dD")  # no dropout: S and dP
    ]
    # Pairs (key, query): (0, 0), (0, 1), (1, 1); query 0 does not see key 1.
    wanted: list[tuple[str, int | None, bool, Any]] = [
        ("delta", None, False, [5, 4]),
        *[("P", 0, False, [[2]]), ("S", 0, False, [[1]]), ("dP", 0, False, [[5]])],
        *[("dB", 0, False, [[0]]), ("dS", 0, False, [[0]])],
        *[("dV", 0, True, [[5, 1]]), ("dK", 0, True, [[0, 0]])],
        *[("dQ_part", 0, True, [[0, 0]]), ("dQ", 0, True, [[0, 0]])],
        *[("P", 1, False, [[4]]), ("S", 1, False, [[1 / 2]]), ("dP", 1, False, [[2]])],
        *[("dB", 1, False, [[-1]]), ("dS", 1, False, [[-1 / 2]])],
        *[("dV", 1, True, [[6, 5 / 2]]), ("dK", 1, True, [[0, -2]])],
        *[("dQ_part", 1, True, [[-1 / 2, -1 / 2]]), ("dQ", 1, True, [[-1 / 2, -1 / 2]])],
        *[("dK", None, False, [[0, -2]]), ("dV", None, False, [[6, 5 / 2]])],
        *[("P", 2, False, [[4]]), ("S", 2, False, [[1 / 2]]), ("dP", 2, False, [[6]])],
        *[("dB", 2, False, [[1]]), ("dS", 2, False, [[1 / 2]])],
        *[("dV", 2, True, [[1, 3 / 2]]), ("dK", 2, True, [[0, 2]])],
        *[("dQ_part", 2, True, [[3 / 2, 1 / 2]]), ("dQ", 2, True, [[1, 0]])],
        *[("dK", None, False, [[0, 2]]), ("dV", None, False, [[1, 3 / 2]])],
        ("dQ", None, False, [[0, 0], [1, 0]]),
        ("dB", None, False, [[0, 0], [-1, 1]]),
    ]
    assert [tile[:3] for tile in found] == [tile[:3] for tile in wanted]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got[3], want[3], rtol=1e-14, atol=1e-14, err_msg=str(got[:3]))


def test_dropout_and_bias_worked_out_by_hand() -> None:
    # P / 2 + bias = (1, 1; 2, 2) with the bias (0, -2; 0, 0): S is 1/2 everywhere, lse = (1, 2) + log 2.
    # Kept with p = 1/2: (1, 0; 1, 1), times 2: D = (1, 0; 1, 1); o = D v = (1, 0), (1, 2); delta = 5, 8.
    # dD = (5, 2; 2, 6); dP = (10, 0; 4, 12); dB = (5/2, -5/2; -2, 2); dS is half of it.
    bias = np.array([[0, -2], [0, 0]], np.float64).reshape(1, 1, 2, 2)
    kept = [[True, False], [True, True]]
    inputs = by_hand(Mask(), np.log(2) + np.array([1, 2]), [[1, 0], [1, 2]], kept, bias=bias)
    wanted: dict[str, Any] = {
        "delta": [5, 8],
        "dB": [[5 / 2, -5 / 2], [-2, 2]],
        "dQ": [[5 / 4 - 15 / 4, 0], [-1 + 3, 0]],
        "dK": [[5 / 2, -4], [-5 / 2, 4]],
        "dV": [[7, 4], [2, 3]],
    }
    for got in (
        outputs_of_walk(dense_attention_bwd.tiles(inputs, queries=2, keys=1)),
        dense_oracle.gradients(inputs),
        outputs_over(inputs, OUTPUTS, problem=WHOLE, tiling=CUT),
    ):
        for name, values in wanted.items():
            np.testing.assert_allclose(got[name][0, 0], values, rtol=1e-14, atol=1e-14, err_msg=name)


def test_the_three_masks_are_the_one_written_out() -> None:
    limits = (None, -1, 0, 2)
    for m, n in ((3, 5), (5, 3), (4, 4), (0, 2), (2, 0)):
        for mask in (
            Mask(at, left, right)
            for at in ("top left", "bottom right")
            for left in limits
            for right in limits
        ):
            wanted = np.zeros((m, n), bool)
            for i in range(m):
                for j in range(n):
                    d = i if mask.align == "top left" else i + n - m
                    wanted[i, j] = (mask.left is None or j >= d - mask.left) and (
                        mask.right is None or j <= d + mask.right
                    )
            assert (dense_attention_bwd.visible(mask, m, n) == wanted).all()
            assert (dense_oracle.visible(mask, m, n).numpy() == wanted).all()
            assert (mask.seen(m, n) == wanted).all()


def test_a_query_that_sees_no_key_gives_zeros() -> None:
    # Five queries of two keys from the bottom right: the first three see nothing, whatever lse is.
    case = small(m=5, n=2, h_kv=1, heads=1, align="bottom right")
    for lse in (np.inf, -np.inf, 7.0):
        inputs = exact(case)
        inputs.lse[..., :3] = lse
        found = outputs_of_walk(dense_attention_bwd.tiles(inputs, queries=2, keys=2))
        assert not found["dQ"][..., :3, :].any() and found["dQ"][..., 4, :].any()
        assert from_oracle(inputs) <= ORACLE_TOLERANCE


BOTH = "stages autograd"
EDITS: dict[str, tuple[str, str, str]] = {
    "no delta": ("(dP - pair.delta)", "dP", BOTH),
    "no sm_scale in S": ("P * p.sm_scale", "P * 1.0", BOTH),
    "no sm_scale in dS": ("dB * p.sm_scale", "dB", BOTH),
    "no bias": ("bias[at_tile].astype(np.float64)", "0.0", BOTH),
    "no mask": ("np.where(pair.visible, np.exp", "np.where(pair.visible | True, np.exp", BOTH),
    "mask one key further": ("distance <= mask.right", "distance <= mask.right + 1", BOTH),
    "mask from the top left": ("(n - m if mask", "(0 if mask", BOTH),
    "no left limit": ("distance >= -mask.left", "distance >= -n", BOTH),
    "a block's first query decides": ("if not mask.any()", "if not mask[0].any()", BOTH),
    "packed queries without their first": ("m0, n0 = m0 + m, n0 + n", "m0, n0 = m0, n0 + n", BOTH),
    "KV heads in turn": (
        "range(kv_head * heads, (kv_head + 1) * heads)", "range(kv_head, p.h, p.h_kv)", BOTH,
    ),
    "S for D in dV": ("return D, dB, dS", "return S, dB, dS", BOTH),
    "dropout of dP forgotten": ("np.where(pair.kept, dD * rescale, 0.0)", "dD", BOTH),
    "kept elements as they are": ("pair.kept, S * rescale, 0.0", "pair.kept, S, 0.0", BOTH),
    "dV set, not added": ("dV_sum = dV_sum + ", "dV_sum = ", BOTH),
    "dK of the last head": ("dK_sum = dK_sum + ", "dK_sum = (dK_sum if i else 0) + ", BOTH),
    "dQ set, not added": ("dQ[at_rows] += dQ_part", "dQ[at_rows] = dQ_part", BOTH),
    "dQ shown before it is whole": ("dQ[at_rows].copy()", "dQ[at_rows]", "stages"),
    "k-blocks of each head counted anew": ("for i in range(0, m, queries):",
        "k_block *= bool(position) and i > 0\n                for i in range(0, m, queries):", "stages"),
    "no last, partly filled block of keys": ("range(0, n, keys)", "range(0, n - n % keys, keys)", BOTH),
}  # fmt: skip


def irregular() -> tuple[Inputs, ...]:
    """Problems on one of which, or more, each planted error shows."""
    return (
        exact(small(left=20, right=2, align="bottom right", bias=True, dropout=0.3, stream=(9, 7))),
        exact(small(packed=((20, 60), (0, 3), (50, 33)), right=5)),
    )


@pytest.mark.parametrize("edit", EDITS)
def test_an_error_planted_in_the_reference_is_found(edit: str) -> None:
    old, new, finds = EDITS[edit]
    wrong = with_edits(dense_attention_bwd, (old, new))
    assert (max(from_stages(inputs, wrong) for inputs in irregular()) > TOLERANCE) == ("stages" in finds)
    assert (max(from_oracle(inputs, wrong) for inputs in irregular()) > ORACLE_TOLERANCE) == (
        "autograd" in finds
    )


def test_nothing_is_found_in_the_reference_itself() -> None:
    for inputs in irregular():
        assert from_stages(inputs) <= TOLERANCE and from_oracle(inputs) <= ORACLE_TOLERANCE
