"""Finds stages that a kernel holds only in registers, by their values (`slots.py`), and dumps them.

The kernel runs on some draws of its inputs and on its own. In the draws, results of instructions are compared
with the stages in float64: a slot that has the value of one element in every draw holds that element. What
these slots have in the run on the launch's own inputs is the dump, which `tileproof tensors` judges. The
kernel is not changed, and needs no plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.conformance.beside.locate.slots import (
    Arrangements,
    Elements,
    ResultSlots,
    beside,
    results,
    search,
)
from tileproof.conformance.launches.modules import LoadedModule, load
from tileproof.conformance.launches.running import execute
from tileproof.conformance.tensors.named import in_form_order, layout_axes
from tileproof.conformance.vectors.writing import expected
from tileproof.kernels.launch.contents import dtype_of
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.run_result import RecordedResults
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import ProblemType, upstream
from tileproof.spec.problems.tensors import TensorForm, TensorForms

DRAWS = 3
# f32 results of arithmetic, and what is loaded from tensor or shared memory.
RECORDED = re.compile(
    r"^(mma|wmma|fma|mul|add|sub|div|neg|abs|max|min|cvt|selp|rcp|sqrt|rsqrt|ex2|lg2|tanh)\..*f32"
    r"|^tcgen05\.ld\.|^ld\.shared"
)
F64 = npt.NDArray[np.float64]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class BufferTensor:
    """A tensor of the problem in a buffer of the launch file."""

    name: str
    buffer: str
    dtype: str
    shape: tuple[int, ...]

    def read(self, data: Array) -> Array:
        """The tensor in the content of the buffer, whose bytes may continue after it."""
        bytes_ = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        dtype, count = np.dtype(dtype_of(self.dtype)), int(np.prod(self.shape))
        if bytes_.size < count * dtype.itemsize:
            raise TileproofError(
                "a buffer is smaller than its tensor", where=f"--tensor {self.name}={self.buffer}",
                expected=f"{count * dtype.itemsize} bytes for {self.dtype}{list(self.shape)}",
                found=f"{bytes_.size} bytes",
            )  # fmt: skip
        return bytes_[: count * dtype.itemsize].view(dtype).reshape(self.shape)


@dataclass(frozen=True)
class StageSlots:
    """Where the elements of one tensor are: results that hold some of them, the closest first, and how many
    of its elements are held by any.
    """

    form: TensorForm
    found: tuple[ResultSlots, ...]
    covered: int
    elements: int

    @property
    def whole(self) -> bool:
        return self.covered == self.elements

    def places(self) -> list[str]:
        """Instruction and source line of the results, each pair once."""
        return list(dict.fromkeys(f"{f.result.name} {f.result.source}".strip() for f in self.found))


@dataclass(frozen=True)
class Location:
    """Where the stages are, and the dump of the run on the launch's own inputs.

    `lost`: the stages that no register holds although all stages before them are held or given.
    """

    stages: tuple[StageSlots, ...]
    dump: Mapping[str, Array]
    lost: tuple[str, ...] = ()


def locate(
    launch: LaunchFile,
    problem: ProblemType,
    tensors: Sequence[BufferTensor],
    scalars: Mapping[str, float],
    *,
    layout: str | None = None,
    number: int = 0,
    seed: int = 0,
    progress: Progress = lambda line: None,
) -> Location:
    """Find the stages of `problem` in the registers of the launch of that number.

    `tensors`: where inputs and outputs are, with shapes in `layout`. TileproofError where the problem has no
    draws, a buffer is missing, or the launch does not end without an error.
    """
    forms = problem.tensors
    if forms is None:
        raise TileproofError(
            "the tensors of this problem have no names", where="--problem", found=problem.name
        )
    modules = load(launch)
    kernel = _Kernel(launch, modules, number, tuple(tensors))
    order = _Order(forms, layout)
    own = {
        tensor.name: tensor.read(kernel.content(tensor)) for tensor in tensors if order.is_input(tensor.name)
    }
    inputs = forms.inputs(
        {name: order.ours(name, array) for name, array in own.items()},
        scalars,
        forms.conventions[0].lse_base,
    )
    stages: list[dict[str, F64]] = []
    runs: list[Mapping[int, RecordedResults]] = []
    for draw in range(DRAWS):
        progress(f"draw {draw + 1} of {DRAWS}")
        drawn = forms.drawn(inputs, np.random.default_rng((seed, draw)))
        made = expected(problem, forms, drawn, None)
        stages.append({name: stage.value for name, stage in made.items()})
        given = forms.dumped(drawn)
        recorded, _ = kernel.run({name: order.theirs(name, given[name]) for name in own}, f"draw {draw + 1}")
        runs.append(recorded)
    progress("the launch's own inputs")
    recorded, outputs = kernel.run(own, "the launch's own inputs")
    runs.append(recorded)
    asked = {form.stage for form in forms.forms if form.name in outputs}
    needed = {name for stage in asked for name in upstream(problem, stage)}
    wanted: list[TensorForm] = []
    for form in forms.forms:
        if (
            form.role == "stage"
            and form.stage in needed
            and form.name not in outputs
            and not any(_same(stages, form, other) for other in wanted)
        ):
            wanted.append(form)
    dump: dict[str, Array] = dict(own) | {name: np.array(value) for name, value in scalars.items()}
    dump |= outputs
    located = []
    for slots in _search(wanted, stages, runs, sorted({*scalars.values()}), progress):
        located.append(slots)
        if slots.whole:
            held = np.full(stages[0][slots.form.name].shape, np.nan, np.float32)
            for found in reversed(slots.found):
                places, values = found.elements(DRAWS)
                held.reshape(-1)[places] = values
            dump[slots.form.name] = held
    missing = [slots.form.stage for slots in located if not slots.found]
    lost = tuple(stage for stage in missing if not set(upstream(problem, stage)) & set(missing))
    return Location(tuple(located), dump, lost)


def _same(draws: Sequence[Mapping[str, F64]], form: TensorForm, other: TensorForm) -> bool:
    """Whether two stages have the same values, so that their slots cannot be distinguished."""
    return all(np.array_equal(draw[form.name], draw[other.name]) for draw in draws)


class _Order:
    """The axes of tensors in the launch file's layout, and in that of the problem's own dumps."""

    def __init__(self, forms: TensorForms, layout: str | None) -> None:
        own = forms.conventions[0].layout
        self._forms = {form.name: form for form in forms.forms}
        self._own, self._given = layout_axes(forms, own), layout_axes(forms, layout or own)

    def is_input(self, name: str) -> bool:
        return self._form(name).role == "input"

    def _form(self, name: str) -> TensorForm:
        if name not in self._forms:
            raise TileproofError(
                "the problem has no such tensor", where="--tensor", expected=", ".join(self._forms),
                found=name, do=did_you_mean(name, self._forms),
            )  # fmt: skip
        return self._forms[name]

    def ours(self, name: str, array: Array) -> Array:
        """The tensor in the order of its form's axes."""
        form = self._form(name)
        axes = self._given.get(name, form.axes)
        if array.ndim != len(axes):
            raise TileproofError(
                "a tensor has the wrong number of axes", where=f"--tensor {name}",
                expected=f"[{', '.join(axes)}]", found=str(list(array.shape)),
            )  # fmt: skip
        return in_form_order(form, array, axes)

    def theirs(self, name: str, array: Array) -> Array:
        """A tensor of the problem's own dumps in the launch file's layout."""
        axes = self._form(name).axes
        own, given = self._own.get(name, axes), self._given.get(name, axes)
        return array.transpose([own.index(axis) for axis in given])


