"""Wrong partial sums: the first k-block after which a sum is wrong, and what that k-block did to it.

The contribution of each k-block is known, so a mistake is a wrong count of contributions: missing, doubled,
replaced by another, or all earlier contributions missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from tileproof.conformance.compare.compare import Comparison, Divergence
from tileproof.conformance.diagnose.arrays import Region, holds, regions
from tileproof.conformance.diagnose.cause import cause, diagnose
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.spec import numerics
from tileproof.spec.arithmetic.terms import Sum
from tileproof.spec.machine.finding import Finding

SCORE = "{stage} after each k-block"
RIGHT = "the sum is right after every k-block: the error is in reading, rounding or storing it"
CLEARED_EACH = "only the last k-block counts: each k-block cleared the accumulator"
SHOWN = 2  # mistakes that explain a sum equally well
MAX_TIMES = 8  # times that a k-block is counted
SAMPLE = 4096  # elements that counts are solved for
Key = tuple[str, int, int | None]  # stage, group, CTA


def _key(tile: StageTile) -> Key:
    return tile.stage, tile.coord.group, tile.coord.cta


class WrongSums:
    """The partial sums of one launch that are wrong, by stage, group and CTA, first k-block first.

    A tile of the `whole` stage that shows the accumulator is the sum after the last k-block, where the
    partial sums (`tiles`) leave that out.
    """

    def __init__(
        self, chain: Chain, tiles: Sequence[StageTile], result: Comparison, whole: Comparison
    ) -> None:
        self._chain, self._seen = chain, Counter(map(_key, tiles))
        self._wrong: dict[Key, list[Divergence]] = {}
        last = (self._as_last(divergence) for divergence in whole.divergences if _shown(divergence))
        for divergence in (*result.divergences, *filter(None, last)):
            self._wrong.setdefault(_key(divergence.tile), []).append(divergence)

    def _as_last(self, divergence: Divergence) -> Divergence | None:
        """The accumulator's tile as the sum after the last k-block; None if the tile was observed itself."""
        tile, chain = divergence.tile, self._chain
        blocks = chain.problem.k_blocks(chain.inputs, chain.tiling, tile.coord.group)
        if tile.stage not in {stage for stage, *_ in self._seen} or self._seen[_key(tile)] == blocks:
            return None
        coord = replace(tile.coord, k_block=blocks - 1)
        reference = chain.reference(tile.stage, coord, tile.rows, tile.cols)
        return Divergence(replace(tile, coord=coord), reference, divergence.wrong)

    def without_consequences(self, whole: Comparison) -> Comparison:
        """The wrong tiles of a launch, without tiles whose partial sum was already wrong."""
        explained = {key for key, (first, *_) in self._wrong.items() if _shown(first)}
        rest = [divergence for divergence in whole.divergences if _key(divergence.tile) not in explained]
        return replace(whole, divergences=rest)

    def right(self, tile: StageTile) -> bool:
        """Whether the partial sums of a tile were observed and are all right."""
        return _key(tile) in self._seen and _key(tile) not in self._wrong

    def findings(self, whole: Comparison, build: str, *, coded: bool, explain: bool) -> Iterator[Finding]:
        """One finding per stage: the first wrong k-block of its first wrong sum. Sums that nothing published
        are reported where no tile of the `whole` launch is missing with them.
        """
        missing = {
            _key(divergence.tile) for divergence in whole.divergences if not divergence.tile.written.all()
        }
        reported: set[str] = set()
        for key, some in self._wrong.items():
            first, stage = some[0], key[0]
            if stage in reported or (not _shown(first) and key in missing):
                continue
            reported.add(stage)
            others = sum(len(more) for other, more in self._wrong.items() if other[0] == stage) - 1
            finding = diagnose(self._chain, first, build, others=others, coded=coded, explain=False)
            what = "differs from the spec" if _shown(first) else "was never published"
            why = self.explain(some) if explain and _shown(first) else ""
            yield replace(
                finding, message=f"{stage} {what} after k-block {finding.problem.k_block}", cause=why
            )

    def explain(self, wrong: Sequence[Divergence]) -> str:
        """From where on the sum is wrong, and what reproduces that; `wrong` are its wrong k-blocks."""
        first, at = wrong[0], [divergence.tile.coord.k_block or 0 for divergence in wrong]
        last = next(k for k in range(at[0], at[-1] + 1) if k + 1 not in at)
        since = f"{first.tile.stage} is wrong from k-block {at[0]} on"
        if last == at[-1] and last + 1 < self._seen[_key(first.tile)]:
            which = f"k-block {last}" if last == at[0] else f"k-blocks {at[0]} to {last}"
            since = f"{first.tile.stage} is wrong after {which} and right again after k-block {last + 1}"
        cleared = len(at) > 1 and all(_holds_last_alone(self._chain, divergence) for divergence in wrong)
        why = CLEARED_EACH if cleared else counted(self._chain, first) or cause(self._chain, first)
        return f"{since}: {why}" if why else since


