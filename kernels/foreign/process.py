"""The owner's side of a process that runs foreign code: requests and answers.

It is a fresh interpreter, no fork, without memory or open files of the asking process, and what it answers is
data (`frames`). To end without an answer, or not to answer in time, is an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict

from tileproof.kernels.foreign import frames, isolation
from tileproof.kernels.foreign.frames import Message, NoMessage
from tileproof.kernels.foreign.limits import ForeignLimits
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject

SERVE = "tileproof.kernels.foreign.serve"
END_S = 5.0  # that the kernel may take to end a killed process
_PARTS = ("what", "where", "expected", "found", "do")


class ForeignProcess:
    """A process in which the module `server` answers: its function `answer` takes and returns a
    `Message`. `what` and `where` name the code that it runs, for errors.
    """

    def __init__(self, server: str, what: str, where: str, limits: ForeignLimits | None = None) -> None:
        self.owner, self._adopted = os.getpid(), False
        self._what, self._where, self._limits = what, where, limits or ForeignLimits()
        self._link, theirs = socket.socketpair()
        folder = isolation.within()
        settings = {
            "fd": theirs.fileno(), "limits": asdict(self._limits), "parent": self.owner,
            "folder": tempfile.mkdtemp(prefix="foreign-", dir=folder) if folder else "",
            "without": isolation.missing() if folder else [],
        }  # fmt: skip
        given = json.dumps(settings)
        sys.stderr.flush()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", SERVE, server, given, json.dumps(sys.path)],
                stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> ForeignProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def __del__(self) -> None:
        if hasattr(self, "_process") and not self._adopted:
            self.end()

    @property
    def usable(self) -> bool:
        """Whether this process started it, and it runs, or adopted it."""
        return self.owner == os.getpid() and (self._adopted or self._process.poll() is None)

    def adopt(self) -> None:
        """Has this process, a fork of the process that started it, ask the questions from here on. It does
        not end with this process, and two processes must not ask at once.
        """
        self.owner, self._adopted = os.getpid(), True

    def ask(
        self, body: UncheckedObject, arrays: frames.Arrays | None = None, seconds: float | None = None
    ) -> Message:
        """The answer to a question, in at most `seconds`, by default those of the limits.

        TileproofError: the error that the other side answers with, or how it ended without an answer. Without
        an answer it is ended.
        """
        seconds = self._limits.seconds if seconds is None else min(seconds, self._limits.seconds)
        deadline = time.monotonic() + max(seconds, 0.01)
        try:
            frames.send(self._link, Message(body, arrays or {}), deadline)
            answer = frames.receive(self._link, deadline)
        except TimeoutError:
            self.end()
            raise self._failed(
                "did not return in time", f"no answer in {seconds:.0f} s",
                "make it faster, or allow more time where the command has a limit of time",
            ) from None  # fmt: skip
        except (NoMessage, OSError) as error:
            text = str(error) if isinstance(error, NoMessage) and str(error) else ""
            raise self._failed("ended without an answer", text or self._ending()) from None
        except BaseException:  # an interrupt: the answer may come later, and would be taken for another
            self.end()
            raise
        if "error" in answer.body:
            raise _error_of(answer.body["error"])
        return answer

    def end(self) -> None:
        """Ends it and the processes of its session."""
        self._link.close()
        if self.owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)

    def _failed(self, how: str, found: str, do: str = "") -> TileproofError:
        self.end()
        return TileproofError(f"{self._what} {how}", where=self._where, found=found, do=do)

    def _ending(self) -> str:
        """How it ended on its own account."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process ended with code {code}"


def _error_of(body: object) -> TileproofError:
    """The error that the other side reports; texts only, whatever it sent."""
    parts = body if isinstance(body, Mapping) else {}
    what, *rest = (str(parts.get(key, "")) for key in _PARTS)
    return TileproofError(what or "an error without a text", **dict(zip(_PARTS[1:], rest, strict=True)))
