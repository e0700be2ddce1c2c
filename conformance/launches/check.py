"""Checks a launch file against its PTX before anything runs; each contradiction has a remedy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping

from tileproof.conformance.launches.maps import check_encoded_map, check_map
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.launches.placing import offset_of
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.inspect import EntryInfo, ParameterInfo
from tileproof.emulator.program import Decoded
from tileproof.kernels.launch.arguments import (
    BytesArgument,
    EncodedMapArgument,
    Item,
    LaunchArgument,
    PointerArgument,
    ScalarArgument,
    StructArgument,
    TensorMapArgument,
    size_of,
    unset,
)
from tileproof.kernels.launch.contents import dtype_of
from tileproof.kernels.launch.events import BufferRead
from tileproof.kernels.launch.model import (
    BufferCopy,
    BufferWrite,
    KernelLaunch,
    LaunchFile,
    SharedStage,
    StageCapture,
    TmemStage,
    VariableWrite,
)
from tileproof.spec.machine import tmem
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import (
    MAX_BLOCK,
    MAX_GRID,
    MAX_LARGE_CLUSTER,
    MAX_SHARED_BYTES,
    MAX_THREADS,
)
from tileproof.spec.machine.swizzle import BITS, width

MAP_ALIGNMENT = 64  # CUtensorMap


def contradictions(
    launch: LaunchFile,
    modules: Mapping[str, LoadedModule],
    known: dict[tuple[str, str], EntryInfo] | None = None,
) -> list[TileproofError]:
    """Everything in a launch file that its PTX, or another part of it, contradicts; [] when it can be run.

    `known` keeps what was found of entries, by module and name.
    """
    known = {} if known is None else known
    found: list[TileproofError] = []
    for number, step in enumerate(launch.launches):
        where = f"launch {number} of {step.entry}"
        module = modules[launch.module_of(step).name]
        info = _entry(module, step.entry, known)
        if info is None:
            found.append(_missing(module, step.entry, where))
            continue
        found += _shape(step, info, where)
        found += _arguments(launch, step, info, where)
        if info.runs:
            decoded = module.module.decode(step.entry)
            found += _captured(launch, step, decoded, where)
    for buffer in launch.buffers:
        found += _items([placed.item for placed in buffer.items], launch, f"buffer {buffer.name}")
        for placed in buffer.items:
            if placed.offset + size_of(placed.item) > buffer.bytes:
                found.append(_outside(f"buffer {buffer.name}", placed.offset, buffer.bytes))
        for span in buffer.known:
            if len(span) != 2 or not 0 <= span[0] <= span[1] <= buffer.bytes:
                found.append(
                    TileproofError(
                        "a known range lies outside its buffer",
                        where=f"buffer {buffer.name}",
                        expected=f"[start, stop] inside {buffer.bytes} bytes",
                        found=str(list(span)),
                    )
                )
    found += _host_steps(launch, modules)
    entries = {step.entry for step in launch.launches}
    for capture in launch.captures:
        if capture.entry and capture.entry not in entries:
            found.append(
                TileproofError(
                    "a capture names a kernel that is not launched",
                    where=f"capture {capture.name}",
                    expected=", ".join(sorted(entries)),
                    found=capture.entry,
                )
            )
    return found


def unset_bytes(launch: LaunchFile, modules: Mapping[str, LoadedModule]) -> list[str]:
    """Bytes of parameters that no item sets, in words: a kernel may be right not to read them."""
    names = []
    for step in launch.launches:
        entries = modules[launch.module_of(step).name].module.entries
        for argument, (name, _, _) in zip(step.arguments, entries.get(step.entry, ()), strict=False):
            names += [
                f"bytes {start}..{stop - 1} of parameter {name} of {step.entry} are not set by an item"
                for start, stop in unset(argument)
            ]
    return list(dict.fromkeys(names))


def _entry(module: LoadedModule, name: str, known: dict[tuple[str, str], EntryInfo]) -> EntryInfo | None:
    if name not in module.module.entries:
        return None
    if (module.name, name) not in known:
        known[module.name, name] = module.module.inspect_entry(name)
    return known[module.name, name]


def _missing(module: LoadedModule, entry: str, where: str) -> TileproofError:
    entries = list(module.module.entries)
    close = difflib.get_close_matches(entry, entries, 1)
    return TileproofError(
        "the module has no such entry",
        where=f"{where}, module {module.name}",
        expected=", ".join(name[:80] for name in entries[:10]) or "at least one entry",
        found=entry[:80],
        do=f"launch {close[0]}" if close else "name an entry of the module, as in the PTX",
    )


# ---- the launch's shape


def _shape(step: KernelLaunch, info: EntryInfo, where: str) -> Iterator[TileproofError]:
    grid, block = _three(step.grid), _three(step.block)
    stated = info.directives.get("reqnctapercluster")
    cluster = _three(step.cluster or stated or (1,))
    for name, extents in (("grid", step.grid), ("block", step.block), ("cluster", step.cluster or (1,))):
        if not 1 <= len(extents) <= 3 or min(extents) < 1:
            yield TileproofError(
                f"the {name} has an invalid extent",
                where=where,
                expected="one to three integers, each at least 1",
                found=str(extents),
            )
            return
    for name, extents, limit in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
        if any(e > bound for e, bound in zip(extents, limit, strict=True)):
            yield TileproofError(
                f"the {name} is too large", where=where, expected=f"at most {limit}", found=str(extents)
            )
    threads, ctas = math.prod(block), math.prod(cluster)
    required, max_block = info.directives.get("reqntid"), info.directives.get("maxntid")
    if required and _three(required) != block:
        yield TileproofError(
            "the block differs from the PTX's .reqntid",
            where=where, expected=f".reqntid {', '.join(map(str, required))}", found=str(block),
            do=f"launch blocks of {_three(required)}",
        )  # fmt: skip
    if threads > (math.prod(max_block) if max_block else MAX_THREADS):
        yield TileproofError(
            "the block exceeds the kernel's .maxntid",
            where=where,
            expected=f".maxntid {', '.join(map(str, max_block))}" if max_block else f"at most {MAX_THREADS}",
            found=f"{threads} threads",
            do="launch smaller blocks, or compile the kernel with other launch bounds",
        )
    if stated and _three(stated) != cluster:
        yield TileproofError(
            "the cluster differs from the PTX's .reqnctapercluster",
            where=where, expected=f".reqnctapercluster {', '.join(map(str, stated))}", found=str(cluster),
            do="omit the cluster, or give the same value",
        )  # fmt: skip
    if "explicitcluster" in info.directives and not stated and not step.cluster:
        yield TileproofError(
            "the kernel must be launched with a cluster",
            where=where, expected=".explicitcluster: a cluster of the launch", found="none",
            do="give the launch its cluster",
        )  # fmt: skip
    largest = info.directives.get("maxclusterrank", (MAX_LARGE_CLUSTER,))[0]
    if ctas > min(largest, MAX_LARGE_CLUSTER):
        yield TileproofError(
            "the cluster has too many CTAs",
            where=where, expected=f"at most {min(largest, MAX_LARGE_CLUSTER)}", found=f"{ctas}: {cluster}",
        )  # fmt: skip
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        yield TileproofError(
            "the grid is not a whole number of clusters",
            where=where, expected=f"a multiple of {cluster}", found=str(grid),
        )  # fmt: skip
    if 2 in info.cta_groups and ctas % 2:
        yield TileproofError(
            "the kernel uses cta_group::2, and the cluster has no CTA pairs",
            where=where, expected="an even number of CTAs per cluster", found=str(cluster),
        )  # fmt: skip
    if step.shared_bytes < 0 or info.static_shared + step.shared_bytes > MAX_SHARED_BYTES:
        yield TileproofError(
            "the launch requests more shared memory than a CTA has",
            where=where,
            expected=f"at most {MAX_SHARED_BYTES} bytes, static and dynamic together",
            found=f"{info.static_shared} static + {step.shared_bytes} dynamic",
        )


def _three(extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z


# ---- its arguments


def _arguments(
    launch: LaunchFile, step: KernelLaunch, info: EntryInfo, where: str
) -> Iterator[TileproofError]:
    if len(step.arguments) != len(info.parameters):
        listed = ", ".join(f"{p.name} ({p.bytes} bytes)" for p in info.parameters)
        yield TileproofError(
            "the number of arguments differs from the number of parameters",
            where=where,
            expected=f"{len(info.parameters)}: {listed}" if listed else "none",
            found=str(len(step.arguments)),
            do="give one argument per parameter, in the order of the PTX",
        )
        return
    for number, (argument, parameter) in enumerate(zip(step.arguments, info.parameters, strict=True)):
        place = f"{where}, argument {number} ({parameter.name})"
        try:
            size = size_of(argument)
        except TileproofError as error:
            yield _at(error, place)
            continue
        if size != parameter.bytes:
            yield TileproofError(
                "an argument does not fit its parameter",
                where=place,
                expected=f"{parameter.bytes} bytes",
                found=f"{argument.kind} of {size} bytes",
                do="`tileproof inspect` lists the parameters and which bytes are read",
            )
            continue
        yield from _unset_bytes(argument, parameter, place)
        yield from _placed(launch, argument, place)


def _unset_bytes(argument: LaunchArgument, parameter: ParameterInfo, where: str) -> Iterator[TileproofError]:
    """Bytes that the kernel's own loads name and no item sets."""
    for start, stop in unset(argument):
        for first, last in parameter.read:
            low, high = max(start, first), min(stop, last)
            if low < high:
                yield TileproofError(
                    "the kernel reads unset bytes of a struct",
                    where=where,
                    expected=f"an item over bytes {low}..{high - 1}",
                    found="nothing there",
                    do='add the field; padding may be zeros ("u8")',
                )


