"""Planted defects: a check that has never failed is not a check.

Each kernel defines its planted defects in `defects.py` beside it. This module finds them by id and plants
them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tileproof.kernels.compile import Built
from tileproof.kernels.edit import PlantedDefect, apply
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.registry import kernels
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError, did_you_mean


def defects() -> Mapping[str, PlantedDefect]:
    """Return the planted defects of every known kernel by id."""
    return MappingProxyType(
        {defect.id: defect for kernel in kernels().values() for defect in kernel.defects()}
    )


def defect(name: str, known: Mapping[str, PlantedDefect] | None = None) -> PlantedDefect:
    """Return the planted defect with the id `name`; TileproofError lists the known ids."""
    known = defects() if known is None else known
    if name not in known:
        raise TileproofError(
            "unknown planted defect",
            where="--plant",
            expected=", ".join(sorted(known)) or "none is defined",
            found=name,
            do=did_you_mean(name, known) or "list them with `tileproof defects`",
        )
    return known[name]


def planted_on(kernel: Kernel, plant: str | None) -> PlantedDefect | None:
    """Return the planted defect with this id; TileproofError if it belongs to another kernel."""
    if plant is None:
        return None
    own = {defect.id: defect for defect in kernel.defects()}
    if plant not in own and plant in (others := defects()):
        return _of_another(kernel, others[plant])
    return defect(plant, own)


def require_own(kernel: Kernel, planted: PlantedDefect | None) -> None:
    """Raise TileproofError if the planted defect belongs to another kernel."""
    if planted is not None and planted.target != kernel.name:
        _of_another(kernel, planted)


def _of_another(kernel: Kernel, planted: PlantedDefect) -> PlantedDefect:
    raise TileproofError(
        "the defect belongs to another kernel",
        where=f"--plant {planted.id}",
        expected=planted.target,
        found=kernel.name,
    )


def build_planted(
    kernel: Kernel, variant: Variant, planted: PlantedDefect | None, probe: bool = False
) -> Built:
    """The kernel's build (cached), with the defect's edits applied to its sources and its PTX."""
    if planted is None:
        return kernel.build(variant, probe)
    try:
        return kernel.build(variant, probe, planted.edits)
    except TileproofError as error:
        where = f"planted defect {planted.id}, {error.where}"
        raise TileproofError(
            error.what, where=where, expected=error.expected, found=error.found, do=error.do
        ) from error


@contextmanager
def planted_reference(planted: PlantedDefect | None) -> Iterator[None]:
    """Context in which the Python modules that the defect edits run with its edits."""
    edits = [] if planted is None else [edit for edit in planted.edits if edit.place.kind == "module"]
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
