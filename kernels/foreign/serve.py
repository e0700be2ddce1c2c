"""The process of foreign code: applies its limits, then answers requests until its connection is closed.

`python -m tileproof.kernels.foreign.serve MODULE SETTINGS PATHS`, as `process` starts it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

from tileproof.kernels.foreign import frames, isolation
from tileproof.kernels.foreign.limits import ForeignLimits
from tileproof.spec.machine.errors import TileproofError

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answers each question with the module's `answer`, or with the error that it raised."""
    module, settings, paths = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    _end_with(settings["parent"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if settings["folder"]:
        os.environ["TMPDIR"] = os.environ["HOME"] = settings["folder"]
        isolation.isolate(Path(settings["folder"]), without=settings["without"])
    answer = importlib.import_module(module).answer
    # What foreign code imports comes from where the process that asks would import it from.
    sys.path[:] = paths
    sys.argv[:] = [module]
    ForeignLimits(**settings["limits"]).apply()
    with socket.socket(fileno=settings["fd"]) as link:
        link.set_inheritable(False)
        while True:
            try:
                question = frames.receive(link)
            except (frames.NoMessage, OSError):
                break
            try:
                answered = answer(question)
            except TileproofError as error:
                answered = frames.Message({"error": error.as_dict()})
            except BaseException as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                found = f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
                answered = frames.Message({"error": {"what": "foreign code raised", "found": found}})
            sys.stdout.flush()
            sys.stderr.flush()
            _tell(link, answered)
    os._exit(0)


def _tell(link: socket.socket, answered: frames.Message) -> None:
    try:
        frames.send(link, answered)
    except TileproofError as error:
        frames.send(link, frames.Message({"error": error.as_dict()}))


def _end_with(parent: int) -> None:
    """Ends this process when its parent ends (prctl(2), Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    main()
