"""`tileproof inspect` and `tileproof instructions`: contents of PTX, and the supported instructions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.options import json_option
from tileproof.kernels import paths
from tileproof.spec.machine.errors import TileproofError, did_you_mean

if TYPE_CHECKING:
    from tileproof.emulator import Module
    from tileproof.emulator.inspect import ModuleInfo

ERROR = 2


@click.command()
@click.argument("kernel", metavar="PTX|FILE|KERNEL")
@click.option("--entry", metavar="NAME", help="Only this kernel of the PTX.")
@json_option()
def inspect(kernel: str, entry: str | None, as_json: bool) -> int:
    """Print the contents of PTX: parameters and which of their bytes are read, shared memory, barriers, CTA
    groups, and every unsupported instruction form. Exit code 2 if a form is unsupported.

    The PTX is a file, the modules of a launch file, or the production builds of a kernel.
    """
    found = [(title, _chosen(module.inspect(), entry)) for title, module in _modules(kernel)]
    entries = [entry_info for _, info in found for entry_info in info.entries]
    if not entries:
        every = [info.name for _, module in _modules(kernel) for info in module.inspect().entries]
        known = ", ".join(dict.fromkeys(every)) or "none"
        raise TileproofError(
            "the PTX has no such kernel", where=kernel, expected=known, found=entry or "none",
            do=did_you_mean(entry or "", every),
        )  # fmt: skip
    several = len(found) > 1
    if as_json:
        whole = [{"module": title, **info.as_dict()} for title, info in found]
        print(json.dumps(whole if several else found[0][1].as_dict(), indent=1))
    else:
        for number, (title, info) in enumerate(found):
            print("\n" * bool(number) + (f"{title}: " if several else "") + "\n".join(info.lines()))
    for line in _known_wrong(kernel, entry):
        click.echo(line, err=True)
    return 0 if all(entry_info.runs for entry_info in entries) else ERROR


def _known_wrong(kernel: str, entry: str | None) -> list[str]:
    """Warnings about machine code that ptxas is known to get wrong."""
    from tileproof.kernels.wrong_code import wrong_code

    out = []
    for _, module in _modules(kernel):
        try:
            out += [f"warning: {w}" for w in wrong_code(module.text) if entry in (None, w.entry)]
        except TileproofError as error:
            out.append(f"warning: ptxas's known defects were not looked for: {error.what}")
    return out


def _modules(argument: str) -> list[tuple[str, Module]]:
    """The PTX modules that an argument names, each with a title."""
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.launches.modules import load
    from tileproof.emulator import Module
    from tileproof.kernels.launch.model import LaunchFile

    path = Path(argument)
    if path.suffix == ".ptx" or (path.is_file() and paths.described(path) == paths.PTX):
        if not path.exists():
            raise paths.missing(path, "a PTX file, a launch file or a kernel")
        if path.is_dir() or paths.described(path) != paths.PTX:
            raise resolve.not_ptx(path)
        return [(argument, Module.from_file(path))]
    found = resolve.compiled(argument)
    if isinstance(found, LaunchFile):
        return [(f"module {name}", module.module) for name, module in load(found).items()]
    return [(found.title(variant), Module.from_ptx(found.build(variant).ptx)) for variant in found.variants]


def _chosen(info: ModuleInfo, entry: str | None) -> ModuleInfo:
    """Return the module with only the kernel `entry`, if given."""
    if entry is None:
        return info
    return replace(info, entries=tuple(info for info in info.entries if info.name == entry))


@click.command()
@click.argument("base", required=False)
@click.option("--findings", is_flag=True, help="List the codes of findings instead of instructions.")
@json_option()
def instructions(base: str | None, findings: bool, as_json: bool) -> int:
    """List supported and unsupported instructions; with BASE, those whose name starts with BASE."""
    from tileproof.conformance.report.terminal import print_rows
    from tileproof.emulator import isa
    from tileproof.emulator.codes import CODES
    from tileproof.emulator.registry import ROWS

    assert isa  # importing the families fills the registry
    if findings:
        rows = [
            {
                "code": c.code,
                "severity": c.severity,
                "launch": "stops" if c.stops else "continues",
                "means": c.meaning,
            }
            for c in CODES.values()
        ]
    else:
        rows = [
            {"instruction": r.base, "forms": r.forms, "grade": r.grade, "ISA": r.section, "note": r.note}
            for r in sorted(ROWS, key=lambda r: r.base)
        ]
    if base is not None:
        first = "code" if findings else "instruction"
        rows = [row for row in rows if row[first].startswith(base)]
        if not rows:
            raise TileproofError(
                "no instruction or finding has this name",
                where=base,
                expected="the start of an instruction name, or with --findings of a code",
                do="`tileproof instructions` lists all",
            )
    print_rows("Findings" if findings else "Instructions", rows, as_json)
    return 0
