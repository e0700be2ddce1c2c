"""A separate process in which operators are called, because some end their process (SIGSEGV).

    python -m tileproof.kernels.host.torch_cuda.worker

answers on its stdout, one pickle a message: ("at", operator) before each operator, then ("found", arrays) or
("raised", type, text). A call that leaves the card unusable ends it; the next call starts another.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from typing import IO

import numpy as np

MODULE = "tileproof.kernels.host.torch_cuda.worker"
CALL_SECONDS = 90.0  # of one call, with the start of the process: what takes longer is ended
COMMAND = (sys.executable, "-P", "-m", MODULE)
# Of errors that a call raises and that say that it takes no such problem.
REFUSALS = ("RuntimeError", "NotImplementedError", "TypeError", "ValueError", "NotTaken", "OutOfMemoryError")

Found = dict[str, np.ndarray]


class OperatorEnded(RuntimeError):
    """The operator ended its process."""


class Raised(RuntimeError):
    """What the operator raised: its type is `kind`; `at` is the last operator that was called."""

    def __init__(self, kind: str, text: str, at: str = "") -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text, self.at = kind, text, at


class Worker:
    """Calls by name, in a process that is started when it is first needed and again when it has ended."""

    def __init__(self, command: Sequence[str] = COMMAND, seconds: float = CALL_SECONDS) -> None:
        self._command, self._seconds = command, seconds
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, operator: str, inputs: object) -> Found:
        """What `operator` gives on an `Inputs`, f32; Raised or OperatorEnded when it gives nothing."""
        used = self._process is not None
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.starts += 1
        process, at = self._process, ""
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(self._seconds, process.kill)
        timer.start()
        try:
            pickle.dump((operator, inputs), process.stdin)
            process.stdin.flush()
            while True:
                kind, *said = pickle.load(process.stdout)
                if kind == "at":
                    at = f" in {said[0]}"
                elif kind == "raised":
                    raise Raised(said[0], said[1], at.removeprefix(" in "))
                else:
                    return said[0]  # type: ignore[no-any-return]
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            code = process.wait()
            self._process = None
            if used and code == 0 and not at:  # it gave up the card behind its last answer
                return self.call(operator, inputs)
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            if code == -signal.SIGKILL and not timer.is_alive():
                raise OperatorEnded(f"the operator does not end ({self._seconds:g} s{at})") from None
            raise OperatorEnded(f"the operator ends its process ({how}{at})") from None
        finally:
            timer.cancel()

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()
            self._process = None


@cache
def of_process(pid: int) -> Worker:
    """The worker of the process `pid`; a forked process has its own."""
    return Worker()


def call(operator: str, inputs: object) -> Found:
    """What `operator` gives on `inputs`, called in this process's worker."""
    return of_process(os.getpid()).call(operator, inputs)


def refusal(operator: str, inputs: object) -> str:
    """Why an operator does not take a problem, in its own words; "" when it does."""
    try:
        call(operator, inputs)
    except OperatorEnded as error:
        return str(error)
    except Raised as error:
        if error.kind not in REFUSALS:
            raise
        return (error.text.strip() or error.kind).splitlines()[0][:200]
    return ""


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answers requests until there are no more, or the card can no longer be used."""
    import torch
    from tileproof.kernels.host.torch_cuda import kernel

    torch.set_num_threads(1)  # many such processes run side by side

    def say(*message: object) -> None:
        pickle.dump(message, answers)
        answers.flush()

    kernel.ATEN.listener = lambda name: say("at", name)
    while True:
        try:
            operator, inputs = pickle.load(requests)
        except EOFError:
            return
        try:
            found = kernel.OPERATORS[operator](inputs)
            torch.cuda.synchronize()
            say("found", {name: value.float().cpu().numpy() for name, value in found.items()})
        except Exception as error:
            said = ("raised", type(error).__name__, str(error))
            try:
                torch.cuda.synchronize()
            except Exception:  # the card is lost to this process
                say(*said)
                return
            say(*said)


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what else is printed goes to stderr
    serve(sys.stdin.buffer, own)
