"""A launch file as JSON: default values are omitted, unions have a `kind`, bytes are base64.

`launch.schema.json` beside this file is the published schema: `python -m
tileproof.kernels.launch.jsonform` writes it from the classes of the model, and a test holds both
together.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import os
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from tileproof.kernels.launch.contents import ArrayContent, FileBytes, InlineBytes
from tileproof.kernels.launch.model import SCHEMA, SCHEMA_VERSION, HostCall, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.pages import write_or_check
from tileproof.spec.machine.types import Json, TypeForm, UncheckedObject

T = TypeVar("T")
PATH = Path(__file__).with_name("launch.schema.json")
INLINE_BYTES = 4096  # of an array in memory; a larger one becomes a file
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXTS = ("text",)  # fields of several lines
BLANK = "FILL:"  # how a value begins that `judge --init` leaves to the user
_NO_NUMBERS = ("nan", "inf", "-inf")  # numbers that JSON does not have


def write(launch: LaunchFile, path: Path) -> None:
    """Writes a launch file as JSON, and each larger array in memory as an .npy file beside it; the files that
    it names are not touched. TileproofError for what JSON cannot hold.
    """
    buffers = []
    for buffer in launch.buffers:
        if isinstance(buffer.content, ArrayContent) and buffer.bytes > INLINE_BYTES:
            name = f"{path.stem}-{buffer.name}.npy"
            np.save(path.with_name(name), buffer.content.data.reshape(-1).view(np.uint8))
            buffer = dataclasses.replace(buffer, content=FileBytes(name))
        buffers.append(buffer)
    path.write_text(text(dataclasses.replace(launch, buffers=tuple(buffers))), encoding="utf-8")


def text(launch: LaunchFile) -> str:
    """The JSON text of a launch file."""
    whole = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **dump(launch)}
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def read(path: Path) -> LaunchFile:
    """The launch file that a JSON file holds; TileproofError names the first field that is wrong."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TileproofError("the launch file cannot be read", where=str(path), found=str(error)) from None
    except (ValueError, RecursionError) as error:
        at = f", line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TileproofError(
            "the launch file is not valid JSON",
            where=f"{path}{at}",
            expected=f'an object with "schema": "{SCHEMA}"',
            found=getattr(error, "msg", str(error)),
        ) from None
    return parse(data, path.parent, str(path))


