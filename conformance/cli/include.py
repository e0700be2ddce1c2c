"""`--include`: the folder of the headers that a user's kernel includes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])


def include_option(header: str) -> Callable[[Command], Command]:
    """The option of a command that reads what `header` writes."""
    return click.option(
        "--include", is_flag=True, is_eager=True, expose_value=False, callback=_print_folder,
        help=f"Print the folder of {header} and exit.",
    )  # fmt: skip


def _print_folder(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        import tileproof.kernels

        click.echo(Path(next(iter(tileproof.kernels.__path__))) / "include")
        context.exit()
