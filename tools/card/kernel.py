"""A kernel of this repository, checked tile by tile on a driver.

python -m tileproof.tools.card.kernel NAME cuda|emulator EXAMPLES
"""

from __future__ import annotations

import json
import subprocess
import sys

from tileproof.conformance.cli.exit_codes import CLEAN, DEFECT
from tileproof.tools.card.row import Answer


def run(name: str, driver: str, examples: str) -> Answer:
    """`tileproof check NAME --driver DRIVER`."""
    options = ["--driver", driver, "--examples", examples, "--json"]
    if driver == "emulator":
        options += ["--no-edges", "--no-races"]
    command = [sys.executable, "-P", "-m", "tileproof", "check", name, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return Answer(
            "fault", f"exit code {done.returncode}", {"errors": (done.stdout + done.stderr)[-2000:]}
        )
    data = {"driver": driver, "report": report}
    if done.returncode == CLEAN:
        return Answer("as expected", data=data)
    if done.returncode == DEFECT:
        return Answer("differs", "the check reports a defect", data)
    return Answer("not run", f"exit code {done.returncode}", data)


if __name__ == "__main__":
    run(*sys.argv[1:]).print()
