"""The layout contracts against nvcc: ``python -m tileproof.tools.operand_constraints.data`` writes verdicts.

The file holds every combination of `contract_families` (operands of an MMA, and loads of its accumulator),
whether the pinned nvcc compiles it, and where it does not one of its errors (of a cause that several rows of
a batch share, nvcc reports the first only). `--sample N` compiles N rows of the file again and compares. Both
need about half a second per row.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import JsonObject
from tileproof.tools.operand_constraints import nvcc as contract_nvcc
from tileproof.tools.operand_constraints.families import load_rows, rows
from tileproof.tools.operand_constraints.nvcc import NvccVerdict
from tileproof.tools.operand_constraints.rows import LoadRow, OperandRow, row_of

MODULE = "tileproof.tools.operand_constraints.data"
FILE = (
    Path(__file__).resolve().parents[2]
    / "tests"
    / "tools"
    / "operand_constraints"
    / "data"
    / "nvcc_verdicts.json"
)


AnyRow = OperandRow | LoadRow


def write(path: Path, made: Sequence[AnyRow], found: Sequence[NvccVerdict]) -> None:
    """The data file: one row per line."""
    head = {
        "what": "operands of tcgen05.mma and loads of accumulators in CuTe: does nvcc compile them?",
        "made_by": f"python -m {MODULE}",
        "command": " ".join(contract_nvcc.command()),
        "toolchain": toolchain.find().version,
    }
    lines = [f' "{key}": {json.dumps(value)},' for key, value in head.items()]
    body = []
    for row, verdict in sorted(zip(made, found, strict=True), key=lambda pair: _key(pair[0])):
        data = row.as_dict() | {"compiles": verdict.compiles}
        data |= {} if verdict.compiles else {"error": verdict.error}
        body.append("  " + json.dumps(data | machine(row, verdict)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join(["{", *lines, ' "rows": [', ",\n".join(body), " ]", "}"]) + "\n", encoding="utf-8"
    )


def machine(row: AnyRow, verdict: NvccVerdict) -> JsonObject:
    """The machine's side of a row: whether it multiplies these operands rightly, as the contracts have it.

    Where nvcc says otherwise, "but" says why in a sentence.
    """
    misfits = row.misfits()
    wrong = [misfit for misfit in misfits if "machine" in misfit.refused_by]
    found: JsonObject = {"machine": not wrong}
    if verdict.compiles == bool(wrong):
        reasons = [misfit.sentence for misfit in wrong or misfits]
        found["but"] = reasons[0] if reasons else "the contracts do not say why"
    return found


def read(path: Path = FILE) -> tuple[dict[str, str], list[tuple[AnyRow, NvccVerdict]]]:
    """(head, rows with their verdicts) of the data file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        pairs = [
            (row_of(row), NvccVerdict(row["compiles"], row.get("error", ""))) for row in data.pop("rows")
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TileproofError(
            "the verdicts cannot be read",
            where=path.name,
            found=str(error),
            do=f"write them: python -m {MODULE}",
        ) from error
    return data, pairs


def all_rows() -> list[AnyRow]:
    """The operand combinations, then the loads of accumulators."""
    return [*rows(), *load_rows()]


def agrees(row: AnyRow, verdict: NvccVerdict) -> bool:
    """Whether the contracts say of `row` what nvcc said."""
    return verdict.compiles == all(misfit.at != "compile" for misfit in row.misfits())


def _key(row: AnyRow) -> str:
    return json.dumps(row.as_dict(), sort_keys=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or compare a sample of it; 1 when a verdict or the contracts disagree."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--sample", type=int, metavar="N", help="compile N rows of the file again and compare"
    )
    parser.add_argument("--seed", type=int, default=0, help="which rows the sample takes (default: 0)")
    parser.add_argument("--output", type=Path, default=FILE, help=f"the file (default: {FILE.name})")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    pairs: list[tuple[AnyRow, NvccVerdict]]
    if options.sample is None:
        made = all_rows()
        found = contract_nvcc.verdicts(made, progress=_say)
        write(options.output, made, found)
        pairs, known = list(zip(made, found, strict=True)), found
    else:
        head, everything = read(options.output)
        if head["toolchain"] != toolchain.find().version:
            raise TileproofError(
                "the verdicts are of another compiler",
                expected=head["toolchain"],
                found=toolchain.find().version,
            )
        pairs = random.Random(options.seed).sample(everything, min(options.sample, len(everything)))
        known = contract_nvcc.verdicts([row for row, _ in pairs], progress=_say)
    stale = [(row, new) for (row, old), new in zip(pairs, known, strict=True) if old.compiles != new.compiles]
    wrong = [(row, verdict) for row, verdict in pairs if not agrees(row, verdict)]
    for row, verdict in [*stale, *wrong]:
        _say(
            f"{json.dumps(row.as_dict())}\n  nvcc: {verdict}\n"
            f"  contracts: {[misfit.sentence for misfit in row.misfits()]}"
        )
    _say(_summary(pairs, len(stale), len(wrong), time.monotonic() - start))
    return 1 if stale or wrong else 0


def _summary(pairs: list[tuple[AnyRow, NvccVerdict]], stale: int, wrong: int, seconds: float) -> str:
    compiles = sum(verdict.compiles for _, verdict in pairs)
    return (
        f"{len(pairs)} rows: {compiles} compile, {len(pairs) - compiles} do not; "
        f"the contracts disagree on {wrong}, "
        f"{stale} verdicts changed; {seconds:.0f} s"
    )


def summary(pairs: Sequence[tuple[AnyRow, NvccVerdict]]) -> JsonObject:
    """Rows by what the contracts and nvcc say of them, for docs and tests."""
    counts = {"fits": 0, "compiles but does not fit": 0, "does not compile": 0}
    for row, verdict in pairs:
        misfit = bool(row.misfits())
        counts["does not compile" if not verdict.compiles else list(counts)[misfit]] += 1
    return {**counts}


if __name__ == "__main__":
    sys.exit(main())
