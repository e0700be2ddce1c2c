"""The process of a command, and the process that owns its exit code.

The command runs in a child. The owner runs only this module's code: it forwards signals and waits for a line
with the command's exit code. A child that ends without it, by `os._exit(0)` of a kernel.py or by
a crash, is an error (exit code 2), whatever its own exit code.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from tileproof.spec.machine.types import JsonObject

ERROR = 2
SAME_S = 0.5  # SIGINTs in this time count once: a shell may send it to the owner and to the command
END_S = 10.0  # that the command may take to end after it reported its exit code
LOOK_S = 0.5
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1


@dataclass
class _OwnerState:
    """What the command reported before it ended: its exit code, and foreign code in its process."""

    code: int | None = None
    shared: list[str] = field(default_factory=list)
    _rest: bytes = b""

    def read(self, reader: int, nonce: str) -> None:
        """Takes the lines that are there."""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(reader, 1 << 16):
                self._rest += piece
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, AttributeError):
                report = json.loads(line)
                if report.get("nonce") == nonce:
                    self.code = report.get("code", self.code)
                    self.shared += [report["shared"]] if "shared" in report else []


def main() -> NoReturn:
    """Runs the command line in a child; exits with its exit code."""
    if not hasattr(signal, "sigwaitinfo"):  # only Linux has what this needs
        _command(lambda **_: None, None)
    nonce, (reader, writer) = secrets.token_hex(16), os.pipe()
    os.set_blocking(reader, False)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    owner = os.getpid()
    child = os.fork()
    if not child:
        os.close(reader)
        _end_with(owner)
        _command(lambda **report: _report(writer, nonce, report), before)
    os.close(writer)
    state = _OwnerState()
    status = _waited(child, reader, nonce, state)
    if state.code is None:
        _unanswered(status, state.shared)
    if state.shared:
        print(
            f"note: the code of {', '.join(state.shared)} ran in the process that judged, so the verdict "
            "is only as trustworthy as that code (docs/trust.md)",
            file=sys.stderr,
        )
    sys.exit(state.code)


def _report(writer: int, nonce: str, report: JsonObject) -> None:
    with contextlib.suppress(OSError):
        os.write(writer, json.dumps({"nonce": nonce, **report}).encode() + b"\n")


class _Interrupts:
    """What SIGINT does in the process of the command: it ends it while the command starts and after it left,
    and raises KeyboardInterrupt while it runs, once for signals that come together.
    """

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._last = -SAME_S
        self.running = False

    def __call__(self, *_: object) -> None:
        if not self.running:
            self.end()
        now = time.monotonic()
        if now - self._last >= SAME_S:
            self._last = now
            raise KeyboardInterrupt

    def end(self) -> NoReturn:
        """Ends the process with the code of an error."""
        self.running = False
        self._report(code=ERROR)
        os.write(2, b"error: interrupted while it started\n")
        os._exit(ERROR)


def _command(report: Callable[..., None], mask: set[int] | None) -> NoReturn:
    """The command line, in this process, with that mask of signals; reports its exit code after its output
    is written.
    """
    code: str | int | None = ERROR
    interrupts = _Interrupts(report)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupts)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        from tileproof.conformance.cli.app import main as command
        from tileproof.kernels.foreign import shared

        shared.listen(lambda place: report(shared=place))
        interrupts.running = True
        command(prog_name="tileproof")
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        interrupts.end()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    code = code if isinstance(code, int) else ERROR if code else 0
    report(code=code)
    sys.exit(code)


def _end_with(owner: int) -> None:
    """Ends this process when its owner is killed (prctl(2), Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != owner:
            os._exit(ERROR)


def _waited(child: int, reader: int, nonce: str, state: _OwnerState) -> int:
    """Waits for the command, forwards signals; the status of its process."""
    last = None
    while True:
        found = signal.sigtimedwait((*_FORWARDED, signal.SIGCHLD), LOOK_S)
        state.read(reader, nonce)
        # What the terminal sends, and the kernel says so, reaches the command without the owner.
        if found is not None and found.si_signo in _FORWARDED and found.si_code <= 0:
            os.kill(child, found.si_signo)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            state.read(reader, nonce)
            return status
        if state.code is not None:
            last = last or time.monotonic()
            if time.monotonic() - last > END_S:
                os.kill(child, signal.SIGKILL)


def _unanswered(status: int, shared: list[str]) -> NoReturn:
    """The error of a command that ended without a report."""
    code = os.waitstatus_to_exitcode(status)
    found = f"its process ended with code {code}"
    if code < 0:
        with contextlib.suppress(ValueError):
            found = f"its process was killed by {signal.Signals(-code).name}"
    do = "report it as a defect of Tileproof"
    if shared:
        found += f"; it ran the code of {', '.join(shared)}"
        do = "correct that code: it ended or crashed the process"
    from tileproof.conformance.cli.app import fail
    from tileproof.spec.machine.errors import TileproofError

    fail(TileproofError("the command ended without a verdict", found=found, do=do), "--json" in sys.argv)
