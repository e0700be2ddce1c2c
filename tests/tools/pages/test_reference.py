"""docs/commands.md and docs/python.md are the help texts and docstrings; a missing text is an error."""

from __future__ import annotations

import click
import pytest
from tileproof.conformance.cli.app import main as command_line
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.pages import api, commands


def test_the_pages_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["--check"]) == 0, capsys.readouterr().err
    assert api.main(["--check"]) == 0, capsys.readouterr().err


def test_every_command_has_a_section() -> None:
    page = commands.page()
    for name, command in command_line.commands.items():
        assert command.hidden or f"### {name}\n" in page, name
    assert "`--expect REF.py[:FUNCTION]`" in page


def test_a_command_in_no_group_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(command_line.commands, "new", click.Command("new", help="New."))
    with pytest.raises(TileproofError, match="new"):
        commands.page()


def test_a_command_or_an_option_without_help_is_seen() -> None:
    with pytest.raises(TileproofError, match="tileproof new"):
        commands.section("new", click.Command("new"))
    option = click.Option(["--odd"])
    with pytest.raises(TileproofError, match="--odd"):
        commands.section("new", click.Command("new", help="New.", params=[option]))


class Undocumented:
    def method(self) -> None: ...


def test_a_public_name_without_a_docstring_is_seen() -> None:
    with pytest.raises(TileproofError, match="Undocumented"):
        api.documented("a.Undocumented", Undocumented)
    assert api.documented("a.page", api.page) == "The page as Markdown."
