"""Writes the set: per case its inputs, and of each stage the float64 values and the bounds."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tileproof.reference.chain import outputs_of
from tileproof.reference.evaluate import Evaluation
from tileproof.spec import numerics
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array, JsonObject
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling
from tileproof.spec.problems.cases import ProblemInputs, VectorCase
from tileproof.spec.problems.tensors import K_BLOCKS, TensorForm, TensorForms

VERSION = 1
SIDE = 48  # elements of each axis that a case of production shape keeps of a stage
F64 = npt.NDArray[np.float64]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class F64Stage:
    """A stage in float64. `bound`: how far a kernel may be from it in f32, `narrow` in 16 bits, where that is
    read too. NaN as a bound: the element is not judged. `first`: where the arrays begin in the whole tensor.
    """

    value: F64
    bound: F64
    narrow: F64 | None
    first: tuple[int, ...] = ()

    @staticmethod
    def unknown(form: TensorForm, shape: list[int]) -> F64Stage:
        """A stage of which nothing is known yet: zeros that are not judged."""
        bound = np.full(shape, np.nan)
        return F64Stage(np.zeros(shape), bound, bound.copy() if len(form.dtypes) > 1 else None)

    def cut(self, order: list[int], side: int | None) -> F64Stage:
        """The arrays with their axes in another order, and of each axis `side` elements in its middle."""
        shape = [self.value.shape[axis] for axis in order]
        first = tuple(max(size - (side or size), 0) // 2 for size in shape)
        at = tuple(slice(start, start + (side or size)) for start, size in zip(first, shape, strict=True))
        narrow = None if self.narrow is None else self.narrow.transpose(order)[at]
        return F64Stage(self.value.transpose(order)[at], self.bound.transpose(order)[at], narrow, first)


def write(
    folder: Path,
    wanted: Iterable[tuple[str, VectorCase]],
    progress: Progress = lambda line: None,
) -> int:
    """Write the cases, the schema and the readers into a new folder; returns the bytes. TileproofError if the
    folder exists.
    """
    if folder.exists():
        raise TileproofError("the folder exists", where=str(folder), expected="a new folder")
    folder.mkdir(parents=True)
    listed = []
    for number, (problem, case) in enumerate(wanted):
        progress(f"{problem}: {case.name}")
        listed.append(_write_case(folder, f"{number:03d}", problem_type(problem), case))
    text = json.dumps({"format": "tileproof-vectors", "version": VERSION, "cases": listed}, indent=1)
    (folder / "vectors.json").write_text(text + "\n")
    here = Path(__file__).parent
    for file in (here / "vectors.schema.json", *(here / "readers").glob("read_vectors.*")):
        shutil.copy(file, folder)
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _write_case(folder: Path, number: str, problem: ProblemType, case: VectorCase) -> JsonObject:
    forms = problem.tensors
    assert forms is not None
    inputs = case.inputs()
    own = folder / f"{number}-{re.sub(r'[^a-z0-9]+', '-', f'{problem.name} {case.name}'.lower())}"
    arrays = {f"inputs/{name}": array for name, array in forms.dumped(inputs).items()}
    made = expected(problem, forms, inputs, SIDE if case.production else None)
    for name, stage in made.items():
        arrays[f"expected/{name}"] = stage.value
        arrays[f"bound/{name}"] = _up(stage.bound)
        if stage.narrow is not None:
            arrays[f"bound16/{name}"] = _up(stage.narrow)
        if any(stage.first) or case.production:
            arrays[f"first/{name}"] = np.array(stage.first, np.int64)
    files = {}
    for name, array in arrays.items():
        file = own / f"{name}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, np.ascontiguousarray(array) if array.ndim else array)
        files[f"{name}.npy"] = hashlib.sha256(file.read_bytes()).hexdigest()
    return {
        "name": case.name,
        "problem": problem.name,
        "folder": own.name,
        "shape": "production" if case.production else "small",
        "case": case.case.as_json(),
        "flags": [*_flags(arrays, made), *forms.flags(inputs)],
        "guards": list(case.guards),
        "files": files,
    }


def _flags(arrays: dict[str, Array], made: dict[str, F64Stage]) -> list[str]:
    inputs = [a.astype(np.float64) for name, a in arrays.items() if name.startswith("inputs/")]
    values = [stage.value for stage in made.values()]
    with np.errstate(invalid="ignore"):
        small = any(((np.abs(a) > 0) & (np.abs(a) < 2.0**-126)).any() for a in (*inputs, *values))
        exact = [name for name, stage in made.items() if not np.nansum(stage.bound)]
    found = ["subnormal"] if small else []
    found += ["not finite"] if not all(np.isfinite(a).all() for a in inputs) else []
    found += ["unbounded"] if any(np.isinf(stage.bound).any() for stage in made.values()) else []
    return found + [f"exact {name}" for name in exact]


def expected(
    problem: ProblemType, forms: TensorForms, inputs: ProblemInputs, side: int | None
) -> dict[str, F64Stage]:
    """Every stage by the name of its tensor, from the inputs alone, with the bounds of the whole chain.
    `side`: keep so many elements of each axis, from its middle.
    """
    sizes, own_axes = forms.sizes(inputs), forms.layouts.get(forms.conventions[0].layout, {})
    wanted = [form for form in forms.forms if form.role != "input" and K_BLOCKS not in form.axes]
    made = {form.name: F64Stage.unknown(form, [sizes[axis] for axis in form.axes]) for form in wanted}
    block, shape = forms.cut(inputs)
    tiling = Tiling(block, 1, shape)
    for group in range(forms.groups(inputs)):
        alone = forms.group_inputs(inputs, group)
        chain = Evaluation(problem, alone, tiling, BOUND)
        for form in wanted:
            if problem.stages[form.stage].output != form.axes:
                _add_group(chain, form, forms.group_index(form, inputs, group), made[form.name])
    for form in wanted:
        if problem.stages[form.stage].output == form.axes:
            _add_rows(problem, inputs, tiling, form, made[form.name])
        axes = own_axes.get(form.name, form.axes)
        made[form.name] = made[form.name].cut([form.axes.index(axis) for axis in axes], side)
    return made


def _add_group(chain: Evaluation, form: TensorForm, at: tuple[slice, ...], stage: F64Stage) -> None:
    """Write a stage over one group to its place."""
    place = chain.problem.place(chain.inputs, chain.tiling, TileCoord(0, None, None), form.axes)
    local = [part if isinstance(part, slice) else slice(part, part + 1) for part in place]
    index = tuple(
        slice(own.start + part.start, own.start + part.stop) for own, part in zip(at, local, strict=True)
    )
    computed = chain.whole(form.stage, 0)
    shape = stage.value[index].shape
    value = computed.value.value
    stage.value[index] = value.reshape(shape)
    stage.bound[index] = computed.value.errors.reshape(shape)
    if stage.narrow is not None and computed.copy is not None:
        with np.errstate(invalid="ignore"):
            off = np.abs(computed.copy.value - value) + computed.copy.errors
        stage.narrow[index] = np.where(np.isnan(off), np.inf, off).reshape(shape)


def _add_rows(
    problem: ProblemType, inputs: ProblemInputs, tiling: Tiling, form: TensorForm, stage: F64Stage
) -> None:
    """Write an output to whose rows tiles of all groups are added; the other rows are 0."""
    known = outputs_of(inputs, form.stage, problem=problem, tiling=tiling)
    assert known.rows is not None
    stage.value[known.rows] = known.value
    stage.bound[:] = 0.0
    stage.bound[known.rows] = known.error
    if stage.narrow is not None:
        off = numerics.U_BF16 * (np.abs(stage.value) + stage.bound) + numerics.BF16_TINY
        zero = (stage.value == 0) & (stage.bound == 0)
        stage.narrow[:] = np.where(zero, 0.0, stage.bound + off)


def _up(bound: F64) -> npt.NDArray[np.float32]:
    """The bound in f32, rounded up."""
    with np.errstate(over="ignore", under="ignore"):
        near = bound.astype(np.float32)
    up: npt.NDArray[np.float32] = np.where(near < bound, np.nextafter(near, np.float32(np.inf)), near)
    return up.astype(np.float32)
