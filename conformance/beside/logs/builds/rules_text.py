"""Causes that the message alone determines: names, headers, host and device, targets, resources."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from tileproof.conformance.beside.logs.builds.cause import BuildCause, ErrorCase
from tileproof.conformance.beside.logs.builds.frames import QUOTES
from tileproof.conformance.beside.logs.builds.rules_known import known_message
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import MAX_SHARED_BYTES

Make = Callable[[re.Match[str], ErrorCase], BuildCause]


def by_message(case: ErrorCase) -> BuildCause | None:
    """The cause of a message that determines it."""
    for pattern, tools, make in _RULES:
        if tools and case.diagnostic.tool not in tools:
            continue
        if match := pattern.search(case.diagnostic.text):
            return make(match, case)
    return known_message(case.diagnostic)


def _ambiguous(match: re.Match[str], case: ErrorCase) -> BuildCause:
    name = match["name"].rsplit("::", 1)[-1]
    hint = ""
    if name in ("Layout", "Tensor", "Shape", "Stride", "Int", "half"):
        hint = " (cute has it, and so has ATen's or c10's namespace, for example at::Layout)"
    return BuildCause(
        "ambiguous-name",
        f"`{name}` is visible from two namespaces{hint}",
        (
            f"cute::{name} in full, and no `using namespace cute` (or at, torch, c10) in files that include "
            f"both headers"
        ),
        edits=((name, f"cute::{name}"),),
    )


def _undefined(match: re.Match[str], case: ErrorCase) -> BuildCause:
    name = match["name"]
    short = name.rsplit("::", 1)[-1]
    if "device code" in match.string:
        what = f"`{short}` exists only on the host, but is used in device code"
        return BuildCause("host-function", what, "a __device__ definition", key=short)
    if number := re.fullmatch(r"_(\d+)", short):
        what = f"CuTe has names such as _64 for some integers only, and none for {number[1]}"
        return BuildCause("undefined", what, f"Int<{number[1]}>", edits=((short, f"cute::Int<{number[1]}>"),))
    headers = _headers_of(short)
    if headers:
        return BuildCause(
            "undefined",
            f"`{name}` is declared in {headers[0]}, which is not included",
            f"#include <{headers[0]}>",
            edits=(("includes", f"#include <{headers[0]}>"),),
        )
    return BuildCause(
        "undefined",
        f"no included header declares `{name}`",
        "the header or the namespace that defines it",
    )


@functools.lru_cache(maxsize=64)
def _headers_of(name: str) -> tuple[str, ...]:
    """The installed CuTe and CUTLASS headers that declare `name`, those that users include first.

    One that brings it into `cute` by a using-declaration comes before the one whose inner namespace has it.
    """
    if not re.fullmatch(r"[A-Za-z_]\w{2,80}", name):
        return ()
    from tileproof.kernels import toolchain

    try:
        root = toolchain.find().cutlass_include
    except TileproofError:
        return ()
    definition = re.compile(
        rf"^\s*(?:struct|class|using|namespace|enum(?: class)?)\s+{name}\b(?!\s*;)|^{name}\(", re.MULTILINE
    )
    brought = re.compile(rf"^using (?:\w+::)+{name};", re.MULTILINE)
    needle, found, first = name.encode(), [], []
    for path in sorted([*(root / "cute").rglob("*.hpp"), *(root / "cutlass" / "arch").glob("*.h")]):
        data = path.read_bytes()
        if needle not in data:
            continue
        text = data.decode("utf-8", "replace")
        if brought.search(text):
            first.append(str(path.relative_to(root)))
        elif definition.search(text):
            found.append(str(path.relative_to(root)))
    return (*first, *found)


def _missing_header(match: re.Match[str], case: ErrorCase) -> BuildCause:
    header = match["header"]
    known = {
        "cute/": "the CuTe headers: -I<cutlass>/include",
        "cutlass/": "the CUTLASS headers: -I<cutlass>/include",
        "cutlass/util/": "CUTLASS's utilities: -I<cutlass>/tools/util/include",
        "torch/": "PyTorch's headers: build through torch.utils.cpp_extension, or -I<torch>/include",
        "ATen/": "PyTorch's headers: build through torch.utils.cpp_extension, or -I<torch>/include",
        "cuda": "the CUDA toolkit's headers: -I<cuda>/include",
        "cub/": "CCCL: -I<cuda>/include/cccl",
        "thrust/": "CCCL: -I<cuda>/include/cccl",
        "Python.h": "Python's headers (python3-dev)",
    }
    fits = next(
        (known[start] for start in sorted(known, key=len, reverse=True) if header.startswith(start)), ""
    )
    return BuildCause(
        "missing-header", f"`{header}` is on no include path", fits or "-I with the folder of the header"
    )


def _arch(match: re.Match[str], case: ErrorCase) -> BuildCause:
    thing, target = match["thing"], match["target"]
    base = re.match(r"sm_(\d+)", target)
    number = int(base[1]) if base else 0
    fits, flag = "a target that has it", ""
    if (
        re.search(r"tcgen05|cta_group|tensormap|\.multicast|collector|block_scale|setmaxnreg|wgmma", thing)
        and number >= 90
    ):
        fits = f"-arch=sm_{number}a (-gencode arch=compute_{number}a,code=sm_{number}a)"
        flag = f"-arch=sm_{number}a"
        if "wgmma" in thing and number >= 100:
            fits, flag = "-arch=sm_90a: only this target has wgmma; sm_100a has tcgen05", ""
        elif "tcgen05" in thing and number < 100:
            fits, flag = "-arch=sm_100a: tcgen05 needs this target or newer", "-arch=sm_100a"
    suffix = (
        ", which lacks the features of the architecture-specific target"
        if not target.endswith(("a", "f"))
        else ""
    )
    what = f"{thing} does not exist for the compiled target {target}{suffix}"
    return BuildCause("arch", what, fits, edits=(("-arch", flag),) if flag else ())


def _unsupported_gpu(match: re.Match[str], case: ErrorCase) -> BuildCause:
    return BuildCause(
        "arch",
        f"this nvcc does not support the target {match['target']}",
        (
            "a CUDA toolkit that supports it (sm_90a: 12.0, sm_100a: 12.8 or newer), or a target that this "
            "nvcc supports"
        ),
    )


def _shared(match: re.Match[str], case: ErrorCase) -> BuildCause:
    used, limit = int(match["used"], 16), int(match["most"], 16)
    fits = f"fewer stages or smaller tiles: no CTA of sm_90 or sm_100 has more than {MAX_SHARED_BYTES} bytes"
    if used <= MAX_SHARED_BYTES:
        fits = (
            "dynamic shared memory: extern __shared__, its size in the launch and in cudaFuncSetAttribute("
            "cudaFuncAttributeMaxDynamicSharedMemorySize), "
            f"at most {MAX_SHARED_BYTES} bytes on sm_90 and sm_100"
        )
    what = f"{match['entry']} declares {used} bytes of static shared memory; the target allows {limit}"
    return BuildCause("shared-memory", what, fits)


def _spills(match: re.Match[str], case: ErrorCase) -> BuildCause:
    return BuildCause(
        "registers",
        f"too few registers: {match['stores']} bytes of spill stores and {match['loads']} of spill "
        f"loads in {match['entry']}; the kernel runs, but slower",
        "fewer live values for each thread, smaller tiles, or more registers (__launch_bounds__, setmaxnreg)",
    )


def _constexpr(match: re.Match[str], case: ErrorCase) -> BuildCause:
    name = match["name"] if "name" in match.re.groupindex and match["name"] else "a constexpr function"
    return BuildCause(
        "relaxed-constexpr",
        f"`{name}` is a constexpr host function that device code calls",
        "--expt-relaxed-constexpr on nvcc's command line, or __host__ __device__ before the function",
        edits=(("flags", "--expt-relaxed-constexpr"),),
    )


def _host_function(match: re.Match[str], case: ErrorCase) -> BuildCause:
    return BuildCause(
        "host-function",
        f"`{match['name']}` is a host function, but the device function `{match['caller']}` calls it",
        "__device__ (or __host__ __device__, CUTE_HOST_DEVICE) before it",
        edits=((f"before {match['name'].split('(')[0].rsplit('::', 1)[-1]}", "__host__ __device__"),),
        key=match["name"].split("(")[0].rsplit("::", 1)[-1],
    )


def _no_member(match: re.Match[str], case: ErrorCase) -> BuildCause:
    made = _undefined(match, case)
    if made.code == "undefined" and "is declared in" not in made.what:
        return BuildCause(
            "undefined", f"{match['owner']} has no `{match['name']}`", "the spelling of this CUTLASS release"
        )
    return made


_RULES: list[tuple[re.Pattern[str], frozenset[str], Make]] = [
    (re.compile(pattern), frozenset(tools.split()), make)
    for pattern, tools, make in (
        (r'"(?P<name>[\w:]+)" is ambiguous', "nvcc", _ambiguous),
        (rf"reference to [{QUOTES}](?P<name>[\w:]+)[{QUOTES}] is ambiguous", "host", _ambiguous),
        (r'identifier "(?P<name>[\w:~]+)" is undefined', "nvcc", _undefined),
        (
            rf"[{QUOTES}](?P<name>[\w:~]+)[{QUOTES}] "
            "(?:was not declared|has not been declared|does not name a type)",
            "host",
            _undefined,
        ),
        (
            r'(?P<owner>namespace "[\w:]+"|class "[^"]+") has no member(?: class)? "(?P<name>[\w:~]+)"',
            "nvcc",
            _no_member,
        ),
        (r"(?P<header>\S+): No such file or directory", "host nvcc", _missing_header),
        (r'cannot open source file "(?P<header>[^"]+)"', "nvcc", _missing_header),
        (r'calling a constexpr __host__ function(?:\("(?P<name>[^"]+)"\))? from', "nvcc", _constexpr),
        (
            r'calling a __host__ function(?:\("(?P<name>[^"]+)"\)) from a __\w+(?:__ __\w+)?__ '
            r'function\("(?P<caller>[^"]+)"\)',
            "nvcc",
            _host_function,
        ),
        (
            r"(?P<thing>(?:Instruction|Feature|Modifier|Type) '[^']+').* not supported on "
            r"\.target '(?P<target>\w+)'",
            "ptxas",
            _arch,
        ),
        (r"Unsupported gpu architecture '(?P<target>\w+)'", "driver", _unsupported_gpu),
        (
            r"Entry function '(?P<entry>[^']+)' uses too much shared data \((?P<used>0x[0-9a-fA-F]+) bytes, "
            r"(?P<most>0x[0-9a-fA-F]+) max\)",
            "",
            _shared,
        ),
        (
            r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads in (?P<entry>\S+)",
            "ptxas",
            _spills,
        ),
    )
]


def traits(case: ErrorCase) -> BuildCause | None:
    """An operation of which the included headers have no traits."""
    match = re.search(r"(Copy|MMA)_Traits not implemented for this (?:Copy|MMA)Operation", case.text)
    if match is None:
        return None
    frame = case.frame("Copy_Traits", "MMA_Traits")
    key = "CopyOperation" if match[1] == "Copy" else "MMAOperation"
    op = frame.args.get(key) if frame is not None else None
    name = op.base if op is not None else "this operation"
    header = "copy" if match[1] == "Copy" else "mma"
    generation = re.match(r"SM(\d+)", name)
    fits = (
        f"#include <cute/atom/{header}_traits_sm{generation[1]}.hpp>"
        if generation
        else "its traits, included"
    )
    if generation and "TMA" in name:
        fits = f"#include <cute/atom/{header}_traits_sm{generation[1]}_tma.hpp>"
    return BuildCause("traits", f"no included header has {match[1]}_Traits<{name}>", fits)
