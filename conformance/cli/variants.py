"""The options that select variants of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import click
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.variant import Variant, parse_sizes, select
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.cases import AnyCase

Command = Callable[..., object]


def variant_options(command: Command) -> Command:
    """Add `--variant` and `--d-qk`, combined as the argument `variant`; TileproofError on contradiction."""

    @wraps(command)
    def with_variant(*args: object, variant: str | None, d_qk: str | None = None, **given: object) -> object:
        return command(*args, variant=_sizes_text(variant, d_qk), **given)

    short = click.option("--d-qk", metavar="N|all", help="Short for --variant d_qk=N.")(with_variant)
    return click.option(
        "--variant",
        metavar="SIZES",
        help="Only variants of these sizes, such as d_qk=576 (see `kernels`).",
    )(short)


def _sizes_text(variant: str | None, d_qk: str | None) -> str | None:
    if d_qk is None or d_qk == "all":
        return variant
    if not d_qk.isdigit():
        raise TileproofError("not a width", where="--d-qk", expected="a number or all", found=d_qk)
    sizes = {} if variant is None else parse_sizes(variant)
    if sizes.setdefault("d_qk", int(d_qk)) != int(d_qk):
        raise TileproofError("two different widths", where="--variant, --d-qk", found=f"{variant}, {d_qk}")
    return ",".join(f"{name}={value}" for name, value in sizes.items())


def chosen(kernel: Kernel, variant: str | None) -> tuple[Variant, ...]:
    """Return the selected variants, by default all; the TileproofError lists the existing variants."""
    return select(kernel.name, kernel.variants, {} if variant is None else parse_sizes(variant))


def one_chosen(kernel: Kernel, variant: str | None, case: AnyCase | None = None) -> Variant:
    """Return the first selected variant, or the variant of a case."""
    return kernel.variant_of_case(case) if case is not None else chosen(kernel, variant)[0]
