"""The options that choose a kernel's variants."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from tileproof.kernels.target import Target
from tileproof.kernels.variant import Variant, parse_sizes, select
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.cases import AnyCase

Command = Callable[..., Any]


def variant_options(command: Command) -> Command:
    """Adds `--variant` and `--d-qk`, which arrive as one `variant`; TileproofError when they contradict."""

    @wraps(command)
    def with_variant(*args: Any, variant: str | None, d_qk: str | None = None, **given: Any) -> Any:
        return command(*args, variant=_together(variant, d_qk), **given)

    short = click.option("--d-qk", metavar="N|all", help="Short for --variant d_qk=N.")(with_variant)
    return click.option(
        "--variant",
        metavar="SIZES",
        help="Only variants of these sizes, such as d_qk=576 (see `kernels`).",
    )(short)


def _together(variant: str | None, d_qk: str | None) -> str | None:
    if d_qk is None or d_qk == "all":
        return variant
    if not d_qk.isdigit():
        raise TileproofError("this is no width", where="--d-qk", expected="a number or all", found=d_qk)
    sizes = {} if variant is None else parse_sizes(variant)
    if sizes.setdefault("d_qk", int(d_qk)) != int(d_qk):
        raise TileproofError("two different widths", where="--variant, --d-qk", found=f"{variant}, {d_qk}")
    return ",".join(f"{name}={value}" for name, value in sizes.items())


def chosen(target: Target, variant: str | None) -> tuple[Variant, ...]:
    """The variants that the options ask for, all without any; TileproofError names those there are."""
    return select(target.name, target.variants, {} if variant is None else parse_sizes(variant))


def one_chosen(target: Target, variant: str | None, case: AnyCase | None = None) -> Variant:
    """The first of them, or the one that a case was made for."""
    return target.variant(**case.sizes()) if case is not None else chosen(target, variant)[0]
