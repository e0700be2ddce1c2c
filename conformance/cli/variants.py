"""The options that choose a kernel's variants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from tileproof.kernels.target import Target
from tileproof.kernels.variant import Variant, parse_sizes, select
from tileproof.spec.machine.errors import TileproofError

Command = Callable[..., Any]


def variant_options(command: Command) -> Command:
    """Adds `--variant` and `--d-qk`, which arrive as `variant` and `d_qk`."""
    command = click.option("--d-qk", metavar="N|all", help="Short for --variant d_qk=N.")(command)
    return click.option(
        "--variant",
        metavar="SIZES",
        help="Only variants of these sizes, such as d_qk=576 (see `kernels`).",
    )(command)


def chosen(target: Target, variant: str | None, d_qk: str | None) -> tuple[Variant, ...]:
    """The variants that the options ask for, all without any; TileproofError names those there are."""
    sizes = {} if variant is None else parse_sizes(variant)
    if d_qk not in (None, "all"):
        assert d_qk is not None
        if not d_qk.isdigit():
            raise TileproofError("this is no width", where="--d-qk", expected="a number or all", found=d_qk)
        if sizes.setdefault("d_qk", int(d_qk)) != int(d_qk):
            raise TileproofError(
                "two different widths", where="--variant, --d-qk", found=f"{variant}, {d_qk}"
            )
    return select(target.name, target.variants, sizes)


def one_chosen(target: Target, variant: str | None, d_qk: str | None, case: Any = None) -> Variant:
    """The first of them, or the one that a case was made for."""
    return target.variant(**case.sizes()) if case is not None else chosen(target, variant, d_qk)[0]
