"""The ledger of draws: a file with a line of JSON per draw: its source and its score."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path

from tileproof.conformance.beside.mutate.score import row
from tileproof.conformance.gate.store import CannotWrite
from tileproof.spec.machine.types import JsonObject, JsonValue

DATE = "date"


def enter(path: Path, numbers: Mapping[str, JsonValue], **of: JsonValue) -> bool:
    """Appends a draw (`of`: what it is of) with today's date, and says so. One that has its line already,
    with the same score, gets no second one: a draw that is gone on with is the same draw.

    CannotWrite where the file cannot be read or written.
    """
    line = row(numbers, **{DATE: datetime.date.today().isoformat(), **of})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        known = path.read_bytes() if path.exists() else b""
        if any(_undated(old) == _undated(line) for old in known.split(b"\n")):
            return False
        cut = known and not known.endswith(b"\n")  # by a full disk, say
        with path.open("ab") as file:
            file.write(b"\n" * bool(cut) + line.encode() + b"\n")
    except OSError as error:
        raise CannotWrite(
            "the ledger of draws cannot be written",
            where=str(path),
            found=error.strerror or str(error),
            do="free space, or give another file, and continue with --resume",
        ) from None
    return True


def _undated(line: bytes | str) -> JsonObject | None:
    try:
        data = json.loads(line)
    except ValueError:
        return None
    return {name: value for name, value in data.items() if name != DATE} if isinstance(data, dict) else None
