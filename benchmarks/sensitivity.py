"""Time of `tileproof time KERNEL --sensitivity`, in turn with another checkout:

    python benchmarks/sensitivity.py [--against CHECKOUT] [--kernels head64 ...]

Seconds of wall time and of processor time (children included) of one run each, compilation cached.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

KERNELS = ("head64", "head128-columns")


def seconds(python: Path, words: list[str]) -> tuple[float, float]:
    """Wall time and processor time of a command of the checkout of `python`."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([python, "-m", "tileproof", *words], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return time.monotonic() - began, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--against", type=Path, help="another checkout that is set up")
    parser.add_argument("--kernels", nargs="+", default=KERNELS)
    options = parser.parse_args()
    pythons = {"here": Path(sys.executable)}
    if options.against:
        pythons = {"there": options.against / ".venv" / "bin" / "python", **pythons}
    for name in options.kernels:
        for where, python in pythons.items():
            command = ["time", name, "--d-qk", "576"]
            subprocess.run(
                [python, "-m", "tileproof", *command, "--figures"], capture_output=True, check=True
            )
            wall, used = seconds(python, [*command, "--sensitivity"])
            print(f"{name:16s} {where:6s} {wall:6.1f} s, {used:6.1f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
