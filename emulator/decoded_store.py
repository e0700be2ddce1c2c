"""Decoded programs on disk: decoding a large kernel takes half a second, loading its program milliseconds.

A program is named by a hash of all that decoding reads: the PTX without comments, the entry, the addresses
of variables, and the emulator's own Python sources and handlers. A file begins with the hash of its content,
so that a damaged file is decoded again; a folder that cannot be written costs only time.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from tileproof.emulator import _engine
from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import Parts
from tileproof.emulator.ptx import Entry, PtxModule
from tileproof.emulator.register_slots import RegisterFile
from tileproof.spec.machine.cache_folder import cache_root

MIN_CHARACTERS = 1 << 16  # of PTX in the entry: smaller entries are decoded faster than they are found
_DIGEST = 32  # bytes
_PLAIN = ("names", "sources", "local_bytes", "static_shared", "dynamic_align", "opcodes", "uses_pairs")


def parts(module: PtxModule, entry: Entry, variables: dict[str, int], workspace: int) -> Parts:
    """The parts of an entry, from the store or decoded. `variables`: the addresses of module variables.
    `workspace`: the address of a cooperative grid's workspace, else 0.

    Raises UnsupportedInstruction or PtxError as `Decoder.run` does; neither is stored.
    """
    if entry.body_end - entry.body_start < MIN_CHARACTERS:
        return Decoder(module, entry, variables, workspace).run()
    stated = [entry.name, sorted(variables.items()), workspace, sorted(module.function_addresses.items())]
    key = hashlib.sha256(_decoder())
    for text in (json.dumps(stated), module.text):
        key.update(hashlib.sha256(text.encode()).digest())
    file = cache_root() / "decoded" / key.hexdigest()[:32]
    if (found := _read(file)) is not None:
        return found
    made = Decoder(module, entry, variables, workspace).run()
    with contextlib.suppress(OSError):
        _write(file, made)
    return made


@cache
def _decoder() -> bytes:
    """A hash of what decodes: this package's sources, what they import of the spec, the engine's handlers."""
    own = Path(__file__).resolve().parent
    files = sorted([*own.rglob("*.py"), *(own.parent / "spec" / "machine").glob("*.py")])
    known = hashlib.sha256(json.dumps([np.__version__, sorted(_engine.handlers().items())]).encode())
    for path in files:
        known.update(hashlib.sha256(path.read_bytes()).digest())
    return known.digest()


def _write(file: Path, made: Parts) -> None:
    """Put a program there as a whole: other processes read the same folder."""
    plain: dict[str, object] = {name: getattr(made, name) for name in _PLAIN}
    plain |= {"specials": made.specials, "shared_symbols": made.shared_symbols, "size": made.registers.size}
    arrays: dict[str, np.ndarray] = {
        "code": made.code,
        "vec": made.vec,
        "constants": np.frombuffer(made.constants, np.uint8),
        "widths": np.frombuffer(made.registers.widths, np.uint8),
        "place": made.registers.place,
        "plain": np.frombuffer(json.dumps(plain).encode(), np.uint8),
    }
    raw = io.BytesIO()
    np.savez(raw, allow_pickle=False, **arrays)
    content = zlib.compress(raw.getvalue(), 1)
    file.parent.mkdir(parents=True, exist_ok=True)
    number, work = tempfile.mkstemp(prefix="writing-", dir=file.parent)
    try:
        with os.fdopen(number, "wb") as out:
            out.write(hashlib.sha256(content).digest() + content)
        os.replace(work, file)
    except OSError:
        os.unlink(work)
        raise


def _read(file: Path) -> Parts | None:
    """The stored program; None where there is none, or a damaged file."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
        return None
    with np.load(io.BytesIO(zlib.decompress(content[_DIGEST:])), allow_pickle=False) as arrays:
        plain = json.loads(arrays["plain"].tobytes())
        file_of = RegisterFile(arrays["place"], plain.pop("size"), arrays["widths"].tobytes())
        specials = [(slot, number) for slot, number in plain.pop("specials")]
        symbols = {name: (at, size) for name, (at, size) in plain.pop("shared_symbols").items()}
        return Parts(
            code=arrays["code"],
            vec=arrays["vec"],
            constants=arrays["constants"].tobytes(),
            registers=file_of,
            specials=specials,
            shared_symbols=symbols,
            **plain,
        )
