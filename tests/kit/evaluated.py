"""The stages of a problem over an arithmetic, as tiles and outputs; a plain reference held against them."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.reference.evaluate import Evaluation
from tileproof.reference.tile import TileValue
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling

from tests.kit.uncancelled import Uncancelled

Array = npt.NDArray[Any]
# The spec's value of a tile that is no stage's own, over an evaluation's arithmetic; None for any other.
Partials = Callable[[Evaluation, TileValue], Any]


def outputs_over(
    inputs: Any,
    stages: Iterable[str],
    *,
    problem: ProblemType,
    tiling: Tiling,
    m: Any = EXACT,
    dtype: type = float,
) -> dict[str, Array]:
    """Each of `stages` as the output that its tiles make over arithmetic `m`, in the problem's axes of it:
    set in their places, or added to rows. `dtype`: of the arithmetic's elements.
    """
    evaluation, found = Evaluation(problem, inputs, tiling, m), {}
    for name in stages:
        adds = problem.stages[name].scatter is not None
        axes = problem.stages[name].output if adds else problem.output(name)
        total: Array = np.zeros([problem.size(inputs, axis) for axis in axes], dtype)
        if adds:
            total = evaluation.scatter(name, total)
        else:
            for group in problem.groups(inputs, tiling):
                at = problem.place(inputs, tiling, TileCoord(group, None, None), axes)
                kept = evaluation.whole(name, group)
                value = kept.value if kept.copy is None else kept.copy
                total[at] = value.reshape(total[at].shape)
        found[name] = total
    return found


def tiles_over(inputs: Any, *, problem: ProblemType, tiling: Tiling, m: Any = EXACT) -> Iterator[TileValue]:
    """Every tile over arithmetic `m`, group by group, in each the stages in graph order, CTAs innermost."""
    evaluation = Evaluation(problem, inputs, tiling, m)
    for group in problem.groups(inputs, tiling):
        for name in problem.stages:
            for coord in evaluation.coordinates(name, group):
                rows, cols = evaluation.region(name, coord)
                value = evaluation.whole(name, group, coord.cta).value
                yield TileValue(name, coord, rows, cols, value[evaluation.span(name, group, rows, cols)])


class Magnitudes(Uncancelled):
    """With the magnitude of an exponent in that of its power: its error is relative."""

    def exp2(self, a: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            power = np.exp2(a.real)
            return self._of(power, power * np.maximum(1.0, a.imag))


def worst_element(
    tiles: Iterable[TileValue], inputs: Any, problem: ProblemType, tiling: Tiling, partials: Partials
) -> float:
    """The largest difference of any element of `tiles` from the spec's stages, relative to the magnitudes
    that the element is a sum of; inf where a tile has another shape or place, comes twice, or is missing.
    """
    exact, sized = (Evaluation(problem, inputs, tiling, m) for m in (EXACT, Magnitudes()))
    worst, areas, places = 0.0, Counter[tuple[str, TileCoord]](), set()
    with np.errstate(invalid="ignore", over="ignore"):
        for tile in list(tiles):  # all first: a yielded value must not change later
            k_block, group = tile.coord.k_block, tile.coord.group
            if k_block is not None and k_block >= problem.k_blocks(inputs, tiling, group):
                return np.inf
            value, terms = (_of_spec(values, tile, partials) for values in (exact, sized))
            stage = tile.stage.removesuffix("_part")
            place = tile.stage, tile.coord, _ends(tile.rows), _ends(tile.cols), tile.partial
            around = zip((tile.rows, tile.cols), exact.region(stage, tile.coord), strict=True)
            inside = all(part.start >= span.start and part.stop <= span.stop for part, span in around)
            if value.shape != tile.value.shape or not inside or (value.size and place in places):
                return np.inf
            places.add(place)
            worst = max(worst, _difference(tile.value, value, terms.imag))
            if not tile.partial or exact.partial(stage):
                areas[tile.stage, tile.coord] += tile.value.size
    wanted = {
        (name, coord): np.prod([span.stop - span.start for span in exact.region(name, coord)])
        for group in problem.groups(inputs, tiling)
        for name in problem.stages
        for coord in exact.coordinates(name, group)
    }
    return worst if all(areas[key] == area for key, area in wanted.items()) else np.inf


def _ends(span: slice) -> tuple[int, int]:
    return span.start, span.stop


def _of_spec(evaluation: Evaluation, tile: TileValue, partials: Partials) -> Any:
    found = partials(evaluation, tile)
    if found is None:
        group, cta = tile.coord.group, tile.coord.cta
        at = evaluation.span(tile.stage, group, tile.rows, tile.cols)
        found = evaluation.whole(tile.stage, group, cta).value[at]
    return found


def _difference(got: Array, want: Array, terms: Array) -> float:
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    ratio = np.abs(got - want) / np.where(terms > 0, terms, np.finfo(float).tiny)
    ratio = np.where(same, 0.0, np.where(np.isnan(ratio), np.inf, ratio))
    return float(ratio.max(initial=0.0))


def worst_output(got: dict[str, Array], want: dict[str, Array], terms: dict[str, Array]) -> float:
    """The largest difference of an element from what is wanted, relative to the largest one of its output; of
    an output that cancels to less than a thousandth of its terms (`Uncancelled`), to a thousandth of them.
    """
    worst = 0.0
    for name, values in want.items():
        assert got[name].shape == values.shape
        floor = 1e-3 * float(np.nan_to_num(terms[name].imag).max(initial=0))
        scale = max(float(np.abs(values).max(initial=0)), floor)
        difference = float(np.abs(got[name] - values).max(initial=0))
        worst = max(worst, difference / scale if scale else difference)
    return worst


def with_edits(module: ModuleType, *edits: tuple[str, str]) -> Any:
    """The module with text of its source replaced; each text stands in it once."""
    source = inspect.getsource(module)
    for old, new in edits:
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {module.__name__}"
        source = source.replace(old, new)
    edited = ModuleType(f"{module.__name__}_edited")
    exec(compile(source, f"{module.__name__} edited", "exec"), vars(edited))
    return edited
