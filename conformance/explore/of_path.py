"""What a path names, as `explore` and `trace` run it: a saved example with its plan, or a launch file."""

from __future__ import annotations

from pathlib import Path

from tileproof.conformance.check import saved
from tileproof.conformance.drivers.emulator import EmulatorDriver
from tileproof.conformance.explore.case import ExploredCase
from tileproof.conformance.explore.explored import Explored
from tileproof.conformance.explore.launch_file import ExploredLaunch
from tileproof.conformance.judging.reference import ReferenceFunction
from tileproof.kernels.launch.model import LaunchFile


def of_path(path: Path, file: LaunchFile, reference: ReferenceFunction | None = None) -> ExploredCase:
    """The case of the launch file `file` at `path`; of an example that `check --save` wrote, without a
    reference, with the stages of its problem. Where the problem type is not installed, the launch alone.
    """
    found = saved.named(path, reference is not None, EmulatorDriver)
    if isinstance(found, saved.SavedCase):
        return Explored.saved(found)
    if found is None:
        return ExploredLaunch(file, reference)
    return ExploredLaunch(file, no_stages=f"stages: {found.what} ({found.found})")