@dataclass(frozen=True)
class _Kernel:
    """One launch of a launch file, run with the results of its instructions recorded."""

    launch: LaunchFile
    modules: Mapping[str, LoadedModule]
    number: int
    tensors: tuple[BufferTensor, ...]

    def content(self, tensor: BufferTensor) -> Array:
        """What the launch file has in a tensor's buffer."""
        buffers = {buffer.name: buffer for buffer in self.launch.buffers}
        if tensor.buffer not in buffers:
            raise TileproofError(
                "the launch file has no such buffer", where=f"--tensor {tensor.name}",
                expected=", ".join(buffers), found=tensor.buffer,
            )  # fmt: skip
        content = buffers[tensor.buffer].elements(self.launch.folder)
        if content is None:
            raise TileproofError("an input has no content", where=f"--tensor {tensor.name}={tensor.buffer}")
        return content

    def run(
        self, given: Mapping[str, Array], what: str
    ) -> tuple[Mapping[int, RecordedResults], dict[str, Array]]:
        """The recorded results, and the outputs by name."""
        steps = self.launch.launches
        if self.number >= len(steps):
            raise TileproofError(
                "the launch file has no such launch", where="--launch",
                expected=f"0 to {len(steps) - 1}", found=str(self.number),
            )  # fmt: skip
        step = steps[self.number]
        module = self.modules[self.launch.module_of(step).name].module
        decoded = module.decode(step.entry)
        watched = [
            k for k, name in enumerate(decoded.code["name"].tolist()) if RECORDED.match(decoded.names[name])
        ]
        instead = {}
        for tensor in self.tensors:
            if tensor.name in given:
                whole = np.ascontiguousarray(self.content(tensor)).reshape(-1).view(np.uint8).copy()
                new = np.ascontiguousarray(given[tensor.name]).reshape(-1).view(np.uint8)
                whole[: new.size] = new
                instead[tensor.buffer] = whole

        done = execute(
            self.launch,
            self.modules,
            lambda position, _: {"registers": watched} if position == self.number else {},
            instead=instead,
        )
        errors = [finding for result in done.results.values() for finding in result.errors]
        if errors:
            raise TileproofError(
                f"the kernel has a finding on {what}", where=self.launch.name, found=errors[0].message,
                do="run `tileproof judge` for the findings",
            )  # fmt: skip
        result = done.results[self.number]
        if result.limited:
            raise TileproofError(
                "the kernel has more results than can be recorded", where=self.launch.name,
                found="; ".join(result.limited), do="use a smaller problem",
            )  # fmt: skip
        outputs = {
            tensor.name: tensor.read(done.placed.buffers[tensor.buffer].numpy())
            for tensor in self.tensors
            if tensor.name not in given
        }
        return result.registers, outputs


