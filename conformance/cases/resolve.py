"""Resolves the argument of a command to a kernel or a launch file. One place for every command's bad input.

A kernel is given by its name, by a Python file that defines KERNELS, or by a folder with such a file; a
launch file by a path: JSON, Python that defines `launch()` or LAUNCH, or a folder with a launch.json.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

from tileproof.kernels import outside, registry
from tileproof.kernels.called import HOST
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.model import SCHEMA, LaunchFile
from tileproof.kernels.launch.reading import LAUNCH_NAMES, read
from tileproof.kernels.paths import MANY, contents, described, missing
from tileproof.spec.machine.errors import TileproofError

EXPECTED = (
    "the name of a kernel (`tileproof kernels`), a path to a kernel.py, or a launch file: .json, .py with "
    "launch() or LAUNCH, or a folder with launch.json"
)
INIT = "write its launch file first: `tileproof judge {} --init` (docs/judging.md)"

# What Tileproof's own JSON files are, by their schema, and the command that reads each.
_OTHER_SCHEMAS = {
    "tileproof-launch": "a launch file, which `tileproof judge` reads",
    "tileproof-evidence": "the evidence of `tileproof gate`, which `tileproof diff` reads",
    "tileproof-verdict": "a verdict, which `tileproof judge --json` writes",
    "tileproof-case": "the case of a saved example: give its folder to `tileproof judge`",
    "tileproof-gate-run": "the results of an unfinished `tileproof gate`, which `--resume` continues",
}
TENSORS = (".safetensors", ".npz", ".pt", ".pth")


def resolve(argument: str) -> Kernel | LaunchFile:
    """The kernel or the launch file that a command's argument names.

    TileproofError states what was found, what is expected, and the likely name.
    """
    if _is_name(argument):
        return registry.kernel(argument)
    path = Path(argument)
    if _defines_kernel(path, argument):
        return registry.kernel(argument)
    return launch_file(path)


def kernel(argument: str, why: str) -> Kernel:
    """As `resolve`, for a command that a launch file gives nothing to; `why` says so."""
    found = resolve(argument)
    if isinstance(found, LaunchFile):
        raise TileproofError(why, where=argument, expected="a kernel with a plan", found="a launch file")
    return found


def compiled_kernel(argument: str, why: str) -> Kernel:
    """As `kernel`, for a command that looks into PTX."""
    kernel(argument, why)
    return registry.compiled(argument)


def compiled(argument: str, instead: str = registry.CHECK) -> Kernel | LaunchFile:
    """As `resolve`, for a command that looks into PTX: a kernel that is a Python function is refused."""
    found = resolve(argument)
    if isinstance(found, Kernel) and found.arch == HOST:
        return registry.compiled(argument, instead)  # which refuses it
    return found


def launch_file(path: Path) -> LaunchFile:
    """The launch file at `path`; TileproofError states what was found instead."""
    if path.is_dir() and not (path / "launch.json").is_file():
        if any(path.glob("*.npy")) and not (path / "case.json").is_file():  # which `check --save` writes
            raise _wrong("tensors have no launch", path, "a dump of tensors", f"tileproof tensors {path}")
        raise without(path, "launch.json and no kernel.py", EXPECTED)
    if not path.exists():
        raise missing(path, EXPECTED)
    if path.suffix == ".ptx":
        raise _wrong("PTX does not define its launch", path, "PTX", INIT.format(path))
    file = path / "launch.json" if path.is_dir() else path
    if file.suffix in TENSORS:
        raise _wrong("tensors have no launch", path, "a dump of tensors", f"tileproof tensors {path}")
    if file.suffix not in (".json", ".py"):
        raise _wrong("this file is neither a kernel nor a launch file", path, described(file))
    if file.suffix == ".json":
        require_json(file, "the launch file", EXPECTED, SCHEMA)
    return read(path)


def without(folder: Path, name: str, expected: str) -> TileproofError:
    """The error for a folder that does not hold what it should."""
    return TileproofError(
        f"the folder has no {name}", where=str(folder), expected=expected, found=contents(folder)
    )


def not_ptx(path: Path) -> TileproofError:
    """The error for a path where PTX is wanted and something else lies."""
    return TileproofError(
        "this is not PTX", where=str(path), expected="a text file with .version and .target",
        found="a folder" if path.is_dir() else described(path),
    )  # fmt: skip


def _is_name(argument: str) -> bool:
    """Whether an argument is a kernel's name, or should be: no path ends so, and none lies there. Of what is
    a path, no package of others is imported to find out.
    """
    path_like = "/" in argument or "\\" in argument or bool(Path(argument.partition(":")[0]).suffix)
    return not path_like and (registry.known(argument) or not Path(argument).exists())


def _defines_kernel(path: Path, argument: str) -> bool:
    """Whether the path is a kernel's, by the names that the Python file defines."""
    if not path.exists():
        return ":" in argument and Path(argument.rpartition(":")[0]).exists()  # path:kernel
    if path.is_dir():
        return not (path / "launch.json").is_file() and any((path / name).is_file() for name in outside.NAMES)
    if path.suffix != ".py":
        return False
    names = _defined(path)
    if outside.ATTRIBUTE in names:
        return True
    if not names & {*LAUNCH_NAMES, "*"}:
        wanted = f"{outside.ATTRIBUTE} (a kernel), or launch() or {LAUNCH_NAMES[0]} (a launch file)"
        found = ", ".join(sorted(names)[:MANY]) or "no names"
        raise TileproofError(
            "the Python file defines neither a kernel nor a launch", where=str(path), expected=wanted,
            found=found,
        )  # fmt: skip
    return False


def _defined(path: Path) -> set[str]:
    """The names at the top of a Python file, "*" where it may have more; "*" for a file that is not Python,
    whose error is reported when it runs.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise _wrong("the Python file cannot be read", path, described(path)) from None
    except (SyntaxError, ValueError):
        return {"*"}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def require_json(file: Path, what: str, expected: str, schema: str) -> None:
    """TileproofError where a file is missing, is not text, or is JSON of another schema that Tileproof
    writes; what else is wrong with it, its reader reports.
    """
    if not file.exists():
        raise missing(file, expected)
    try:
        data = json.loads(file.read_bytes())
    except UnicodeDecodeError:
        raise TileproofError(
            f"{what} is not JSON", where=str(file), expected=expected, found=described(file)
        ) from None
    except (OSError, ValueError, RecursionError):
        return
    found = data.get("schema") if isinstance(data, dict) else None
    if isinstance(found, str) and found != schema and found in _OTHER_SCHEMAS:
        raise TileproofError(
            f"{what} is JSON of another schema", where=str(file), expected=expected,
            found=f"{found}: {_OTHER_SCHEMAS[found]}",
        )  # fmt: skip


def _wrong(what: str, path: Path, found: str, do: str = "") -> TileproofError:
    return TileproofError(what, where=str(path), expected=EXPECTED, found=found, do=do)
