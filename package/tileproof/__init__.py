"""Tileproof: stage-by-stage, tile-by-tile verification of attention kernels for NVIDIA SM100, without a GPU.

The subpackages are `spec`, `reference`, `kernels`, `emulator`, `conformance`, `ops` and `tools`; in a
checkout they are the folders of these names beside `package`. The command line is `tileproof`, or
`python -m tileproof`. `run` and `judge` take a launch file (`tileproof.launches`), as `tileproof judge` does.
"""

import sys

if sys.argv[:1] == ["-m"] and any(
    word.removeprefix("-m").split(".")[0] == "tileproof" for word in sys.orig_argv
):
    # `python -m tileproof` would import modules of the current folder before the standard library's: a
    # json.py beside a launch file would run in the process that owns the verdict.
    import os

    sys.path[:] = [path for path in sys.path if path not in ("", os.getcwd())]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileproof.conformance.api.calls import judge, run
    from tileproof.conformance.api.calls import text as page
    from tileproof.conformance.judging.derived import derived
    from tileproof.conformance.judging.expected import Expected

__version__ = "0.1.0"
__all__ = ["Expected", "__version__", "derived", "judge", "page", "run"]

_FROM = {
    "judge": ("api.calls", "judge"),
    "run": ("api.calls", "run"),
    "page": ("api.calls", "text"),
    "derived": ("judging.derived", "derived"),
    "Expected": ("judging.expected", "Expected"),
}


def __getattr__(name: str) -> object:
    """Imports what launch files need when it is first asked for: most commands need none of it."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, own = _FROM[name]
    return getattr(import_module(f"tileproof.conformance.{module}"), own)