def _placed(launch: LaunchFile, argument: LaunchArgument, where: str) -> Iterator[TileproofError]:
    if not isinstance(argument, StructArgument | BytesArgument):
        yield from _items([argument], launch, where)
        return
    for placed in argument.items:
        is_map = isinstance(placed.item, TensorMapArgument | EncodedMapArgument)
        if is_map and placed.offset % MAP_ALIGNMENT:
            yield TileproofError(
                "a tensor map is not aligned",
                where=where,
                expected=f"a multiple of {MAP_ALIGNMENT} bytes into the parameter",
                found=f"offset {placed.offset}",
            )
    yield from _items([placed.item for placed in argument.items], launch, where)


def _items(items: list[Item], launch: LaunchFile, where: str) -> Iterator[TileproofError]:
    for item in items:
        try:
            if isinstance(item, ScalarArgument):
                item.encode()
            elif isinstance(item, EncodedMapArgument):
                check_encoded_map(item, launch)
            elif isinstance(item, TensorMapArgument):
                check_map(item, launch)
            elif isinstance(item, PointerArgument):
                size = launch.buffer(item.buffer).bytes
                if not 0 <= item.offset <= size:
                    raise _outside(f"buffer {item.buffer}", item.offset, size)
        except TileproofError as error:
            yield _at(error, where)


