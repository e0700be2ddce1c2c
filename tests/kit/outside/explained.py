"""Schedules for kernels that were not written here, and the page that explains what is found on them."""

from __future__ import annotations

import re
from fnmatch import fnmatch

from tileproof.emulator import Schedule

from tests.kit.paths import ROOT

POLICIES = (
    Schedule(),
    Schedule("late"),
    Schedule("late-newest"),
    Schedule("random", 3),
    Schedule("late-random", 3),
    Schedule("starve", 3),
    Schedule("pct", 3),
)
PAGE = ROOT / "docs" / "outside.md"


def written_up(kernel: str) -> set[str]:
    """Codes of the findings that docs/outside.md explains for a kernel; its table has patterns of names."""
    rows = re.findall(r"^\| `([\w-]+)` \| ([^|]+) \| [^|]+ \|$", PAGE.read_text(), re.M)
    return {code for code, kernels in rows if any(fnmatch(kernel, pattern) for pattern in kernels.split())}
