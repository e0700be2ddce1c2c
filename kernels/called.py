"""Kernels that are Python functions of this process: their image and launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tileproof.kernels.compile import Built
from tileproof.kernels.edit import Edit
from tileproof.kernels.launch.contents import ArrayContent, name_of
from tileproof.kernels.launch.model import HostCall, LaunchBuffer, LaunchFile
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array
from tileproof.spec.plan import KernelPlan

HOST = "host"  # the architecture of such a kernel
Outputs = Mapping[str, Array]


def need_torch() -> None:
    """TileproofError that names the extra where torch is not installed; blocks are small, so one thread."""
    try:
        import torch
    except ImportError as error:
        raise TileproofError(
            "this kernel needs torch, which is not installed", where="torch", found=str(error),
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
        if overrides or any(edit.place.kind != "module" for edit in edits):
            raise TileproofError("this kernel is a Python function: it has no PTX to change", where=owner)
        return Built(owner, "", Path(), None, "")


def call(
    built: Built,
    inputs: Mapping[str, Array | None],
    outputs: Iterable[LaunchBuffer],
    function: Callable[[Outputs], None],
    *,
    whole: bool = False,
) -> LaunchFile:
    """The launch of `function` on arrays by name (None: not passed); `whole`: it makes whole outputs."""
    given = [
        LaunchBuffer(name, name_of(array.dtype), array.shape, "input", ArrayContent(array))
        for name, array in inputs.items()
        if array is not None
    ]
    return LaunchFile(built.entry, (), (*given, *outputs), (HostCall(function, whole),))
