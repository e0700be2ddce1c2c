"""Kernels that are Python functions of this process: the image that stands for one, and its launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt
from tileproof.kernels.compile import Built
from tileproof.kernels.edit import Edit
from tileproof.kernels.launch import Buffer, Launch
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

HOST = "host"  # the architecture of such a kernel's target
Outputs = Mapping[str, npt.NDArray[Any]]


def need_torch() -> None:
    """TileproofError that names the extra where torch is not installed; blocks are small, so one thread."""
    try:
        import torch
    except ImportError as error:
        raise TileproofError(
            "this kernel is a function of torch, which is not installed", where="torch", found=str(error),
            do="pip install 'tileproof[oracle]' (in a checkout: make setup)",
        ) from None  # fmt: skip
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)


@dataclass(frozen=True)
class HostFunction:
    """The image of a kernel without PTX. Planted edits are those of Python modules (`Place`)."""

    prefix = ""
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, init=False)

    def entry(self, owner: str, variant: Variant, probe: bool) -> str:
        return owner

    def build(
        self,
        owner: str,
        variant: Variant,
        plan: KernelPlan,
        probe: bool,
        edits: Sequence[Edit],
        overrides: Mapping[str, str],
    ) -> Built:
        if overrides or any(one.place.kind != "module" for one in edits):
            raise TileproofError("this kernel is a Python function: it has no PTX to change", where=owner)
        return Built(owner, "", Path(), None, "")


@dataclass(frozen=True)
class Call(Launch):
    """A launch of a Python function. `call` writes into the outputs by name; what it leaves untouched counts
    as not written. `fresh`: it makes whole outputs of its own, so that one call says all.
    """

    call: Callable[[Outputs], None] = field(default=lambda outputs: None, compare=False, repr=False)
    fresh: bool = False


def call(
    built: Built,
    inputs: Mapping[str, npt.NDArray[Any] | None],
    outputs: Iterable[Buffer],
    function: Callable[[Outputs], None],
    *,
    fresh: bool = False,
) -> Call:
    """The launch of `function` on arrays by name (None: not passed)."""
    given = [Buffer.input(name, array) for name, array in inputs.items() if array is not None]
    one = (1, 1, 1)
    return Call("", built.entry, one, one, one, 0, (*given, *outputs), call=function, fresh=fresh)
