"""The kernels there are: every folder `kernels/<target>/<kernel>/` whose `host` module defines KERNELS."""

from __future__ import annotations

import importlib.util
import pkgutil

import tileproof.kernels
from tileproof.kernels.kernel import Kernel
from tileproof.spec.machine.errors import TileproofError


def _discover() -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    for target in pkgutil.iter_modules(tileproof.kernels.__path__, "tileproof.kernels."):
        if not target.ispkg:
            continue
        package = importlib.import_module(target.name)
        for folder in pkgutil.iter_modules(package.__path__, f"{target.name}."):
            if folder.ispkg and importlib.util.find_spec(f"{folder.name}.host"):
                kernels: tuple[Kernel, ...] = importlib.import_module(f"{folder.name}.host").KERNELS
                found |= {kernel.name: kernel for kernel in kernels}
    return found


KERNELS: dict[str, Kernel] = _discover()


def kernel(name: str) -> Kernel:
    """The kernel called `name`; TileproofError lists the known ones."""
    if name not in KERNELS:
        raise TileproofError(
            "there is no such kernel",
            where="kernel name",
            expected=", ".join(sorted(KERNELS)),
            found=name,
            do="choose one of the known kernels (`tileproof kernels`)",
        )
    return KERNELS[name]