def _shown(divergence: Divergence) -> bool:
    """Whether what is wrong was written at all."""
    return bool(divergence.tile.written[divergence.wrong].any())


def counted(chain: Chain, divergence: Divergence) -> str:
    """How often each k-block was counted in a wrong partial sum, in words, when that explains what was found
    in all wrong rows and columns; else "".
    """
    each = _contributions(chain, divergence)
    found = np.where(divergence.tile.written, divergence.tile.value.astype(np.float64), np.nan)
    k = divergence.tile.coord.k_block or 0
    for region in regions(divergence.wrong) if each else ():
        fitting = [
            words for words, counts in _mistakes(k, len(each)) if _explains(each, counts, found, region)
        ]
        if fitting:  # of equal k-blocks several mistakes give the same values
            return ", or ".join(fitting[:SHOWN])
        words = _solved(each, k, found, region)
        if words:
            return words
    return ""


def _contributions(chain: Chain, divergence: Divergence) -> list[Sum]:
    """The contribution of each k-block to the elements of a tile; empty if the stage is not a plain sum."""
    tile = divergence.tile
    at = chain.span(tile.stage, tile.coord.group, tile.rows, tile.cols)
    blocks = range(chain.problem.k_blocks(chain.inputs, chain.tiling, tile.coord.group))
    found = [chain.contribution(tile.stage, tile.coord, k) for k in blocks]
    each = [total for total in found if isinstance(total, Sum)]
    if len(each) != len(found) or len(at) != 2:
        return []
    return [
        Sum(
            total.value[at],
            total.magnitude[at],
            total.unit[at],
            total.terms if total.terms.size == 1 else total.terms[at[1]],
            total.carried if isinstance(total.carried, float) else total.carried[at],
            None if total.may_be_nan is None else total.may_be_nan[at],
            total.u,
        )
        for total in each
    ]


def _mistakes(k: int, blocks: int) -> Iterator[tuple[str, list[int]]]:
    """What k-block `k` may have done to a sum that was right before, as how often each k-block counts."""

    def counts(**changed: int) -> list[int]:
        found = [1] * (k + 1) + [0] * (blocks - k - 1)
        for at, count in changed.items():
            found[int(at[1:])] += count
        return found

    def of(at: int) -> str:
        return f"the contribution of k-block {at}"

    yield f"{of(k)} is missing", counts(**{f"_{k}": -1})
    yield f"{of(k)} is added twice", counts(**{f"_{k}": 1})
    if k:
        lost = [0] * k + [1] + [0] * (blocks - k - 1)
        yield f"k-block {k} cleared the accumulator: earlier contributions are lost", lost
    yield f"{of(k)} is subtracted", counts(**{f"_{k}": -2})
    for other in sorted(set(range(blocks)) - {k}, key=lambda at: abs(at - k)):
        stale = " (a stale buffer)" if other < k else ""
        instead = {f"_{k}": -1, f"_{other}": 1}
        yield f"{of(other)} is added instead of k-block {k}'s{stale}", counts(**instead)
        yield (
            f"{of(other)} is added {'twice, the second time' if other < k else 'too early,'} at k-block {k}",
            counts(**{f"_{other}": 1}),
        )
        if other < k:
            yield f"{of(other)} is missing since k-block {k}", counts(**{f"_{other}": -1})


