# ruff: noqa: E501 - messages are kept whole
"""Runs the cases under sanitizers: `python -m tests.kit.fuzz --seconds 120`; a failure is printed with its command.

Each case runs in a process of its own, with the engine of `setup.py build_ext --sanitize`, or, with `--plain`,
that of the checkout. `--pytest` runs tests under sanitizers.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
from datetime import date
from typing import IO, Any

from tests.kit.fuzz.sanitized import ROOT, environment

MAX_SECONDS = 60.0  # of a processor, that a launch may take under sanitizers


def cases() -> dict[str, Any]:
    """The cases by name."""
    from tests.kit.fuzz import forms, maps, tensor_core, warpgroup  # they import the emulator

    assert forms and maps and tensor_core and warpgroup
    from tests.kit.fuzz.case import CASES

    return dict(CASES)


def repeat(given: argparse.Namespace) -> None:
    """Run a case from seed to seed until the time is over; the file `--status` holds the seed."""
    run, end, seed = cases()[given.case], time.monotonic() + given.seconds, given.start
    while time.monotonic() < end:
        if given.status >= 0:
            os.pwrite(given.status, struct.pack("<QQ", seed, seed - given.start), 0)
        began = time.process_time()
        run(random.Random(seed))
        took = time.process_time() - began
        assert took < MAX_SECONDS, f"seed {seed} took {took:.0f} seconds"
        seed += 1
        if given.only:
            return


def started(name: str, given: argparse.Namespace, seconds: float, status: IO[bytes]) -> subprocess.Popen[str]:
    """A process that repeats a case."""
    status.write(bytes(16))
    status.flush()
    words = [sys.executable, "-m", "tests.kit.fuzz", "--case", name, "--start", str(given.start)]
    words += ["--seconds", str(seconds), "--status", str(status.fileno()), *["--plain"] * given.plain]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        env=environment(not given.plain), pass_fds=(status.fileno(),),
    )  # fmt: skip


def fuzz(given: argparse.Namespace) -> int:
    """Every case for its share of the time, some at once; 1 when any failed."""
    waiting, running = list(cases()), list[tuple[str, IO[bytes], subprocess.Popen[str]]]()
    count, failed, total = len(waiting), 0, 0
    share = given.seconds * given.jobs / count
    while waiting or running:
        while waiting and len(running) < given.jobs:
            status: Any = tempfile.TemporaryFile()  # noqa: SIM115 - closed when its process has ended
            running.append((waiting[0], status, started(waiting.pop(0), given, share, status)))
        name, status, process = running.pop(0)
        output, _ = process.communicate()
        seed, launches = struct.unpack("<QQ", os.pread(status.fileno(), 16, 0))
        status.close()
        total += launches
        print(
            f"{name}: {launches} launches" + f", exit {process.returncode}" * bool(process.returncode),
            flush=True,
        )
        if process.returncode:
            failed += 1
            plain = " --plain" * given.plain
            print(
                f"{output[:8000]}\nreplay: python -m tests.kit.fuzz{plain} --case {name} --only --start {seed}",
                flush=True,
            )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(
        f"{count} cases, {total} launches, {failed} failed; seed {given.start >> 32}; at most {peak} MB in a process"
    )
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="of all cases together, on --jobs processors"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", default="today", help='a number, or "today"')
    parser.add_argument("--plain", action="store_true", help="without sanitizers")
    parser.add_argument("--case", help="repeat this case in this process")
    parser.add_argument("--start", type=int, help="the first seed of --case")
    parser.add_argument("--only", action="store_true", help="the seed --start alone")
    parser.add_argument("--pytest", nargs="+", help="tests to run under sanitizers")
    parser.add_argument("--status", type=int, default=-1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.start is None:
        given.start = (date.today().toordinal() if given.seed == "today" else int(given.seed)) << 32
    if given.pytest:
        words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.kit.fuzz.sanitized", *given.pytest]
        return subprocess.run(words, cwd=ROOT, env=environment(), check=False).returncode
    if not given.case:
        return fuzz(given)
    if not given.plain and "libasan" not in os.environ.get("LD_PRELOAD", ""):
        os.execvpe(sys.executable, [sys.executable, "-m", "tests.kit.fuzz", *sys.argv[1:]], environment())
    repeat(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
