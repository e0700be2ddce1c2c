"""The reference of a launch file: a Python function from its float64 inputs to the expected values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.conformance.judging.expected import Expected
from tileproof.conformance.judging.reference_file import FUNCTION, ReferenceFile
from tileproof.conformance.judging.stages import shape_of
from tileproof.conformance.launches.placing import Arrays
from tileproof.kernels.foreign.process import ForeignProcess
from tileproof.kernels.foreign.running import guarded
from tileproof.kernels.launch.arguments import ScalarArgument, items_of
from tileproof.kernels.launch.contents import FileBytes, InlineBytes, Unwritten, dtype_of
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array, DType, Json

F64 = npt.NDArray[np.float64]
GivenInputs = dict[str, Array | float]  # what a reference is given, by the name of its parameter
# Of an output without a bound: units in its last place, and the part of the largest expected value, that an
# element may be off. It lets the roundings of f32 sums pass, and no more is known of the kernel.
DEFAULT_ULPS = 2.0
DEFAULT_PART = 2.0**-14
EXACT_KINDS = "iub"  # numpy kinds that are compared for equality
_DTYPE_KEYS = ("name", "dtype", "shape", "role")


@dataclass(frozen=True)
class ExpectedOutput:
    """An output's value and bound as float64 arrays of its shape; `stated`: the bound is the reference's."""

    value: F64
    bound: F64
    stated: bool


@dataclass(frozen=True)
class ReferenceFunction:
    """A reference: the function, its origin, and its file's description of buffers (`BUFFERS`)."""

    call: Callable[..., Any]
    where: str
    buffers: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)


def load(text: str, process: ForeignProcess | None = None) -> ReferenceFunction:
    """The reference `PATH.py[:FUNCTION]`, which runs in a process of its own, or in `process`; TileproofError
    when it is not there.
    """
    path, name = named(text)
    made = ReferenceFile(path, name, process)
    return ReferenceFunction(made, str(path), made.buffers)


def named(text: str) -> tuple[Path, str]:
    """The file and the function of `PATH.py[:FUNCTION]`."""
    path, colon, name = text.rpartition(":")
    return (Path(text), FUNCTION) if not colon or "/" in name or name.endswith(".py") else (Path(path), name)


def described(launch: LaunchFile, reference: ReferenceFunction) -> LaunchFile:
    """The launch file with the reference's `BUFFERS` applied: name, dtype, shape, role.

    A recorded program's allocations are bytes: this is where they get their types.
    """
    unused = dict(reference.buffers)
    buffers, renamed = [], {}
    for buffer in launch.buffers:
        given = dict(unused.pop(buffer.name, {}))
        if wrong := sorted(set(given) - set(_DTYPE_KEYS)):
            raise _bad(reference, f"BUFFERS[{buffer.name!r}]", ", ".join(_DTYPE_KEYS), wrong[0])
        if "shape" in given:
            given["shape"] = tuple(given["shape"])
        if "dtype" in given and not isinstance(buffer.content, Unwritten | FileBytes | InlineBytes):
            # What a generator gave was numbers of the buffer's own type.
            old = buffer.elements(launch.folder)
            given["content"] = buffer.content if old is None else InlineBytes(old.tobytes())
        made = replace(buffer, **given)
        if made.bytes != buffer.bytes:
            raise _bad(reference, f"BUFFERS[{buffer.name!r}]", f"{buffer.bytes} bytes", f"{made.bytes} bytes")
        renamed[buffer.name] = made.name
        buffers.append(made)
    if unused:
        known = ", ".join(buffer.name for buffer in launch.buffers)
        raise _bad(reference, "BUFFERS", f"names of buffers: {known}", ", ".join(unused))
    return _renamed(replace_buffers(launch, buffers), renamed) if reference.buffers else launch


def replace_buffers(launch: LaunchFile, buffers: Sequence[LaunchBuffer]) -> LaunchFile:
    """The launch file with other buffers; nothing is checked yet."""
    made = object.__new__(LaunchFile)
    for name, value in vars(launch).items():
        object.__setattr__(made, name, value)
    object.__setattr__(made, "buffers", tuple(buffers))
    return made


def _renamed(launch: LaunchFile, names: Mapping[str, str]) -> LaunchFile:
    def of(value: Json) -> Json:
        if isinstance(value, tuple):
            return tuple(of(item) for item in value)
        if not is_dataclass(value) or isinstance(value, type):
            return value
        changed = {field.name: of(getattr(value, field.name)) for field in fields(value)}
        for key in ("buffer", "source", "target"):
            if isinstance(changed.get(key), str):
                changed[key] = names.get(changed[key], changed[key])
        return type(value)(**changed)

    buffers = tuple(replace(buffer, items=of(buffer.items)) for buffer in launch.buffers)
    return replace(launch, buffers=buffers, steps=of(launch.steps))


# ---- the call


