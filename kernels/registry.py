"""The registry of kernels: of this repository, of installed packages, and at a path."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import tileproof.kernels
from tileproof.kernels import outside, tutorials
from tileproof.kernels.called import HOST
from tileproof.kernels.host.torch_cuda import card
from tileproof.kernels.kernel import Kernel
from tileproof.spec.machine.errors import TileproofError, did_you_mean


@cache
def own() -> Mapping[str, Kernel]:
    """The kernels of this package: every folder `kernels/<family>/<kernel>/` whose `host` defines KERNELS."""
    found: dict[str, Kernel] = {}
    for family in pkgutil.iter_modules(tileproof.kernels.__path__, "tileproof.kernels."):
        if not family.ispkg:
            continue
        package = importlib.import_module(family.name)
        for folder in pkgutil.iter_modules(package.__path__, f"{family.name}."):
            if folder.ispkg and importlib.util.find_spec(f"{folder.name}.host"):
                given: tuple[Kernel, ...] = importlib.import_module(f"{folder.name}.host").KERNELS
                found |= {kernel.name: kernel for kernel in given}
    return MappingProxyType(found)


@cache
def _every() -> tuple[Mapping[str, Kernel], Mapping[str, TileproofError]]:
    found, broken = outside.registered()
    for name in sorted(set(found) & set(own())):
        broken[name] = TileproofError(
            "a registered kernel has the name of a built-in kernel",
            where=f"kernel {name}",
            do="give the kernel another name",
        )
    return MappingProxyType({**found, **own()}), MappingProxyType(broken)


def kernels() -> Mapping[str, Kernel]:
    """Every kernel that can be used, by name."""
    return _every()[0]


def broken() -> Mapping[str, TileproofError]:
    """Registered packages that give no kernel, by entry point: what is wrong with each."""
    return _every()[1]


def forget() -> None:
    """Look for registered packages again at the next call."""
    _every.cache_clear()


def known(name: str) -> bool:
    """Whether a usable kernel, or a registered kernel that cannot be used, has this name.

    Packages of others are imported only where no name of this package fits.
    """
    return any(name in some() for some in (own, tutorials.kernels, card.kernels, kernels, broken))


def kernel(name: str) -> Kernel:
    """The kernel called `name`, or at the path `name`; TileproofError lists the known kernels.

    Where `name` is that of an entry point which gave no kernel, the error says why.
    """
    for some in (own, tutorials.kernels, card.kernels, kernels):
        if name in some():
            return some()[name]
    if outside.looks_like_a_path(name):
        return outside.at_path(name)
    if name in broken():
        raise broken()[name]
    meant = did_you_mean(name, [*kernels(), *tutorials.kernels(), *card.kernels()])
    raise TileproofError(
        "there is no such kernel",
        where="kernel name",
        expected=", ".join(sorted(kernels())) + ", or a path to a kernel.py or to a launch file",
        found=name,
        do=(meant or "choose one of the known kernels")
        + " (`tileproof kernels`)"
        + "".join(f"; {point} could not be loaded: {error.found}" for point, error in broken().items()),
    )


CHECK = "check it (`tileproof check`)"


def compiled(name: str, instead: str = CHECK) -> Kernel:
    """As `kernel`, for what looks into a kernel's PTX: TileproofError where it is a Python function, which
    says what to do `instead`.
    """
    found = kernel(name)
    if found.arch == HOST:
        raise TileproofError(
            "this kernel is a Python function: it has no PTX", where=f"kernel {name}",
            do=instead,
        )  # fmt: skip
    return found


def all_compiled() -> list[Kernel]:
    """Every kernel with PTX but those on demand: others' kernels, of which findings are known."""
    return [kernel for kernel in kernels().values() if kernel.arch != HOST and not kernel.on_demand]
