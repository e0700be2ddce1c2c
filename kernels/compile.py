"""Compile one kernel source to PTX with nvcc, prove with ptxas that it assembles, and cache by content.

Of a copy with an edit ptxas only reads the PTX: nobody asks for its machine code or resources.

The cache key covers every source byte, the generated plan header, the defines, the flags and the
compiler's version. An entry is built in a directory of its own and renamed into place when it is complete,
so the cache holds nothing half-written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.spec.machine.cache_folder import cache_root
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject

ROOT = Path(__file__).resolve().parent  # sources of the kernels here are named relative to this folder
OWN_PREFIX = "kernels/"
ARCH = "sm_100a"


def flags(arch: str) -> tuple[str, ...]:
    """nvcc's options for PTX of an architecture."""
    return ("-ptx", f"-arch={arch}", "-std=c++17", "--expt-relaxed-constexpr", "-lineinfo", "-O3", "-DNDEBUG")


FLAGS = flags(ARCH)
TIMEOUT_S = 600
FORMAT = "1"  # raise when the layout of a cache entry changes


@dataclass(frozen=True)
class Resources:
    """What ptxas says that a thread and a CTA of the entry need; bytes, but for `registers`."""

    registers: int
    static_smem: int
    stack: int
    spill_stores: int
    spill_loads: int


@dataclass(frozen=True)
class Built:
    """One compiled entry: the PTX text, where it lies, its resources and the compilers' output."""

    entry: str
    ptx: str = field(repr=False)
    ptx_path: Path
    resources: Resources | None  # None of PTX that came as it is, and where ptxas was not asked
    log: str = field(repr=False)


@dataclass(frozen=True)
class Unit:
    """What is compiled: `main` of `files` (path -> text, relative to the kernel's root) with `defines`.

    `prefix` stands before the paths of sources in the PTX and in messages. `assembled`: ptxas makes machine
    code of it and says its resources; else it only reads the PTX, as part of nvcc.
    """

    entry: str
    main: str
    files: Mapping[str, str] = field(repr=False)
    defines: Mapping[str, str]
    prefix: str = OWN_PREFIX
    arch: str = ARCH
    assembled: bool = True

    def key(self) -> str:
        """The content hash that names this unit's cache entry."""
        parts = [FORMAT, toolchain.find().version, *flags(self.arch), self.entry, self.main]
        parts += [f"{name}={value}" for name, value in sorted(self.defines.items())]
        parts += [] if self.prefix == OWN_PREFIX else [f"prefix {self.prefix}"]
        parts += [] if self.assembled else ["not assembled"]
        parts += [f"{path}\0{text}" for path, text in sorted(self.files.items())]
        return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()[:24]


def is_cached(unit: Unit) -> bool:
    """Whether the unit needs no compiler."""
    return _whole(cache_root() / "kernels" / unit.key())


def compile_unit(unit: Unit) -> Built:
    """The compiled unit, from the cache when it is there; TileproofError with the first error otherwise."""
    cache = cache_root() / "kernels"
    target = cache / unit.key()
    if not _whole(target):
        shutil.rmtree(target, ignore_errors=True)  # cut off by a full disk, say: it is built again
        try:
            cache.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix="building-", dir=cache))
        except OSError as error:
            raise TileproofError(
                "the build cache cannot be written",
                where=str(cache),
                found=str(error),
                do="set TILEPROOF_CACHE to a folder that you may write",
            ) from error
        try:
            _build_in(work, unit)
            # Another process may have been first; its entry holds the same content.
            with contextlib.suppress(OSError):
                work.rename(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return _load(target, unit.entry)


def _whole(target: Path) -> bool:
    """Whether a cache entry is there, can be read, and holds the PTX that was put there."""
    try:
        meta = json.loads((target / "built.json").read_text())
        _resources(meta)
        text = (target / "kernel.ptx").read_text()
    except (OSError, ValueError, KeyError, TypeError):
        return False
    known = meta.get("ptx_sha256")  # entries of earlier versions have none
    return known is None or known == hashlib.sha256(text.encode()).hexdigest()


def _load(target: Path, entry: str) -> Built:
    meta = json.loads((target / "built.json").read_text())
    path = target / "kernel.ptx"
    return Built(entry, path.read_text(), path, _resources(meta), meta["log"])


def _resources(meta: UncheckedObject) -> Resources | None:
    said = meta["resources"]
    return None if said is None else Resources(**said)


def _build_in(work: Path, unit: Unit) -> None:
    source = work / "src"
    for path, text in unit.files.items():
        file = source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    tools = toolchain.find()
    ptx = work / "kernel.ptx"
    command = [str(tools.nvcc), *flags(unit.arch), f"-I{source}", f"-I{tools.cutlass_include}"]
    command += [f"-D{name}={value}" for name, value in sorted(unit.defines.items())]
    log = _run([*command, "-o", str(ptx), str(source / unit.main)], source, unit.prefix)
    ptx.write_text(_relative_files(ptx.read_text(), source, unit.prefix))
    require_entry(ptx.read_text(), unit.entry, f"{unit.prefix}{unit.main}")

    assembled = _assemble(ptx, source, unit.prefix, unit.arch) if unit.assembled else ""
    meta = {
        "resources": asdict(parse_resources(assembled, unit.entry)) if unit.assembled else None,
        "log": log + assembled,
        "ptx_sha256": hashlib.sha256(ptx.read_bytes()).hexdigest(),
    }
    (work / "built.json").write_text(json.dumps(meta, indent=1))


def _assemble(ptx: Path, source: Path, prefix: str, arch: str = ARCH) -> str:
    """What ptxas says of a PTX file; its cubin is thrown away."""
    cubin = ptx.with_suffix(".cubin")
    command = [str(toolchain.find().ptxas), f"-arch={arch}", "-v", str(ptx), "-o", str(cubin)]
    said = _run(command, source, prefix)
    cubin.unlink()
    return said


def resources_of(ptx: str, entry: str) -> Resources:
    """What ptxas says that an entry of a PTX text needs; TileproofError when it refuses the text, or is not
    there.
    """
    with tempfile.TemporaryDirectory(prefix="tileproof-ptxas-") as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        return parse_resources(_assemble(path, Path(folder), ""), entry)


def require_entry(
    ptx: str, entry: str, where: str, do: str = "define it: nvcc is given its name as TILEPROOF_ENTRY"
) -> None:
    """TileproofError, which names the entries there are, unless the PTX defines the kernel `entry`."""
    found = re.findall(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$%]+)", ptx, re.MULTILINE)
    if entry not in found:
        raise TileproofError(
            "the kernel's PTX has no such entry",
            where=where,
            expected=entry,
            found=", ".join(found) or "no entry at all",
            do=do,
        )


