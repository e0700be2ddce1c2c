"""A launch of a block as a launch file (`conformance/launches`), in memory or as a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from tileproof.conformance.beside.frontends.host_launch import (
    CapturedBuffer,
    HostArgument,
    HostLaunch,
    MapArgument,
)
from tileproof.conformance.beside.frontends.host_memory import Pointer
from tileproof.emulator.errors import LaunchError
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.arguments import (
    LaunchArgument,
    PointerArgument,
    ScalarArgument,
    TensorMapArgument,
)
from tileproof.kernels.launch.contents import BufferContent, FileBytes, InlineBytes, Unwritten
from tileproof.kernels.launch.model import (
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
    ModuleCode,
    PtxFile,
    PtxText,
)


def as_file(
    launch: HostLaunch, folder: Path | None = None, outputs: Sequence[str] | None = None
) -> LaunchFile:
    """Return the launch with the initial contents of its tensors. The tensors of `outputs` are judged;
    without `outputs`, the tensors that the launch wrote to. No tensor is read-only, because another schedule
    may write to others.

    With `folder`, PTX and tensors are files there, which `saved` writes; otherwise the launch file has them.
    A programmatic launch (may start early) becomes an ordinary launch. LaunchError if the run did not keep
    the contents of the tensors.
    """
    if not launch.kept:
        raise LaunchError(
            "the contents of the tensors before the launch were not kept",
            where=launch.kernel,
            do="emulate(keep=BYTES) with more bytes",
        )
    names = _names(launch)
    if unknown := set(outputs or ()) - set(names):
        raise LaunchError(
            "an output is not a tensor of the launch",
            where=launch.kernel, expected=", ".join(names), found=", ".join(sorted(unknown)),
        )  # fmt: skip
    judged = {
        n
        for n, buffer in zip(names, launch.buffers, strict=True)
        if buffer.stored and buffer.before is not None
    }
    judged = judged if outputs is None else set(outputs)
    code: ModuleCode = PtxText(launch.ptx) if folder is None else PtxFile("kernel.ptx")
    called = launch.names or ("",) * len(launch.arguments)
    sizes = [size for _, size, _ in launch.module.entries[launch.entry]]
    return LaunchFile(
        launch.kernel,
        (LaunchModule("kernel", code),),
        tuple(
            _buffer(buffer, name, name in judged, folder is not None)
            for buffer, name in zip(launch.buffers, names, strict=True)
        ),
        (
            KernelLaunch(
                launch.entry, launch.grid, launch.block,
                tuple(
                    _argument(argument, size, names, name)
                    for argument, size, name in zip(launch.arguments, sizes, called, strict=True)
                ),
                cluster=launch.cluster or (), shared_bytes=launch.shared_bytes,
                cooperative=launch.resident is not None,
            ),
        ),
        folder=folder or Path(),
    )  # fmt: skip


def saved(launch: HostLaunch, folder: Path) -> Path:
    """Write the launch to a folder: launch.json, kernel.ptx and a file per tensor; return launch.json's path.

    LaunchError if it cannot be written.
    """
    file = as_file(launch, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.ptx").write_text(launch.ptx)
        for name, source in launch.sources.items():
            (folder / name).write_text(source)
        for recorded, buffer in zip(launch.buffers, file.buffers, strict=True):
            if recorded.before is not None and isinstance(buffer.content, FileBytes):
                (folder / buffer.content.path).write_bytes(recorded.before.tobytes())
        jsonform.write(file, folder / "launch.json")
    except OSError as error:
        raise LaunchError("a launch cannot be saved", where=str(folder), found=str(error)) from None
    return folder / "launch.json"


def _names(launch: HostLaunch) -> list[str]:
    """A unique name for each buffer."""
    seen: Counter[str] = Counter()
    out = []
    for buffer in launch.buffers:
        seen[buffer.name] += 1
        out.append(buffer.name if seen[buffer.name] == 1 else f"{buffer.name} ({seen[buffer.name]})")
    return out


def _buffer(buffer: CapturedBuffer, name: str, judged: bool, beside: bool) -> LaunchBuffer:
    content: BufferContent = Unwritten()
    if buffer.before is not None:
        plain = "".join(c if c.isalnum() else "-" for c in name)
        content = FileBytes(f"{plain}.bin") if beside else InlineBytes(buffer.before.tobytes())
    role: Literal["inout", "scratch"] = "inout" if judged else "scratch"
    return LaunchBuffer(
        name, buffer.elements.dtype, buffer.elements.shape, role, content, address=buffer.address
    )


def _argument(argument: HostArgument, size: int, names: list[str], called: str) -> LaunchArgument:
    """The argument of a parameter of `size` bytes with the name `called` in the user's function."""
    if isinstance(argument, Pointer):
        return PointerArgument(names[argument.buffer], argument.offset)
    if isinstance(argument, MapArgument):
        if argument.at is None:
            raise LaunchError("a tensor map without memory cannot be written to a launch file")
        made = argument.map
        return TensorMapArgument(
            names[argument.at.buffer], made.shape, made.strides, made.box, made.dtype, made.element_strides,
            made.swizzle, made.oob_fill, argument.at.offset, made.lower, made.upper,
        )  # fmt: skip
    if isinstance(argument, np.generic):
        return ScalarArgument(argument.dtype.name, argument.item(), called)
    if isinstance(argument, float):
        return ScalarArgument(f"f{8 * size}", argument, called)
    whole = int(argument or 0)
    return ScalarArgument(f"{'s' if whole < 0 else 'u'}{8 * size}", whole, called)
