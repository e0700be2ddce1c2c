"""Messages between two processes: JSON, and arrays of numbers beside it as bytes. Nothing is unpickled."""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array, Json, UncheckedObject

Arrays = Mapping[str, Array]
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
)  # fmt: skip
MAX_JSON, MAX_ARRAYS = 1 << 28, 1 << 33  # bytes of one message
_HEAD = struct.Struct("<QQ")
_PIECE = 1 << 20


class NoMessage(Exception):
    """The other side closed the connection, or sent what is no message; the text says which."""


@dataclass(frozen=True)
class Message:
    """What a process sends to another."""

    body: UncheckedObject
    arrays: Arrays = field(default_factory=dict)


def send(to: socket.socket, message: Message, deadline: float | None = None) -> None:
    """Sends a message; `TimeoutError` after `deadline` (of `time.monotonic`), TileproofError where it is too
    large or an array has another dtype than `DTYPES`.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in message.arrays.items()}
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise TileproofError(
                "the array's type cannot be sent",
                where=name,
                expected=", ".join(DTYPES),
                found=str(array.dtype),
            )
    forms = [[name, array.dtype.name, list(np.shape(message.arrays[name]))] for name, array in arrays.items()]
    text = json.dumps({"body": message.body, "arrays": forms}).encode()
    size = sum(array.nbytes for array in arrays.values())
    if len(text) > MAX_JSON or size > MAX_ARRAYS:
        raise TileproofError(
            "the message is too large",
            expected=f"at most {MAX_JSON} bytes of JSON and {MAX_ARRAYS} of arrays",
            found=f"{len(text)} and {size} bytes",
        )  # fmt: skip
    raw = [array.tobytes() for array in arrays.values()]
    for part in (_HEAD.pack(len(text), size), text, *raw):
        _limit(to, deadline)
        to.sendall(part)


def receive(source: socket.socket, deadline: float | None = None) -> Message:
    """The next message; `TimeoutError` after `deadline`, `NoMessage` where there is none."""
    json_bytes, array_bytes = _HEAD.unpack(_exactly(source, _HEAD.size, deadline))
    if json_bytes > MAX_JSON or array_bytes > MAX_ARRAYS:
        raise NoMessage(
            f"it announced an answer of {json_bytes} bytes of JSON and {array_bytes} bytes of arrays"
        )
    try:
        whole = json.loads(_exactly(source, json_bytes, deadline))
        body, forms = whole["body"], whole["arrays"]
        if not isinstance(body, dict):
            raise TypeError(f"{type(body).__name__} instead of an object")
        sizes = [_form(*form) for form in forms]
        if sum(sizes) != array_bytes:
            raise ValueError(f"{array_bytes} bytes for arrays of {sum(sizes)}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NoMessage(f"its answer was not a message: {error}") from None
    raw, arrays, at = memoryview(_exactly(source, array_bytes, deadline)), {}, 0
    for (name, dtype, shape), size in zip(forms, sizes, strict=True):
        arrays[name] = np.frombuffer(raw[at : at + size], dtype).reshape(shape)
        at += size
    return Message(body, arrays)


def _form(name: Json, dtype: Json, shape: Json) -> int:
    """The bytes of an array of this form."""
    if not isinstance(name, str) or dtype not in DTYPES or not isinstance(shape, list) or len(shape) > 32:
        raise ValueError("an array of another form")
    if not all(type(extent) is int and 0 <= extent <= MAX_ARRAYS for extent in shape):
        raise ValueError("an array of another shape")
    return math.prod(shape) * np.dtype(dtype).itemsize


def _exactly(source: socket.socket, size: int, deadline: float | None) -> bytearray:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        _limit(source, deadline)
        got = source.recv_into(view[at : at + _PIECE])
        if not got:
            raise NoMessage("")
        at += got
    return found


def _limit(end: socket.socket, deadline: float | None) -> None:
    if deadline is None:
        end.settimeout(None)
        return
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    end.settimeout(remaining)
