"""Saves results as they arrive: a JSON line per finished check, so that no result is lost."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from tileproof.conformance.verdict import jsonform
from tileproof.conformance.verdict.contract import CheckOutcome, PlantedControl
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.types import Json, JsonObject

SCHEMA_VERSION = 3


class CannotWrite(TileproofError):
    """A full disk or an unwritable folder: later results cannot be saved either, so callers that continue
    after other faults end with this error.
    """


@dataclass(frozen=True)
class RunIdentity:
    """The identity of a run: results of another run are not its own. `programs`: the PTX's SHA-256 of each
    kernel variant.
    """

    profile: str
    seed: int
    strict: bool
    planted: str
    programs: Mapping[str, str]
    tool_commit: str
    tool_changed: bool
    schema: Literal["tileproof-gate-run"] = "tileproof-gate-run"
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class StoredResult:
    """One finished check of the variant `gated` ("": of the release), and how long it took. `executed` is
    packed (`pack`).
    """

    gated: str
    check: CheckOutcome
    findings: tuple[Finding, ...] = ()
    controls: tuple[PlantedControl, ...] = ()
    executed: str = ""
    schedules: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """What names the result in its run."""
        return f"{self.gated}: {self.check.name}"


def pack(executed: bytes) -> str:
    """The bytes of `RunResult.executed` as text."""
    return base64.b64encode(zlib.compress(executed, 9)).decode() if executed else ""


def unpack(text: str) -> bytes:
    """The bytes again."""
    return zlib.decompress(base64.b64decode(text)) if text else b""


class ResultStore:
    """The file of one run. `notes` lists lines of an earlier part that could not be read."""

    def __init__(self, path: Path, identity: RunIdentity, resume: bool) -> None:
        self.path = path
        self.done: dict[str, StoredResult] = {}
        self.notes: list[str] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if resume and path.exists():
                self._read(identity)
                self._file = path.open("ab")
                self._end_line()
            else:
                self._file = path.open("wb")
                self._line(jsonform.dump(identity))
        except OSError as error:
            raise _unwritable(path, error, self.done) from None

    def _read(self, identity: RunIdentity) -> None:
        lines = self.path.read_bytes().split(b"\n")
        head = self._parsed(lines[0])
        found = None if head is None else head.get("schema")
        if head is None or found != identity.schema:
            raise TileproofError(
                "not the results of a gate run",
                where=str(self.path),
                expected=identity.schema,
                found=str(found),
                do="run without --resume, or give another --out",
            )
        if head.get("schema_version") != SCHEMA_VERSION:
            raise TileproofError(
                "the results have another schema version",
                where=str(self.path),
                expected=str(SCHEMA_VERSION),
                found=str(head.get("schema_version")),
                do="run without --resume",
            )
        before = jsonform.parse(RunIdentity, head, f"{self.path}, line 1")
        if before != identity:
            names = [n for n, v in asdict(identity).items() if getattr(before, n) != v]
            raise TileproofError(
                "the saved results belong to another run",
                where=str(self.path),
                expected=", ".join(f"{n} {getattr(identity, n)}" for n in names),
                found=", ".join(f"{n} {getattr(before, n)}" for n in names),
                do="run without --resume, or give another --out",
            )
        for number, line in enumerate(lines[1:], 2):
            if not line.strip():
                continue
            data = self._parsed(line)
            try:
                stored = jsonform.parse(StoredResult, data, f"{self.path}, line {number}")
                unpack(stored.executed)
            except (TileproofError, ValueError, zlib.error):
                self.notes.append(f"{self.path}, line {number} is truncated or corrupt: its check runs again")
                continue
            self.done[stored.key] = stored

    @staticmethod
    def _parsed(line: bytes) -> JsonObject | None:
        try:
            data = json.loads(line)
        except ValueError:
            return None
        return data if isinstance(data, dict) else None

    def _end_line(self) -> None:
        """Closes a line that was cut off, so that the next result has one of its own."""
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            self._file.write(b"\n")

    def _line(self, data: Json) -> None:
        self._file.write(json.dumps(data, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def add(self, stored_result: StoredResult) -> None:
        """Writes a finished check through to the disk; TileproofError when it cannot."""
        self.done[stored_result.key] = stored_result
        try:
            self._line(jsonform.dump(stored_result))
        except OSError as error:
            raise _unwritable(self.path, error, self.done) from None

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


def _unwritable(path: Path, error: OSError, done: Mapping[str, object]) -> CannotWrite:
    saved = f"; {len(done)} results were saved" if done else ""
    return CannotWrite(
        "the results cannot be written",
        where=str(path),
        found=f"{error.strerror}{saved}",
        do="free space, or give another folder with --out, and continue with --resume",
    )


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keeps other gates out of a folder of evidence; TileproofError where another gate writes to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise _unwritable(folder, error, {}) from None
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TileproofError(
                "another gate writes to this folder", where=str(folder),
                do="wait until it has ended, or give another folder with --out",
            ) from None  # fmt: skip
        yield
    finally:
        os.close(opened)


def write_whole(path: Path, text: str) -> None:
    """Writes a file in one step, so that a full disk leaves the old one whole; TileproofError when it
    cannot.
    """
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise CannotWrite(
            "the evidence cannot be written", where=str(path), found=str(error.strerror or error)
        ) from None
