"""`tileproof kernels` and `defects`: lists."""

from __future__ import annotations

import click
from tileproof.conformance.cli.exit_codes import CLEAN
from tileproof.conformance.cli.options import json_option
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import JsonObject


@click.command()
@json_option()
def kernels(as_json: bool) -> int:
    """List the kernels, their variants, and the stages that each computes.

    Packages may register kernels of their own (docs/adding-a-kernel.md); a package that cannot be loaded is
    reported.
    """
    from tileproof.kernels import registry

    rows: list[JsonObject] = []
    errors: dict[str, list[str]] = {}
    for name, error in registry.broken().items():
        errors.setdefault(str(error), []).append(name)
    for found in registry.kernels().values():
        try:
            plan = found.plan(found.variants[0])
        except TileproofError as error:
            errors.setdefault(str(error), []).append(found.name)
            continue
        rows.append(
            {
                "kernel": found.name,
                "variants": "; ".join(map(str, found.variants)),
                "stages": ", ".join(plan.stages),
                "threads": plan.threads,
                "cluster": plan.cluster,
            }
        )
    text.print_rows("Kernels", rows, as_json)
    for reason, names in errors.items():
        click.echo(f"not usable: {', '.join(names)}: {reason}", err=True)
    return CLEAN


@click.command()
@json_option()
def defects(as_json: bool) -> int:
    """List the planted defects that `check --plant` accepts."""
    from tileproof.conformance.planted.defects import defects as known
    from tileproof.kernels.edit import InStage

    rows = [
        {
            "id": defect.id,
            "defect": defect.title,
            "kernel": defect.target,
            "found as": defect.expected.stage
            if isinstance(defect.expected, InStage)
            else defect.expected.code,
            "corpus": defect.corpus,
        }
        for defect in known().values()
    ]
    text.print_rows("Planted defects", rows, as_json)
    return CLEAN
