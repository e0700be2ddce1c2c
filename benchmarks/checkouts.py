"""Processes of two checkouts: each answers questions with its own package; measurements in pairs.

A benchmark starts itself with the Python of each checkout (a folder with its `.venv` and its engine built),
in that folder. Questions and answers are lines of JSON; an answer begins with seconds of processor time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def serve(answer: Callable[..., Sequence[object]]) -> None:
    """Answers each line of standard input, whose items are the arguments of `answer`."""
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)


class Checkout:
    """A process that runs `script` with the package of a checkout."""

    def __init__(self, folder: Path, script: str, *arguments: str) -> None:
        command = [str(folder / ".venv" / "bin" / "python"), str(Path(script).resolve()), *arguments]
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # as the command line does
        )

    def run(self, *question: object) -> tuple[float, list[object]]:
        """Seconds of processor time, and the rest of the answer."""
        assert self._process.stdin and self._process.stdout
        print(json.dumps(question), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self._process.args}: exit code {self._process.wait()}")
        seconds, *rest = json.loads(line)
        return seconds, rest

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def in_child(work: Callable[[], Sequence[object]]) -> tuple[float, list[object]]:
    """Seconds of processor time of a forked process that does `work`, children included, and the result."""
    read, write = os.pipe()
    if not (pid := os.fork()):
        os.close(read)
        os.write(write, json.dumps(work()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        result = json.loads(pipe.read())
    used = os.wait4(pid, 0)[2]
    return used.ru_utime + used.ru_stime, result


def in_pairs(before: Checkout, now: Checkout, count: int, *question: object) -> list[tuple[float, float]]:
    """Seconds before and now of `count` pairs; who runs first alternates, as a busy machine slows both."""
    pairs = []
    for number in range(count):
        if number % 2:
            later = now.run(*question)[0]
            pairs.append((before.run(*question)[0], later))
        else:
            pairs.append((before.run(*question)[0], now.run(*question)[0]))
    return pairs
