"""Planted defects: a check that has never failed is not a check.

A defect is a small edit of a kernel source, of its PTX, or of the reference, together with the stage and tile
at which `tileproof check` must find it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tileproof.kernels.compile import ROOT as KERNEL_ROOT
from tileproof.kernels.compile import Built
from tileproof.spec.machine.errors import TileproofError

Kind = Literal["source", "ptx", "reference"]
ANY = -1


@dataclass(frozen=True)
class Defect:
    """One planted defect.

    `file` is relative to kernels/ (source), a module of tileproof (reference), or empty (ptx). `find` must
    occur exactly `count` times in its text (`ANY`: at least once). `stage` and `place` are what the finding
    must name; `corpus` holds the ids of the public bugs that it stands for.
    """

    id: str
    title: str
    kernel: str
    kind: Kind
    file: str
    find: str
    replace: str
    stage: str
    place: str
    corpus: str = ""
    count: int = 1


def defects() -> Mapping[str, Defect]:
    """All planted defects by id."""
    from tileproof.conformance.mutants import planted, planted_head128

    every = (*planted.DEFECTS, *planted_head128.DEFECTS, *planted_head128.HEAD64)
    return MappingProxyType({one.id: one for one in every})


def defect(name: str, known: Mapping[str, Defect] | None = None) -> Defect:
    """The defect with id `name`; TileproofError lists the known ones."""
    known = defects() if known is None else known
    if name not in known:
        raise TileproofError(
            "there is no such planted defect",
            where="--plant",
            expected=", ".join(sorted(known)) or "none is defined",
            found=name,
            do="list them with `tileproof defects`",
        )
    return known[name]


def apply(planted: Defect, text: str) -> str:
    """`text` with the defect in it; TileproofError unless `find` occurs as often as the defect says."""
    seen = text.count(planted.find)
    if not planted.find or (seen != planted.count and not (planted.count == ANY and seen)):
        raise TileproofError(
            "the planted defect does not fit the text any more",
            where=f"defect {planted.id}, {planted.file or 'PTX'}",
            expected=f"{'some' if planted.count == ANY else planted.count} occurrence(s) of {planted.find!r}",
            found=f"{seen}",
            do="bring the defect up to date with the source",
        )
    return text.replace(planted.find, planted.replace)


def source_overrides(planted: Defect | None) -> dict[str, str]:
    """The overrides that a kernel build takes: the one changed source of a "source" defect, else none."""
    if planted is None or planted.kind != "source":
        return {}
    path = KERNEL_ROOT / planted.file
    if not path.is_file():
        raise TileproofError(
            "the defect's source does not exist", where=f"defect {planted.id}", found=planted.file
        )
    return {planted.file: apply(planted, path.read_text())}


def plant_ptx(planted: Defect | None, built: Built) -> Built:
    """`built` with a "ptx" defect in its PTX, else `built` itself."""
    if planted is None or planted.kind != "ptx":
        return built
    return replace(built, ptx=apply(planted, built.ptx))


@contextmanager
def planted_reference(planted: Defect | None) -> Iterator[None]:
    """While it lasts, the module of a "reference" defect runs with the defect in it."""
    if planted is None or planted.kind != "reference":
        yield
        return
    module = importlib.import_module(planted.file)
    text = Path(str(module.__file__)).read_text()
    changed = apply(planted, text)
    before = dict(vars(module))
    try:
        exec(compile(changed, str(module.__file__), "exec"), vars(module))
        yield
    finally:
        vars(module).clear()
        vars(module).update(before)
