"""Errors about a path that a user gave: what was found, what is expected, and the likely name."""

from __future__ import annotations

from pathlib import Path

from tileproof.spec.machine.errors import TileproofError, did_you_mean

MANY = 8  # names of a folder that a message shows
PTX = "PTX"  # what `described` calls it


def missing(path: Path, expected: str) -> TileproofError:
    """The error for a path where nothing lies; names of its folder that are like it are offered."""
    folder = path.parent
    if not folder.is_dir():
        return TileproofError(
            "there is no such file", where=str(path), expected=expected,
            found=f"no folder {folder}", do=_meant(str(folder), _names(folder.parent), folder.parent),
        )  # fmt: skip
    return TileproofError(
        "there is no such file", where=str(path), expected=expected,
        found=f"nothing at this path; {contents(folder)}",
        do=_meant(path.name, _names(folder), folder),
    )  # fmt: skip


def require_file(path: Path, expected: str) -> None:
    """TileproofError where no file lies at a path."""
    if not path.exists():
        raise missing(path, expected)
    if path.is_dir():
        raise TileproofError("this is a folder", where=str(path), expected=expected, found=contents(path))


def described(file: Path) -> str:
    """What a file is, in a few words: from its first bytes."""
    try:
        with file.open("rb") as opened:
            head = opened.read(1024)
    except OSError as error:
        return str(error.strerror or error)
    if not head:
        return "an empty file"
    for magic, what in (
        (b"\x7fELF", "an ELF file (a cubin?)"),
        (b"PK", "a zip archive"),
        (b"\x93NUMPY", ".npy"),
    ):
        if head.startswith(magic):
            return what
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return f"a binary file that begins with {head[:8].hex(' ')}"
        text = head[: error.start].decode("utf-8")
    if "\0" in text:
        return f"a binary file that begins with {head[:8].hex(' ')}"
    if ".version" in text and ".target" in text:
        return PTX
    return f"text that begins with {text.splitlines()[0][:40]!r}" if text.strip() else "an empty text"


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def contents(folder: Path) -> str:
    """What a folder holds, in a few words."""
    names = [name for name in _names(folder) if not name.startswith(".")]
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f"the folder {folder} holds {', '.join(names[:MANY]) or 'nothing'}{more}"


def _meant(name: str, names: list[str], folder: Path) -> str:
    return did_you_mean(Path(name).name, names, lambda name: str(folder / name))
