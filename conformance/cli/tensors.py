"""`tileproof tensors`: tensors that a card or a program dumped, compared with the reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
from tileproof.conformance.cli.include import include_option
from tileproof.conformance.cli.options import JSON_FILE, group, option, options
from tileproof.conformance.cli.stopping import stoppable
from tileproof.conformance.cli.views import ViewOptions, write_views
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.base import ProblemType


@dataclass(frozen=True)
class TensorOptions:
    """Options of `tileproof tensors`."""

    problem: str = option(
        "--problem", metavar="NAME|KERNEL", required=True,
        help="The problem type (docs/tensors.md), or a kernel that computes it, such as a path to a "
        "kernel.py.",
    )  # fmt: skip
    convention: str | None = option(
        "--convention", metavar="NAME",
        help="Names and shapes of another project, such as flashmla or flash-attention (docs/tensors.md).",
    )  # fmt: skip
    mapping: tuple[str, ...] = option(
        "--map", "mapping", multiple=True, metavar="NAME=THEIRS",
        help="The name of a tensor in the dump, such as kv=keys (repeatable).",
    )  # fmt: skip
    scalars: tuple[str, ...] = option(
        "--set", "scalars", multiple=True, metavar="NAME=VALUE",
        help="A scalar argument of the kernel, such as sm_scale=0.0417 (repeatable).",
    )  # fmt: skip
    lse_base: str | None = option(
        "--lse-base", type=click.Choice(["2", "e"]), help="The base of lse, unless the convention defines it."
    )
    layout: str | None = option(
        "--layout",
        metavar="NAME",
        help="The order of axes, such as BSHD or THD (default: of the convention).",
    )
    strides: tuple[str, ...] = option(
        "--strides", multiple=True, metavar="ENTRY=SHAPE:STRIDES",
        help="An entry of the dump as a tensor of this shape and these strides, in elements, such as "
        "k=2,16,64:1024,64,1; @FIRST after it: the first element (repeatable).",
    )  # fmt: skip
    rounding: str | None = option(
        "--rounding", metavar="KERNEL|PLAN",
        help="The kernel's rounding: that of a plan (`tileproof kernels`), or words such as "
        "operand=f16,late,rows=bf16 (docs/tensors.md).",
    )  # fmt: skip
    ignore: tuple[str, ...] = option(
        "--ignore",
        multiple=True,
        metavar="NAME",
        help="An entry of the dump that is not judged (repeatable).",
    )
    tokens: int | None = option(
        "--tokens", "--groups", "tokens", type=click.IntRange(1),
        help="Number of query tokens to compare (dense attention: KV heads; products: blocks of rows): the "
        "first, the last, and others drawn by --seed. Default: all.",
    )  # fmt: skip
    seed: int = option(
        "--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the drawn tokens."
    )
    json_path: str | None = option(JSON_FILE)
    views: ViewOptions = group(ViewOptions)


@click.command()
@click.argument("dump", metavar="DUMP", type=click.Path(path_type=Path))
@include_option("tileproof_dump.cuh")
@options(TensorOptions)
def tensors(dump: Path, given: TensorOptions) -> int:
    """Compare dumped tensors with the float64 reference, stage by stage; no kernel is run.

    DUMP is a .safetensors, .npz or .pt file, or a folder of .npy files: all inputs of the problem, and any
    of its stages and outputs, or parts of them, named like P[3, 0:64, 128:192]. Each stage is computed from
    the stages before it that the dump holds.

    Exit code 0: clean; 1: a defect; 2: the dump could not be compared; 3: interrupted.
    """
    from tileproof.conformance.check.stopped import Stopped
    from tileproof.conformance.cli.judge import print_verdict
    from tileproof.conformance.report import terminal as text
    from tileproof.conformance.tensors.files import read
    from tileproof.conformance.tensors.judging import judge_tensors
    from tileproof.conformance.tensors.named import named
    from tileproof.conformance.tensors.strided import with_strides

    kind = rounded(problem_of(given.problem), given.rounding)
    with stoppable(), text.Progress(0) as progress:
        progress.start("reading the dump")
        known = named(
            kind,
            with_strides(read(dump), pairs("--strides", given.strides)),
            convention=given.convention,
            mapping=pairs("--map", given.mapping),
            scalars=numbers(pairs("--set", given.scalars)),
            lse_base=given.lse_base,
            layout=given.layout,
            ignore=given.ignore,
        )
        made = judge_tensors(
            kind,
            known,
            dump.name,
            groups=given.tokens,
            seed=given.seed,
            progress=progress.start,
            interrupts=(KeyboardInterrupt, Stopped),
        )
    write_views([made], given.views)
    return print_verdict(made, given.json_path)


def problem_of(name: str) -> ProblemType:
    """The problem type of this name, or that of the kernel of this name or at this path."""
    from tileproof.kernels import registry
    from tileproof.kernels.outside import looks_like_a_path
    from tileproof.spec.problems import problem_type, problem_types

    if name not in problem_types() and (looks_like_a_path(name) or registry.known(name)):
        name = registry.kernel(name).variants[0].problem
    return problem_type(name)


def rounded(problem: ProblemType, kernel: str | None) -> ProblemType:
    """The problem as the plan of a kernel rounds it."""
    if kernel is None:
        return problem
    if "=" in kernel or kernel in ("late", "forward"):
        return problem.rounded_as(kernel)
    from tileproof.kernels import registry
    from tileproof.spec.problems import problem_type

    found = registry.kernel(kernel)
    plans = {variant.problem: problem_type(variant.problem) for variant in found.variants}
    for plan in plans.values():
        if type(plan) is type(problem) and _inputs(plan) == _inputs(problem):
            return plan
    raise TileproofError(
        "the kernel computes a different problem", where="--rounding", expected=f"a kernel of {problem.name}",
        found=f"{kernel}: {', '.join(plans)}",
    )  # fmt: skip


def _inputs(problem: ProblemType) -> list[tuple[str, tuple[str, ...]]]:
    """The inputs that a dump has, and their dtypes."""
    forms = () if problem.tensors is None else problem.tensors.forms
    return [(form.name, form.dtypes) for form in forms if form.role == "input"]


def pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE options as a mapping."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise TileproofError("not NAME=VALUE", where=option, expected="such as kv=keys", found=text)
        if name in found:
            raise TileproofError("a name is given twice", where=option, found=name)
        found[name] = value
    return found


def numbers(given: dict[str, str]) -> dict[str, float]:
    numbers = {}
    for name, value in given.items():
        try:
            numbers[name] = float(value)
        except ValueError:
            raise TileproofError("not a number", where=f"--set {name}", found=value) from None
    return numbers
