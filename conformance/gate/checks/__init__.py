"""The checks of the gate, a file per family; importing a file registers its checks."""

from __future__ import annotations

from importlib import import_module

ORDER = ("static", "stages", "relations", "schedules", "controls", "release", "elsewhere")


def register() -> None:
    """Imports every file, in the order in which the checks run."""
    for name in ORDER:
        import_module(f"{__name__}.{name}")
