"""The first launch of recorded launch files, on a card and in the emulator's exact mode, byte for byte.

    python -m tileproof.tools.silicon.launch_files EVIDENCE.json.xz FOLDER...

A folder is what `tileproof record --run --kernel TEXT` writes. The card and the emulator take the same PTX,
buffers, parameters, grid and cluster. For each buffer the evidence holds the bytes that the emulator's launch
wrote, and how many of all bytes differ on the card. Bytes of pointers are not compared. A buffer that holds
tensor maps differs: a card has its own encoding.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from tileproof.conformance.drivers.card import pointers
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.conformance.drivers.emulator import launch_on, outputs_of
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.arguments import POINTER_BYTES
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile, LaunchModule, PtxFile, PtxText
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import Output
from tileproof.spec.machine.types import JsonObject
from tileproof.tools import evidence

HANG_SECONDS = 120.0  # a driver assembles the PTX first


def first_launch(path: Path) -> LaunchFile:
    """The first kernel launch of a launch file, with its PTX; what follows it is left out."""
    launch = jsonform.read(path)
    modules = tuple(
        LaunchModule(module.name, PtxText((path.parent / module.code.path).read_text()))
        if isinstance(module.code, PtxFile)
        else module
        for module in launch.modules
    )
    return replace(launch, modules=modules, steps=launch.launches[:1], captures=(), barriers=())


def compared(
    buffer: LaunchBuffer, buffers: Sequence[LaunchBuffer], emulated: Output, card: Output
) -> JsonObject:
    """How a buffer's bytes compare, the first differing places among them."""
    want, got = (np.ascontiguousarray(side.values).reshape(-1).view(np.uint8) for side in (emulated, card))
    written = np.repeat(emulated.written.reshape(-1), want.size // max(1, emulated.written.size))
    # Bytes that neither side wrote have the content, or nothing: a card's fill is not compared.
    begun = written if buffer.role == "output" else np.ones(want.size, bool)
    begun = begun.copy()
    addresses = np.flatnonzero(pointers(want, buffers))[:, None] * POINTER_BYTES + np.arange(POINTER_BYTES)
    begun[addresses] = False
    unlike = np.flatnonzero(begun & (want != got))
    out: JsonObject = {"bytes": int(want.size), "written": int(written.sum()), "differ": len(unlike)}
    if len(unlike):
        out["first"] = [[int(at), int(want[at]), int(got[at])] for at in unlike[:8]]
    return out


def run(path: Path) -> JsonObject:
    """The comparison of a launch file."""
    begin = time.monotonic()
    launch = first_launch(path)
    (step,) = launch.launches
    out: JsonObject = {"name": launch.name, "entry": step.entry[:120], "grid": list(step.grid)}
    try:
        result, buffers = launch_on(launch, mma="exact")
        emulated = outputs_of(launch, buffers)
        out["emulator seconds"] = round(time.monotonic() - begin, 1)
        with CudaDriver(HANG_SECONDS) as driver:
            seen = driver.observe(launch)
            out["card"] = vars(driver.facts) if driver.facts else None
    except TileproofError as error:
        return out | {"refused": error.found or str(error)}
    out["findings"] = sorted({found.code for found in result.findings})
    out["card findings"] = [f"{found.code}: {found.message}" for found in seen.findings]
    out["buffers"] = differing(launch, emulated, seen.outputs)
    return out


def differing(
    launch: LaunchFile, emulated: Mapping[str, Output], card: Mapping[str, Output]
) -> dict[str, JsonObject]:
    """`compared` of the buffers that the emulator's launch wrote, or that differ."""
    found = {
        buffer.name: compared(buffer, launch.buffers, emulated[buffer.name], card[buffer.name])
        for buffer in launch.outcomes
    }
    return {name: buffer for name, buffer in found.items() if buffer["written"] or buffer["differ"]}


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("-j", "--jobs", default=8, show_default=True, type=click.IntRange(1))
def main(out: Path, folders: tuple[Path, ...], jobs: int) -> None:
    """Compare the launch files of FOLDERS and write the evidence file OUT."""
    with ProcessPoolExecutor(jobs) as pool:
        rows = list(pool.map(run, [folder / "launch.json" for folder in folders]))
    evidence.write_json(out, {"date": datetime.date.today().isoformat(), "launches": rows})
    for row in rows:
        click.echo(str(row))


if __name__ == "__main__":
    main()