def parse(data: Json, folder: Path, where: str = "launch file") -> LaunchFile:
    """The launch file that plain data stand for; its paths begin in `folder`."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = repr(data.get("schema")) if isinstance(data, dict) else type(data).__name__
        raise TileproofError("not a launch file", where=where, expected=f'"schema": "{SCHEMA}"', found=found)
    if data.get("schema_version") != SCHEMA_VERSION:
        raise TileproofError(
            "the launch file has another schema version",
            where=where,
            expected=str(SCHEMA_VERSION),
            found=repr(data.get("schema_version")),
        )
    for place, text in _all_strings(data, where):
        if not text.isprintable() and place.rpartition(".")[2] not in _TEXTS:
            raise TileproofError(
                "the launch file has a control character in a name", where=f"{where}: {place}",
                expected="printable characters", found=repr(text)[:200],
            )  # fmt: skip
    if unfilled := blanks(data):
        (first, text), more = unfilled[0], len(unfilled) - 1
        raise TileproofError(
            f"blank left: {first}: {text}", where=where, expected="a value in place of each blank",
            found=f"{len(unfilled)} blank(s)"
            + (f": also {', '.join(n for n, _ in unfilled[1:])}" if more else ""),
        )  # fmt: skip
    rest = {key: value for key, value in data.items() if key not in ("schema", "schema_version")}
    return dataclasses.replace(load(LaunchFile, rest, where), folder=folder)


def blanks(data: Json, place: str = "") -> list[tuple[str, str]]:
    """The values that are left to be filled in: where each lies, and what it asks for."""
    found = _strings(data, place)
    return [(at, text.removeprefix(BLANK).strip()) for at, text in found if text.startswith(BLANK)]


def _all_strings(data: Json, where: str) -> list[tuple[str, str]]:
    try:
        return list(_strings(data))
    except RecursionError:
        raise TileproofError("the launch file is nested too deeply", where=where) from None


def _strings(data: Json, place: str = "") -> Iterator[tuple[str, str]]:
    """Each text of plain data, keys included, with its place."""
    if isinstance(data, str):
        yield place, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield f"{place} key", str(key)
            yield from _strings(value, f"{place}.{key}".removeprefix("."))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _strings(value, f"{place}[{number}]")


def dump(value: object) -> Json:
    """A value of the model as plain data; TileproofError for a Python function."""
    if isinstance(value, ArrayContent):
        value = InlineBytes(value.data.tobytes())
    if isinstance(value, HostCall):
        raise TileproofError(
            "a launch of a Python function cannot be written as JSON",
            expected="launches of PTX", found=repr(value.function)[:80],
        )  # fmt: skip
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out = {"kind": value.kind} if hasattr(value, "kind") else {}
        for field in _written(type(value)):
            item: object = getattr(value, field.name)
            if not _is_default(field, item):
                out[field.name] = dump(item)
        return out
    if isinstance(value, tuple | list):
        return [dump(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def load(kind: type[T], data: Json, where: str) -> T:
    """The value of a class of the model that plain data stand for."""
    return typing.cast(T, _load(kind, data, where))


def in_memory(kind: TypeForm) -> bool:
    """Whether a class of the model has no JSON form."""
    return bool(getattr(kind, "in_memory", False))


def _written(kind: TypeForm) -> list[dataclasses.Field[object]]:
    return [field for field in dataclasses.fields(kind) if field.type != "Path"]


def _default(field: dataclasses.Field[object]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _is_default(field: dataclasses.Field[object], item: object) -> bool:
    default = _default(field)
    return type(item) is type(default) and bool(item == default) and math.copysign(1, _sign(item)) > 0


def _sign(item: object) -> float:
    return item if isinstance(item, float) else 1.0


def _load(kind: TypeForm, data: Json, where: str) -> Json:
    origin: TypeForm = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _object(kind, data, where)
    if origin is typing.Literal:
        if data in arguments and isinstance(data, str):
            return data
        raise _wrong(where, " or ".join(map(repr, arguments)), data)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, data, where)
    if origin is tuple:
        if not isinstance(data, list):
            raise _wrong(where, "a list", data)
        if arguments[-1] is Ellipsis:
            return tuple(_load(arguments[0], element, f"{where}[{n}]") for n, element in enumerate(data))
        if len(data) != len(arguments):
            raise _wrong(where, f"{len(arguments)} entries", data)
        return tuple(
            _load(a, element, f"{where}[{n}]")
            for n, (a, element) in enumerate(zip(arguments, data, strict=True))
        )
    if kind is bytes:
        try:
            return base64.b64decode(data if isinstance(data, str) else "?", validate=True)
        except (binascii.Error, ValueError):
            raise _wrong(where, "bytes as base64", data) from None
    return _plain(kind, data, where)


def _plain(kind: TypeForm, data: Json, where: str) -> Json:
    if kind is float and data in _NO_NUMBERS:
        return float(data)
    wanted: TypeForm = int | float if kind is float else kind
    if not isinstance(data, wanted) or (isinstance(data, bool) and kind is not bool):
        raise _wrong(where, {"str": "a text", "int": "a whole number"}.get(kind.__name__, "a number"), data)
    return float(data) if kind is float else data


def _union(arguments: tuple[TypeForm, ...], data: Json, where: str) -> Json:
    classes = {
        argument.kind: argument
        for argument in arguments
        if hasattr(argument, "kind") and not in_memory(argument)
    }
    if classes:
        found = data.get("kind") if isinstance(data, dict) else None
        if found not in classes:
            raise _wrong(f"{where}.kind", " or ".join(map(repr, classes)), found)
        return _object(classes[found], data, where)
    if data is None and type(None) in arguments:
        return None
    plain = [argument for argument in arguments if argument is not type(None)]
    exact = next((argument for argument in plain if type(data) is argument), plain[-1])
    return _load(exact, data, where)


def _object(kind: TypeForm, data: Json, where: str) -> Json:
    if not isinstance(data, dict):
        raise _wrong(where, "an object", data)
    hints, fields = typing.get_type_hints(kind), {field.name: field for field in _written(kind)}
    known = [*fields, *(["kind"] if hasattr(kind, "kind") else [])]
    for name in data:
        if name not in known:
            raise _wrong(f"{where}.{name}", f"one of {', '.join(known)}", name)
    if hasattr(kind, "kind") and data.get("kind") != kind.kind:
        raise _wrong(f"{where}.kind", repr(kind.kind), data.get("kind"))
    for name, field in fields.items():
        if name not in data and _default(field) is dataclasses.MISSING:
            raise _wrong(f"{where}.{name}", "a value", "nothing")
    parts = {n: _load(hints[n], part, f"{where}.{n}") for n, part in data.items() if n != "kind"}
    try:
        return kind(**parts)
    except TileproofError as error:
        place = f"{where}: {error.where}" if error.where else where
        raise TileproofError(
            error.what, where=place, expected=error.expected, found=error.found, do=error.do
        ) from None


def _wrong(where: str, expected: str, found: object) -> TileproofError:
    return TileproofError(
        "a field of the launch file violates the schema",
        where=where, expected=expected, found=repr(found)[:80],
    )  # fmt: skip


# ---- the schema


def schema() -> UncheckedObject:
    """The JSON Schema of a launch file; each class is a definition with its docstring."""
    definitions: UncheckedObject = {}
    _schema(LaunchFile, definitions)
    whole = definitions["LaunchFile"]
    stated = {"schema": {"const": SCHEMA}, "schema_version": {"const": SCHEMA_VERSION}}
    whole["properties"] = {**stated, **whole["properties"]}
    whole["required"] = [*stated, *whole["required"]]
    return {
        "$schema": _DRAFT,
        "title": f"Tileproof launch file, schema version {SCHEMA_VERSION}",
        "$ref": "#/$defs/LaunchFile",
        "$defs": definitions,
    }


def _schema(kind: TypeForm, definitions: UncheckedObject) -> UncheckedObject:
    origin: TypeForm = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = _definition(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {
            "anyOf": [_schema(argument, definitions) for argument in arguments if not in_memory(argument)]
        }
    if origin is tuple:
        items = _schema(arguments[0], definitions)
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": items}
        return {"type": "array", "items": items, "minItems": len(arguments), "maxItems": len(arguments)}
    if kind is float:
        return {"anyOf": [{"type": "number"}, {"enum": list(_NO_NUMBERS)}]}
    if kind is bytes:
        return {"type": "string", "contentEncoding": "base64"}
    names = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
    return {"type": names[kind]}


def _definition(kind: TypeForm, definitions: UncheckedObject) -> UncheckedObject:
    hints, fields = typing.get_type_hints(kind), _written(kind)
    properties = {}
    for field in fields:
        properties[field.name] = _schema(hints[field.name], definitions)
        default = _default(field)
        if default is not dataclasses.MISSING:
            properties[field.name] = {**properties[field.name], "default": dump(default)}
    required = [field.name for field in fields if _default(field) is dataclasses.MISSING]
    if hasattr(kind, "kind"):
        properties = {"kind": {"const": kind.kind}, **properties}
        required = ["kind", *required]
    return {
        "type": "object",
        "description": " ".join((kind.__doc__ or "").split()),
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def rendered() -> str:
    """The schema's text, as the file holds it."""
    return json.dumps(schema(), indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the schema, or with --check return 1 if the file differs from the model."""
    return write_or_check("tileproof.kernels.launch.jsonform", PATH, rendered, arguments)


if __name__ == "__main__":
    sys.exit(main())
