"""Compares tensor maps written by this machine's driver with the table of an H200's driver.

    python -m tileproof.tools.card.maps

Repeats the calls of docs/evidence/2026-11-22-h200-tensor-maps.jsonl.xz, from which
`spec/machine/tensor_map_bytes.py` was read. What this card takes and an H200 refused (packed types, wide
atoms) is recorded with its bytes. Needs libcuda.so.1 and a card: the driver encodes in a context only.
"""

from __future__ import annotations

import ctypes
import json
from collections import Counter
from collections.abc import Callable, Iterable

from tileproof.spec.machine.types import UncheckedObject
from tileproof.tools import evidence
from tileproof.tools.card.row import Answer
from tileproof.tools.silicon.tensor_map_bytes import Call, encoded

TABLE = "2026-11-22-h200-tensor-maps.jsonl.xz"
MAX_SHOWN, MAX_NEW = 20, 400


def context() -> ctypes.CDLL:
    """The driver with a context; OSError without libcuda.so.1, RuntimeError where a call fails."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, made = ctypes.c_int(), ctypes.c_void_p()
    for name, *arguments in (
        ("cuInit", 0),
        ("cuDeviceGet", ctypes.byref(device), 0),
        ("cuDevicePrimaryCtxRetain", ctypes.byref(made), device),
        ("cuCtxSetCurrent", made),
    ):
        if code := getattr(cuda, name)(*arguments):
            raise RuntimeError(f"{name} returned {code}")
    return cuda


def compare(rows: Iterable[UncheckedObject], encode: Callable[[Call], tuple[int, str]]) -> Answer:
    """The answer of the row: each call of the table again, by `encode`."""
    counts = Counter[str]()
    differ, new = [], []
    for row in rows:
        code, data = encode(row)
        if code == row["result"] and (code or data == row["bytes"]):
            counts["the same"] += 1
        elif row["result"] and not code:
            counts["taken here only"] += 1
            new.append([row, data])
        else:
            counts["differ"] += 1
            differ.append([row, code, data])
    found: UncheckedObject = {"calls": dict(counts)}
    if new:
        found["taken here only"] = new[:MAX_NEW]
    if differ:
        found["differ"] = differ[:MAX_SHOWN]
        return Answer("differs", f"{len(differ)} of {counts.total()} calls", found)
    return Answer("as expected", data=found)


def main() -> None:
    """Print the answer of the row."""
    try:
        cuda = context()
    except (OSError, RuntimeError) as error:
        Answer("not run", f"no CUDA card: {error}").print()
        return
    table = [json.loads(line) for line in evidence.read_text(TABLE).splitlines()[1:]]
    compare(table, lambda call: encoded(cuda, call)).print()


if __name__ == "__main__":
    main()
