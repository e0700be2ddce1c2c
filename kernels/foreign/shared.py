"""Foreign code that was imported into this process: a kernel.py, an installed package of kernels.

Where a verdict is made in a process with such code, it says so: that code could have changed it.
"""

from __future__ import annotations

from collections.abc import Callable

_places: dict[str, None] = {}
_listeners: list[Callable[[str], None]] = []


def note(place: str) -> None:
    """Remembers that the code at `place` is about to run in this process; listeners are called before it can
    keep that from them.
    """
    if place not in _places:
        _places[place] = None
        for listener in _listeners:
            listener(place)


def listen(listener: Callable[[str], None]) -> None:
    """Has `listener` called with each place from now on."""
    _listeners.append(listener)


def places() -> tuple[str, ...]:
    """Where the foreign code in this process came from, in order; () where there is none."""
    return tuple(_places)
