"""Masks of dense attention as limits, and the block pairs that are walked."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.dense_attention_bwd import masks
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.masks import Mask
from tileproof.spec.problems.dense_attention_bwd.problem import DenseAttentionBwd

from tests.kit.dense_problems import CUT, small

limits = st.none() | st.integers(-3, 12)


@given(st.sampled_from(["top left", "bottom right"]), limits, limits, st.integers(0, 20), st.integers(0, 20))
def test_a_mask_is_its_definition(
    align: masks.Align, left: int | None, right: int | None, m: int, n: int
) -> None:
    seen = Mask(align, left, right).seen(m, n)
    for i in range(m):
        diagonal = i + (n - m if align == "bottom right" else 0)
        for j in range(n):
            wanted = (left is None or j >= diagonal - left) and (right is None or j <= diagonal + right)
            assert seen[i, j] == wanted


@given(st.sampled_from(["top left", "bottom right"]), limits, limits, st.integers(0, 40), st.integers(0, 40))
def test_every_block_with_a_seen_key_is_walked(
    align: masks.Align, left: int | None, right: int | None, m: int, n: int
) -> None:
    mask = Mask(align, left, right)
    seen = mask.seen(m, n)
    wanted = {(i // 7, j // 5) for i, j in np.argwhere(seen)}
    found = masks.blocks(mask, m, n, 7, 5)
    assert set(found) == wanted and [key for _, key in found] == sorted(key for _, key in found)


def test_torch_has_the_same_causal_masks() -> None:
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    for m, n in ((5, 8), (8, 5), (4, 4)):
        for align, made in (("top left", causal_upper_left), ("bottom right", causal_lower_right)):
            theirs = made(m, n)._materialize(torch.device("cpu")).numpy()
            assert (Mask(align, None, 0).seen(m, n) == theirs).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("by_key_block", [False, True])
def test_tiles_cover_what_is_seen_once(by_key_block: bool) -> None:
    inputs = small(packed=((20, 60), (0, 3), (50, 33)), left=40, align="bottom right").inputs()
    problem = DenseAttentionBwd(by_key_block=by_key_block)
    covered = np.zeros((inputs.problem.b, inputs.problem.h, inputs.problem.m, inputs.problem.n), int)
    for group in problem.groups(inputs, CUT):
        for k_block in range(problem.k_blocks(inputs, CUT, group)):
            place = problem.place(inputs, CUT, TileCoord(group, 0, k_block), ("b", "h", "m", "n"))
            covered[place] += 1
    assert covered.max() == 1
    for sequence, seen in zip(inputs.problem.sequences, inputs.masks, strict=True):
        assert (covered[sequence.batch, :, sequence.queries, sequence.keys] >= seen).all()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"m":0}', "m is no size"), ('{"h":1}', "unexpected"), ('{"form":"f8"}', "form"), ("[]", "not"),
        ('{"dropout":1.5}', "dropout"), ('{"dropout":0.5,"packed":[[1,1]]}', "dropout"),
        ('{"d_qk":1000}', "large"),
    ],
)  # fmt: skip
def test_a_case_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(TileproofError, match=says):
        DenseCase.from_json(text)


def test_a_case_comes_back_from_its_text() -> None:
    for case in (small(), small(packed=((1, 2), (3, 4))), small(dropout=0.5, stream=(2**40, 3))):
        assert DenseCase.from_json(case.as_json()) == case
