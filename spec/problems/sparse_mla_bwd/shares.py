"""P and dP as sums of two CTAs' shares, each over its own columns: a single share, a subtracted share, or a
share of a neighbouring key.

Where a pair shares out the columns, each CTA finishes half of a k-block's keys. S and dS are made from the
sums, and a share that was lost, or is that of another key, is seen in them first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.numerics import U_F32_RZ, gamma
from tileproof.spec.problems.faults import F64, LaunchView, WrongTile
from tileproof.spec.problems.sparse_mla_bwd.inputs import D_V, Inputs
from tileproof.spec.problems.sparse_mla_bwd.tiling import gather, rows_of

SHIFTS = (1, 2, 3, 4)  # keys that a share may be off by: one access brings four


def shares(launched: LaunchView, tile: WrongTile, name: str) -> Iterator[tuple[str, Bounded]]:
    """What P or dP (`name`) of the tile may have been in words, and as values ``[heads, slots]``."""
    parts = _parts(launched.inputs, launched.tiling.ctas, tile, name)
    if not parts:
        return
    block = launched.tiling.block
    slots = np.arange(tile.cols.start, tile.cols.stop)
    first = slots % block < block // 2  # finished by CTA 0
    own, peer = (
        tuple(np.where(first, x, y) for x, y in zip(parts[rank], parts[1 - rank], strict=True))
        for rank in (0, 1)
    )
    for (share, error), (other, more), lost in ((own, peer, "peer's"), (peer, own, "own")):
        yield f"{name} lacks the {lost} share of the CTA that finishes the slot", Bounded(share, error)
        other_one = "own" if lost == "peer's" else "peer's"
        yield f"{name} has the {other_one} share twice and lacks the {lost}", Bounded(2 * share, 2 * error)
        yield f"the {lost} share in {name} is subtracted", Bounded(share - other, error + more)
        for step in SHIFTS:
            for sign, way in ((-step, "further"), (step, "before")):
                words = f"the {lost} share in {name} is that of the slot {step} {way}"
                moved, slack = (np.roll(values, sign, axis=1) for values in (other, more))
                yield words, Bounded(share + moved, error + slack)


def _parts(inputs: Inputs, ctas: int, tile: WrongTile, name: str) -> list[tuple[F64, F64]]:
    """Each CTA's share and its error; none where the values are not finite."""
    problem, token = inputs.problem, tile.coord.group
    heads = tile.found.shape[0]
    if ctas != 2 or (heads != problem.h_q and tile.coord.cta is None):
        return []
    rows = slice(0, problem.h_q) if heads == problem.h_q else rows_of(problem, tile.coord.cta or 0, ctas)
    given = (inputs.q if name == "P" else inputs.dO)[token, rows].astype(np.float64)
    keys = gather(inputs, token, tile.cols).astype(np.float64)[:, : given.shape[1]]
    if not (np.isfinite(given).all() and np.isfinite(keys).all()):
        return []
    found = []
    for rank in range(ctas):
        at = np.concatenate([_columns(0, D_V, rank, ctas), _columns(D_V, given.shape[1], rank, ctas)])
        a, b = given[:, at], keys[:, at].T
        found.append((a @ b, gamma(at.size + 1, U_F32_RZ) * (np.abs(a) @ np.abs(b))))
    return found


def _columns(first: int, end: int, rank: int, ctas: int) -> npt.NDArray[np.int64]:
    each = (end - first) // ctas
    return np.arange(first + rank * each, first + (rank + 1) * each)
