"""The stage graph of the backward, as data: seven stages, each in the same four steps.

The reference executes these stages, the documentation prints them, the conformance suite judges a kernel
stage by stage in this order. Ground data (not stages): q, kv, o, dO, lse, indices, topk_length, sm_scale;
``k`` is the tile of gathered kv rows (zero rows where the slot is no key) and ``v`` its first d_v columns;
``mask`` says which slots are keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tileproof.spec.machine.errors import TileproofError

Kind = Literal["rowsum", "matmul", "elementwise", "accumulate", "scatter"]

GROUND = ("q", "k", "v", "o", "dO", "lse", "mask", "sm_scale")


@dataclass(frozen=True)
class Steps:
    """What a stage does, in its four fixed steps."""

    load: str
    compute: str
    round: str
    store: str


@dataclass(frozen=True)
class Stage:
    """One stage; `inputs` name ground data or earlier stages, `rounding` lists where bits go."""

    name: str
    symbol: str
    formula: str
    inputs: tuple[str, ...]
    tile: tuple[str, str] | tuple[str]
    dtype_at_rest: str
    memory: str
    rounding: tuple[str, ...]
    kind: Kind
    steps: Steps


_ALL = (
    Stage(
        name="delta",
        symbol="δ",
        formula="rowsum(o * dO)",
        inputs=("o", "dO"),
        tile=("h_q",),
        dtype_at_rest="f32",
        memory="global delta [s_q, h_q]",
        rounding=("f32 accumulation of d_v exact bf16 products, RN, any order",),
        kind="rowsum",
        steps=Steps(
            load="o and dO rows of the token, bf16 [h_q, d_v]",
            compute="sum over d_v columns of o * dO",
            round="each addition to f32",
            store="delta [h_q] f32",
        ),
    ),
    Stage(
        name="P",
        symbol="P",
        formula="q k^T",
        inputs=("q", "k"),
        tile=("h_q", "B_TOPK"),
        dtype_at_rest="f32",
        memory="TMEM",
        rounding=("f32 accumulation of d_qk exact bf16 products in the tensor core, toward zero, any order",),
        kind="matmul",
        steps=Steps(
            load="q bf16 [h_q, d_qk]; kv rows at the indices bf16 [B_TOPK, d_qk], zero where no key",
            compute="matrix product over d_qk (NoPE and RoPE columns)",
            round="the accumulator to f32 in each step",
            store="P [h_q, B_TOPK] f32 in TMEM",
        ),
    ),
    Stage(
        name="S",
        symbol="S",
        formula="exp2(P * sm_scale * log2(e) - lse), 0 where no key",
        inputs=("P", "lse", "mask", "sm_scale"),
        tile=("h_q", "B_TOPK"),
        dtype_at_rest="f32; bf16 as MMA operand",
        memory="registers; operand in SMEM or TMEM",
        rounding=(
            "sm_scale, log2(e) and their product to f32",
            "product with P and difference with lse to f32 (one rounding if fused)",
            "ex2.approx.ftz.f32: relative 2^-22, results below 2^-126 to zero",
            "bf16 RNE as operand of dKV",
        ),
        kind="elementwise",
        steps=Steps(
            load="P tile f32; lse [h_q] f32; the tile's mask",
            compute="exp2(P * sm_scale * log2(e) - lse); 0 where the slot is no key",
            round="to f32; a bf16 copy for the MMA",
            store="S [h_q, B_TOPK]: f32 in registers, bf16 as operand",
        ),
    ),
    Stage(
        name="dP",
        symbol="dP",
        formula="dO v^T",
        inputs=("dO", "v"),
        tile=("h_q", "B_TOPK"),
        dtype_at_rest="f32",
        memory="TMEM",
        rounding=("f32 accumulation of d_v exact bf16 products in the tensor core, toward zero, any order",),
        kind="matmul",
        steps=Steps(
            load="dO bf16 [h_q, d_v]; the first d_v columns of the tile's kv rows bf16 [B_TOPK, d_v]",
            compute="matrix product over d_v",
            round="the accumulator to f32 in each step",
            store="dP [h_q, B_TOPK] f32 in TMEM",
        ),
    ),
    Stage(
        name="dS",
        symbol="dS",
        formula="S * (dP - delta) * sm_scale",
        inputs=("S", "dP", "delta", "sm_scale"),
        tile=("h_q", "B_TOPK"),
        dtype_at_rest="bf16 as MMA operand",
        memory="SMEM or TMEM",
        rounding=("difference and both products to f32", "bf16 RNE as operand of dQ and dKV"),
        kind="elementwise",
        steps=Steps(
            load="S tile f32; dP tile f32; delta [h_q] f32",
            compute="S * (dP - delta) * sm_scale",
            round="to f32, then to bf16",
            store="dS [h_q, B_TOPK] bf16 as operand",
        ),
    ),
    Stage(
        name="dQ",
        symbol="dQ",
        formula="sum over k-blocks of dS k",
        inputs=("dS", "k"),
        tile=("h_q", "d_qk"),
        dtype_at_rest="f32; bf16 out",
        memory="TMEM; global dQ [s_q, h_q, d_qk]",
        rounding=(
            "f32 accumulation of all slots' exact bf16 products in the tensor core, toward zero, any order",
            "bf16 RNE once, after the last k-block",
        ),
        kind="accumulate",
        steps=Steps(
            load="dS tile bf16 [h_q, B_TOPK]; the tile's kv rows bf16 [B_TOPK, d_qk]",
            compute="add the matrix product over B_TOPK to the accumulator",
            round="the accumulator to f32 in each step; to bf16 after the last k-block",
            store="dQ [h_q, d_qk] bf16",
        ),
    ),
    Stage(
        name="dKV",
        symbol="dKV",
        formula="columns < d_v: S^T dO + dS^T q; the others: dS^T q",
        inputs=("S", "dO", "dS", "q"),
        tile=("B_TOPK", "d_qk"),
        dtype_at_rest="f32",
        memory="TMEM; added to rows `indices` of global dKV [s_kv, d_qk]",
        rounding=(
            "f32 accumulation of 2 h_q (the last columns: h_q) exact bf16 products, toward zero, any order",
            "each addition to global dKV to f32, RN, any order, subnormals may be flushed",
        ),
        kind="scatter",
        steps=Steps(
            load="S and dS tiles bf16 [h_q, B_TOPK]; dO bf16 [h_q, d_v]; q bf16 [h_q, d_qk]",
            compute="dS^T q, plus S^T dO in the first d_v columns",
            round="the accumulator to f32 in each step",
            store="added in f32 to row indices[slot] of dKV for each slot that is a key",
        ),
    ),
)

STAGES: Mapping[str, Stage] = MappingProxyType({s.name: s for s in _ALL})


def stage(name: str) -> Stage:
    """The stage called `name`; TileproofError names the known ones."""
    try:
        return STAGES[name]
    except KeyError:
        raise TileproofError(
            "unknown stage", where="stage name", expected=", ".join(STAGES), found=repr(name)
        ) from None


def upstream(name: str) -> tuple[str, ...]:
    """The stages that `name` depends on, directly or not, in graph order."""
    needed: set[str] = set()
    todo = [name]
    while todo:
        for source in stage(todo.pop()).inputs:
            if source in STAGES and source not in needed:
                needed.add(source)
                todo.append(source)
    return tuple(s for s in STAGES if s in needed)
