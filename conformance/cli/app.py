"""The command line: `tileproof check | build | kernels | stages | defects | corpus | explain`.

Exit codes: 0 clean, 1 a defect, 2 an error, 3 incomplete. Results go to standard output, progress and
errors to standard error (errors as JSON to standard output with `--json`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
import traceback
from typing import Any, NoReturn

import click

# Before numpy is imported: tiles are small products, and BLAS threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from rich.console import Console
from rich.markup import escape
from tileproof import __version__
from tileproof.conformance.check.property import Stopped
from tileproof.conformance.cli.build import build
from tileproof.conformance.cli.campaign import campaign
from tileproof.conformance.cli.check import check
from tileproof.conformance.cli.corpus import corpus
from tileproof.conformance.cli.crosscheck import crosscheck
from tileproof.conformance.cli.diagnose import diagnose
from tileproof.conformance.cli.exit_codes import CLEAN, ERROR
from tileproof.conformance.cli.explain import explain
from tileproof.conformance.cli.explore import explore
from tileproof.conformance.cli.gate import diff, gate
from tileproof.conformance.cli.inspect import inspect, instructions
from tileproof.conformance.cli.judge import judge
from tileproof.conformance.cli.layout import layout
from tileproof.conformance.cli.lists import defects, kernels
from tileproof.conformance.cli.locate import locate
from tileproof.conformance.cli.mutants import mutants
from tileproof.conformance.cli.mutate import mutate
from tileproof.conformance.cli.record import record
from tileproof.conformance.cli.stages import stages
from tileproof.conformance.cli.stopping import closed_pipe_is_fine
from tileproof.conformance.cli.synchronisation import synchronisation
from tileproof.conformance.cli.tensors import tensors
from tileproof.conformance.cli.time import time
from tileproof.conformance.cli.trace import trace
from tileproof.conformance.cli.vectors import vectors
from tileproof.emulator.heap import keep_freed_memory
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.finding_text import printable

RENAMED = {"orders": "synchronisation", "prove": "crosscheck"}  # current names of renamed commands


class Errors(click.Group):
    """Convert every failure into a readable message and exit code 2."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command in `args`; the error for a renamed command gives its new name."""
        if args and (now := RENAMED.get(args[0])):
            raise TileproofError(
                "the command was renamed",
                found=f"tileproof {args[0]}",
                do=f"use `{shlex.join(['tileproof', now, *args[1:]])}`",
            )
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:  # type: ignore[override]
        as_json = "--json" in (kwargs.get("args") or (args[0] if args and args[0] else sys.argv[1:]))
        kwargs["standalone_mode"] = False
        keep_freed_memory()
        try:
            code = super().main(*args, **kwargs)
        except click.exceptions.Exit as done:
            code = done.exit_code
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            code = ERROR
        except click.ClickException as error:
            fail(_usage_error(error), as_json)
        except (click.Abort, KeyboardInterrupt, Stopped):
            fail(TileproofError("interrupted"), as_json)
        except TileproofError as error:
            fail(error, as_json)
        except MemoryError as error:
            fault = TileproofError(
                "the problem does not fit into memory", found=str(error) or "no memory is left",
                expected="sizes that fit into this machine's address space and memory",
                do="use smaller sizes",
            )  # fmt: skip
            fail(fault, as_json)
        except Exception as error:
            traceback.print_exc()
            fault = TileproofError(
                "internal error", found=f"{type(error).__name__}: {error}", do="report it with the text above"
            )
            fail(fault, as_json)
        sys.exit(code if isinstance(code, int) else CLEAN)


def _usage_error(error: click.ClickException) -> TileproofError:
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "tileproof"
    text = error.format_message()
    # click's sentence about a value that is none of a fixed list.
    choice = re.search(r": '(.*)' is not one of (.*)\.$", text, re.DOTALL)
    meant = did_you_mean(choice[1], re.findall(r"'([^']*)'", choice[2])) if choice else ""
    return TileproofError(text, do=" ".join([meant, f"see `{command} --help`"]).strip())


def fail(error: TileproofError, as_json: bool) -> NoReturn:
    """Print an error, as JSON on standard output if requested; exit code 2."""
    if as_json:
        with closed_pipe_is_fine():
            print(json.dumps({"verdict": "error", "error": error.as_dict()}, indent=1))
    else:
        with contextlib.suppress(SystemExit):  # raised by rich on a closed pipe: the exit code remains
            Console(stderr=True).print(
                f"[bold red]error:[/] {escape(printable(str(error)))}", highlight=False
            )
    sys.exit(ERROR)


@click.group(cls=Errors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tileproof")
def main() -> None:
    """Checks GPU attention kernels stage by stage, tile by tile, without a GPU."""


COMMANDS = (
    build,
    campaign,
    check,
    corpus,
    crosscheck,
    defects,
    diagnose,
    diff,
    explain,
    explore,
    gate,
    inspect,
    instructions,
    kernels,
    judge,
    layout,
    locate,
    mutants,
    mutate,
    record,
    stages,
    synchronisation,
    tensors,
    time,
    trace,
    vectors,
)
for command in COMMANDS:
    main.add_command(command)
