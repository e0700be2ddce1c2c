"""Kernels outside this repository: installed packages that register by entry point, and paths.

A package names in the group `tileproof.kernels` an object that is a `Kernel`, a sequence of them, or a
function that returns either. A path is a Python file, or a folder with a `kernel.py` or an `__init__.py`,
that defines KERNELS in the same way.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tileproof.kernels.foreign import shared
from tileproof.kernels.kernel import Kernel
from tileproof.spec.machine.errors import TileproofError

GROUP = "tileproof.kernels"
ATTRIBUTE = "KERNELS"
NAMES = ("kernel.py", "__init__.py")


def registered() -> tuple[dict[str, Kernel], dict[str, TileproofError]]:
    """The kernels of every entry point, by name, and what is wrong with the entry points that give none."""
    found: dict[str, Kernel] = {}
    broken: dict[str, TileproofError] = {}
    for point in sorted(
        entry_points(group=GROUP), key=lambda entry_point: (entry_point.name, entry_point.value)
    ):
        where = f"entry point {point.name} = {point.value}" + (f" of {point.dist.name}" if point.dist else "")
        shared.note(where)
        try:
            found |= {kernel.name: kernel for kernel in _kernels(point.load(), where)}
        except TileproofError as error:
            broken[point.name] = error
        except (Exception, SystemExit) as error:
            broken[point.name] = _failed(where, error)
    return found, broken


def looks_like_a_path(name: str) -> bool:
    """Whether `name` of the command line is a path, and no kernel's name."""
    return "/" in name or "\\" in name or name.partition(":")[0].endswith(".py") or Path(name).is_dir()


def at_path(name: str) -> Kernel:
    """The kernel that the file or folder defines; `path:kernel` picks one of several."""
    path_text, wanted = name, ""
    if not Path(name).exists():
        path_text, _, wanted = name.rpartition(":")
    path = Path(path_text)
    file = path
    if path.is_dir():
        file = next((path / name for name in NAMES if (path / name).is_file()), path / NAMES[0])
    if not path_text or not file.is_file():
        raise _no_kernel(name, "no such file")
    if file.suffix != ".py":
        raise _no_kernel(name, f"a file that does not end in .py: {file.name}")
    found = {kernel.name: kernel for kernel in _kernels(_load(file), str(file))}
    if (not wanted and len(found) > 1) or (wanted and wanted not in found):
        raise TileproofError(
            "there is no such kernel at this path" if wanted else "several kernels are defined at this path",
            where=name,
            expected=" or ".join(f"{path_text}:{name}" for name in found),
            found=wanted or f"{len(found)} kernels",
        )
    return found[wanted] if wanted else next(iter(found.values()))


def _no_kernel(name: str, found: str) -> TileproofError:
    return TileproofError(
        "there is no kernel at this path",
        where=name,
        expected=f"a Python file, or a folder with {' or '.join(NAMES)}, that defines {ATTRIBUTE}",
        found=found,
    )


def _load(file: Path) -> object:
    """KERNELS of the module in `file`, which may import its neighbours."""
    file = file.resolve()
    name = f"tileproof_kernel_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        locations = [str(file.parent)] if file.name == "__init__.py" else None
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=locations)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        shared.note(str(file))
        sys.path.insert(0, str(file.parent))
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise _failed(str(file), error) from error
        finally:
            sys.path.remove(str(file.parent))
    module = sys.modules[name]
    if not hasattr(module, ATTRIBUTE):
        raise TileproofError(
            f"the module defines no {ATTRIBUTE}",
            where=str(file),
            do=f"set {ATTRIBUTE} to its kernels (instances of Kernel)",
        )
    return getattr(module, ATTRIBUTE)


def _failed(where: str, error: BaseException) -> TileproofError:
    return TileproofError(
        "a kernel's module cannot be loaded",
        where=where,
        found=f"{type(error).__name__}: {error}",
        do="correct or remove the package; other kernels are not affected",
    )


# What a module or an entry point gives as KERNELS: checked when it is read.
OutsideKernels = Any


def _kernels(given: OutsideKernels, where: str) -> tuple[Kernel, ...]:
    try:
        found = given() if callable(given) and not isinstance(given, Kernel) else given
        found = (found,) if isinstance(found, Kernel) else tuple(found)
    except TileproofError:
        raise
    except Exception as error:
        raise _failed(where, error) from error
    wrong = next((entry for entry in found if not isinstance(entry, Kernel)), None)
    if wrong is not None or not found:
        raise TileproofError(
            "a kernel is a tileproof.kernels.kernel.Kernel",
            where=where,
            found="none" if wrong is None else type(wrong).__name__,
        )
    return found
