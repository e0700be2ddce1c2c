"""A skeleton launch file for PTX: what the PTX defines, and a blank for each value that only the host has."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from tileproof.conformance.launches.parameters import EntryUse, ParameterUse, uses
from tileproof.emulator import Module
from tileproof.emulator.inspect import EntryInfo, ParameterInfo
from tileproof.emulator.ptx import parse_module
from tileproof.kernels.launch.arguments import MAP_BYTES, PTX_TYPES
from tileproof.kernels.launch.jsonform import BLANK
from tileproof.kernels.launch.model import SCHEMA, SCHEMA_VERSION
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.types import JsonObject, JsonValue

_FLOATS = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
_SEED = 1  # of the first input's drawn values


def skeleton(ptx: Path, entry: str | None = None, beside: Path | None = None) -> JsonObject:
    """The launch file of one entry of `ptx` as plain data, blanks marked; it names the PTX relative to the
    folder `beside` (by default the PTX's own).

    TileproofError without PTX, for an unknown entry, or for several entries if none is named.
    """
    module = Module.from_file(ptx)
    info = _entry(ptx, module, entry)
    parsed = parse_module(ptx.read_text())
    use = uses(parsed, parsed.entries[info.name])
    made = _Skeleton(info, use)
    path = os.path.relpath(ptx, beside or ptx.parent)
    return {
        "schema": SCHEMA, "schema_version": SCHEMA_VERSION, "name": _word(info.name),
        "modules": [{"name": "m", "code": {"kind": "ptx file", "path": path}}],
        "buffers": made.buffers,
        "steps": [{"kind": "launch", "entry": info.name, **made.shape(), "arguments": made.arguments}],
        **({"barriers": made.barriers()} if use.barriers else {}),
    }  # fmt: skip


def text(data: Mapping[str, JsonValue]) -> str:
    """The JSON text of a skeleton."""
    return json.dumps(data, indent=1) + "\n"


def _entry(ptx: Path, module: Module, name: str | None) -> EntryInfo:
    entries = module.inspect().entries
    known = ", ".join(info.name for info in entries) or "none"
    if name is None and len(entries) == 1:
        return entries[0]
    for info in entries:
        if info.name == name:
            return info
    raise TileproofError(
        "the PTX has several kernels" if name is None and entries else "the PTX has no such kernel",
        where=str(ptx), expected=f"--entry, one of: {known}", found=name or f"{len(entries)} kernels",
        do=did_you_mean(name or "", [info.name for info in entries]),
    )  # fmt: skip


class _Skeleton:
    """The parts of a skeleton. Buffers are added as arguments name them."""

    def __init__(self, info: EntryInfo, use: EntryUse) -> None:
        self.info, self.use = info, use
        self.buffers: list[JsonObject] = []
        self.arguments = [self._argument(parameter) for parameter in info.parameters]

    def shape(self) -> JsonObject:
        """Grid, block, cluster and dynamic shared memory."""
        stated = self.info.directives
        max_block = stated.get("maxntid")
        hint = f"; .maxntid allows {_by(max_block)} at most" if max_block else ""
        block = (
            list(stated["reqntid"]) if "reqntid" in stated else [_blank(f"threads of a CTA: x, y, z{hint}")]
        )
        out: JsonObject = {"grid": [_blank("CTAs of the launch: x, y, z")], "block": block}
        if cluster := stated.get("reqnctapercluster"):
            out["cluster"] = list(cluster)
            out["grid"] = [_blank(f"CTAs of the launch: x, y, z, a multiple of the cluster {_by(cluster)}")]
        elif "explicitcluster" in stated:
            out["cluster"] = [_blank("CTAs of a cluster: x, y, z (.explicitcluster)")]
        if self.info.dynamic_shared:
            out["shared_bytes"] = _blank("bytes of dynamic shared memory")
        return out

    def barriers(self) -> list[JsonObject]:
        """The mbarriers that shared variables are."""
        return [{"name": _word(symbol), "place": {"symbol": symbol}} for symbol in self.use.barriers]

    def _argument(self, parameter: ParameterInfo) -> JsonObject:
        if parameter.name in self.use.maps or (
            parameter.bytes == MAP_BYTES and parameter.address_taken and not parameter.read
        ):
            return self._map(parameter)
        pieces = sorted(
            (piece for (name, _), piece in self.use.pieces.items() if name == parameter.name),
            key=lambda piece: piece.offset,
        )
        if parameter.bytes <= 8 and len(pieces) <= 1:
            return self._item(parameter.name, pieces[0] if pieces else None, parameter.bytes)
        end = 0
        items: list[JsonValue] = []
        for piece in pieces:
            if piece.offset >= end:  # the first of several loads of the same bytes
                name = f"{parameter.name}+{piece.offset}"
                items.append({"offset": piece.offset, "item": self._item(name, piece, piece.bytes)})
                end = piece.offset + piece.bytes
        if parameter.address_taken:
            items.append(
                _blank(f"{parameter.name} is also read by computed addresses: an item for each offset")
            )
        return {"kind": "struct", "size": parameter.bytes, "items": items}

    def _item(self, name: str, piece: ParameterUse | None, size: int) -> JsonObject:
        if piece is not None and piece.is_pointer:
            return {"kind": "pointer", "buffer": self._buffer(name, piece)}
        if piece is not None and size == 8 and not piece.type.startswith("f"):
            return {
                "kind": "scalar", "type": "u64", "name": _word(name),
                "value": _blank(f"{name}: a number; if a pointer, write a pointer argument and its buffer"),
            }  # fmt: skip
        type_ = piece.type if piece is not None and piece.type in PTX_TYPES else f"u{8 * size}"
        unread = "" if piece is not None else "; the kernel does not read it, so any value will do"
        return {
            "kind": "scalar", "type": type_, "name": _word(name),
            "value": _blank(f"the value of {name}, {size} bytes{unread}"),
        }  # fmt: skip

    def _buffer(self, name: str, piece: ParameterUse) -> str:
        """Adds the buffer that a pointer points to, and returns its name."""
        accessed = piece.loads | piece.stores | piece.atomics
        known = {_FLOATS[type_] for type_ in accessed if type_ in _FLOATS}
        kinds = ", ".join(sorted(accessed))
        dtype = known.pop() if len(known) == 1 else _blank(f"element type of {name}, accessed as {kinds}")
        role = "input" if not piece.stores and not piece.atomics else "inout"
        role = "output" if piece.stores and not piece.loads and not piece.atomics else role
        made = self._named(name)
        self._add(made, dtype, role, f"the shape of the buffer that {name} points to")
        return made

    def _map(self, parameter: ParameterInfo) -> JsonObject:
        use = self.use.maps.get(parameter.name)
        ranks = sorted(use.ranks) if use else []
        rank = f"; the copies are {' and '.join(f'{n}d' for n in ranks)}" if ranks else ""
        made = self._named(parameter.name)
        role = (
            "output" if use and use.stores and not use.loads else "inout" if use and use.stores else "input"
        )
        self._add(
            made, _blank(f"element type of the tensor map {parameter.name}"), role,
            f"the shape of the buffer of the tensor map {parameter.name}",
        )  # fmt: skip
        return {
            "kind": "tensor map", "buffer": made,
            "shape": [_blank(f"elements of each dimension, innermost first{rank}")],
            "strides": [] if ranks == [1] else [_blank("bytes between neighbours, for dimensions 1 and up")],
            "box": [_blank("elements of a copy's box, innermost first")],
            **({} if ranks == [1] else {"swizzle": _blank("none, 32B, 64B or 128B")}),
        }  # fmt: skip

    def _add(self, name: str, dtype: str, role: str, shape: str) -> None:
        content: JsonObject = {}
        if role != "output":
            drawn: JsonObject = {"kind": "normal", "seed": _SEED + len(self.buffers)}
            floats = dtype in _FLOATS.values()
            words = f'the content of {name}, such as {{"kind": "normal", "seed": 1}} (docs/judging.md)'
            content = {"content": drawn if floats else _blank(words)}
        self.buffers.append({"name": name, "dtype": dtype, "shape": [_blank(shape)], "role": role, **content})

    def _named(self, name: str) -> str:
        taken = {buffer["name"] for buffer in self.buffers}
        made, number = _word(name), 2
        while made in taken:
            made, number = f"{_word(name)}_{number}", number + 1
        return made


def _blank(what: str) -> str:
    return f"{BLANK} {what}"


def _word(name: str) -> str:
    """A name as an identifier of Python, since references take buffers and scalars by name."""
    return re.sub(r"\W+", "_", name).strip("_") or "kernel"


def _by(extents: tuple[int, ...]) -> str:
    return " x ".join(map(str, extents))
