"""`--isolate` of commands that judge: no network, no writes outside its own folder, limits."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from tileproof.conformance.cli.options import option
from tileproof.kernels.foreign.isolation import NEEDS
from tileproof.spec.machine.errors import TileproofError

COMPILE_S = 1800.0  # of processor time, beside the judging


@dataclass(frozen=True)
class IsolationOptions:
    """Whether the process is isolated, and which features the system may lack."""

    isolate: bool = option(
        "--isolate", is_flag=True,
        help="Run without network, without writes outside its own folder, and with limits (docs/trust.md).",
    )  # fmt: skip
    isolate_without: tuple[str, ...] = option(
        "--isolate-without", multiple=True, type=click.Choice(list(NEEDS)), metavar="NAME",
        help=f"Isolate even where the system cannot provide this: {', '.join(NEEDS)} (repeatable).",
    )  # fmt: skip


def isolated(
    without: Sequence[str], seconds: float, outputs: Sequence[str | None] = (), dump: Path | None = None
) -> None:
    """Isolate this process, which may then write only to the files `outputs`, beneath `dump`, and
    beneath a new folder, which is removed when this process and those that it starts have ended.

    TileproofError names the missing features of this system.
    """
    from tileproof.kernels.foreign import isolation
    from tileproof.kernels.foreign.limits import ForeignLimits

    files = [Path(name) for name in outputs if name and name != "-"]
    try:
        for path in files:
            path.touch()
        if dump is not None:
            dump.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TileproofError("the output cannot be written", found=str(error)) from None
    folder = Path(tempfile.mkdtemp(prefix="tileproof-isolated-"))
    _removed_at_the_end(folder)
    # Nothing of the user's is written: a build cache that others read would be a way out.
    for name in ("TMPDIR", "HOME", "TILEPROOF_CACHE"):
        os.environ[name] = str(folder)
    tempfile.tempdir = None
    ForeignLimits(seconds=seconds + COMPILE_S).apply()
    isolation.isolate(folder, [*files, *([dump] if dump else [])], without)


def _removed_at_the_end(folder: Path) -> None:
    """Start a process that removes the folder when the other end of a pipe is closed."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(reader)  # the writer stays open as long as this process and its forks live
        return
    os.close(writer)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.read(reader, 1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
