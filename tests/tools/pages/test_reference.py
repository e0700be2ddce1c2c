"""docs/commands.md and docs/python.md are the help texts and docstrings; a missing text is an error."""

from __future__ import annotations

import inspect

import click
import numpy as np
import numpy.typing as npt
import pytest
from tileproof.conformance.cli.app import main as command_line
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.pages import api, commands, docstrings, formats


def test_the_pages_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["--check"]) == 0, capsys.readouterr().err
    assert api.main(["--check"]) == 0, capsys.readouterr().err
    assert formats.main(["--check"]) == 0, capsys.readouterr().err


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
    assert api.documented("a.page", commands.page) == inspect.getdoc(commands.page)


def _checked(size: int) -> None:
    if size < 0:
        raise TileproofError("below 0")


class Documented:
    """A record."""

    offset: int

    def rows(self, x: npt.NDArray[np.float32]) -> None:
        """Take rows."""

    def shaped(self, x: npt.NDArray[np.float32]) -> None:
        """Take `x [rows, columns]`."""

    def typed(self, x: npt.NDArray[np.float32]) -> None:
        """Take `x`, float32."""

    def given(self, x: npt.NDArray[np.float32]) -> None:
        """Take `x [rows, columns]`, float32."""

    def direct(self) -> None:
        """Do it."""
        raise TileproofError("never")

    def through(self) -> None:
        """Do it."""
        _checked(1)

    def told(self) -> None:
        """Do it; TileproofError for a size below 0."""
        _checked(1)

    def formula(self) -> None:
        """Met with probability 1 / points^(depth - 1)."""

    def sourced(self) -> None:
        """Met with probability 1 / points^(depth - 1) (Burckhardt et al., ASPLOS 2010)."""


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("rows", ["no shape of x", "no dtype of x"]),
        ("shaped", ["no dtype of x"]),
        ("typed", ["no shape of x"]),
        ("given", []),
        ("direct", ["no sentence about TileproofError"]),
        ("through", ["no sentence about TileproofError"]),
        ("told", []),
        ("formula", ["a formula without its source"]),
        ("sourced", []),
    ],
)
def test_what_a_docstring_does_not_state_is_seen(name: str, lacks: list[str]) -> None:
    function = getattr(Documented, name)
    found = docstrings.lacking(name, function, inspect.getdoc(function) or "")
    assert found == [f"{name}: {lack}" for lack in lacks]


def test_a_size_without_its_unit_is_seen() -> None:
    assert docstrings.lacking("a", Documented, "A record.") == ["a: no unit of offset"]
    assert docstrings.lacking("a", Documented, "A record at byte `offset`.") == []


def test_the_page_is_not_written_while_a_docstring_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    assert api.problems() == []
    monkeypatch.setattr(api, "problems", lambda: ["a.b: no shape of x"])
    with pytest.raises(TileproofError, match="no shape of x"):
        api.page()
