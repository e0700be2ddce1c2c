"""The kernels there are: those here, those of installed packages, and one at a path."""

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
from tileproof.kernels.target import Target
from tileproof.spec.machine.errors import TileproofError


@cache
def own() -> Mapping[str, Target]:
    """The kernels of this package: every folder `kernels/<target>/<kernel>/` whose `host` defines TARGETS."""
    found: dict[str, Target] = {}
    for target in pkgutil.iter_modules(tileproof.kernels.__path__, "tileproof.kernels."):
        if not target.ispkg:
            continue
        package = importlib.import_module(target.name)
        for folder in pkgutil.iter_modules(package.__path__, f"{target.name}."):
            if folder.ispkg and importlib.util.find_spec(f"{folder.name}.host"):
                targets: tuple[Target, ...] = importlib.import_module(f"{folder.name}.host").TARGETS
                found |= {one.name: one for one in targets}
    return MappingProxyType(found)


@cache
def _every() -> tuple[Mapping[str, Target], Mapping[str, TileproofError]]:
    found, broken = outside.registered()
    for name in sorted(set(found) & set(own())):
        broken[name] = TileproofError(
            "a registered kernel has the name of one of Tileproof's own",
            where=f"kernel {name}",
            do="give the kernel another name",
        )
    return MappingProxyType({**found, **own()}), MappingProxyType(broken)


def kernels() -> Mapping[str, Target]:
    """Every kernel that can be used, by name."""
    return _every()[0]


def broken() -> Mapping[str, TileproofError]:
    """Registered packages that give no kernel, by entry point: what is wrong with each."""
    return _every()[1]


def forget() -> None:
    """Look for registered packages again at the next call."""
    _every.cache_clear()


def kernel(name: str) -> Target:
    """The kernel called `name`, or at the path `name`; TileproofError lists the known ones.

    Where `name` is that of an entry point which gave no kernel, the error says why.
    """
    if name in kernels():
        return kernels()[name]
    if name in tutorials.targets():
        return tutorials.targets()[name]
    if name in card.targets():
        return card.targets()[name]
    if outside.looks_like_a_path(name):
        return outside.at_path(name)
    if name in broken():
        raise broken()[name]
    raise TileproofError(
        "there is no such kernel",
        where="kernel name",
        expected=", ".join(sorted(kernels())) + ", or a path",
        found=name,
        do="choose one of the known kernels (`tileproof kernels`)"
        + "".join(f"; {point} could not be loaded: {error.found}" for point, error in broken().items()),
    )


CHECK = "check it (`tileproof check`)"


def compiled(name: str, instead: str = CHECK) -> Target:
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


def all_compiled() -> list[Target]:
    """Every kernel with PTX but those on demand: others' kernels, of which findings are known."""
    return [one for one in kernels().values() if one.arch != HOST and not one.on_demand]
