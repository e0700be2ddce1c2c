"""Commands and Python that pages show: ``python -m tileproof.tools.site.shown [PAGE...]``.

`executed` runs the code blocks of a page; some need what this machine lacks, and commands also stand in
lines and inline code. Here every `tileproof` command and its options exist, modules that `python -m` names
exist, Python compiles, and what it imports from this package exists. Exit 1 where something does not.
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
from tileproof.tools.site.executed import GENERATED, blocks, every_page

_FENCES = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_OUTSIDE = (
    re.compile(r"^ {4,}(?:replay: )?(tileproof .*)$", re.MULTILINE),
    re.compile(r"`((?:\.venv/bin/)?(?:tileproof|python -m tileproof\.) ?[^`\n]+)`"),
)
_WORKFLOW = re.compile(r"^ +- run: (tileproof .*)$", re.MULTILINE)
_ENDS = ("|", ";", "&&", ">", "--")


def _words(text: str) -> Iterator[list[str]]:
    """The words of each command of a text: continued lines joined; comments, pipes and prompts left out."""
    for line in text.replace("\\\n", " ").split("\n"):
        line = line.strip().removeprefix("$ ").removesuffix("...")
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue  # a text that goes on, or output
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        ends = [at for at, word in enumerate(words) if word in _ENDS or word.endswith(",")]
        if words := words[: ends[0]] if ends else words:
            yield words


def commands(page: str) -> list[list[str]]:
    """The words of each command that a page shows: in blocks, indented lines, inline code, workflows."""
    text = re.sub(r"there is no `[^`]+`", "", _FENCES.sub("", page).replace("\\\n", " "))
    shown = [block.content for block in blocks(page) if block.language in ("sh", "console", "bash")]
    shown += [match for pattern in _OUTSIDE for match in pattern.findall(text)]
    shown += _WORKFLOW.findall(page)
    return [words for part in shown for words in _words(part)]


def _wrong(words: Sequence[str]) -> str:
    """Why `tileproof` does not take these words; "" where it does. Files need not exist."""
    name, *rest = words
    if name.startswith("-"):
        return ""
    command = command_line.commands.get(name)
    if command is None:
        return f"tileproof has no command {name}"
    if any(word in ("...", "…") or ("[" in word and "=" not in word) for word in rest):
        return ""
    try:
        command.make_context(name, list(rest))
    except click.exceptions.Exit:
        return ""
    except click.exceptions.BadParameter as error:
        placeholder = any(word.isupper() or "ID" in word or "." in word or "$" in word for word in rest)
        if placeholder or isinstance(error.param, click.Argument):
            return ""
        return f"tileproof {name}: {error.format_message()}"
    except click.UsageError as error:
        return f"tileproof {name}: {error.format_message()}"
    return ""


def _command(words: Sequence[str]) -> str:
    program = Path(words[0]).name
    if program == "tileproof":
        return _wrong(words[1:]) if len(words) > 1 else ""
    if words[1:2] == ["-m"] and program.startswith("python") and len(words) > 2:
        name = words[2]
        if name.startswith(("tileproof.", "tests.")) and not _there(name):
            return f"no module {name}"
    return ""


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
    """What a page shows that does not exist."""
    found = [wrong for words in commands(page) if (wrong := _command(words))]
    for block in blocks(page):
        if block.language == "python":
            found += _python(block.content)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong; exit 1 if something is."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    pages = [Path(name) for name in given] or [page for page in every_page() if page.name not in GENERATED]
    wrong = [f"{path.name}: {each}" for path in pages for each in problems(path.read_text(encoding="utf-8"))]
    for line in wrong:
        print(line, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
