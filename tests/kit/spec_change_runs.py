"""Applies changes of the spec to a copy, and runs the tests that must find them.

``python -m tests.kit.spec_change_runs [NAME ...]`` runs all of them, or those named, prints what found each
and the CPU seconds it took, and exits with 1 if any was not found. A change has two minutes of one core.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.kit.paths import ROOT
from tests.kit.spec_changes import CHANGES, Change

SECONDS = 120  # of CPU
WAIT = 20 * SECONDS  # of a busy machine

# Before pytest is started: modules of the spec come from the copy.
_START = """
import sys, pytest
finder = next(f for f in sys.meta_path if hasattr(f, "known_source_files"))
own, copy = sys.argv[1], sys.argv[2]
files = finder.known_source_files
for name, path in list(files.items()):
    if name == "tileproof.spec" or name.startswith("tileproof.spec."):
        files[name] = path.replace(own, copy)
for name, places in list(getattr(finder, "submodule_search_locations", {}).items()):
    if name == "tileproof.spec" or name.startswith("tileproof.spec."):
        finder.submodule_search_locations[name] = {place.replace(own, copy) for place in places}
import tileproof.spec.numerics
assert tileproof.spec.numerics.__file__.startswith(copy), tileproof.spec.numerics.__file__
sys.exit(pytest.main(sys.argv[3:]))
"""


@dataclass(frozen=True)
class Outcome:
    """What became of a change: the test that found it ("" if none did), and the CPU seconds it took."""

    change: Change
    found: str
    seconds: float
    output: str


def _used() -> float:
    """CPU seconds of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def tried(change: Change) -> Outcome:
    """Apply `change` to a copy of the spec and run its tests there."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "spec"
        shutil.copytree(ROOT / "spec", copy, ignore=shutil.ignore_patterns("__pycache__"))
        target = copy / change.file
        text = target.read_text()
        if text.count(change.old) != 1:
            raise ValueError(
                f"{change.name}: {change.old!r} stands {text.count(change.old)} times in {change.file}"
            )
        target.write_text(text.replace(change.old, change.new))
        before = _used()
        options = ["-n", "0", "-q", "-x", "--no-header", "-p", "no:cacheprovider", "-m", "not slow"]
        command = [sys.executable, "-c", _START, f"{ROOT}/spec", str(copy), *options, *change.tests]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            run = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=WAIT,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5)),
            )
            output = run.stdout + run.stderr
        except subprocess.TimeoutExpired as ended:
            output = str(ended)
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.M)
    return Outcome(change, named[1] if named else "", _used() - before, output)


def main(names: list[str]) -> int:
    """Try the changes, print what found each; 1 if any was not found."""
    lost = 0
    for change in CHANGES:
        if not names or change.name in names:
            outcome = tried(change)
            lost += not outcome.found
            print(f"{outcome.seconds:6.1f} s  {change.name}: {outcome.found or 'NOT FOUND'}", flush=True)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
