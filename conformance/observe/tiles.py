"""Stage tiles: what was observed (`StageTile`) and what it is judged against (`Reference`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.reference import stages as formulas
from tileproof.spec import chain_bounds, numerics
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, Inputs, key_mask
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES, stage, upstream
from tileproof.spec.problems.sparse_mla_bwd.tiling import TileCoord, gather, k_blocks, rows_of

F64 = npt.NDArray[np.float64]
Key = tuple[str, TileCoord]
Place = tuple[str, TileCoord, int, int]


@dataclass(frozen=True)
class StageTile:
    """One observed tile: `value` and `written` are [rows, cols], and so are the places, where they are known.

    `rows` are heads and `cols` slots of the token (delta: one column; dQ: columns of q). Of dKV `rows` are
    slots and `cols` columns of kv; it is what the CTA's own heads contribute. An element that was never
    written, or that was not legally visible when its barrier completed, has `written` false. `operand`: the
    bf16 copy that MMAs read. `lane` and `tmem_column` are places in tensor memory, `smem` byte offsets in the
    CTA's dynamic shared memory.
    """

    stage: str
    coord: TileCoord
    rows: slice
    cols: slice
    value: npt.NDArray[Any]
    written: npt.NDArray[np.bool_]
    lane: npt.NDArray[np.int64] | None = None
    tmem_column: npt.NDArray[np.int64] | None = None
    smem: npt.NDArray[np.int64] | None = None
    operand: bool = False

    @property
    def key(self) -> Key:
        return self.stage, self.coord


@dataclass(frozen=True)
class Reference:
    """The float64 value of a tile, how far a correct kernel may be from it, and the operands of both.

    `nan_allowed`: NaN is an honest outcome where the bound is infinite, as an operand may be infinite. A
    value of NaN that no infinite operand explains must be found: it was an operand's.
    """

    value: F64
    bound: F64
    operands: Mapping[str, Any]
    nan_allowed: bool = False


@dataclass
class Chain:
    """The stage graph over one problem, evaluated tile by tile on the inputs that the kernel itself had.

    Assume-guarantee: an input that is an earlier stage is taken from `observed` where the kernel's own tile
    is known, else from the float64 reference. The f32 S behind dS is the exact one of the kernel's own P
    unless it is observed; its error is then part of the bound of dS. A tile whose inputs were not all
    observed has an infinite bound: nothing can be held against it alone, only against the whole chain.
    """

    inputs: Inputs
    observed: Mapping[Key, StageTile] = field(default_factory=dict)
    # References of stages without an earlier stage among their inputs; launches on the same inputs can share
    # them.
    ground: dict[Place, Reference] = field(default_factory=dict)
    ctas: int = 2
    b_topk: int = B_TOPK
    _mask: npt.NDArray[np.bool_] = field(init=False)
    _known: dict[Place, Reference] = field(init=False, default_factory=dict)
    _gathered: dict[tuple[int, int, int], Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._mask = key_mask(self.inputs)

    def region(self, name: str, coord: TileCoord) -> tuple[slice, slice]:
        """Rows and columns of the tile of stage `name` at `coord`, as `StageTile` counts them."""
        p = self.inputs.problem
        heads = rows_of(p, coord.cta or 0, self.ctas)
        if name == "delta":
            return heads, slice(0, 1)
        if name == "dQ":
            return heads, slice(0, p.d_qk)
        first = (coord.k_block or 0) * self.b_topk
        slots = slice(first, first + self.b_topk)
        return (slots, slice(0, p.d_qk)) if name == "dKV" else (heads, slots)

    def reference(self, name: str, coord: TileCoord, rows: slice, cols: slice) -> Reference:
        """Value and bound of stage `name` over `rows` and `cols` as `StageTile` counts them, 2-D."""
        key = (name, coord, rows.start, cols.start)
        known = self._known if upstream(name) else self.ground
        if key not in known:
            if name in ("dQ", "dKV") and (rows, cols) != self.region(name, coord):
                raise TileproofError(
                    f"stage {name} is judged in whole tiles",
                    where=f"stage {name}, {coord}",
                    expected=str(self.region(name, coord)),
                    found=str((rows, cols)),
                )
            known[key] = self._evaluate(name, coord, rows, cols)
        return known[key]

    def _evaluate(self, name: str, coord: TileCoord, rows: slice, cols: slice) -> Reference:
        operands = self.operands(name, coord, rows, cols)
        numbers = [np.asarray(x) for x in operands.values()]
        infinite = any(bool(np.isinf(x).any()) for x in numbers if x.dtype.kind not in "biu")
        with np.errstate(invalid="ignore", over="ignore"):
            value = _columns(getattr(formulas, name)(**operands))
            if name == "dS" and not self._own_f32("S", coord):
                P, lse, mask = (self.operand(x, coord, rows, cols) for x in ("P", "lse", "mask"))
                parts = {x: operands[x] for x in ("dP", "delta", "sm_scale")}
                bound = chain_bounds.bound_dS_of_P(P=P, lse=lse, mask=mask, **parts)
            elif name == "S":
                own = self.observed.get((name, coord))
                copy = own is not None and own.operand
                bound = numerics.bound_S(**operands, operand=copy)
                infinite |= bool(np.isinf(operands["lse"]).any())
            else:
                bound = numerics.bound(name, **operands)
        bound = _columns(bound)
        if not self._inputs_known(name, coord):
            return Reference(value, np.full(value.shape, np.inf), operands, True)
        # An S that may overflow makes infinity times 0 in dS.
        overflow = name == "dS" and bool(np.isinf(bound).any())
        return Reference(value, bound, operands, infinite or overflow)

    def _inputs_known(self, name: str, coord: TileCoord) -> bool:
        """Whether every earlier stage among a tile's inputs was observed (for dS, P serves instead of S)."""
        if name == "dQ":
            count = k_blocks(self.inputs, coord.token, self.b_topk)
            return all(self._own("dS", TileCoord(coord.token, coord.cta, block)) for block in range(count))
        needed = [source for source in stage(name).inputs if source in STAGES]
        if name == "dS" and not self._own_f32("S", coord):
            needed = ["P", "dP", "delta"]
        return all(
            self._own(source, TileCoord(coord.token, coord.cta, None) if source == "delta" else coord)
            for source in needed
        )

    def operands(self, name: str, coord: TileCoord, rows: slice, cols: slice) -> dict[str, Any]:
        """The inputs of a tile's stage, as its formula takes them."""
        token = coord.token
        if name == "dQ":
            count = k_blocks(self.inputs, token, self.b_topk)
            blocks = [TileCoord(token, coord.cta, block) for block in range(count)]
            tiles = [self.copy_of("dS", block) for block in blocks]
            dS = np.concatenate(tiles, axis=1) if tiles else np.zeros((rows.stop - rows.start, 0))
            return {"dS": dS, "k": self._rows_of_kv(token, slice(0, count * self.b_topk))}
        if name == "dKV":
            heads = rows_of(self.inputs.problem, coord.cta or 0, self.ctas)
            copies = {source: self.copy_of(source, coord) for source in ("S", "dS")}
            ground = {source: getattr(self.inputs, source)[token, heads] for source in ("dO", "q")}
            return {"S": copies["S"], "dO": ground["dO"], "dS": copies["dS"], "q": ground["q"]}
        return {source: self.operand(source, coord, rows, cols) for source in stage(name).inputs}

    def operand(self, name: str, coord: TileCoord, rows: slice, cols: slice) -> Any:
        """One input of a tile [heads, slots] of a stage, as its formula takes it."""
        p, token = self.inputs.problem, coord.token
        if name in STAGES:
            place = TileCoord(token, coord.cta, None) if name == "delta" else coord
            if self._own_f32(name, place):
                value: Any = self.observed[name, place].value
            else:
                value = self.reference(name, place, rows, slice(0, 1) if name == "delta" else cols).value
            return value[:, 0] if name == "delta" else value
        if name in ("q", "o", "dO", "lse"):
            return getattr(self.inputs, name)[token, rows]
        if name == "k":
            return self._rows_of_kv(token, cols)
        if name == "v":
            return self._rows_of_kv(token, cols)[:, : p.d_v]
        if name == "mask":
            return self._mask[token, cols]
        if name == "sm_scale":
            return p.sm_scale
        raise TileproofError("unknown ground data", where=f"stage inputs {name!r}")

    def copy_of(self, name: str, coord: TileCoord) -> F64:
        """The bf16 copy of a tile of S or dS that the kernel's MMAs read."""
        if self._own(name, coord):
            own = self.observed[name, coord]
            value = own.value.astype(np.float64)
            return value if own.operand else numerics.round_bf16(value)
        return numerics.round_bf16(self.reference(name, coord, *self.region(name, coord)).value)

    def _own(self, name: str, coord: TileCoord) -> bool:
        own = self.observed.get((name, coord))
        return own is not None and bool(own.written.all())

    def _own_f32(self, name: str, coord: TileCoord) -> bool:
        return self._own(name, coord) and not self.observed[name, coord].operand

    def _rows_of_kv(self, token: int, cols: slice) -> Any:
        key = (token, cols.start, cols.stop)
        if key not in self._gathered:
            self._gathered[key] = gather(self.inputs, token, cols).astype(np.float64)
        return self._gathered[key]


def _columns(value: npt.NDArray[Any]) -> F64:
    """A [rows] result as [rows, 1], so that every tile is two-dimensional."""
    return value.reshape(value.shape[0], -1)
