"""Validation of the dimensions, limits and outputs of a launch."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence

from tileproof.emulator.errors import LaunchError
from tileproof.emulator.memory import Buffer
from tileproof.emulator.misuse import MAX_COUNT, whole
from tileproof.spec.machine.limits import MAX_BLOCK, MAX_GRID, MAX_SHARED_BYTES, MAX_THREADS

MAX_CTAS = 1 << 24


def dimensions(value: Sequence[int], name: str) -> tuple[int, int, int]:
    """Return (x, y, z) of one to three positive numbers; `name` (grid, block, cluster) is for the error."""
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


def check_clusters(
    entry: str,
    chosen: Sequence[int],
    grid: tuple[int, int, int],
    cluster: tuple[int, int, int],
    cooperative: bool,
) -> list[int]:
    """Return the numbers of the clusters that run, in order; LaunchError unless the grid has them all."""
    count = math.prod(grid) // math.prod(cluster)
    if not isinstance(chosen, Iterable) or isinstance(chosen, (str, bytes)):
        raise LaunchError(
            "the chosen clusters are not a list", where=entry[:80], expected="numbers of clusters",
            found=type(chosen).__name__,
        )  # fmt: skip
    numbers = sorted({whole(number, "clusters", maximum=count - 1, where=entry) for number in chosen})
    if not numbers or cooperative:
        raise LaunchError(
            "a cooperative grid runs whole" if cooperative else "no cluster of the grid is selected",
            where=entry[:80], found=f"clusters {numbers}",
        )  # fmt: skip
    return numbers


def check_shape(
    entry: str,
    directives: Mapping[str, tuple[int, ...]],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
) -> None:
    """Raise LaunchError unless the machine and the directives of the entry allow these dimensions."""
    threads = block[0] * block[1] * block[2]
    if threads > MAX_THREADS:
        raise LaunchError(
            "a block has too many threads",
            where=entry[:80],
            expected=f"at most {MAX_THREADS}",
            found=str(block),
        )
    limits = {"grid": (grid, MAX_GRID), "block": (block, MAX_BLOCK)}
    for name, (extents, limit) in limits.items():
        if any(e > bound for e, bound in zip(extents, limit, strict=True)):
            raise LaunchError(
                f"the {name} is too large", where=entry[:80], expected=f"at most {limit}", found=str(extents)
            )
    if grid[0] * grid[1] * grid[2] > MAX_CTAS:
        raise LaunchError(
            "the grid exceeds the limit of the emulator",
            where=entry[:80],
            expected=f"at most {MAX_CTAS} CTAs",
            found=str(grid),
        )
    required, max_block = directives.get("reqntid"), directives.get("maxntid")
    if required and (*required, 1, 1)[:3] != block:
        raise LaunchError(
            "the block differs from .reqntid",
            where=entry[:80],
            expected=str(required),
            found=str(block),
        )
    if max_block:
        allowed = 1
        for extent in max_block:
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
            "the cluster differs from .reqnctapercluster",
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


def check_limits(entry: str, seconds_limit: float, **counts: int) -> None:
    """Raise LaunchError unless each of `counts` is a count and `seconds_limit` a time."""
    for name, value in counts.items():
        if not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
            raise LaunchError(
                f"{name} is not a count", where=entry[:80], expected=f"an integer from 0 to {MAX_COUNT}",
                found=repr(value),
            )  # fmt: skip
    if not isinstance(seconds_limit, int | float) or not 0 <= seconds_limit < float("inf"):
        raise LaunchError(
            "seconds_limit is not a time", where=entry[:80], expected="seconds, 0 for no limit",
            found=repr(seconds_limit),
        )  # fmt: skip


def check_shared(entry: str, static_shared: int, shared_bytes: int, limit: int = MAX_SHARED_BYTES) -> None:
    """Raise LaunchError unless the static and dynamic shared memory of a launch fit into a CTA."""
    if not isinstance(shared_bytes, int):
        raise LaunchError(
            "shared_bytes is not a count", where=entry[:80], expected="an integer", found=repr(shared_bytes)
        )
    if shared_bytes < 0 or static_shared + shared_bytes > limit:
        raise LaunchError(
            "the launch requests more shared memory than a CTA has",
            where=entry[:80],
            expected=f"at most {limit} bytes, static and dynamic together",
            found=f"{static_shared} static + {shared_bytes} dynamic",
        )


def check_outputs(entry: str, outputs: Sequence[Buffer]) -> None:
    """Raise LaunchError if the writes to an output cannot be tracked."""
    for output in outputs:
        if not output.tracked:
            raise LaunchError(
                "an output starts initialised, so its writes cannot be tracked",
                where=entry[:80], expected="a buffer of Memory.empty",
                found=output.name,
            )  # fmt: skip
