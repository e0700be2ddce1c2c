"""The README.md of each folder: `python -m tileproof.tools.pages.rooms` writes every README.md.

A room is a folder of Python modules. Its page holds the docstring of its `__init__`, and a row for each
module and each folder in it with the first sentence of their docstrings. Edit those, not the pages.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tileproof.spec.machine.pages import wrapped

ROOT = Path(__file__).resolve().parents[2]
HALLS = ("spec", "reference", "kernels", "emulator", "conformance", "ops", "tools")
# Folders whose pages are written by hand, because they are read in a certain order.
BY_HAND = ("reference",)


def rooms(root: Path = ROOT) -> Iterator[Path]:
    """Every folder with an `__init__.py` in the halls, but those whose page is written by hand."""
    for hall in HALLS:
        for found in sorted((root / hall).rglob("__init__.py")):
            if found.parent.relative_to(root).as_posix() not in BY_HAND:
                yield found.parent


def docstring(path: Path) -> str:
    """The docstring of a module, "" where it has none."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def first_sentence(text: str) -> str:
    """The first paragraph of a docstring up to its first full stop."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    head, stop, _ = paragraph.partition(". ")
    return head + "." if stop else paragraph


def page(room: Path, root: Path = ROOT) -> str:
    """The page of a room."""
    lines = [f"# {room.relative_to(root).as_posix()}/", ""]
    about = docstring(room / "__init__.py").strip()
    lines += [about, ""] if about else []
    rows = []
    for path in sorted(room.iterdir()):
        if path.is_dir() and (path / "__init__.py").exists():
            rows.append((f"[{path.name}/]({path.name}/README.md)", docstring(path / "__init__.py")))
        elif path.suffix == ".py" and path.name != "__init__.py":
            rows.append((f"`{path.name}`", docstring(path)))
    if rows:
        lines += ["| module | what it does |", "| --- | --- |"]
        lines += [f"| {name} | {first_sentence(text).replace('|', chr(92) + '|')} |" for name, text in rows]
        lines.append("")
    lines.append("Generated from the docstrings by `python -m tileproof.tools.pages.rooms`.")
    return wrapped("\n".join(lines) + "\n")


def stale(root: Path = ROOT) -> list[Path]:
    """The pages that are missing or differ from what would be written."""
    return [
        room / "README.md"
        for room in rooms(root)
        if not (room / "README.md").exists() or (room / "README.md").read_text("utf-8") != page(room, root)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write every page, or with --check return 1 and name the stale pages."""
    parser = argparse.ArgumentParser(prog="python -m tileproof.tools.pages.rooms", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 when a page is stale")
    if parser.parse_args(arguments).check:
        wrong = stale()
        for path in wrong:
            print(f"{path.relative_to(ROOT)} is stale", file=sys.stderr)
        return int(bool(wrong))
    for room in rooms():
        (room / "README.md").write_text(page(room), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
