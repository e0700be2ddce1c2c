"""Right values at wrong places: shifted elements, and operand vectors read from a neighbouring place."""

from __future__ import annotations

from collections import Counter

import numpy as np
from tileproof.conformance.observe.tiles import Reference
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.faults import F64, Mask
from tileproof.spec.stage import Stage

MIN_ELEMENTS = 8  # wrong elements of different values, to say something
PROBES = 24  # wrong elements that a distance is looked for by
TRIED = 8  # distances, the likeliest first
NEARLY = 0.9  # of the wrong elements must be right there
CHANCE = 0.05  # that numbers agree by accident
INSIDE = 0.75  # of the wrong elements whose right place is known must be inside the tile


def explain_shifted(value: F64, bound: F64, found: F64, wrong: Mask) -> str:
    """Words where every wrong element is the right one of a place at one distance; "" otherwise."""
    places = np.argwhere(wrong)
    if len(np.unique(found[wrong])) < MIN_ELEMENTS or not np.isfinite(found[wrong]).all():
        return ""
    likely = Counter[tuple[int, int]]()
    for row, col in places[np.linspace(0, len(places) - 1, min(PROBES, len(places))).astype(int)]:
        fits = np.argwhere(np.abs(value - found[row, col]) <= bound) - (row, col)
        likely.update((int(down), int(right)) for down, right in fits)
    for (down, right), _ in sorted(likely.items(), key=lambda item: (-item[1], _length(item[0])))[:TRIED]:
        there = places + np.array([down, right])
        known = ((there >= 0) & (there < value.shape)).all(axis=1)
        if (down, right) == (0, 0) or known.mean() < INSIDE:
            continue
        at, to = tuple(places[known].T), tuple(there[known].T)
        fits = np.abs(value[to] - found[at]) <= np.maximum(bound[to], bound[at])
        if fits.mean() >= NEARLY:
            which = "every wrong element is" if fits.all() else "nearly all wrong elements are"
            return f"{which} the right element {_where(down, right)}: a wrong register, lane or address"
    return ""


def _length(distance: tuple[int, int]) -> int:
    return abs(distance[0]) + abs(distance[1])


def _where(down: int, right: int) -> str:
    distances = [
        f"{abs(off)} {unit}{'s' if abs(off) > 1 else ''} {'after' if off > 0 else 'before'}"
        for off, unit in ((down, "row"), (right, "column"))
        if off
    ]
    return " and ".join(distances) + " it"


def explain_vector(
    stage: Stage, reference: Reference, inputs: ProblemInputs, found: F64, wrong: Mask, copied: bool
) -> str:
    """Words where an operand with one element a column (or a row) was another of its elements there."""
    if stage.kind != "elementwise" or len(stage.tile) != 2 or not np.isfinite(found).all():
        return ""
    for name in stage.inputs:
        axes = stage.axes.get(name, ())
        if len(axes) != 1 or axes[0] not in stage.tile:
            continue
        words = _vector(stage, reference, inputs, found, wrong, copied, name, stage.tile.index(axes[0]))
        if words:
            return words
    return ""


def _vector(
    stage: Stage,
    reference: Reference,
    inputs: ProblemInputs,
    found: F64,
    wrong: Mask,
    copied: bool,
    name: str,
    axis: int,
) -> str:
    given = reference.operands[name]
    own = np.asarray(given.value if isinstance(given, Bounded) else given, np.float64)
    whole = getattr(inputs, name, None)
    pool = own if not isinstance(whole, np.ndarray) or whole.ndim != 1 else whole.astype(np.float64)
    first = next(
        (n for n in range(pool.size - own.size + 1) if np.array_equal(pool[n : n + own.size], own)), 0
    )
    places = np.flatnonzero(wrong.any(axis=1 - axis))
    if own.ndim != 1 or len(np.unique(pool)) < pool.size or places.size == 0:
        return ""
    fits = np.zeros((own.size, pool.size), bool)
    near = np.full(own.size, np.inf)
    for n in range(pool.size):
        with np.errstate(invalid="ignore", over="ignore"):
            term = stage.bounded(
                copy=copied, **{**reference.operands, name: Bounded(np.full_like(own, pool[n]))}
            )
        fits[:, n] = (np.abs(found - term.value) <= term.errors).all(axis=1 - axis)
        near = np.where(fits[:, n], np.minimum(near, term.errors.min(axis=1 - axis)), near)
    # How likely a number is to agree with one of the pool's, where the strictest element decides.
    chance = np.minimum(1, 2 * near[places] / (pool.max() - pool.min()))
    unit = "column" if axis == 1 else "row"
    here = places + first
    alike = [
        off
        for off in sorted(range(-pool.size, pool.size), key=abs)
        if off and ((here + off >= 0) & (here + off < pool.size)).all() and fits[places, here + off].all()
    ]
    if alike and 2 * pool.size * chance.prod() < CHANCE:
        how = f"of the {unit} {abs(alike[0])} {'after' if alike[0] > 0 else 'before'}"
    elif fits[places].any(axis=1).all() and (pool.size * chance).prod() < CHANCE:
        count = fits[places].sum(axis=1)
        at = int(np.argmin(count))  # where the fewest places fit
        other = int(np.argmax(fits[places[at]])) - first
        how = f"of other {unit}s, such as that of {unit} {other} in {unit} {int(places[at])}"
    else:
        return ""
    return f"{name} is that {how}, in {places.size} of {own.size} {unit}s: a wrong address or register"
