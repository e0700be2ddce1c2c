"""The wrong operand of a step: the error lies in the space that the other operand spans.

What a step, or a group of them, read is solved for and compared with what is known to lie about.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from tileproof.conformance.diagnose.arrays import Region
from tileproof.conformance.diagnose.faults import K_STEP
from tileproof.conformance.diagnose.steps import SHOWN, Deviation, ProductStep, Term, runs_of
from tileproof.conformance.diagnose.storage import what_was_read
from tileproof.conformance.observe.words import plural
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.faults import F64

SPARE = 4  # different columns more than a step's space has dimensions, for it to say something
SLIPS = (1, 2, 4, 8)  # elements of the summed axis by which an operand may be off
NEAR = 2e-2  # of the largest element of an operand: what solving for it may be off by


def explain_operand(deviation: Deviation, region: Region) -> str:
    """Which step had another operand, in words, when that explains the region; else ""."""
    if not deviation.usable(np.ix_(*region)):
        return ""
    return _explained(deviation, region) or ("" if deviation.ctas == 1 else _by_share(deviation, region))


def _explained(deviation: Deviation, region: Region) -> str:
    return _slipped(deviation, region) or _replaced(deviation, region)


def _slipped(deviation: Deviation, region: Region) -> str:
    """An operand whose elements are all those so many further along the summed axis; what lay at the end of
    it, or of each k-block's, is not known, and may be anything.
    """
    at = np.ix_(*region)
    sides = (
        (0, deviation.residual[at], deviation.slack[at]),
        (1, deviation.residual[at].T, deviation.slack[at].T),
    )
    terms = list({id(step.term): step.term for step in deviation.steps}.values())
    for some in ([term] for term in terms) if len(terms) == 1 else (*([term] for term in terms), terms):
        for off in (n * side for n in SLIPS for side in (1, -1)):
            for side, remaining, limit in sides:
                ends = []
                for term in some:
                    operand, base = (term.a[region[0]], term.b[:, region[1]])[:: 1 if side == 0 else -1]
                    if side == 1:
                        operand, base = operand.T, base.T
                    moved, known = _further(
                        operand, off, deviation.block if term.walked else operand.shape[1]
                    )
                    remaining = remaining - (moved - operand) @ base
                    ends.append(base[~known])
                rest = np.concatenate(ends)
                if _spans(rest, _different(rest), remaining, limit):
                    unit = some[0].axis if abs(off) == 1 else plural(some[0].axis)
                    way = f"{abs(off)} {unit} {'further' if off > 0 else 'before'}: its address"
                    read = " and ".join(term.names[side] for term in some)
                    return (
                        f"every step of {' and '.join(term.title for term in some)} read operand {read} {way}"
                    )
    return ""


def _further(operand: F64, off: int, period: int) -> tuple[F64, npt.NDArray[np.bool_]]:
    """An operand with the elements of its last axis that are `off` further, in runs of `period`, and which
    of these are known; the others are its own.
    """
    here = np.arange(operand.shape[1])
    there = here % period + off
    known = (there >= 0) & (there < period) & (here + off < operand.shape[1])
    return np.where(known, operand[:, np.where(known, here + off, 0)], operand), known


def _by_share(deviation: Deviation, region: Region) -> str:
    """The same where each CTA has its share of the tile's columns, and an operand of its own."""
    parts = []
    for share in _shares(deviation.residual.shape[1], deviation.ctas):
        part = region[0], np.intersect1d(region[1], share)
        at = np.ix_(*part)
        if (np.abs(deviation.residual[at]) > deviation.slack[at]).any():
            parts.append(_explained(deviation, part))
    return "; in other columns ".join(dict.fromkeys(parts)) if all(parts) else ""


def _shares(length: int, ctas: int) -> Iterator[npt.NDArray[np.int64]]:
    """Each CTA's columns of so many; columns beyond a power of two are divided separately."""
    whole = 1 << length.bit_length() - 1
    low, high = (np.arange(*ends).reshape(ctas, -1) for ends in ((0, whole), (whole, length)))
    yield from np.concatenate([low, high], axis=1)


def _groups(steps: tuple[ProductStep, ...], block: int, ctas: int) -> Iterator[list[ProductStep]]:
    """Single steps; of an axis that is walked also the same step of every k-block, of one that the CTAs share
    the same step of every share; all steps of a k-block, of a product, of all products.
    """
    for step in steps:
        yield [step]
    for term in {id(step.term): step.term for step in steps}.values():
        if term.walked and term.a.shape[1] > block:
            own = [step for step in steps if step.term is term]
            for first in range(0, block, K_STEP):
                yield [step for step in own if step.at.start % block == first]
        # Columns beyond a power of two are shared out by themselves.
        length = term.a.shape[1]
        for whole in dict.fromkeys((1 << length.bit_length() - 1, length)) if ctas > 1 else ():
            share = whole // ctas
            for first in range(0, share, K_STEP) if share % K_STEP == 0 else ():
                yield [
                    step
                    for step in steps
                    if step.term is term and step.at.stop <= whole and step.at.start % share == first
                ]
    for term in {id(step.term): step.term for step in steps}.values():
        own = [step for step in steps if step.term is term]
        if term.walked and term.a.shape[1] > block:
            for k in range(0, term.a.shape[1], block):
                yield [step for step in own if k <= step.at.start < k + block]
        yield own
    yield list(steps)


