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
    if reference is not None or not saved.is_saved(path):
        return ExploredLaunch(file, reference)
    try:
        return Explored.saved(saved.load(path, EmulatorDriver()))
    except saved.NotInstalled as error:
        return ExploredLaunch(file, no_stages=f"stages: {error.what} ({error.found})")