def _search(
    forms: Sequence[TensorForm],
    draws: Sequence[Mapping[str, F64]],
    runs: Sequence[Mapping[int, RecordedResults]],
    scalars: Sequence[float],
    progress: Progress,
) -> Iterator[StageSlots]:
    """Each tensor's slots: first by value alone, in results of matrix products, then near these."""
    known = list(results(runs))
    factors = _factors(scalars)
    elements = {form.name: Elements([draw[form.name] for draw in draws]) for form in forms}
    found: dict[str, list[ResultSlots]] = {form.name: [] for form in forms}
    products = [result for result in known if result.name.startswith(("mma", "wmma", "tcgen05"))] or known
    for form in forms:
        progress(f"search for {form.name}")
        found[form.name] += [slots for result in products if (slots := search(result, elements[form.name]))]
    shapes = {form.axes: draws[0][form.name].shape for form in forms if found[form.name]}
    around = {
        axes: Arrangements.of([slots for form in forms if form.axes == axes for slots in found[form.name]])
        for axes in shapes
    }
    for form in forms:
        for axes, arrangements in around.items():
            if found[form.name] or not set(form.axes) <= set(axes):
                continue
            progress(f"search for {form.name} near the others")
            spread = _spread(form, draws[0][form.name].shape, axes, shapes[axes])
            own = arrangements.of_elements(spread)
            for result in known:
                if slots := beside(result, own, elements[form.name], factors):
                    found[form.name].append(slots)
        known_elements = elements[form.name]
        ranked = sorted(
            found[form.name], key=lambda slots: (_error(slots, known_elements), slots.factor != 1)
        )
        held = np.zeros(known_elements.flat.shape[1], bool)
        for slots in ranked:
            held[slots.places[slots.places >= 0]] = True
        yield StageSlots(form, tuple(ranked), int(held.sum()), held.size)


def _spread(
    form: TensorForm, shape: tuple[int, ...], axes: tuple[str, ...], sizes: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Of each element of a tensor with these axes, the element of `form` that it depends on."""
    own = np.arange(int(np.prod(shape))).reshape(shape)
    own = own.reshape([sizes[axes.index(axis)] if axis in form.axes else 1 for axis in axes])
    return np.broadcast_to(own, sizes).reshape(-1)


def _factors(scalars: Sequence[float]) -> list[float]:
    """What a kernel may have multiplied an element by: nothing, a number that it was given, to base 2."""
    log2_e = float(np.log2(np.e))
    sized = [number for number in scalars if number not in (0.0, 1.0)]
    return [1.0, *sized, *(1 / number for number in sized), log2_e, *(number * log2_e for number in sized)]


def _error(slots: ResultSlots, elements: Elements) -> float:
    """The median error of the slots, of the largest element, in the draws."""
    held = slots.places >= 0
    off = [
        np.abs(slots.result.values[run][held] / slots.factor - elements.flat[run][slots.places[held]])
        / elements.largest[run]
        for run in range(len(elements.flat))
    ]
    return float(np.median(np.concatenate(off)))
