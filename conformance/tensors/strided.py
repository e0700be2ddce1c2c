"""An entry of a dump as a tensor of a shape and strides: a buffer that was dumped as it lies in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

FORM = "ENTRY=SHAPE:STRIDES, such as k=2,16,64:1024,64,1"
_TEXT = re.compile(r"(\d+(?:,\d+)*):(\d+(?:,\d+)*)(?:@(\d+))?")


def with_strides(tensors: Mapping[str, Array], strides: Mapping[str, str]) -> dict[str, Array]:
    """The tensors; those named in `strides` with the shape and strides of ``SHAPE:STRIDES``, in elements.

    ``@FIRST`` after them is the first element's place. Elements are counted in the entry's own order.

    TileproofError for an unknown entry, another form, or an element beyond the entry's end.
    """
    made = dict(tensors)
    for name, text in strides.items():
        where = f"--strides {name}"
        if name not in tensors:
            raise TileproofError(
                "the dump has no such entry", where=where, expected=", ".join(tensors), found=name
            )
        match = _TEXT.fullmatch(text.replace(" ", ""))
        shape, steps = (
            ([int(n) for n in part.split(",")] for part in match.groups()[:2]) if match else ([], [])
        )
        if match is None or len(shape) != len(steps):
            raise TileproofError("not a shape and its strides", where=where, expected=FORM, found=text)
        flat, first = tensors[name].reshape(-1), int(match[3] or 0)
        last = first + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
        if 0 not in shape and last >= flat.size:
            raise TileproofError(
                "the strides reach beyond the entry", where=where,
                expected=f"at most element {flat.size - 1}", found=f"element {last}",
                do="strides count elements, not bytes",
            )  # fmt: skip
        size = flat.itemsize
        made[name] = np.lib.stride_tricks.as_strided(
            flat[first:], shape, [step * size for step in steps], writeable=False
        )
    return made