def _replaced(deviation: Deviation, region: Region) -> str:
    """What is wrong lies in the space of the operand that was right."""
    at = np.ix_(*region)
    wrong, allowed = deviation.residual[at], deviation.slack[at]
    if np.linalg.norm(wrong) <= 4 * np.linalg.norm(allowed):
        return ""
    every_a = np.concatenate([step.term.a[:, step.at] for step in deviation.steps], axis=1)[region[0]]
    every_b = np.concatenate([step.term.b[step.at] for step in deviation.steps])[:, region[1]]
    rooms = _different(every_b), _different(every_a.T)
    for group in _groups(deviation.steps, deviation.block, deviation.ctas):
        b = np.concatenate([step.term.b[step.at] for step in group])[:, region[1]]
        a = np.concatenate([step.term.a[:, step.at] for step in group], axis=1)[region[0]]
        solved_sides = []
        for side, base, matrix, limit in ((0, b, wrong, allowed), (1, a.T, wrong.T, allowed.T)):
            if _spans(base, rooms[side], matrix, limit):
                own = a if side == 0 else b.T
                solved = own + matrix @ np.linalg.pinv(base)
                solved_sides.append((side, _what(group, side, solved, own, region, deviation.inputs)))
        if solved_sides:
            # Of other rows of the same either operand may have been exchanged: the one that is known to lie
            # somewhere was.
            sides = [side for side in solved_sides if side[1]][:1] or solved_sides
            return _words(group, [side for side, _ in sides], sides[0][1])
    return ""


def _spans(base: F64, room: int, matrix: F64, limit: F64) -> bool:
    """Whether the rows of `matrix`, of which so many columns can differ, lie in the row space of `base`, but
    for what `limit` allows.
    """
    if not np.isfinite(base).all():
        return False
    _, size, rows = np.linalg.svd(base, full_matrices=False)
    rows = rows[size > size[0] * 1e-12] if size.size and size[0] > 0 else rows[:0]
    if room < len(rows) + SPARE:
        return False
    remaining = matrix - (matrix @ rows.T) @ rows
    return bool((np.linalg.norm(remaining, axis=1) <= np.linalg.norm(limit, axis=1)).all())


def _different(columns: F64) -> int:
    """How many columns differ from each other: a repeated key gives equal columns."""
    return len(np.unique(columns.T, axis=0))


def _words(group: list[ProductStep], sides: list[int], what: str) -> str:
    unread, products = [], []
    for term in {id(step.term): step.term for step in group}.values():
        products.append(term.title)
        names = " or ".join(term.names[side] for side in sides)
        unread.append(f"{runs_of([step for step in group if step.term is term])} of operand {names}")
    steps = "step" if len(group) == 1 else "steps"
    text = f"{' and '.join(unread)} were not read by the {steps} of {' and '.join(products)}"
    return f"{text}: {what or 'its address, its layout, or its contents'}"


def _what(
    group: list[ProductStep], side: int, solved: F64, own: F64, region: Region, inputs: ProblemInputs
) -> str:
    """What a group's operand was, in words; "" where that is not known."""
    term = group[0].term
    if not np.isfinite(solved).all():
        return ""
    if len({id(step.term) for step in group}) == 1:
        whole = term.a[region[0]] if side == 0 else term.b.T[region[1]]
        scale = np.abs(whole).max(initial=0.0)
        if scale == 0 or np.abs(solved - own).max() <= 1e-3 * scale:
            return ""
        found = [_window(whole, part, NEAR * scale) for part in np.split(solved, len(group), axis=1)]
        if all(found) and len({pair[1] for pair in found if pair}) == 1:
            return _read(term, group, [pair for pair in found if pair])
    return what_was_read(solved, (term.names[side], term.a if side == 0 else term.b.T), inputs)


def _window(whole: F64, part: F64, close: float) -> tuple[int, int] | None:
    """Where in an operand the elements that one step read begin, and how many rows away."""
    for first in range(0, whole.shape[1] - K_STEP + 1, 8):
        window = whole[:, first : first + K_STEP]
        if window.shape == part.shape and np.abs(window - part).max() <= close:
            return first, 0
        for rows in (1, 8, 16, 32, -1, -8, -16, -32):
            moved = np.roll(window, -rows, axis=0)
            known = slice(0, -rows) if rows > 0 else slice(-rows, None)
            off = np.abs(moved - part)[known] if moved.shape == part.shape else part[:0]
            if off.size and off.max() <= close:
                return first, rows
    return None


def _read(term: Term, group: list[ProductStep], found: list[tuple[int, int]]) -> str:
    """What the steps of a group read, each from where it begins."""
    down = found[0][1]
    away = f", {abs(down)} rows {'further' if down > 0 else 'before'}" if down else ""
    away += " (or their sum moved as far the other way)" if down else ""
    each = "it" if len(group) == 1 else "each"
    off = {first - step.at.start for (first, _), step in zip(found, group, strict=True)}
    if off == {0}:
        return f"{each} read the same {term.axis}s{away}"
    if len({first for first, _ in found}) == 1:
        return f"{each} read {term.axis}s {found[0][0]}..{found[0][0] + K_STEP - 1}{away}"
    if len(off) == 1:
        return f"each read {term.axis}s {off.pop():+d}{away}"
    shown = ", ".join(f"{first}..{first + K_STEP - 1}" for first, _ in found[:SHOWN])
    return f"they read {term.axis}s {shown}{' ...' if len(found) > SHOWN else ''}{away}"
