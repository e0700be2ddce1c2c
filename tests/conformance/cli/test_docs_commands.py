"""The commands that README and docs show exist, with their options; pictures are what they draw."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main

from tests.kit.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_STARTS = re.compile(r"(?:^|[\s`$(])(?:\.venv/bin/)?tileproof ((?:[a-z]|'|--)[^\n`]*)")
_MODULES = re.compile(r"python -m (tileproof\.[\w.]+)")


def commands(text: str) -> list[list[str]]:
    """The words of each shown command, without comments and pipes; those with an ellipsis are left out."""
    text = re.sub(r"there is no `[^`]+`", "", text.replace("\\\n", " "))
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    shown = [line for block in blocks for line in block.splitlines()]
    shown += [line for line in text.splitlines() if re.match(r" {4,}(?:replay: )?tileproof ", line)]
    shown += re.findall(r"`((?:\.venv/bin/)?tileproof [^`\n]+)`", text)
    shown += re.findall(r"^ +- run: (tileproof .*)$", text, re.MULTILINE)
    found = []
    for line in shown:
        if match := _STARTS.search(f" {line}"):
            line = re.split(r"\s#\s|\s{2,}#| \| | > |;", match[1])[0]
            if "[" not in line and "..." not in line and ", tileproof" not in line:
                found.append(shlex.split(line))
    return found


def wrong(words: list[str]) -> str:
    """Why the command line does not take these words; empty when it does. Files need not exist."""
    name, *rest = words
    command = main.commands.get(name)
    if command is None:
        return "" if name in ("--help", "-h") and not rest else f"no command {name}"
    try:
        command.make_context(name, list(rest))
    except click.exceptions.Exit:
        return ""
    except click.exceptions.BadParameter as error:
        placeholder = any(word.isupper() or "ID" in word or "." in word for word in rest)
        return "" if placeholder or isinstance(error.param, click.Argument) else error.format_message()
    except click.UsageError as error:
        return error.format_message()
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page(page: Path) -> None:
    text = page.read_text()
    assert [f"{' '.join(words)}: {why}" for words in commands(text) if words and (why := wrong(words))] == []
    for module in _MODULES.findall(text):
        _, folder, *rest = module.rstrip(".").split(".")
        path = ROOT.joinpath(folder, *rest)
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists() or path.is_dir(), module


def test_the_commands_are_found_and_wrong_ones_seen() -> None:
    assert sum(len(commands(page.read_text())) for page in PAGES) > 60
    text = "    tileproof check head64 -j 0   # all\n```sh\ntileproof trace k --out a.json | less\n```\n"
    assert commands("      - run: tileproof gate launch.json --odd\n") == [["gate", "launch.json", "--odd"]]
    assert commands(text) == [["trace", "k", "--out", "a.json"], ["check", "head64", "-j", "0"]]
    assert wrong(["check", "head64", "--no-such-option"]) and wrong(["chekc"])
    assert not wrong(["check", "head64", "-j", "0"])


def test_pictures_of_layouts_are_what_their_commands_draw(tmp_path: Path) -> None:
    drawn = [
        words for words in commands((ROOT / "docs" / "layouts.md").read_text()) if words[-1].endswith(".svg")
    ]
    assert {words[-1] for words in drawn} == {path.name for path in (ROOT / "docs").glob("*.svg")}
    for *words, name in drawn:
        assert CliRunner().invoke(main, [*words, str(tmp_path / name)]).exit_code == 0
        assert (tmp_path / name).read_text() == (ROOT / "docs" / name).read_text(), " ".join([*words, name])
