"""Planted defects: a check that has never failed is not a check.

The mutants of a kernel stand beside it; here they are found by id and planted.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tileproof.kernels.compile import Built
from tileproof.kernels.edit import Mutant, apply
from tileproof.kernels.registry import kernels
from tileproof.kernels.target import Target
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError


def defects() -> Mapping[str, Mutant]:
    """The mutants of every known kernel by id."""
    return MappingProxyType({one.id: one for target in kernels().values() for one in target.mutants()})


def defect(name: str, known: Mapping[str, Mutant] | None = None) -> Mutant:
    """The mutant with id `name`; TileproofError lists the known ones."""
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


def planted_on(kernel: Target, plant: str | None) -> Mutant | None:
    """The mutant with this id, which must be one of the kernel's; TileproofError otherwise."""
    if plant is None:
        return None
    own = {one.id: one for one in kernel.mutants()}
    if plant not in own and plant in (others := defects()):
        return _of_another(kernel, others[plant])
    return defect(plant, own)


def require_own(kernel: Target, planted: Mutant | None) -> None:
    """TileproofError when the mutant is another kernel's."""
    if planted is not None and planted.target != kernel.name:
        _of_another(kernel, planted)


def _of_another(kernel: Target, planted: Mutant) -> Mutant:
    raise TileproofError(
        "the defect belongs to another kernel",
        where=f"--plant {planted.id}",
        expected=planted.target,
        found=kernel.name,
    )


def build_planted(kernel: Target, variant: Variant, planted: Mutant | None, probe: bool = False) -> Built:
    """The kernel's build (cached), with the mutant's edits in its sources and its PTX."""
    if planted is None:
        return kernel.build(variant, probe)
    try:
        return kernel.build(variant, probe, planted.edits)
    except TileproofError as error:
        where = f"mutant {planted.id}, {error.where}"
        raise TileproofError(
            error.what, where=where, expected=error.expected, found=error.found, do=error.do
        ) from error


@contextmanager
def planted_reference(planted: Mutant | None) -> Iterator[None]:
    """While it lasts, the modules that the mutant edits run with its edits in them."""
    edits = [] if planted is None else [one for one in planted.edits if one.place.kind == "module"]
    before = []
    try:
        for edit in edits:
            assert planted is not None
            module = importlib.import_module(edit.place.file)
            changed = apply(planted.id, edit, Path(str(module.__file__)).read_text())
            before.append((module, dict(vars(module))))
            exec(compile(changed, str(module.__file__), "exec"), vars(module))
        yield
    finally:
        for module, names in reversed(before):
            vars(module).clear()
            vars(module).update(names)
