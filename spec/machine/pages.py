"""Pages of docs/: prose wrapped, generated parts between markers, the command line of generated pages."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

WIDTH = 110
_FENCE = re.compile(r"\s*(```|~~~|\$\$)")
_ALONE = re.compile(r"\s*(\||#|<|!\[[^]]*\]\([^)]*\)$|\[[^]]+\]: )")  # a table's row, a heading, HTML, a link
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_MARK = re.compile(r"(?:[-*+#>|]|\d+[.)])(?:\s|$)")  # what would begin something else at the start of a line
_HELD = "\x00"  # a blank that is no place for a line to end


def wrapped(page: str, width: int = WIDTH) -> str:
    """A page of Markdown, its paragraphs and list items with a line longer than `width` wrapped anew; code,
    formulas, tables, headings and HTML stay as they are, and so does a paragraph with a forced line break.
    """
    out: list[str] = []
    for block, prose in _blocks(page.split("\n")):
        out += _folded(block, width) if prose and any(len(line) > width for line in block) else block
    return "\n".join(out)


def unwrapped(page: str, width: int = WIDTH) -> list[int]:
    """The numbers of the lines, from 1, that are longer than `width`: prose, and code too. The row of a table
    and a formula stand on one line, ```text and <pre> quote what a command prints, a word cannot be wrapped.
    """
    found, quoted = [], False
    for number, line in enumerate(page.split("\n"), 1):
        if line.startswith("```"):
            quoted = not quoted and line.split()[0] == "```text"
        elif line in ("<pre>", "</pre>"):
            quoted = line == "<pre>"
        unbreakable = quoted or line.startswith(("|", "$$")) or " " not in line.strip()
        if len(line) > width and not unbreakable:
            found.append(number)
    return found


def _blocks(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """The page in pieces: paragraphs and list items whole (True), every other line alone."""
    block: list[str] = []
    fence, listed, preformatted = "", False, False
    for line in lines:
        preformatted = (preformatted or line == "<pre>") and line != "</pre>"
        mark = None if preformatted else _FENCE.match(line)
        code = not block and not listed and line.startswith(("    ", "\t"))
        alone = bool(fence or mark or code or preformatted or not line.strip() or _ALONE.match(line))
        if alone or _ITEM.match(line):
            if block:
                yield block, True
            block = []
        if alone:
            yield [line], False
        else:
            block.append(line)
        if mark and not (line.strip().count("$$") == 2 and mark[1] == "$$"):
            fence = "" if mark[1] == fence else fence or mark[1]
        if line.strip() and not fence:  # a list goes on until something stands at the margin again
            listed = bool(_ITEM.match(line)) or (listed and (line.startswith(" ") or bool(block[:-1])))
    if block:
        yield block, True


def _folded(block: list[str], width: int) -> list[str]:
    if any(line.endswith(("  ", "\\")) for line in block[:-1]):
        return block
    item = _ITEM.match(block[0])
    first = item[0] if item else block[0][: len(block[0]) - len(block[0].lstrip())]
    rest = " " * len(first)
    text = " ".join([block[0][len(first) :].strip(), *(line.strip() for line in block[1:])])
    text = re.sub(r"`[^`]{1,60}`", lambda code: code[0].replace(" ", _HELD), text)
    while True:
        lines = textwrap.wrap(
            text,
            width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        wrong = next((line.strip() for line in lines[1:] if _MARK.match(line.strip())), None)
        if wrong is None:
            return [line.replace(_HELD, " ") for line in lines]
        text = text.replace(f" {wrong}", f"{_HELD}{wrong}", 1)


def marked(name: str, lines: Sequence[str], by: str) -> str:
    """A generated part of a page with its markers; `by`: the program that writes it."""
    return "\n".join([f"<!-- {name}: written by {by} -->", *lines, f"<!-- end of {name} -->"])


def part(text: str, name: str) -> str:
    """What stands on a page between the markers of a part, with them; ValueError when they are not there."""
    start = text.index(f"<!-- {name}:")
    end = f"<!-- end of {name} -->"
    return text[start : text.index(end) + len(end)]


def written(text: str, parts: Mapping[str, Sequence[str]], by: str) -> str:
    """A page with the lines of these parts; ValueError when it lacks a marker."""
    for name, lines in parts.items():
        text = text.replace(part(text, name), marked(name, lines, by))
    return text


def write_or_check(
    module: str, path: Path, text: Callable[[], str], arguments: Sequence[str] | None = None
) -> int:
    """Write `text()`, a page wrapped, to the file, or with --check return 1 if the file on disk differs.

    `module` is what `python -m` runs, `path` the file unless --output names another.
    """
    place = f"{path.parent.name}/{path.name}"
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=f"Write {place}.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 when the file is stale")
    parser.add_argument("--output", type=Path, default=path, help=f"the file (default: {place})")
    options = parser.parse_args(arguments)
    page = wrapped(text()) if path.suffix == ".md" else text()
    if not options.check:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(page, encoding="utf-8")
        return 0
    if options.output.exists() and options.output.read_text(encoding="utf-8") == page:
        return 0
    print(f"{options.output} is stale; run python -m {module}", file=sys.stderr)
    return 1