def _outside(where: str, offset: int, size: int) -> TileproofError:
    return TileproofError(
        "an offset lies outside its buffer", where=where, expected=f"0 to {size}", found=str(offset)
    )


def _at(error: TileproofError, where: str) -> TileproofError:
    place = f"{where}: {error.where}" if error.where else where
    return TileproofError(error.what, where=place, expected=error.expected, found=error.found, do=error.do)


# ---- what the host does, and captures


def _host_steps(launch: LaunchFile, modules: Mapping[str, LoadedModule]) -> Iterator[TileproofError]:
    for step in launch.steps:
        spans = []
        if isinstance(step, BufferWrite):
            spans = [(step.buffer, step.offset, step.bytes)]
            yield from _items([placed.item for placed in step.items], launch, f"a write to {step.buffer}")
        elif isinstance(step, VariableWrite):
            yield from _items([placed.item for placed in step.items], launch, f"a write to {step.variable}")
            yield from _variable(step, modules[launch.module_of(step).name])
        elif isinstance(step, BufferCopy):
            spans = [
                (step.source, step.source_offset, step.bytes),
                (step.target, step.target_offset, step.bytes),
            ]
        elif isinstance(step, BufferRead):
            spans = [(step.buffer, step.offset, step.bytes)]
        for name, offset, size in spans:
            size_limit = launch.buffer(name).bytes
            if offset < 0 or size < 0 or offset + size > size_limit:
                yield TileproofError(
                    "the host copies past a buffer",
                    where=f"buffer {name}",
                    expected=f"at most {size_limit} bytes",
                    found=f"{size} bytes at {offset}",
                )


