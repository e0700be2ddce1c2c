"""Defects of the corpus' kinds, planted in dumps of the sparse MLA backward (`tests/kit/dumps.py`).

A defect changes the value of a stage where it is made, or how dkv's tiles are added (`scatter`). `stage`: the
first stage that is wrong; `cause`: a pattern of what the report says of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

from tests.kit.dumps import BF16, Array, inputs

Mistake = Callable[[Any, dict[str, Array]], Any]
SCALE, D_QK, D_V = 192**-0.5, 576, 512
BLOCK = 64  # slots of a k-block


@dataclass(frozen=True)
class DumpDefect:
    """`at`: what it changes: a stage, an output or `scatter`; `rows`: the rows of the corpus it is like."""

    id: str
    rows: str
    at: str
    mistake: Mistake
    cause: str
    stage: str = ""  # of the report, where it is not that of `at`

    @property
    def reported(self) -> str:
        """The stage of the first finding."""
        return self.stage or {"dq": "dQ", "dkv": "dKV", "scatter": "dKV"}.get(self.at, self.at)


def bf16(value: Any) -> Any:
    """Rounded to bf16."""
    return value.astype(BF16).astype(np.float64)


def truncated(value: Any) -> Any:
    """Rounded to bf16 toward zero."""
    bits = value.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def columns(first: int, last: int, change: Mistake) -> Mistake:
    """The change, in these columns only."""

    def mistake(v: Any, t: dict[str, Array]) -> Any:
        made = np.array(v, dtype=np.float64)
        made[:, first:last] = change(made, t)[:, first:last]
        return made

    return mistake


def heads(first: int, last: int | None, change: Mistake) -> Mistake:
    """The change, in these heads only."""

    def mistake(v: Any, t: dict[str, Array]) -> Any:
        made = np.array(v, dtype=np.float64)
        made[first:last] = change(made, t)[first:last]
        return made

    return mistake


def dq_of_blocks(blocks: list[int], keys: list[int] | None = None) -> Mistake:
    """dq as the sum over these k-blocks of dS, each with the keys of a k-block."""

    def mistake(v: Any, t: dict[str, Array]) -> Any:
        dS, k = bf16(t["dS"]), t["k"]
        made = np.zeros_like(v)
        for of, key in zip(blocks, keys or blocks, strict=True):
            tile = dS[:, of * BLOCK : (of + 1) * BLOCK]
            made += tile @ k[key * BLOCK : key * BLOCK + tile.shape[1]]
        return made

    return mistake


def swizzled(v: Any, t: dict[str, Array]) -> Any:
    """Columns in chunks of 8 whose number is exchanged by the row, as the 128-byte swizzle does."""
    made, chunks = np.array(v), v.shape[1] // BLOCK * 8
    for row in range(len(v)):
        order = np.arange(chunks) ^ (row % 8)
        made[row, : 8 * chunks] = v[row, : 8 * chunks].reshape(chunks, 8)[order].reshape(-1)
    return made


def previous(name: str) -> Mistake:
    """The first token's value in every token."""
    kept: list[Any] = []

    def mistake(v: Any, t: dict[str, Array]) -> Any:
        kept.append(v)
        return kept[0]

    return mistake


def added(dkv: Any, index: Any, tile: Any) -> None:
    """As the kernel adds: repeated rows count each time."""
    np.add.at(dkv, index, tile)


def scattered(change: Callable[[Any, Any, Any, dict[str, Array]], None]) -> Mistake:
    """A scatter: dkv, indices of the slots that are keys, their tiles, the token."""

    def mistake(given: Any, t: dict[str, Array]) -> None:
        dkv, index, tile = given
        change(dkv, index, tile, t)

    return mistake


def last_write(dkv: Any, index: Any, tile: Any, t: dict[str, Array]) -> None:
    """Of the repeated keys of a token the last one counts."""
    own = np.zeros_like(dkv)
    own[index] = tile
    dkv += own


def to_slots(dkv: Any, index: Any, tile: Any, t: dict[str, Array]) -> None:
    """By the number of the slot, not by its index."""
    added(dkv, np.flatnonzero(t["mask"]), tile)


def first_token_lost(dkv: Any, index: Any, tile: Any, t: dict[str, Array]) -> None:
    """The first token's tiles are lost."""
    if t["first"]:
        return
    added(dkv, index, tile)


def rows_below(dkv: Any, index: Any, tile: Any, t: dict[str, Array]) -> None:
    """Rows from 256 on are ignored."""
    added(dkv, index[index < 256], tile[index < 256])


def low_bits(dkv: Any, index: Any, tile: Any, t: dict[str, Array]) -> None:
    """Indices in 8 bits."""
    added(dkv, index & 255, tile)


def twice_in_block(dkv: Any, index: Any, tile: Any, t: dict[str, Array]) -> None:
    """The first k-block is added twice."""
    added(dkv, index, tile)
    here = np.flatnonzero(t["mask"]) < BLOCK
    added(dkv, index[here], tile[here])