def inputs_of(launch: LaunchFile, instead: Arrays | None = None) -> GivenInputs:
    """The arguments of a reference, by name: buffers with a content (floating-point buffers in float64), and
    scalars."""
    given: GivenInputs = {}
    for step in launch.launches:
        for argument in step.arguments:
            for item in items_of(argument):
                if isinstance(item, ScalarArgument) and item.name:
                    given[item.name] = item.value
    for buffer in launch.buffers:
        array = (instead or {}).get(buffer.name)
        array = buffer.elements(launch.folder) if array is None else array
        if array is not None:
            given[buffer.name] = as_float64(array)
    return given


def as_float64(array: Array) -> Array:
    """Floating elements in float64; whole numbers as they are."""
    if array.dtype.kind in EXACT_KINDS:
        return array.copy()
    return array.astype(np.float64)


def evaluate(
    reference: ReferenceFunction, launch: LaunchFile, given: GivenInputs
) -> dict[str, ExpectedOutput]:
    """Return the expected outputs and captured stages. TileproofError if the reference raises, takes an
    unknown argument or returns something else.
    """
    arguments = _arguments(reference, given)
    with np.errstate(all="ignore"):
        returned = guarded(lambda: reference.call(**arguments), Path(reference.where), "the reference")
    judged = {
        buffer.name: (buffer.shape, dtype_of(buffer.dtype)) for buffer in launch.buffers if buffer.judged
    }
    named = _named(reference, returned, list(judged))
    stages = {
        capture.name: (shape_of(capture), dtype_of(capture.region.dtype)) for capture in launch.captures
    }
    found = {}
    for name, value in named.items():
        if name in judged:
            found[name] = _output(reference, name, value, *judged[name], stage=False)
        elif name in stages:
            found[name] = _output(reference, name, value, *stages[name], stage=True)
        else:
            known = ", ".join([*judged, *stages]) or "none"
            raise _bad(reference, "what it returns", f"names of outputs or captures: {known}", repr(name))
    return found


def _arguments(reference: ReferenceFunction, given: GivenInputs) -> GivenInputs:
    parameters = inspect.signature(reference.call).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(given)
    taken = {}
    for name, parameter in parameters.items():
        if name in given:
            taken[name] = given[name]
        elif parameter.default is parameter.empty:
            raise _bad(reference, f"its parameter {name}", f"one of {', '.join(given) or 'nothing'}", name)
    return taken


def _named(reference: ReferenceFunction, returned: object, judged: list[str]) -> dict[str, object]:
    if isinstance(returned, Mapping):
        return {str(name): value for name, value in returned.items()}
    values = list(returned) if isinstance(returned, tuple) else [returned]
    if len(values) != len(judged):
        expected = f"a dictionary, or one array for each of: {', '.join(judged) or 'no output'}"
        raise _bad(reference, "what it returns", expected, f"{len(values)} value(s)")
    return dict(zip(judged, values, strict=True))


def _output(
    reference: ReferenceFunction,
    name: str,
    returned: object,
    shape: tuple[int, ...],
    dtype: DType,
    *,
    stage: bool,
) -> ExpectedOutput:
    given = returned if isinstance(returned, Expected) else Expected(returned)
    try:
        returned_array = np.asarray(given.value)
        if np.iscomplexobj(returned_array):
            raise TypeError("complex numbers")
        value = returned_array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _bad(reference, f"the value of {name}", "an array of real numbers", str(error)) from None
    fits = value.shape == shape or (stage and value.ndim == 3 and value.shape[1:] == shape)
    if not fits:
        expected = f"shape {list(shape)}" + (", or one more dimension: the captures" if stage else "")
        raise _bad(reference, f"the value of {name}", expected, f"shape {list(value.shape)}")
    stated = any(part is not None for part in (given.bound, given.atol, given.rtol))
    if not stated:
        return ExpectedOutput(value, default_bound(value, dtype), False)
    try:
        bound = np.broadcast_to(
            np.asarray(0.0 if given.bound is None else given.bound, np.float64), value.shape
        )
    except (TypeError, ValueError) as error:
        raise _bad(
            reference, f"the bound of {name}", f"a number or shape {list(shape)}", str(error)
        ) from None
    with np.errstate(invalid="ignore"):
        bound = bound + (given.atol or 0.0) + (given.rtol or 0.0) * np.abs(value)
    if not (bound >= 0).all():
        raise _bad(reference, f"the bound of {name}", "numbers from 0", f"{bound[~(bound >= 0)][0]}")
    return ExpectedOutput(value, bound, True)


def default_bound(value: F64, dtype: DType) -> F64:
    """The bound of an output whose reference states none: 0 for whole numbers."""
    if dtype.kind in EXACT_KINDS:
        return np.zeros(value.shape)
    finite = np.abs(value[np.isfinite(value)])
    largest = float(finite.max(initial=0.0))
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    eps, smallest = float(info.eps), float(info.smallest_subnormal)
    with np.errstate(invalid="ignore"):
        size = np.where(np.isfinite(value), np.abs(value), largest)
    return DEFAULT_ULPS * np.maximum(eps / 2 * size, smallest) + DEFAULT_PART * largest


def _bad(reference: ReferenceFunction, what: str, expected: str, found: str) -> TileproofError:
    return TileproofError(
        f"the reference does not fit the launch: {what}",
        where=reference.where, expected=expected, found=found,
    )  # fmt: skip