def _relative_files(ptx: str, source: Path, prefix: str) -> str:
    """The PTX with the `.file` paths of our sources relative to `prefix`, not to the build folder."""
    start = rf'^(\s*\.file\s+\d+\s+"){re.escape(str(source))}/'
    return re.sub(start, rf"\g<1>{prefix}", ptx, flags=re.MULTILINE)


def _run(command: list[str], source: Path, prefix: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TileproofError("the compiler did not finish", where=command[0], found=str(error)) from error
    output = (done.stdout + done.stderr).replace(f"{source}/", prefix)
    if done.returncode:
        raise compile_error(Path(command[0]).name, output)
    return output


# nvcc's own form, file(line): error: text, and the host compiler's, file:line:column: error: text.
_ERRORS = (
    re.compile(r"^(?P<file>[^\s(]+)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>.*)$", re.MULTILINE),
    re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):\d+: (?:fatal )?error: (?P<text>.*)$", re.MULTILINE),
    re.compile(r"^ptxas (?P<file>[^\s,]+), line (?P<line>\d+); error\s*: (?P<text>.*)$", re.MULTILINE),
)
_FATAL = re.compile(r"^\w+ fatal\s*: (?P<text>.*)$", re.MULTILINE)


def compile_error(tool: str, output: str) -> TileproofError:
    """The first error of a compiler's output, with its place, the line it points at, and a hint."""
    found = [match for pattern in _ERRORS if (match := pattern.search(output))]
    count = sum(len(pattern.findall(output)) for pattern in _ERRORS)
    if not found:
        fatal = _FATAL.search(output)
        text = fatal["text"] if fatal else (output.strip().splitlines() or ["no message"])[0]
        hint = "install g++, which nvcc needs" if "host compiler" in text or "gcc" in text else ""
        return TileproofError(f"{tool} failed: {text}", where=tool, found=output.strip()[-600:], do=hint)
    first = min(found, key=lambda match: match.start())
    shown = output[first.end() :].lstrip("\n").splitlines()
    if "static assertion failed" in first["text"]:
        hint = "the kernel and its plan (spec/plans) disagree here: change one of them"
    else:
        hint = "correct the source at this line"
    return TileproofError(
        f"{tool}: {first['text']}",
        where=f"{first['file']}:{first['line']}",
        found=f"{shown[0].strip() if shown else ''} ({count} error{'s' if count != 1 else ''} in all)",
        do=hint,
    )


def parse_resources(log: str, entry: str) -> Resources:
    """Read `ptxas -v` output for `entry`; TileproofError when it does not speak of it."""
    start = log.find(f"Compiling entry function '{entry}'")
    text = log[start:] if start >= 0 else ""
    registers = re.search(r"Used (\d+) registers", text)
    frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text)
    if not registers or not frame:
        raise TileproofError(
            "ptxas does not report the entry's resources", where=entry, found=log.strip()[-400:]
        )
    smem = re.search(r"(\d+) bytes smem", text)
    stack, stores, loads = map(int, frame.groups())
    return Resources(int(registers[1]), int(smem[1]) if smem else 0, stack, stores, loads)
