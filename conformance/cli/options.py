"""Options of commands: a dataclass declares them, and a command takes one object of it.

    @dataclass(frozen=True)
    class CheckOptions:
        examples: int = option("--examples", default=100, help="Problems per variant.")
        strict: bool = option(STRICT)

    @click.command()
    @options(CheckOptions)
    def check(given: CheckOptions) -> int: ...

The shared declarations of this file have the same name, type and help in every command.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import field, fields
from functools import wraps
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])
Declaration = Callable[[Callable[..., object]], Callable[..., object]]

PLANT = click.option("--plant", metavar="ID", help="Plant a defect first (see `tileproof defects`).")
STRICT = click.option(
    "--strict", is_flag=True, help="Apply the PTX ISA strictly: some findings become more severe."
)
RACES = click.option(
    "--races/--no-races", default=True, show_default=True,
    help="Check that conflicting accesses are ordered (docs/races.md).",
)  # fmt: skip
ALLOW = click.option(
    "--allow", multiple=True, metavar="CODE[:PLACE]",
    help="Accept this finding of the machine; it is listed, but is not a defect (repeatable).",
)  # fmt: skip
MMA = click.option(
    "--mma", default="fast", show_default=True, type=click.Choice(["fast", "exact"]),
    help="Tensor core: blocked f32 product, or its block arithmetic bit for bit.",
)  # fmt: skip
JSON_FILE = click.option(
    "--json", "json_path", metavar="FILE|-", help="Write the verdict as JSON (-: standard output)."
)
RESUME = click.option("--resume", is_flag=True, help="Continue from the results in --out.")
SECONDS_LIMIT = click.option(
    "--seconds-limit", default=0.0, metavar="SECONDS", type=click.FloatRange(0),
    help="Stop a launch that runs longer, with a finding; 0 for no limit.",
)  # fmt: skip


def json_option(about: str = "The result") -> Declaration:
    """Return the flag `--json`, with the parameter `as_json`; `about` starts its help text."""
    return click.option("--json", "as_json", is_flag=True, help=f"{about} as JSON on standard output.")


def jobs_option(about: str, default: int, more: str = "") -> Declaration:
    """Return the option `--jobs`, a positive number; its help text is `about`, the meaning of 0, `more`."""
    return click.option(
        "-j", "--jobs", default=default, show_default=True, type=click.IntRange(0),
        callback=lambda _context, _option, number: number or os.cpu_count() or 1,
        help=f"{about}; 0 for one per core.{more}",
    )  # fmt: skip


def option(declaration: str | Declaration, *names: str, **attributes: Any) -> Any:  # noqa: ANN401
    """Return the field of an option: of a shared declaration, or of the arguments of `click.option`."""
    if isinstance(declaration, str):
        declaration = click.option(declaration, *names, **attributes)
    return field(metadata={"option": declaration})


def group(of: type) -> Any:  # noqa: ANN401
    """Return the field of a group of options: a dataclass of them."""
    return field(metadata={"group": of})


def options(of: type) -> Callable[[Command], Command]:
    """Add the options of the dataclass `of`, and pass their values as the argument `given`."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_options(*args: object, **values: object) -> object:
            return command(*args, given=_taken(of, values), **values)

        decorated: Callable[..., object] = with_options
        for declaration in reversed(list(_declarations(of))):
            decorated = declaration(decorated)
        return decorated  # type: ignore[return-value]

    return decorate


def _declarations(of: type) -> Iterator[Declaration]:
    for each in fields(of):
        if "group" in each.metadata:
            yield from _declarations(each.metadata["group"])
        else:
            yield each.metadata["option"]


def _taken(of: type, values: dict[str, object]) -> object:
    """Return an object of `of`; its options leave `values`."""
    return of(**{
        each.name: _taken(each.metadata["group"], values)
        if "group" in each.metadata
        else values.pop(each.name)
        for each in fields(of)
    })  # fmt: skip
