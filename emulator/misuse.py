"""Checks the arguments of the Python interface: a wrong type or size is a LaunchError that names it."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import SupportsIndex, TypeVar

from tileproof.emulator.errors import LaunchError

T = TypeVar("T")
MAX_COUNT = 2**63 - 1  # of a count


def wrong(name: str, expected: str, found: object, where: str = "") -> LaunchError:
    """The error for an argument `name`."""
    shown = (
        f"{type(found).__name__} {found!r}" if isinstance(found, int | float | str) else type(found).__name__
    )
    return LaunchError(f"{name} does not fit", where=where, expected=expected, found=shown[:200])


def instance(value: T, kinds: type | tuple[type, ...], name: str, where: str = "") -> T:
    """The value, which must be of one of these types."""
    if isinstance(value, kinds):
        return value
    names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
    raise wrong(name, names, value, where)


def whole(
    value: SupportsIndex, name: str, minimum: int = 0, maximum: int = MAX_COUNT, where: str = ""
) -> int:
    """The value as an int from `minimum` to `maximum`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = minimum - 1
    if not minimum <= number <= maximum:
        raise wrong(name, f"a whole number from {minimum} to {maximum}", value, where)
    return number


def sequence(value: Iterable[T], kinds: type | tuple[type, ...], name: str, where: str = "") -> tuple[T, ...]:
    """The items of a list or tuple, each of one of these types."""
    if isinstance(value, str | bytes | dict | set) or not hasattr(value, "__iter__"):
        raise wrong(name, "a list or tuple", value, where)
    return tuple(instance(item, kinds, f"{name}[{k}]", where) for k, item in enumerate(value))


def numbers(value: Iterable[SupportsIndex], name: str, where: str = "") -> tuple[int, ...]:
    """The whole numbers of a list, tuple or array."""
    if isinstance(value, str | bytes | dict | set) or not hasattr(value, "__iter__"):
        raise wrong(name, "whole numbers", value, where)
    return tuple(whole(item, f"{name}[{k}]", -MAX_COUNT, MAX_COUNT, where) for k, item in enumerate(value))
