"""Processor time that the command line takes to start, in turn with that of another checkout:

    python benchmarks/start_up.py [--against CHECKOUT] [--runs 7]

The least of several runs of each command, in seconds (user and system, children included), with bytecode.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAUNCH = (
    "from pathlib import Path; from tests.kit.launch_files import scale; "
    "from tileproof.kernels.launch import jsonform; jsonform.write(scale(), Path('{}'))"
)
COMMANDS = (["--version"], ["stages", "dQ"], ["judge", "launch.json", "--schedules", "2"])


def seconds(python: Path, words: list[str], folder: Path) -> float:
    """The processor time of one run."""
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [python, "-m", "tileproof", *words], cwd=folder, env=environment, capture_output=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--against", type=Path, help="another checkout that is set up")
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    checkouts = [ROOT, *([given.against.resolve()] if given.against else [])]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "launch.json"
        subprocess.run([sys.executable, "-c", LAUNCH.format(path)], cwd=ROOT, check=True)
        for words in COMMANDS:
            least = [float("inf")] * len(checkouts)
            for _ in range(given.runs):
                for at, checkout in enumerate(checkouts):
                    took = seconds(checkout / ".venv/bin/python", words, path.parent)
                    least[at] = min(least[at], took)
            ratio = f", {least[0] / least[1]:.2f} of {least[1]:.2f} s" if given.against else ""
            print(f"tileproof {' '.join(words)}: {least[0]:.2f} s{ratio}")


if __name__ == "__main__":
    main()
