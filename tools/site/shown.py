"""Code blocks that are shown and not executed: ``python -m tileproof.tools.site.shown [PAGE...]``.

Their commands take minutes, need sources of others, a card, or data of the reader. What can be checked is
checked: `tileproof` commands and their options exist, modules that `python -m` names exist, Python compiles,
and what it imports from this package exists. Exit 1 where something does not.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import click
from tileproof.conformance.cli.app import main as command_line
from tileproof.tools.site.contents import ROOT

_BLOCK = re.compile(r"^```(sh|console|bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^    (tileproof .*)$", re.MULTILINE)
_GENERATED = {"docs/python.md"}  # signatures, from the sources themselves


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a block: continued lines joined; comments, prompts and pipes left out."""
    for line in text.replace("\\\n", " ").split("\n"):
        line = line.strip().removeprefix("$ ")
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue  # a text that goes on, or output
        ends = [at for at, word in enumerate(words) if word in ("|", ";", "&&", ">", "--")]
        yield words[: ends[0]] if ends else words


def _option(words: Sequence[str]) -> str:
    """What is wrong with a `tileproof` command."""
    name, *rest = words or [""]
    if name.startswith("-"):
        return ""
    command = command_line.commands.get(name)
    if command is None:
        return f"tileproof has no command {name}"
    if any(word in ("...", "…") or word.startswith("[") for word in rest):
        return ""
    try:
        command.make_parser(click.Context(command)).parse_args(list(rest))
    except click.UsageError as error:
        return f"tileproof {name}: {error.format_message()}"
    return ""


def _shell(text: str) -> Iterator[str]:
    for words in commands(text):
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words[:1] == ["tileproof"]:
            if wrong := _option(words[1:]):
                yield wrong
        elif words[1:2] == ["-m"] and words[0].startswith("python") and len(words) > 2:
            name = words[2]
            if name.startswith(("tileproof.", "tests.")) and not _there(name):
                yield f"no module {name}"


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()


def _python(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError as error:
        yield f"Python does not compile: {error}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tileproof"):
            try:
                module = importlib.import_module(str(node.module))
            except ImportError as error:
                if str(error.name).startswith("tileproof"):
                    yield f"no module {node.module}"
                continue  # an extra that is not installed
            for alias in node.names:
                if not hasattr(module, alias.name) and not _there(f"{node.module}.{alias.name}"):
                    yield f"{node.module} has no {alias.name}"


def problems(page: str) -> list[str]:
    """What is wrong with the blocks of a page that are not executed."""
    found: list[str] = []
    for block in _BLOCK.finditer(page):
        found += _python(block[2]) if block[1] == "python" else _shell(block[2])
    for line in _INDENTED.findall(page):
        found += _shell(line)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong; exit 1 if something is."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    pages = [Path(name) for name in given] or [
        path
        for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
        if str(path.relative_to(ROOT)) not in _GENERATED
    ]
    wrong = [f"{path.name}: {each}" for path in pages for each in problems(path.read_text(encoding="utf-8"))]
    for line in wrong:
        print(line, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
