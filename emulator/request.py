"""What a launch may ask for: its dimensions, limits and outputs, refused by name."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from tileproof.emulator.errors import LaunchError
from tileproof.emulator.memory import Buffer

MOST_CTAS = 1 << 24
SHARED_LIMIT = 232448  # bytes one CTA may use on SM100 (cutlass/arch/arch.h)


def dimensions(value: Sequence[int], name: str) -> tuple[int, int, int]:
    """(x, y, z) of one to three positive numbers, in words the `name` of the launch."""
    try:
        numbers = tuple(operator.index(n) for n in value)
    except TypeError:
        numbers = ()
    if not 1 <= len(numbers) <= 3 or any(n < 1 for n in numbers):
        raise LaunchError(
            f"{name} is not a launch dimension", expected="one to three positive numbers", found=str(value)
        )
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def check_shape(
    entry: str,
    directives: Mapping[str, tuple[int, ...]],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
) -> None:
    """LaunchError unless the machine and the entry's directives allow these dimensions."""
    threads = block[0] * block[1] * block[2]
    if threads > 1024:
        raise LaunchError(
            "a block has too many threads", where=entry[:80], expected="at most 1024", found=str(block)
        )
    limits = {"grid": (grid, (2**31 - 1, 65535, 65535)), "block": (block, (1024, 1024, 64))}
    for name, (extents, limit) in limits.items():
        if any(e > most for e, most in zip(extents, limit, strict=True)):
            raise LaunchError(
                f"the {name} is too large", where=entry[:80], expected=f"at most {limit}", found=str(extents)
            )
    if grid[0] * grid[1] * grid[2] > MOST_CTAS:
        raise LaunchError(
            "the grid is larger than this emulator runs",
            where=entry[:80],
            expected=f"at most {MOST_CTAS} CTAs",
            found=str(grid),
        )
    required, most = directives.get("reqntid"), directives.get("maxntid")
    if required and (*required, 1, 1)[:3] != block:
        raise LaunchError(
            "the block is not the one that .reqntid asks for",
            where=entry[:80],
            expected=str(required),
            found=str(block),
        )
    if most:
        allowed = 1
        for extent in most:
            allowed *= extent
        if threads > allowed:
            raise LaunchError(
                "the block is larger than .maxntid allows",
                where=entry[:80],
                expected=f"{allowed} threads",
                found=f"{threads}",
            )
    stated = directives.get("reqnctapercluster")
    if stated and (*stated, 1, 1)[:3] != cluster:
        raise LaunchError(
            "the cluster is not the one that .reqnctapercluster asks for",
            where=entry[:80],
            expected=str(stated),
            found=str(cluster),
        )
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise LaunchError(
            "the grid is not a whole number of clusters",
            where=entry[:80],
            expected=f"a multiple of {cluster}",
            found=str(grid),
        )
    if cluster[0] * cluster[1] * cluster[2] > 16:
        raise LaunchError(
            "a cluster has too many CTAs", where=entry[:80], expected="at most 16", found=str(cluster)
        )


def check_limits(
    entry: str, static_shared: int, shared_bytes: int, seconds_limit: float, **counts: int
) -> None:
    """LaunchError unless each of `counts` is one, `seconds_limit` a time, and shared memory suffices."""
    for name, value in {"shared_bytes": shared_bytes, **counts}.items():
        if not isinstance(value, int) or (value < 0 and name != "shared_bytes"):
            raise LaunchError(
                f"{name} is a count", where=entry[:80], expected="an integer from 0", found=repr(value)
            )
    if not isinstance(seconds_limit, int | float) or not 0 <= seconds_limit < float("inf"):
        raise LaunchError(
            "seconds_limit is a time", where=entry[:80], expected="seconds, 0 for no limit",
            found=repr(seconds_limit),
        )  # fmt: skip
    if shared_bytes < 0 or static_shared + shared_bytes > SHARED_LIMIT:
        raise LaunchError(
            "the launch asks for more shared memory than a CTA has",
            where=entry[:80],
            expected=f"at most {SHARED_LIMIT} bytes, static and dynamic together",
            found=f"{static_shared} static + {shared_bytes} dynamic",
        )


def check_outputs(entry: str, outputs: Sequence[Buffer]) -> None:
    """LaunchError where it could not be told what the launch wrote of an output."""
    for output in outputs:
        if not output.tracked:
            raise LaunchError(
                "an output begins initialised, so that nobody can tell what the launch wrote",
                where=entry[:80], expected="a buffer of Memory.empty",
                found=output.name,
            )  # fmt: skip
