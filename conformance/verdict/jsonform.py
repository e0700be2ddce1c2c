"""Dataclasses of a contract as JSON, read back strictly, and the JSON Schema of both.

msgspec, cattrs and pydantic cannot replace it: they take a field that is missing where it has a default, and
none reads "nan" in place of a number; pydantic alone takes 0.3 s to import.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json, TypeForm, UncheckedObject

T = TypeVar("T")
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def dump(value: object) -> Json:
    """A dataclass as plain data; what is no number in JSON (NaN, infinity) becomes its name, so that every
    reader can read it.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: dump(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): dump(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [dump(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def text(value: object) -> str:
    """The JSON text of a dataclass, one field per line."""
    return json.dumps(dump(value), indent=1, allow_nan=False) + "\n"


def load(
    path: Path,
    kind: type[T],
    name: str,
    version: int,
    what: str,
    upgrades: Mapping[int, Callable[[UncheckedObject], UncheckedObject]] | None = None,
) -> T:
    """The `kind` that a file holds; `name` and `version` are its schema's. `upgrades`: for each older version
    that is read, how its data become the next version's. TileproofError names what is wrong with a file that
    is unreadable, truncated, of another schema or of another version.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TileproofError(f"{what} cannot be read", where=str(path), found=str(error)) from None
    except json.JSONDecodeError as error:
        raise TileproofError(
            f"{what} is not valid JSON: the file is corrupt or truncated",
            where=f"{path}, line {error.lineno}",
            expected=name,
            found=error.msg,
        ) from None
    except RecursionError:
        raise TileproofError(
            f"{what} is not readable JSON", where=str(path), found="nested too deeply"
        ) from None
    if not isinstance(data, dict) or data.get("schema") != name:
        found = data.get("schema", "no schema") if isinstance(data, dict) else type(data).__name__
        raise TileproofError(f"{what} has another schema", where=str(path), expected=name, found=str(found))
    known = dict(upgrades or {})
    found_version = data.get("schema_version")
    while isinstance(at := data.get("schema_version"), int) and (step := known.pop(at, None)) is not None:
        try:
            data = step(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise TileproofError(
                f"{what} violates its schema",
                where=str(path),
                expected=f"{name}, version {found_version}",
                found=f"{type(error).__name__}: {error}",
            ) from None
    if data.get("schema_version") != version:
        raise TileproofError(
            f"{what} has another schema version",
            where=str(path),
            expected=" or ".join(map(str, [*(upgrades or {}), version])),
            found=str(found_version),
            do="generate it again with this version of Tileproof",
        )
    return parse(kind, data, str(path))


def parse(kind: type[T], data: Json, where: str) -> T:
    """The value of type `kind` that plain data stand for; TileproofError names the first field that does
    not.
    """
    return typing.cast(T, _parse(kind, data, where))


def _parse(kind: TypeForm, data: Json, where: str) -> Json:
    origin: TypeForm = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, data, where)
    if origin is typing.Literal:
        if data in arguments and type(data) in {type(argument) for argument in arguments}:
            return data
        raise _wrong(where, " or ".join(map(repr, arguments)), data)
    if origin in (typing.Union, types.UnionType):
        if data is None and type(None) in arguments:
            return None
        return _parse(next(argument for argument in arguments if argument is not type(None)), data, where)
    if origin is tuple:
        if not isinstance(data, list):
            raise _wrong(where, "a list", data)
        return tuple(_parse(arguments[0], item, f"{where}[{n}]") for n, item in enumerate(data))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise _wrong(where, "an object", data)
        return {key: _parse(arguments[1], item, f"{where}.{key}") for key, item in data.items()}
    if kind is float and data in ("nan", "inf", "-inf"):
        return float(data)
    fits = isinstance(data, int | float if kind is float else kind) and (
        kind is bool or not isinstance(data, bool)
    )
    if not fits:
        raise _wrong(where, kind.__name__, data)
    return float(data) if kind is float else data


def _dataclass(kind: TypeForm, data: Json, where: str) -> Json:
    if not isinstance(data, dict):
        raise _wrong(where, "an object", data)
    hints, fields = typing.get_type_hints(kind), {f.name: f for f in dataclasses.fields(kind)}
    if unknown := sorted(set(data) - set(fields)):
        raise _wrong(f"{where}.{unknown[0]}", f"one of {', '.join(fields)}", unknown[0])
    if missing := [name for name in fields if name not in data]:
        raise _wrong(f"{where}.{missing[0]}", "a value", "nothing")
    return kind(**{name: _parse(hints[name], part, f"{where}.{name}") for name, part in data.items()})


def _wrong(where: str, expected: str, found: object) -> TileproofError:
    return TileproofError(
        "a field violates the schema", where=where, expected=expected, found=repr(found)[:80]
    )


def schema(kind: TypeForm, title: str) -> UncheckedObject:
    """The JSON Schema of a dataclass; each class in it is a definition with its docstring."""
    definitions: UncheckedObject = {}
    _schema(kind, definitions)
    return {"$schema": DRAFT, "title": title, "$ref": f"#/$defs/{kind.__name__}", "$defs": definitions}


def _schema(kind: TypeForm, definitions: UncheckedObject) -> UncheckedObject:
    origin: TypeForm = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            hints = typing.get_type_hints(kind)
            fields = [f.name for f in dataclasses.fields(kind)]
            definitions[kind.__name__] = {
                "type": "object",
                "description": " ".join((kind.__doc__ or "").split()),
                "properties": {name: _schema(hints[name], definitions) for name in fields},
                "required": fields,
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(argument, definitions) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if kind is float:
        return {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}
    names = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
    return {} if kind is Any else {"type": names[kind]}