def _combined(each: Sequence[Sum], counts: Sequence[int]) -> Sum | None:
    """The sum in which each k-block counts so often, with its own bound; None where none counts."""
    total: Sum | None = None
    for part, count in zip(each, counts, strict=True):
        if count:
            size = abs(count)
            times = Sum(
                count * part.value,
                size * part.magnitude,
                part.unit,
                size * part.terms,
                size * part.carried,
                part.may_be_nan,
                part.u,
            )
            total = times if total is None else total.joined(times)
    return total


def _explains(each: Sequence[Sum], counts: Sequence[int], found: np.ndarray, region: Region) -> bool:
    total, at = _combined(each, counts), np.ix_(*region)
    if total is None:
        return not found[at].any()
    return holds(found[at], total.value[at], total.errors[at])


def _holds_last_alone(chain: Chain, divergence: Divergence) -> bool:
    """Whether a partial sum is its last k-block's contribution, where it is wrong."""
    each, k = _contributions(chain, divergence), divergence.tile.coord.k_block or 0
    found = np.where(divergence.tile.written, divergence.tile.value.astype(np.float64), np.nan)
    alone = [int(at == k) for at in range(len(each))]
    return bool(each) and k > 0 and any(_explains(each, alone, found, r) for r in regions(divergence.wrong))


@np.errstate(invalid="ignore")  # a wrong sum may hold infinities, which no count explains
def _solved(each: Sequence[Sum], k: int, found: np.ndarray, region: Region) -> str:
    """Counts of several k-blocks, or a factor of the last one, by least squares; "" if none fits."""
    at = np.ix_(*region)
    values = np.stack([total.value[at].ravel() for total in each], axis=1)
    right = values[:, : k + 1].sum(axis=1)
    wanted = found[at].ravel() - right
    usable = np.isfinite(wanted) & np.isfinite(values).all(axis=1) & (np.abs(values).sum(axis=1) > 0)
    used = np.flatnonzero(usable)[:: max(1, int(usable.sum()) // SAMPLE)]
    if used.size < 2 * len(each):
        return ""
    weight = 1 / np.abs(values[used]).sum(axis=1)
    solved = np.linalg.lstsq(values[used] * weight[:, None], wanted[used] * weight, rcond=None)[0]
    more = np.rint(np.clip(solved, -MAX_TIMES, MAX_TIMES)).astype(int)
    counts = [int(at <= k) + int(extra) for at, extra in enumerate(more)]
    if more.any() and _explains(each, counts, found, region):
        said = (f"k-block {at} {_TIMES.get(n, f'{n} times')}" for at, n in enumerate(counts) if more[at])
        return f"the sum counts {', '.join(said)}"
    last = values[used][:, k]
    live = np.abs(last) > 0
    if live.sum() < 16:
        return ""
    factor = 1 + float(np.median(wanted[used][live] / last[live]))
    expected = found[at] * 0 + (right + (factor - 1) * values[:, k]).reshape(found[at].shape)
    total = _combined(each, [int(block <= k) for block in range(len(each))])
    assert total is not None
    slack = max(1.0, abs(factor)) * total.errors[at]
    slack = slack + numerics.gamma(4, numerics.U_F32) * abs(factor) * each[k].magnitude[at]
    if factor != 1 and holds(found[at], expected, slack):
        return f"the contribution of k-block {k} is multiplied by {factor:.6g}"
    return ""


_TIMES = {0: "not at all", 1: "once", 2: "twice"}
