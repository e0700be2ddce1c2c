"""Writes docs/commands.md, the help of every command: ``python -m tileproof.tools.pages.commands``; --check
compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from tileproof.conformance.cli.app import main as command_line
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.pages import write_or_check
from tileproof.spec.page import table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"
# What a person wants to do, and the commands for it.
GROUPS = {
    "Judge a kernel": ("judge", "check", "explore", "tensors", "locate"),
    "Bring a kernel": ("record", "inspect", "build"),
    "Gate a release": ("gate", "diff", "campaign"),
    "Find a cause": ("trace", "explain", "diagnose", "time"),
    "Test the tests": ("plant", "mutate", "synchronisation", "crosscheck"),
    "Look up": ("kernels", "stages", "defects", "instructions", "layout", "corpus", "vectors"),
}


def _text(words: str) -> str:
    """A help text as Markdown: its paragraphs, with placeholders of options as code."""
    paragraphs = [" ".join(part.split()) for part in words.replace("\b\n", "").split("\n\n")]
    return _linked("\n\n".join(paragraphs))


def _linked(words: str) -> str:
    """Words with the pages that they name as links, and without HTML."""
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", words.replace("<", r"\<"))


def _options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    rows = []
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        if option.hidden:
            continue
        if not option.help and option.name != "help":
            raise TileproofError("an option has no help", where=f"{command.name} {option.opts[0]}")
        name, words = option.get_help_record(context) or ("", "")
        if name.startswith("-h, ") or name == "--json":
            continue
        rows.append((f"`{name}`", _linked(re.sub(r"\s+", " ", words))))
    return rows


def section(name: str, command: click.Command) -> list[str]:
    """A command's usage, help and options; TileproofError for a missing help text."""
    if not command.help:
        raise TileproofError("a command has no help", where=f"tileproof {name}")
    context = click.Context(command, info_name=name)
    usage = " ".join(["tileproof", name, *command.collect_usage_pieces(context)])
    parts = [f"### {name}", f"`{usage}`", _text(command.help)]
    rows = _options(command, context)
    return [*parts, table(("option", "meaning"), rows)] if rows else parts


def page() -> str:
    """The page as Markdown; TileproofError for a command that no group has."""
    commands = {name: each for name, each in command_line.commands.items() if not each.hidden}
    grouped = [name for names in GROUPS.values() for name in names]
    if odd := set(commands) ^ set(grouped):
        raise TileproofError(
            "the groups do not fit the commands", where="GROUPS", found=", ".join(sorted(odd))
        )
    parts = [
        "# Command line",
        "Generated from the help of the commands by `python -m tileproof.tools.pages.commands`.",
        "The command is `tileproof`; in a checkout `.venv/bin/tileproof`. Most commands accept `--json`, "
        "which prints the result as JSON. Exit codes: 0 clean, 1 defect, 2 error, 3 incomplete.",
        table(
            ("to", "use"),
            [(title, ", ".join(f"[{name}](#{name})" for name in names)) for title, names in GROUPS.items()],
        ),
    ]
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += section(name, commands[name])
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk is stale."""
    return write_or_check("tileproof.tools.pages.commands", PAGE, page, arguments)


if __name__ == "__main__":
    sys.exit(main())
