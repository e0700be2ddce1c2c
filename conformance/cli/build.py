"""`tileproof build`: compile a kernel, or all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.exit_codes import CLEAN, ERROR
from tileproof.conformance.cli.options import json_option
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import JsonObject

if TYPE_CHECKING:
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.variant import Variant


NOTHING_TO_BUILD = "a launch file is built when it runs: `tileproof inspect` shows its PTX"


@click.command()
@click.argument("kernel", required=False)
@variant_options
@click.option(
    "--cubins",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write files for launchers into this folder: for each production build cubins for sm_100a"
    " and for the sm_100f family, a fat binary of these and the PTX, manifest.json, and tileproof_launch.h."
    " Other entries in the folder are kept.",
)
@json_option()
def build(kernel: str | None, variant: str | None, folder: Path | None, as_json: bool) -> int:
    """Compile the production and the probe build of KERNEL, by default of all kernels that compile fast.

    If a kernel cannot be built, the others are still built, and the exit code is 2.
    """
    from tileproof.conformance.cases import resolve
    from tileproof.kernels import manifest, registry

    rows: list[JsonObject] = []
    images: list[JsonObject] = []
    errors = [] if kernel else list(registry.broken().values())
    every = registry.kernels().values()
    to_build = (
        [resolve.kernel(kernel, NOTHING_TO_BUILD)]
        if kernel
        else [each for each in every if not each.on_demand]
    )
    with text.Progress(0) as progress:
        for found in to_build:
            try:
                for each in chosen(found, variant):
                    for probe in (False, True) if found.probe else (False,):
                        progress.start(f"building {found.entry(each, probe)}")
                        rows.append(_built(found, each, probe))
                    if folder is not None:
                        progress.start(f"assembling {found.entry(each, False)}")
                        images += manifest.packaged(found, each, folder)
            except TileproofError as error:
                if kernel:
                    raise
                errors.append(error)
    text.print_rows("Builds", rows, as_json)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        entries = len(manifest.write(images, folder))
        click.echo(f"{entries} entries, manifest.json and tileproof_launch.h are in {folder}", err=True)
    on_demand = [] if kernel else [each.name for each in every if each.on_demand]
    if on_demand:
        click.echo(
            f"skipped, because they compile slowly; name them to build them: {', '.join(on_demand)}", err=True
        )
    for failure in errors:
        click.echo(f"could not build: {failure}", err=True)
    return ERROR if errors else CLEAN


def _built(found: Kernel, variant: Variant, probe: bool) -> JsonObject:
    built = found.build(variant, probe)
    use = built.resources
    return {
        "entry": built.entry,
        "registers": use.registers if use else "",
        "spill_bytes": use.spill_stores + use.spill_loads if use else "",
        "dynamic_smem": found.plan(variant).smem_bytes,
        "ptx": str(built.ptx_path),
    }
