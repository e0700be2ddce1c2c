"""The modules of a launch file as PTX: read, or compiled by nvcc and kept by content."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tileproof.emulator import Module
from tileproof.emulator.errors import PtxError
from tileproof.kernels import toolchain
from tileproof.kernels.compile import compile_error
from tileproof.kernels.launch.contents import regular_file
from tileproof.kernels.launch.model import CudaSource, LaunchFile, LaunchModule, PtxFile, PtxText
from tileproof.kernels.paths import require_file
from tileproof.spec.machine.cache_folder import cache_root
from tileproof.spec.machine.errors import TileproofError

COMPILE_S = 1800
_FLAGS = ("-std=c++17", "--expt-relaxed-constexpr", "-lineinfo", "-DNDEBUG")
# Flags that only change the PTX. Others run programs (-ccbin, -Xcompiler, -optf) or write files.
_FLAG = re.compile(
    r"-[DU]\w+(=.*)?|-I.+|-std=c\+\+\d\d|-O[0-3]|-G|-g|-w|-lineinfo|--?(generate-line-info|use_fast_math"
    r"|(ftz|prec-div|prec-sqrt|fmad)=(true|false)|maxrregcount=\d+|restrict|extra-device-vectorization"
    r"|(expt-)?extended-lambda|expt-relaxed-constexpr|default-stream=[\w-]+|diag-suppress=[\d,]+)"
)
_TARGET = re.compile(r"(sm|compute)_\d+[af]?")
_TAKEN = "-D, -U, -I, -std, -O and others that only change the PTX, of letters, digits and +-=.,:/%_"
# nvcc hands its command line to a shell.
_PLAIN = re.compile(r"[\w+=.,:/%-]+")


@dataclass(frozen=True)
class LoadedModule:
    """A module ready to run: its PTX text, where that lies ("" where it has no file), who compiled it."""

    name: str
    ptx: str = field(repr=False)
    path: str
    toolchain: str
    module: Module = field(repr=False)

    @property
    def sha256(self) -> str:
        """Of the PTX text."""
        return hashlib.sha256(self.ptx.encode()).hexdigest()


def load(launch: LaunchFile) -> dict[str, LoadedModule]:
    """The modules of a launch file by name; TileproofError for what cannot be read or compiled."""
    return {module.name: _load(module, launch.folder) for module in launch.modules}


def _load(module: LaunchModule, folder: Path) -> LoadedModule:
    code, made_by, path = module.code, "", ""
    if isinstance(code, PtxText):
        return _of_text(module.name, code.text)
    if isinstance(code, CudaSource):
        found = compiled(folder / code.path, code.flags, code.target)
        text, path, made_by = found.read_text(), str(found), toolchain.find().version
    elif isinstance(code, PtxFile):
        path = str(folder / code.path)
        try:
            text = regular_file(Path(path)).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise PtxError("the file cannot be read as PTX", where=path, found=str(error)) from None
    return _parsed(module.name, text, path, made_by)


@lru_cache(maxsize=16)
def _of_text(name: str, text: str) -> LoadedModule:
    """The module of a PTX text; the same text is parsed once."""
    return _parsed(name, text, "", "")


def _parsed(name: str, text: str, path: str, made_by: str) -> LoadedModule:
    try:
        return LoadedModule(name, text, path, made_by, Module.from_ptx(text))
    except PtxError as error:
        where = ", ".join(filter(None, (path or f"module {name}", error.where)))
        raise PtxError(
            error.what, where=where, expected=error.expected, found=error.found, do=error.do
        ) from None


def compiled(source: Path, flags: tuple[str, ...], target: str) -> Path:
    """The PTX of a CUDA source, from the cache while neither it nor what it includes has changed."""
    _refuse_commands(source, flags, target)
    tools = toolchain.find()
    folders = (f"-I{source.parent}", f"-I{tools.cutlass_include}")
    command = [str(tools.nvcc), *_FLAGS, f"-arch={target}", *folders, *flags]
    require_file(source, "a CUDA source (.cu)")
    # Line markers of the preprocessor say where the source lies, which is no part of what it is.
    preprocessed = re.sub(r"^#.*$", "", _run([*command, "-E", str(source)]), flags=re.MULTILINE)
    key = hashlib.sha256("\0".join([tools.version, *_FLAGS, target, *flags, preprocessed]).encode())
    ptx = cache_root() / "launches" / f"{source.stem}-{key.hexdigest()[:24]}.ptx"
    if not ptx.exists():
        try:
            ptx.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=ptx.parent) as work:
                fresh = Path(work) / "kernel.ptx"
                _run([*command, "-ptx", "-o", str(fresh), str(source)])
                os.replace(fresh, ptx)
        except OSError as error:
            raise TileproofError(
                "the build cache cannot be written",
                where=str(ptx.parent),
                found=str(error),
                do="set TILEPROOF_CACHE to a writable folder",
            ) from None
    return ptx


def _refuse_commands(source: Path, flags: tuple[str, ...], target: str) -> None:
    """TileproofError where nvcc would run a command, or write a file, that the launch file names."""
    for what, words, known in (("flag", flags, _FLAG), ("target", (target,), _TARGET)):
        for word in words:
            if not known.fullmatch(word) or not _PLAIN.fullmatch(word):
                raise TileproofError(
                    f"this {what} of nvcc is not allowed in a launch file", where=str(source), found=word,
                    expected=_TAKEN if what == "flag" else "sm_100a",
                    do="compile the source yourself and name the PTX in the launch file",
                )  # fmt: skip
    if not _PLAIN.fullmatch(str(source)) or str(source)[0] == "-":
        raise TileproofError(
            "the name of the source has characters with a meaning in nvcc's shell", where=str(source),
            expected="letters, digits and +-=.,:/%_, not starting with -", do="rename the file or its folder",
        )  # fmt: skip


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TileproofError("the compiler did not finish", where=command[0], found=str(error)) from None
    if done.returncode:
        raise compile_error("nvcc", done.stdout[-20000:] + done.stderr)
    return done.stdout
