"""The score of a draw whose mutants were judged in parts, by `tileproof mutate --only` in other processes."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence

from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn, Pool, draw, wanted
from tileproof.conformance.beside.mutate.judged import Judgement
from tileproof.conformance.beside.mutate.score import as_json
from tileproof.kernels.compile import Built
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json, JsonObject, UncheckedObject

_FIELDS = {field.name for field in dataclasses.fields(Judgement)} - {"drawn", "findings", "becomes"}


def judgements(drawn: Sequence[Drawn], rows: Iterable[Mapping[str, Json]]) -> list[Judgement]:
    """The judgements of which `rows` are the rows (`Judgement.as_dict`), in the draw's order.

    TileproofError where a mutant has no row, or a row is of another draw.
    """
    by_number = {int(row["number"]): row for row in rows}
    found = []
    for mutant in drawn:
        row = by_number.pop(mutant.number, None)
        if row is None or (row["operator"], row["what"]) != (mutant.operator, mutant.what):
            raise TileproofError(
                "the results belong to another draw",
                where=f"mutant {mutant.number}",
                expected=f"{mutant.operator}: {mutant.what}",
                found="none" if row is None else f"{row['operator']}: {row['what']}",
            )
        found.append(Judgement(mutant, **{name: row[name] for name in _FIELDS if name in row}))
    return found


def scored(
    kernel: Kernel,
    variant: Variant,
    built: Built,
    rows: Iterable[Mapping[str, Json]],
    *,
    seed: int,
    count: int,
    profile: str,
    operators: str | None = None,
) -> UncheckedObject:
    """The score that `tileproof mutate` of one process gives for the same draw (`score.as_json`)."""
    names = wanted(operators)
    pool = Pool(PtxCode(built.ptx, built.entry), kernel.sources, kernel.image.prefix)
    drawn = list(itertools.islice(draw(pool, names, seed), count))
    of: JsonObject = {
        "kernel": kernel.name, "variant": dict(variant.sizes), "seed": seed, "profile": profile,
        "operators": names, "ptx": hashlib.sha256(built.ptx.encode()).hexdigest(), "count": count,
    }  # fmt: skip
    return as_json(judgements(drawn, rows), **of)
