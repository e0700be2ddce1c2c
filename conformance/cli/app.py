"""The command line: `tileproof check | build | kernels | stages | defects | corpus | explain`.

Exit codes: 0 clean, 1 a defect, 2 an error, 3 incomplete. Results go to standard output, progress and
errors to standard error (errors as JSON to standard output with `--json`).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, NoReturn

import click

# Before numpy is imported: tiles are small products, and BLAS threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from rich.console import Console
from rich.markup import escape
from tileproof import __version__
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.cli.exit_codes import CLEAN, ERROR
from tileproof.conformance.cli.stopping import closed_pipe_is_fine
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
            too_large = TileproofError(
                "the problem does not fit into memory", found=str(error) or "no memory is left",
                expected="sizes that fit into this machine's address space and memory",
                do="use smaller sizes",
            )  # fmt: skip
            fail(too_large, as_json)
        except Exception as error:
            traceback.print_exc()
            internal = TileproofError(
                "internal error", found=f"{type(error).__name__}: {error}", do="report it with the text above"
            )
            fail(internal, as_json)
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


# The module of each command; it is imported when the command runs, or for the help of all commands.
COMMANDS = {
    "build": "build",
    "campaign": "campaign",
    "check": "check",
    "corpus": "corpus",
    "crosscheck": "crosscheck",
    "defects": "lists",
    "diagnose": "diagnose",
    "diff": "gate",
    "explain": "explain",
    "explore": "explore",
    "gate": "gate",
    "inspect": "inspect",
    "instructions": "inspect",
    "kernels": "lists",
    "judge": "judge",
    "layout": "layout",
    "locate": "locate",
    "mutate": "mutate",
    "plant": "plant",
    "record": "record",
    "stages": "stages",
    "synchronisation": "synchronisation",
    "tensors": "tensors",
    "time": "time",
    "trace": "trace",
    "vectors": "vectors",
}


class _ImportedCommands(MutableMapping[str, click.Command]):
    """The commands by name, each imported at its first use: all of them take a second."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._commands: dict[str, click.Command | str] = dict(modules)

    def __getitem__(self, name: str) -> click.Command:
        command = self._commands[name]
        if isinstance(command, str):
            command = getattr(importlib.import_module(f"tileproof.conformance.cli.{command}"), name)
            assert isinstance(command, click.Command)
            self._commands[name] = command
        return command

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)


@click.group(
    cls=Errors,
    commands=_ImportedCommands(COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="tileproof")
def main() -> None:
    """Checks GPU attention kernels stage by stage, tile by tile, without a GPU."""
