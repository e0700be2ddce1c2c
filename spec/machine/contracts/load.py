"""Checks whether a tcgen05.ld (or .st) by four warps fits an accumulator.

Four warps, each on its own 32 lanes, run the same instruction until the accumulator is covered: that is what
make_tmem_copy of CUTLASS 4.2 (`copy_traits_sm100.hpp`) builds. It refuses cells that the accumulator does not
have (make_cotiled_copy in `copy_atom.hpp`) but rounds the number of instructions up.
"""

from __future__ import annotations

from tileproof.spec.machine import tmem
from tileproof.spec.machine.contracts.form import MmaForm
from tileproof.spec.machine.contracts.misfit import Misfit
from tileproof.spec.machine.errors import TileproofError

# shape -> (lanes of one warp, columns of one repeat); PTX ISA 9.7.16.8, table 49. 16x32bx2 reads two halves,
# which CuTe puts side by side.
SHAPES = {"32x32b": (32, 1), "16x64b": (16, 2), "16x128b": (16, 4), "16x256b": (16, 8), "16x32bx2": (16, 2)}


def check_load(form: MmaForm, shape: str, repeat: int) -> list[Misfit]:
    """Every misfit between ``tcgen05.ld.<shape>.x<repeat>`` and one accumulator of `form`, of 32-bit cells.

    TileproofError for a shape or repeat that the instruction does not have.
    """
    tmem.registers(shape, repeat)
    path = form.data_path
    if path is None:
        raise TileproofError(
            "the form has no accumulator", where=form.text, expected="a legal M", found=str(form.m)
        )
    lanes, columns = SHAPES[shape][0], SHAPES[shape][1] * repeat
    have = tmem.columns(path, form.n)
    name = f"tcgen05.ld.{shape}.x{repeat}"
    found = []
    if lanes == 32 and tmem.layout(path).interleaved:
        found.append(
            Misfit(
                "tmem-lanes",
                "C",
                f"{name} reads 32 lanes of each warp, but M = {form.m} is data path layout {path}, which "
                f"has 16 "
                "lanes in each 32",
                "16 lanes",
                "32 lanes",
                "a shape of 16 lanes: 16x256b, 16x128b, 16x64b or 16x32bx2",
                ("CuTe", "machine"),
            )
        )
    if columns > have:
        found.append(
            Misfit(
                "tmem-columns",
                "C",
                f"{name} reads {columns} columns, but the accumulator has {have}",
                f"at most {have} columns",
                str(columns),
                _repeats(shape, have),
                ("CuTe", "machine"),
            )
        )
    elif have % columns:
        found.append(
            Misfit(
                "tmem-columns",
                "C",
                f"{name} reads {columns} columns, which does not divide the accumulator's {have}: the last "
                f"one reads "
                "past its end",
                f"a divisor of {have}",
                str(columns),
                _repeats(shape, have),
                ("machine",),
            )
        )
    return found


def _repeats(shape: str, have: int) -> str:
    each = SHAPES[shape][1]
    fitting = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if have % (each * n) == 0 and _exists(shape, n)]
    return " or ".join(f"x{n}" for n in fitting) if fitting else "another shape"


def _exists(shape: str, repeat: int) -> bool:
    try:
        tmem.registers(shape, repeat)
    except TileproofError:
        return False
    return True
