"""The contracts say what nvcc says, on every combination of the data file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from tileproof.kernels import toolchain
from tileproof.spec.machine.contracts import algebra, canonical, load
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.operand_constraints import data as contract_data
from tileproof.tools.operand_constraints.data import AnyRow, agrees, all_rows, read
from tileproof.tools.operand_constraints.families import load_rows, rows
from tileproof.tools.operand_constraints.nvcc import NvccVerdict, attribute, source
from tileproof.tools.operand_constraints.rows import LoadRow, row_of

HEAD, PAIRS = read()


def disagreements() -> Iterator[AnyRow]:
    return (row for row, verdict in PAIRS if not agrees(row, verdict))


def test_the_contracts_agree_with_nvcc_on_every_row() -> None:
    assert list(disagreements()) == []


def test_the_rows_are_those_of_the_generator_and_of_the_pinned_compiler() -> None:
    assert sorted(map(str, all_rows())) == sorted(str(row) for row, _ in PAIRS)
    assert HEAD["toolchain"] == toolchain.find().version
    assert HEAD["made_by"].endswith(contract_data.MODULE)


def test_both_verdicts_are_well_represented() -> None:
    counts = Counter(verdict.compiles for _, verdict in PAIRS)
    assert len(PAIRS) >= 300 and min(counts[True], counts[False]) >= 150
    forms = Counter(
        (row.form.ws, row.form.cta_group, row.form.a_space, verdict.compiles) for row, verdict in PAIRS
    )
    assert len(forms) == 12 and min(forms.values()) >= 10
    # Compiled, and wrong all the same: what only the contracts say.
    unfit = contract_data.summary(PAIRS)["compiles but does not fit"]
    assert isinstance(unfit, int) and unfit >= 30


def test_a_row_that_does_not_compile_has_its_error_and_its_misfits_a_sentence() -> None:
    for row, verdict in PAIRS:
        assert bool(verdict.error) != verdict.compiles
        for misfit in row.misfits():
            assert misfit.sentence and misfit.fits and misfit.expected != misfit.found, misfit


def test_the_file_tells_both_verdicts_where_they_differ() -> None:
    lines = json.loads(contract_data.FILE.read_text(encoding="utf-8"))["rows"]
    differ = [line for line in lines if line["compiles"] != line["machine"]]
    assert {line["compiles"] for line in differ} == {True, False}
    for line, (row, verdict) in zip(lines, PAIRS, strict=True):
        assert contract_data.machine(row, verdict).items() <= line.items()
        assert ("but" in line) == (line["compiles"] != line["machine"])


def test_rows_survive_the_file() -> None:
    for row, _ in PAIRS:
        assert row_of(row.as_dict()) == row


def _upcast_without_assertion(layout: Any, n: int) -> Any:
    try:
        return ORIGINAL_UPCAST(layout, n)
    except algebra.Refused:
        return layout


ORIGINAL_UPCAST = algebra.upcast


def _any_tile(layout: Any, tile: int) -> Any:
    return algebra.pycute.Layout(tile, 1), algebra.pycute.Layout(1, 0)


CONTRACTS = "tileproof.spec.machine.contracts"
PLANTED: dict[str, tuple[str, Any]] = {
    "any M and N exist": ("rules_form.cute_shapes", lambda form: {form.m: (form.n,)}),
    "no shape is illegal": ("check.shapes", lambda form: iter(())),
    "any type multiplies": ("check.types", lambda *views: iter(())),
    "any operand has a descriptor": ("check.descriptor", lambda *operand: iter(())),
    "extents need not agree": ("check.extents", lambda *operands: iter(())),
    "tensor memory is endless": ("check.tensor_memory", lambda *operands: iter(())),
    "an atom's width is not asked": ("canonical.ATOM_MN", dict.fromkeys(canonical.ATOM_MN, 8)),
    "units of 16 bytes always divide": ("algebra.upcast", _upcast_without_assertion),
    "a tile need not divide": ("algebra.divide", _any_tile),
    "a load has one column per repeat": ("load.SHAPES", dict.fromkeys(load.SHAPES, (32, 1))),
    "a load of 32 lanes is one of 16": (
        "load.SHAPES",
        {name: (16, n) for name, (_, n) in load.SHAPES.items()},
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_flipped_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, wrong = PLANTED[name]
    module, attribute_name = where.split(".")
    # The package's `check` is the function: the module of that name is found by its full name.
    monkeypatch.setattr(import_module(f"{CONTRACTS}.{module}"), attribute_name, wrong)
    assert next(disagreements(), None)


def test_a_flipped_verdict_is_caught() -> None:
    for row, verdict in PAIRS:
        assert not agrees(row, NvccVerdict(not verdict.compiles, "flipped"))


LOG = """\
/x/cute/layout.hpp(1792): error: static assertion failed with "block shape does not divide"
          detected during:
            instantiation of "auto cute::tile_to_shape(...)" at line 5
            instantiation of type "Tile_<A, B>" at line 42 of /tmp/q/rows.cu

/tmp/q/rows.cu(43): error #20: identifier "x" is undefined

/x/cute/layout.hpp(9): warning #1: nothing
          detected during instantiation of "void row<3>()" at line 44 of /tmp/q/rows.cu

2 errors detected in the compilation of "rows.cu".
"""


def test_errors_are_attributed_to_the_line_that_the_trail_names() -> None:
    found = attribute(LOG, {42: 7, 43: 8, 44: 9})
    assert set(found) == {7, 8} and "does not divide" in found[7] and "undefined" in found[8]
    assert attribute(LOG, {5: 1}) == {}


def test_the_source_has_one_line_a_row() -> None:
    chosen: dict[int, Any] = dict(enumerate([*rows()[:5], *load_rows()[:2]]))
    text, at = source(chosen)
    lines = text.splitlines()
    assert [lines[number - 1].split(",")[0] for number in at] == [
        f"template __global__ void {'load' if isinstance(row, LoadRow) else 'row'}<{index}"
        for index, row in chosen.items()
    ]


def test_a_file_that_is_no_data_is_reported(tmp_path: Any) -> None:
    path = tmp_path / "verdicts.json"
    for text in ("", "[]", '{"rows": [{}]}', '{"rows": 3}'):
        path.write_text(text)
        with pytest.raises(TileproofError):
            read(path)


@pytest.mark.slow
def test_a_sample_compiled_again_has_the_same_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert contract_data.main(["--sample", "24", "--seed", "3"]) == 0
    assert "24 rows" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("compiles", [True, False])
def test_a_file_with_a_wrong_verdict_is_found_out(
    compiles: bool, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Flipped verdicts of rows that do and of rows that do not compile."""
    row, verdict = next(pair for pair in PAIRS if pair[1].compiles == compiles)
    path = tmp_path / "verdicts.json"
    contract_data.write(path, [row], [NvccVerdict(not verdict.compiles, "" if not compiles else "planted")])
    assert contract_data.main(["--sample", "1", "--output", str(path)]) == 1
    assert "1 verdicts changed" in capsys.readouterr().err
