"""Writes outputs and captured stages of a run as `.npy` files, with an index."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.types import Array, JsonObject

INDEX = "index.json"


def write_arrays(run: RunResult, folder: Path) -> None:
    """Writes NAME.npy of each output and capture, and `index.json`: dtype, shape, captures' moments.

    Types that numpy does not know (bfloat16, float8) are written as unsigned integers of their size; the
    index has their name. NAME.written.npy says which elements were written, where not all were.
    """
    index: JsonObject = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, output in run.outputs.items():
            index[name] = _array(folder, name, output.values, output.written)
        for name, stage in run.stages.items():
            index[name] = _array(folder, name, stage.value, stage.written) | {
                "captures": [
                    {"launch": moment.launch, "cta": list(moment.cta), "phase": moment.phase}
                    for moment in stage.moments
                ]
            }
        (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")
    except OSError as error:
        raise TileproofError("arrays cannot be written", where=str(folder), found=str(error)) from None


def _array(folder: Path, name: str, array: Array, written: Array) -> JsonObject:
    file = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    own = array.dtype.isbuiltin == 1
    np.save(folder / f"{file}.npy", array if own else array.view(f"u{array.dtype.itemsize}"))
    entry: JsonObject = {"file": f"{file}.npy", "dtype": array.dtype.name, "shape": list(array.shape)}
    if not written.all():
        np.save(folder / f"{file}.written.npy", written)
        entry["written"] = f"{file}.written.npy"
    return entry