def _variable(step: VariableWrite, module: LoadedModule) -> Iterator[TileproofError]:
    try:
        size_limit = module.module.variable(step.variable).bytes
    except LaunchError as error:
        yield error
        return
    if step.offset < 0 or step.bytes < 0 or step.offset + step.bytes > size_limit:
        yield TileproofError(
            "the host writes past a variable",
            where=f"variable {step.variable}",
            expected=f"at most {size_limit} bytes",
            found=f"{step.bytes} bytes at {step.offset}",
        )


def _captured(
    launch: LaunchFile, step: KernelLaunch, decoded: Decoded, where: str
) -> Iterator[TileproofError]:
    total = decoded.static_shared + step.shared_bytes
    for barrier in launch.barriers:
        try:
            offset_of(barrier.place, decoded, f"{where}, barrier {barrier.name}")
        except TileproofError as error:
            if any(
                capture.barrier == barrier.name and capture.entry in ("", step.entry)
                for capture in launch.captures
            ):
                yield error
    for capture in launch.captures:
        if capture.entry not in ("", step.entry):
            continue
        try:
            yield from _region(capture, decoded, total, f"{where}, capture {capture.name}")
        except TileproofError as error:
            yield _at(error, where)


def _region(capture: StageCapture, decoded: Decoded, total: int, where: str) -> Iterator[TileproofError]:
    region = capture.region
    itemsize = dtype_of(region.dtype, f"capture {capture.name}").itemsize
    if isinstance(region, TmemStage):
        fits = region.column >= 0 and 1 <= region.columns <= tmem.COLUMNS - region.column
        fits = fits and region.lane >= 0 and 1 <= region.lanes <= tmem.LANES - region.lane
        if not fits or itemsize not in (1, 2, 4):
            yield TileproofError(
                "a captured tile lies outside tensor memory",
                where=where,
                expected=f"{tmem.COLUMNS} columns, {tmem.LANES} lanes, elements of 1, 2 or 4 bytes",
                found=str(region),
            )
    elif isinstance(region, SharedStage):
        begin = offset_of(region.place, decoded, f"capture {capture.name}") + decoded.static_shared
        size = region.shape[0] * region.shape[1] * itemsize
        if begin < 0 or size < 1 or begin + size > total:
            yield TileproofError(
                "a captured tile lies outside the CTA's shared memory",
                where=where, expected=f"inside {total} bytes", found=f"{size} bytes at {begin}",
            )  # fmt: skip
        row = region.shape[1] * itemsize
        if region.swizzle not in BITS or (region.swizzle != "none" and row % width(region.swizzle)):
            yield TileproofError(
                "the swizzle does not fit the captured tile",
                where=where,
                expected=f"one of {', '.join(BITS)}, rows whole spans of it",
                found=f"{region.swizzle}, rows of {row} bytes",
            )
