"""Stage tiles: what was observed (`StageTile`) and what it is judged against (`Reference`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.reference import stages as formulas
from tileproof.spec import numerics
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problem import Inputs, key_mask
from tileproof.spec.stages import STAGES, stage, upstream
from tileproof.spec.tiles import TileCoord, gather

F64 = npt.NDArray[np.float64]
Key = tuple[str, TileCoord]
Place = tuple[str, TileCoord, int, int]


@dataclass(frozen=True)
class StageTile:
    """One observed tile: `value` and `written` are [rows, cols]; `lane` and `tmem_column` likewise, or None.

    `rows` are heads and `cols` slots of the token (one column for delta). An element that the kernel never
    wrote, or that was not legally visible when its barrier completed, has `written` false.
    """

    stage: str
    coord: TileCoord
    rows: slice
    cols: slice
    value: npt.NDArray[np.float32]
    written: npt.NDArray[np.bool_]
    lane: npt.NDArray[np.int64] | None = None
    tmem_column: npt.NDArray[np.int64] | None = None

    @property
    def key(self) -> Key:
        return self.stage, self.coord


@dataclass(frozen=True)
class Reference:
    """The float64 value of a tile, how far a correct kernel may be from it, and the operands of both."""

    value: F64
    bound: F64
    operands: Mapping[str, Any]


@dataclass
class Chain:
    """The stage graph over one problem, evaluated tile by tile on the inputs that the kernel itself had.

    Assume-guarantee: an input that is an earlier stage is taken from `observed` where the kernel's own tile
    is known, else from the float64 reference.
    """

    inputs: Inputs
    observed: Mapping[Key, StageTile] = field(default_factory=dict)
    # References of stages without an earlier stage among their inputs; launches on the same inputs can share
    # them.
    ground: dict[Place, Reference] = field(default_factory=dict)
    _mask: npt.NDArray[np.bool_] = field(init=False)
    _known: dict[Place, Reference] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._mask = key_mask(self.inputs)

    def reference(self, name: str, coord: TileCoord, rows: slice, cols: slice) -> Reference:
        """Value and bound of stage `name` for heads `rows` and slots `cols` of token `coord.token`, 2-D."""
        key = (name, coord, rows.start, cols.start)
        known = self._known if upstream(name) else self.ground
        if key not in known:
            if stage(name).kind in ("accumulate", "scatter"):
                raise TileproofError(
                    f"stage {name} is not compared tile by tile yet",
                    where=f"stage {name}",
                    expected="a stage of one tile: delta, P, S, dP or dS",
                    found=stage(name).kind,
                )
            operands = {source: self.operand(source, coord, rows, cols) for source in stage(name).inputs}
            value = _columns(getattr(formulas, name)(**operands))
            known[key] = Reference(value, _columns(numerics.bound(name, **operands)), operands)
        return known[key]

    def operand(self, name: str, coord: TileCoord, rows: slice, cols: slice) -> Any:
        """One input of a tile's stage, as its formula takes it."""
        p, token = self.inputs.problem, coord.token
        if name in STAGES:
            place = TileCoord(token, coord.cta, None) if name == "delta" else coord
            own = self.observed.get((name, place))
            if own is not None and own.written.all():
                value: Any = own.value
            else:
                value = self.reference(name, place, rows, slice(0, 1) if name == "delta" else cols).value
            return value[:, 0] if name == "delta" else value
        if name in ("q", "o", "dO", "lse"):
            return getattr(self.inputs, name)[token, rows]
        if name == "k":
            return gather(self.inputs, token, cols)
        if name == "v":
            return gather(self.inputs, token, cols)[:, : p.d_v]
        if name == "mask":
            return self._mask[token, cols]
        if name == "sm_scale":
            return p.sm_scale
        raise TileproofError("unknown ground data", where=f"stage inputs {name!r}")


def _columns(value: npt.NDArray[Any]) -> F64:
    """A [rows] result as [rows, 1], so that every tile is two-dimensional."""
    return value.reshape(value.shape[0], -1)
