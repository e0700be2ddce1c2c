"""CuTe's static layout algebra as nvcc sees it: pycute's functions, with the assertions of the C++ headers.

pycute computes the same layouts as CuTe but does not check all of CuTe's `static_assert`s. Sources:
CUTLASS 4.2 `cute/layout.hpp` (composition_impl: stride and shape divisibility; upcast: divisibility),
`cute/atom/mma_atom.hpp` (thrfrg_A and thrfrg_B: how a tiled MMA cuts an operand).
"""

from __future__ import annotations

from typing import Any

from tileproof.spec.machine.errors import TileproofError

Layout = Any  # pycute's: it has no types


class _Pycute:
    """pycute, imported when it is first used: most commands do without it."""

    def __getattr__(self, name: str) -> Layout:
        try:
            import pycute
            import pycute.int_tuple  # not a name of the package itself
        except ImportError as error:
            raise TileproofError(
                "CuTe's layout algebra is not installed",
                where="package pycute",
                expected="pycute, which the PyPI package nvidia-cutlass brings",
                found=str(error),
                do="pip install 'tileproof[kernels]', or make setup",
            ) from error
        return getattr(pycute, name)


pycute = _Pycute()

IntTuple = int | tuple["IntTuple", ...]


class Refused(Exception):
    """A static assertion of CuTe's layout algebra fails; the message says which, in CuTe's words."""


def compact(shape: IntTuple) -> IntTuple:
    """The strides of the compact layout of `shape`, first extent fastest: CuTe's default."""
    stride: IntTuple = pycute.Layout(shape).stride
    return stride


def size(shape: IntTuple) -> int:
    """The product of all extents of `shape`."""
    total = 1
    for extent in pycute.int_tuple.flatten(shape):
        total *= extent
    return total


def _wrap(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def _coalesce_outside(layout: Layout) -> Layout:
    """coalesce that keeps the layout's values past its end too (coalesce_x): a last mode of size 1 stays."""
    shapes, strides = pycute.int_tuple.flatten(layout.shape), pycute.int_tuple.flatten(layout.stride)
    last = 2 if shapes[-1] == 1 else shapes[-1]
    return pycute.coalesce(pycute.Layout((*shapes[:-1], last), tuple(strides)))


def composition(layout: Layout, rhs: Layout) -> Layout:
    """`layout` o `rhs`; Refused where CuTe's divisibility conditions do not hold."""
    if isinstance(rhs.shape, tuple):
        return pycute.make_layout(*(composition(layout, mode) for mode in rhs)) if rhs.shape else rhs
    if rhs.stride == 0:
        return pycute.Layout(rhs.shape, 0)
    flat = _coalesce_outside(layout)
    shapes, strides = _wrap(flat.shape), _wrap(flat.stride)
    shape: list[int] = []
    stride: list[int] = []
    rest, step = rhs.shape, rhs.stride
    for extent, distance in zip(shapes[:-1], strides[:-1], strict=True):
        if step % extent and step >= extent:
            raise Refused(f"Stride Divisibility Condition: {rhs} over {flat}")
        ahead = -(-extent // step)
        if ahead != 1 and rest != 1:
            taken = min(ahead, rest)
            if rest % taken:
                raise Refused(f"Shape Divisibility Condition: {rhs} over {flat}")
            shape.append(taken)
            stride.append(step * distance)
            rest //= taken
        step = -(-step // extent)
    if rest != 1 or not shape:
        shape.append(rest)
        stride.append(step * strides[-1])
    if len(shape) == 1:
        return pycute.Layout(shape[0], stride[0])
    return pycute.Layout(tuple(shape), tuple(stride))


def divide(layout: Layout, tile: int) -> tuple[Layout, Layout]:
    """(inside, outside) of logical_divide(layout, tile): the tile's own layout and that of the tiles.

    CuTe rounds up: an extent that `tile` does not divide is read past its end.
    """
    tiler = pycute.Layout(tile, 1)
    rest = pycute.complement(tiler, pycute.size(layout))
    return composition(layout, tiler), composition(layout, rest)


def upcast(layout: Layout, n: int) -> Layout:
    """`layout` in units of `n` elements."""
    if isinstance(layout.shape, tuple):
        return pycute.make_layout(*(upcast(mode, n) for mode in modes(layout)))
    shape, stride = layout.shape, layout.stride
    if stride == 0:
        return pycute.Layout(shape, 0)
    if stride % n and n % stride:
        raise Refused(f"upcast: Divisibility condition: stride {stride} in units of {n}")
    return pycute.Layout(-(-shape // -(-n // abs(stride))), -(-abs(stride) // n))


def modes(layout: Layout) -> list[Layout]:
    """The top-level modes of `layout`."""
    return [layout[i] for i in range(len(layout))]


def partition(layout: Layout, atom_mn: int, atom_k: int, cta_group: int) -> tuple[Layout, int, int]:
    """How a tiled MMA cuts an operand's ``[MN, K]`` layout: (layout of one instruction's part, tiles along
    MN, tiles along K).

    One instruction reads ``[atom_mn, atom_k]``, of which each CTA of the group holds ``atom_mn / cta_group``
    rows; the part is what CTA 0 describes, ``[atom_mn / cta_group, atom_k]``.
    """
    mn, k = modes(layout)
    # thrfrg_A divides twice by the same tile: once for the permutation, once for the atom.
    mn_in, mn_out = divide(pycute.make_layout(*divide(mn, atom_mn)), atom_mn)
    k_in, k_out = divide(pycute.make_layout(*divide(k, atom_k)), atom_k)
    rows = atom_mn // cta_group
    atom = pycute.make_layout(mn_in, k_in)
    part = pycute.make_layout(
        composition(atom, pycute.Layout(rows, 1)), composition(atom, pycute.Layout(atom_k, atom_mn))
    )
    return part, pycute.size(mn_out), pycute.size(k_out)


def atom_tile(shape: tuple[int, int], stride: tuple[int, int], extents: tuple[int, int]) -> Layout:
    """tile_to_shape of a rank-2 atom in CuTe's default order, tiles along the first mode first.

    Refused when the atom's extents do not divide `extents`.
    """
    if any(extent % tile for extent, tile in zip(extents, shape, strict=True)):
        raise Refused("tile_to_shape: block shape does not divide the target shape")
    atom_size = shape[0] * shape[1]
    counts = (extents[0] // shape[0], extents[1] // shape[1])
    steps = (atom_size, atom_size * counts[0])
    return pycute.Layout(
        tuple((shape[i], counts[i]) for i in (0, 1)),
        tuple((stride[i], steps[i] if counts[i] > 1 else 0) for i in (0, 1)),
    )
