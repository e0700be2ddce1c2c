"""The tile walk: the tiles of a token, the rows and slots of each tile, and the place of an element.

A cluster of `ctas` CTAs works on one token; CTA c has the heads ``[c * h_q/ctas, (c+1) * h_q/ctas)``. Keys go
in k-blocks of ``b_topk`` slots; a token has ``ceil(clamp(topk_length, 0, topk) / b_topk)`` of them, possibly
none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, Inputs, Problem, keys_of


@dataclass(frozen=True)
class Tile:
    """One tile of a [h_q, topk] stage: `rows` are heads and `cols` slots of the token, both global."""

    token: int
    cta: int
    k_block: int
    rows: slice
    cols: slice

    @property
    def coord(self) -> TileCoord:
        return TileCoord(self.token, self.cta, self.k_block)


@dataclass(frozen=True)
class Place:
    """An element's tile and its row and column inside the tile."""

    coord: TileCoord
    row: int
    col: int


def k_blocks(inputs: Inputs, token: int, b_topk: int = B_TOPK) -> int:
    """Number of k-blocks of `token`, 0 when no slot is to be looked at."""
    topk, given = inputs.problem.topk, inputs.topk_length
    return -(-(topk if given is None else min(max(int(given[token]), 0), topk)) // b_topk)


def rows_of(problem: Problem, cta: int, ctas: int = 2) -> slice:
    """The heads of CTA `cta`."""
    if problem.h_q % ctas or not 0 <= cta < ctas:
        raise TileproofError(
            "heads do not split over the CTAs so", where="cta", expected=f"0..{ctas - 1}", found=str(cta)
        )
    each = problem.h_q // ctas
    return slice(cta * each, (cta + 1) * each)


def walk(inputs: Inputs, b_topk: int = B_TOPK, ctas: int = 2) -> Iterator[Tile]:
    """All tiles of [h_q, topk] stages: tokens in order, their k-blocks in order, CTAs innermost."""
    for token in range(inputs.problem.s_q):
        for k_block in range(k_blocks(inputs, token, b_topk)):
            cols = slice(k_block * b_topk, (k_block + 1) * b_topk)
            for cta in range(ctas):
                yield Tile(token, cta, k_block, rows_of(inputs.problem, cta, ctas), cols)


def locate(problem: Problem, token: int, head: int, slot: int, b_topk: int = B_TOPK, ctas: int = 2) -> Place:
    """The tile, row and column of element (token, head, slot) of a [s_q, h_q, topk] value."""
    bounds = (("token", token, problem.s_q), ("head", head, problem.h_q), ("slot", slot, problem.topk))
    for name, value, end in bounds:
        if not 0 <= value < end:
            raise TileproofError(
                f"{name} out of range", where=name, expected=f"0..{end - 1}", found=str(value)
            )
    each = problem.h_q // ctas
    return Place(TileCoord(token, head // each, slot // b_topk), head % each, slot % b_topk)


def element(problem: Problem, place: Place, b_topk: int = B_TOPK, ctas: int = 2) -> tuple[int, int, int]:
    """The (token, head, slot) of a place; the inverse of `locate`."""
    coord = place.coord
    if coord.cta is None or coord.k_block is None:
        raise TileproofError("only places in [h_q, topk] tiles have a head and a slot", where=str(coord))
    return coord.group, coord.cta * (problem.h_q // ctas) + place.row, coord.k_block * b_topk + place.col


def gather(inputs: Inputs, token: int, cols: slice) -> Array:
    """The tile's kv rows in kv's own dtype, ``[slots, d_qk]``; rows of slots that are no key are zero.

    The rule of the TMA gather, which fills a row outside the tensor with zeros (PTX ISA 5.5.3.4); an index
    that is no key is never used to read.
    """
    mask = keys_of(inputs, token)[cols]
    rows = np.zeros((mask.size, inputs.problem.d_qk), dtype=inputs.kv.dtype)
    rows[mask] = inputs.kv[inputs.indices[token, cols][mask]]
    return rows