def in_bf16(dkv: Any, index: Any, tile: Any, t: dict[str, Array]) -> None:
    """Sums rounded to bf16 after each token."""
    added(dkv, index, tile)
    dkv[...] = bf16(dkv)


DEFECTS = [
    DumpDefect("delta-left-out", "R6", "delta", lambda v, t: 0 * v, "all zeros"),
    DumpDefect("delta-negated", "N9", "delta", lambda v, t: -v, "times -1"),
    DumpDefect("delta-in-bf16", "N2", "delta", lambda v, t: bf16(v), "8 significant bits"),
    DumpDefect(
        "delta-of-half-the-columns",
        "N2",
        "delta",
        lambda v, t: (t["o"] * t["dO"])[:, :256].sum(1),
        r"columns 256\.\.511",
    ),
    DumpDefect("delta-of-other-heads", "R7", "delta", lambda v, t: np.roll(v, 4), "4 heads (before|further)"),
    DumpDefect(
        "delta-of-upper-heads-lost",
        "R7",
        "delta",
        heads(4, None, lambda v, t: 0 * v),
        "all columns is missing",
    ),
    DumpDefect("P-of-the-previous-token", "R29", "P", previous("P"), "that of token 0"),
    DumpDefect(
        "P-without-rope",
        "I11",
        "P",
        lambda v, t: t["q"][:, :D_V] @ t["k"][:, :D_V].T,
        r"512\.\.575 \(RoPE\) is missing",
    ),
    DumpDefect("P-in-bf16", "N1", "P", lambda v, t: bf16(v), "8 significant bits"),
    DumpDefect("P-swizzled-twice", "", "P", swizzled, "stored to a wrong address"),
    DumpDefect(
        "P-of-the-previous-k-block",
        "H22",
        "P",
        columns(BLOCK, 2 * BLOCK, lambda v, t: np.roll(v, BLOCK, 1)),
        "that of k-block 0",
    ),
    DumpDefect("P-doubled", "R14", "P", lambda v, t: 2 * v, "times 2"),
    DumpDefect(
        "S-not-masked",
        "I2 I4",
        "S",
        lambda v, t: np.where(t["mask"], v, np.exp2(-t["lse"])[:, None]),
        "without a key are not masked",
    ),
    DumpDefect(
        "S-only-half-masked",
        "N9",
        "S",
        columns(BLOCK, 999, lambda v, t: np.where(t["mask"], v, np.exp2(-t["lse"])[:, None])),
        "without a key are not masked",
    ),
    DumpDefect(
        "S-lse-not-subtracted",
        "N6",
        "S",
        lambda v, t: v * np.exp2(t["lse"])[:, None],
        "lse is not subtracted",
    ),
    DumpDefect(
        "S-natural-lse-taken-for-base-2",
        "N6",
        "S",
        lambda v, t: v * np.exp2(t["lse"] * (1 - np.log(2)))[:, None],
        "natural logarithm, and taken to base 2",
    ),
    DumpDefect(
        "S-lse-of-the-next-head",
        "R29",
        "S",
        lambda v, t: v * np.exp2(t["lse"] - np.roll(t["lse"], 1))[:, None],
        "lse is that of the head 1 before",
    ),
    DumpDefect("S-toward-zero", "N1", "S", lambda v, t: truncated(v), "8 significant bits"),
    DumpDefect(
        "S-overflows", "N3", "S", lambda v, t: np.where(v > 0.02, np.inf, v), "every wrong element is inf"
    ),
    DumpDefect(
        "S-scale-of-d_qk",
        "N9",
        "S",
        lambda v, t: np.where(t["mask"], np.exp2(t["P"] * D_QK**-0.5 * np.log2(np.e) - t["lse"][:, None]), 0),
        r"1 / sqrt\(d_qk\)",
    ),
    DumpDefect("dP-negated", "N9", "dP", lambda v, t: -v, "times -1"),
    DumpDefect(
        "dP-of-columns-64-on",
        "",
        "dP",
        lambda v, t: t["dO"] @ t["k"][:, 64:].T,
        "V is the last d_v columns",
    ),
    DumpDefect("dP-of-o", "", "dP", lambda v, t: t["o"] @ t["k"][:, :D_V].T, "o is in the place of dO"),
    DumpDefect(
        "dP-NaN-in-a-slot", "I6 N20", "dP", columns(5, 6, lambda v, t: v * np.nan), "hold NaN or inf .*: 5 "
    ),
    DumpDefect(
        "dS-without-delta",
        "R6",
        "dS",
        lambda v, t: v + t["S"] * t["delta"][:, None] * SCALE,
        "delta is not subtracted",
    ),
    DumpDefect(
        "dS-adds-delta",
        "R6",
        "dS",
        lambda v, t: v + 2 * t["S"] * t["delta"][:, None] * SCALE,
        "delta is added",
    ),
    DumpDefect("dS-without-scale", "N9", "dS", lambda v, t: v / SCALE, "sm_scale is missing"),
    DumpDefect("dS-scaled-twice", "N9", "dS", lambda v, t: v * SCALE, "sm_scale is applied twice"),
    DumpDefect("dS-by-d_qk", "N9", "dS", lambda v, t: v * (192 / 576) ** 0.5, r"1 / sqrt\(d_qk\)"),
    DumpDefect(
        "dS-of-bf16-difference",
        "N1",
        "dS",
        lambda v, t: t["S"] * bf16(t["dP"] - t["delta"][:, None]) * SCALE,
        "dP - delta is rounded to bf16",
    ),
    DumpDefect(
        "dS-of-bf16-S",
        "N1",
        "dS",
        lambda v, t: v / np.where(t["S"] == 0, 1, t["S"]) * bf16(t["S"]),
        "bf16 copy of S",
    ),
    DumpDefect(
        "dS-heads-of-the-pair-exchanged",
        "L2",
        "dS",
        lambda v, t: np.roll(v, 4, 0),
        "4 heads (before|further)",
    ),
    DumpDefect("dq-lacks-the-last-k-block", "H25", "dq", dq_of_blocks([0, 1]), "k-block 2 is missing"),
    DumpDefect("dq-lacks-the-first-k-block", "R14", "dq", dq_of_blocks([1, 2]), "k-block 0 is missing"),
    DumpDefect(
        "dq-adds-a-k-block-twice", "R14", "dq", dq_of_blocks([0, 1, 1, 2]), "k-block 1 was added twice"
    ),
    DumpDefect(
        "dq-keys-of-the-previous-k-block",
        "H22 R2",
        "dq",
        dq_of_blocks([0, 1, 2], [0, 0, 2]),
        "keys of k-block 1 are those of k-block 0",
    ),
    DumpDefect("dq-without-rope", "", "dq", columns(D_V, D_QK, lambda v, t: 0 * v), "to dS k is missing"),
    DumpDefect(
        "dq-upper-columns-garbage",
        "L2",
        "dq",
        columns(64, 128, lambda v, t: np.roll(v, 100, 1)),
        "columns of the tile are permuted",
    ),
    DumpDefect("dq-three-quarters", "R13", "dq", lambda v, t: 0.75 * v, r"times 0\.75$"),
    DumpDefect("dq-a-head-not-written", "N22", "dq", heads(5, 6, lambda v, t: 0 * v), "to dS k is missing"),
    DumpDefect("dq-all-zero", "I12", "dq", lambda v, t: 0 * v, "all zeros"),
    DumpDefect(
        "dq-last-column-lost",
        "",
        "dq",
        columns(575, 576, lambda v, t: 0 * v),
        "every wrong element is zero",
    ),
    DumpDefect("dq-columns-shifted", "", "dq", lambda v, t: np.roll(v, 64, 1), "64 columns before"),
    DumpDefect("dq-toward-zero", "N1", "dq", lambda v, t: truncated(v), "rounded towards zero"),
    DumpDefect("dkv-without-dV", "N21", "dkv", lambda v, t: bf16(t["dS"]).T @ t["q"], r"S\^T dO is missing"),
    DumpDefect(
        "dkv-without-dK",
        "N21",
        "dkv",
        lambda v, t: np.pad(bf16(t["S"]).T @ t["dO"], ((0, 0), (0, 64))),
        r"dS\^T q is missing",
    ),
    DumpDefect(
        "dkv-lower-columns-overwritten",
        "R1",
        "dkv",
        columns(0, 256, lambda v, t: np.roll(v, -256, 1)),
        "0 holds 256, 1 holds 257",
    ),
    DumpDefect("dkv-negated", "N9", "dkv", lambda v, t: -v, "sign is wrong"),
    DumpDefect("dkv-added-twice", "R3", "dkv", lambda v, t: 2 * v, "every contribution was added twice"),
    DumpDefect(
        "dkv-repeated-keys-lost", "I10", "scatter", scattered(last_write), "same row only the last is added"
    ),
    DumpDefect("dkv-by-slot", "", "scatter", scattered(to_slots), "row of its number"),
    DumpDefect("dkv-a-token-lost", "H25", "scatter", scattered(first_token_lost), "token 0 is missing"),
    DumpDefect(
        "dkv-rows-from-256-ignored", "N23", "scatter", scattered(rows_below), "nothing was added there"
    ),
    DumpDefect("dkv-indices-in-8-bits", "N23", "scatter", scattered(low_bits), "cut to 8 bits"),
    DumpDefect(
        "dkv-a-k-block-added-twice",
        "",
        "scatter",
        scattered(twice_in_block),
        "k-block 0 of every token was added twice",
    ),
    DumpDefect("dkv-sums-in-bf16", "N7", "scatter", scattered(in_bf16), "8 significant bits"),
]


def defect_inputs(seed: int = 0) -> Inputs:
    """Two tokens of three k-blocks, with slots without a key in the first and the second."""
    x = inputs(s_q=2, h_q=16, topk=160, seed=seed, lengths=False)
    x.indices[0, 70], x.indices[1, 90] = -1, x.problem.s_kv
    return with_forward(x.problem, q=x.q, kv=x.kv, dO=x.dO, indices=x.indices, topk_length=None)
