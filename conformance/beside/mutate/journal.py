"""The results of a draw, saved as they arrive, so that an interrupted draw can resume.

A file of JSON lines: the first identifies the draw, each other line is a result. It holds for one kernel
and variant, one PTX, seed, profile, choice of operators and state of the tool; a larger count continues the
same draw.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.judged import Judgement
from tileproof.conformance.gate.store import CannotWrite
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json, UncheckedObject

SCHEMA = "tileproof-mutate-draw"
SCHEMA_VERSION = 2


class Journal:
    """The file of one draw. `done` has its results by number. A file of another draw is rejected; a
    truncated line is reported in `notes`, and its mutant is judged again.
    """

    def __init__(self, path: Path, of: Mapping[str, Json], drawn: Sequence[Drawn]) -> None:
        self.path = path
        self.done: dict[int, Judgement] = {}
        self.notes: list[str] = []
        head = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **json.loads(json.dumps(of))}
        try:
            if path.exists() and path.stat().st_size:
                self._read(head, {mutant.number: mutant for mutant in drawn})
                self._file = path.open("ab")
                if not path.read_bytes().endswith(b"\n"):
                    self._file.write(b"\n")
            else:
                self._file = path.open("wb")
                self._line(head)
        except OSError as error:
            raise self._unwritable(error) from None

    def _read(self, head: Mapping[str, Json], drawn: Mapping[int, Drawn]) -> None:
        lines = self.path.read_bytes().split(b"\n")
        found = _parsed(lines[0])
        if found is None or found.get("schema") != SCHEMA:
            raise TileproofError(
                "not a file of saved results of a draw",
                where=str(self.path),
                expected=SCHEMA,
                do="give --resume another file",
            )
        other = [name for name in head if found.get(name) != head[name]]
        if other:
            raise TileproofError(
                "the saved results belong to another draw",
                where=str(self.path),
                expected=", ".join(f"{name} {head[name]}" for name in other),
                found=", ".join(f"{name} {found.get(name)}" for name in other),
                do="give --resume another file",
            )
        for number, line in enumerate(lines[1:], 2):
            if not line.strip():
                continue
            row = _parsed(line)
            try:
                assert row is not None
                n, what = row.pop("number"), row.pop("what")
                row["findings"] = tuple(row["findings"])
                if row["becomes"] is not None:
                    operator, edits = row["becomes"]
                    row["becomes"] = (operator, tuple((line, text) for line, text in edits))
                if n in drawn and drawn[n].what == what:
                    self.done[n] = Judgement(drawn[n], **row)
            except (AssertionError, KeyError, TypeError):
                self.notes.append(f"{self.path}, line {number} is truncated: its mutant is judged again")

    def judged(self, drawn: Sequence[Drawn], fresh: Iterator[Judgement]) -> Iterator[Judgement]:
        """The results of `drawn` in order: known results, and the results of `fresh`, which has the others
        in the same order; each is flushed to disk before it is yielded.
        """
        for mutant in drawn:
            if mutant.number in self.done:
                yield self.done[mutant.number]
                continue
            judgement = next(fresh)
            row = {**asdict(judgement), "number": mutant.number, "what": mutant.what}
            del row["drawn"]
            try:
                self._line(row)
            except OSError as error:
                raise self._unwritable(error) from None
            yield judgement

    def _line(self, data: Mapping[str, Json]) -> None:
        self._file.write(json.dumps(data, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _unwritable(self, error: OSError) -> CannotWrite:
        return CannotWrite(
            "the results cannot be written",
            where=str(self.path),
            found=f"{error.strerror}; {len(self.done)} results were saved",
            do="free space, or give --resume another file",
        )

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


def _parsed(line: bytes) -> UncheckedObject | None:
    try:
        data = json.loads(line)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
