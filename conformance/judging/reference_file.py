"""A reference in a Python file: it runs in a process of its own, which takes and returns arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np
from tileproof.conformance.judging.expected import Expected
from tileproof.kernels.foreign.frames import Message
from tileproof.kernels.foreign.process import ForeignProcess
from tileproof.kernels.foreign.running import guarded, run_python
from tileproof.kernels.paths import described, require_file
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.types import Array, Json, UncheckedObject

FUNCTION = "reference"
WHAT = "the reference"
EXPECTED = f"FILE.py with a function {FUNCTION}(), or FILE.py:FUNCTION"
_BOUNDS = ("bound", "atol", "rtol")


class NotAnArray:
    """A returned value that is not numeric: converting it raises the error of the reference's process."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(self._text)


def server(path: Path) -> ForeignProcess:
    """A process that can load the file at `path`."""
    return ForeignProcess(__name__, WHAT, str(path))


class ReferenceFile:
    """The function `function` of the file at `path`, called in a process of its own; `buffers` is what the
    file says of buffers (`BUFFERS`). TileproofError when it cannot be loaded.

    A process that was forked from its maker starts its own: answers belong to who asked.
    """

    def __init__(self, path: Path, function: str, process: ForeignProcess | None = None) -> None:
        self.path, self.function = path, function
        self.seconds: float | None = None  # of a call; None for the limits' own
        self._process, reply = self._started(process)
        self.__signature__ = _signature(reply.get("parameters"), path)
        self.buffers = _buffers(reply.get("buffers"), path)

    def __call__(self, **given: Array | float) -> tuple[Expected, ...] | dict[str, Expected]:
        if not self._process.usable:
            self._process, _ = self._started()
        arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
        rest = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in given.items()
            if name not in arrays
        }
        return _returned(self._process.ask({"call": rest}, arrays, self.seconds))

    def _started(self, process: ForeignProcess | None = None) -> tuple[ForeignProcess, UncheckedObject]:
        require_file(self.path, EXPECTED)
        if self.path.suffix != ".py":
            raise TileproofError(
                f"{WHAT} is not a Python file", where=str(self.path), expected=EXPECTED,
                found=described(self.path),
            )  # fmt: skip
        process = process or server(self.path)
        reply = process.ask({"load": str(self.path), "function": self.function}, seconds=self.seconds)
        return process, reply.body


def _signature(parameters: Json, path: Path) -> inspect.Signature:
    try:
        return inspect.Signature(
            [
                inspect.Parameter(name, getattr(inspect.Parameter, kind), default=None if optional else _NONE)
                for name, kind, optional in parameters
            ]
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise _no_answer(path, error) from None


_NONE = inspect.Parameter.empty


def _buffers(buffers: Json, path: Path) -> dict[str, UncheckedObject]:
    """The description of buffers, with the types of a launch file."""
    try:
        for given in buffers.values():
            for key, value in given.items():
                if key == "shape":
                    given[key] = tuple(map(int, value))
                elif not isinstance(value, str):
                    raise TypeError(f"{key}: {value!r}")
    except (TypeError, ValueError, AttributeError) as error:
        raise TileproofError(
            f"{WHAT} does not fit the launch: BUFFERS", where=str(path),
            expected="a dictionary by buffer of name, dtype, role (texts) and shape (numbers)",
            found=str(error),
        ) from None  # fmt: skip
    return buffers  # type: ignore[no-any-return]


def _returned(answer: Message) -> tuple[Expected, ...] | dict[str, Expected]:
    """What the function returned: arrays by name, or in their order."""
    names, forms = answer.body.get("names"), answer.body.get("values")
    if not isinstance(forms, list) or not (names is None or isinstance(names, list)):
        raise _no_answer(None, "its form")
    values = [_value(form, number, answer) for number, form in enumerate(forms)]
    return tuple(values) if names is None else dict(zip(map(str, names), values, strict=False))


def _value(form: Json, number: int, answer: Message) -> Expected:
    if not isinstance(form, Mapping):
        raise _no_answer(None, "the form of a value")
    value: object = answer.arrays.get(f"{number}")
    if value is None:
        value = NotAnArray(str(form.get("text", "")))
    bounds: UncheckedObject = {}
    for key in _BOUNDS:
        found = answer.arrays.get(f"{number}.{key}")
        if found is not None:
            bounds[key] = found if key == "bound" else float(found.reshape(-1)[0]) if found.size else 0.0
        elif key in form:
            raise TileproofError(f"{WHAT} does not fit the launch: {key}", found=str(form[key]))
    return Expected(value, **bounds)


def _no_answer(path: Path | None, error: object) -> TileproofError:
    return TileproofError(
        f"{WHAT} sent an unexpected answer", where="" if path is None else str(path), found=str(error)
    )


# ---- in the process of the file

_loaded: list[tuple[Callable[..., object], Path]] = []


def answer(question: Message) -> Message:
    """Loads the file, or calls its function."""
    if "load" in question.body:
        return _load(Path(question.body["load"]), question.body["function"])
    ((call, where),) = _loaded
    with np.errstate(all="ignore"):
        returned = guarded(lambda: call(**question.body["call"], **question.arrays), where, WHAT)
    body: UncheckedObject = {}
    if isinstance(returned, Mapping):
        body["names"], values = [str(name) for name in returned], list(returned.values())
    else:
        values = list(returned) if isinstance(returned, tuple) else [returned]
    arrays: dict[str, Array] = {}
    body["values"] = [_form(value, str(number), arrays) for number, value in enumerate(values)]
    return Message(body, arrays)


def _load(path: Path, name: str) -> Message:
    names = run_python(path, WHAT)
    call = names.get(name)
    if not callable(call):
        functions = [key for key, value in names.items() if inspect.isfunction(value)]
        raise TileproofError(
            "the reference's file has no such function",
            where=str(path),
            expected=name,
            found=", ".join(functions) or "no function",
            do=did_you_mean(name, functions) or "name a function: --expect FILE.py:FUNCTION",
        )
    _loaded[:] = [(call, path)]
    parameters = [
        [each.name, each.kind.name, each.default is not each.empty]
        for each in inspect.signature(call).parameters.values()
    ]
    return Message({"parameters": parameters, "buffers": names.get("BUFFERS", {})})


def _form(returned: object, name: str, arrays: dict[str, Array]) -> dict[str, str]:
    """A value and its bounds as arrays of real numbers; a text where there is no number."""
    given = returned if isinstance(returned, Expected) else Expected(returned)
    form: dict[str, str] = {}
    for key, value in {"text": given.value, **{key: getattr(given, key) for key in _BOUNDS}}.items():
        if key != "text" and value is None:
            continue
        try:
            array = np.asarray(value)
            if np.iscomplexobj(array):
                raise TypeError("complex numbers")
            arrays[name if key == "text" else f"{name}.{key}"] = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            form[key] = str(error)
    return form
