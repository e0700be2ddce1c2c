"""Evidence files (docs/evidence): measurements on cards. Every reader and writer of them goes through here.

A file whose name ends in `.xz` is compressed, any other is plain text. Results of more than 100 lines are
stored compressed; `xzcat FILE` prints them.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

from tileproof.spec.machine.types import Json

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "evidence"


def read_text(path: Path | str) -> str:
    """The text of an evidence file; a relative path lies in docs/evidence.

    Raises FileNotFoundError, or lzma.LZMAError where a `.xz` file is damaged.
    """
    data = (FOLDER / path).read_bytes()
    return (lzma.decompress(data) if Path(path).suffix == ".xz" else data).decode()


def read_json(path: Path | str) -> Json:
    """The value of an evidence file in JSON; errors as of `read_text` and json.loads."""
    return json.loads(read_text(path))


def write_text(path: Path, text: str) -> None:
    """Write an evidence file as a whole: a reader beside it finds the old text or the new."""
    data = text.encode()
    scratch = path.with_name(f"{path.name}.new")
    scratch.write_bytes(lzma.compress(data, preset=9) if path.suffix == ".xz" else data)
    scratch.replace(path)


def write_json(path: Path, value: Json) -> None:
    """Write an evidence file in JSON."""
    write_text(path, json.dumps(value, indent=1) + "\n")
