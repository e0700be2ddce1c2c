"""The C header of a folder of kernels: `include/tileproof_launch.h` with the manifest as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tileproof.spec.machine.types import Json

FILE = "tileproof_launch.h"
TEMPLATE = Path(__file__).resolve().parent / "include" / FILE
_TABLES = '#include "tileproof_kernels.inc"\n'
_KINDS = {"pointer": "TILEPROOF_POINTER", "tensor map": "TILEPROOF_MAP"}
Row = Mapping[str, Json]


def render(rows: Sequence[Row]) -> str:
    """The header; entries whose launch is not stated are left out."""
    stated = [row for row in rows if row["launch"] is not None]
    values = [value for row in stated for _, value in _values(row)]
    names = {str(value["name"]) for value in values}
    names |= {"f16"} | {name for row in stated for name in row["variant"]}  # f16: only some variants
    for extent in _extents(stated):
        names |= set(extent["names"])
    numbers = {name: number for number, name in enumerate(sorted(names), 1)}
    listed = ", ".join(f"TILEPROOF_N_{name} = {number}" for name, number in numbers.items())
    lines = [f"enum {{ {listed}, TILEPROOF_NAMES = {len(numbers) + 1} }};"]
    for number, row in enumerate(stated):
        parameters = row["launch"]["parameters"]
        sizes = ", ".join(f"{{{each['bytes']}, {len(each['values'])}}}" for each in parameters)
        lines.append(f"static const tileproof_parameter tileproof_parameters_{number}[] = {{{sizes}}};")
        lines.append(f"static const tileproof_value tileproof_values_{number}[] = {{")
        lines += [f"    {_value(value, numbers)}," for _, value in _values(row)] + ["};"]
    lines.append("static const tileproof_entry tileproof_entries[] = {")
    lines += [f"    {_entry(number, row, numbers)}," for number, row in enumerate(stated)]
    lines += ["};", f"enum {{ TILEPROOF_ENTRIES = {len(stated)} }};", ""]
    return TEMPLATE.read_text().replace(_TABLES, "\n".join(lines))


def _values(row: Row) -> list[tuple[int, Row]]:
    return [(at, value) for at, each in enumerate(row["launch"]["parameters"]) for value in each["values"]]


def _extents(rows: Sequence[Row]) -> list[Row]:
    found = [extent for row in rows for extent in row["launch"]["grid"]]
    return found + [extent for row in rows for _, value in _values(row) for extent in value.get("shape", ())]


def _extent(extent: Row, numbers: Mapping[str, int]) -> str:
    first, second = ([numbers[name] for name in extent["names"]] + [0, 0])[:2]
    return f"{{{extent['factor']}, {extent['per']}, {{{first}, {second}}}}}"


def _value(value: Row, numbers: Mapping[str, int]) -> str:
    kind = _KINDS.get(value["kind"]) or f"TILEPROOF_{value['kind'].upper()}"
    begin = f"{{{value['offset']}, {kind}, TILEPROOF_N_{value['name']}"
    if kind != "TILEPROOF_MAP":
        return begin + ", {{0, 1, {0, 0}}, {0, 1, {0, 0}}}, {0, 0}, 0, 0, 0}"
    shape = ", ".join(_extent(extent, numbers) for extent in value["shape"])
    box = ", ".join(map(str, value["box"]))
    last = f"{value['swizzle'].removesuffix('B')}, {value['row_bytes']}, {int(value['dtype'] == 'float16')}"
    return f"{begin}, {{{shape}}}, {{{box}}}, {last}}}"


def _entry(number: int, row: Row, numbers: Mapping[str, int]) -> str:
    launch, sizes = row["launch"], dict(row["variant"])
    named = ", ".join(str(numbers[name]) for name in sizes) or "0"
    values = ", ".join(map(str, sizes.values())) or "0"
    numbers_of = (
        launch["cluster"][0], launch["threads"], launch["shared_bytes"], int(launch["programmatic"]),
        len(launch["parameters"]),
    )  # fmt: skip
    return (
        f'{{"{row["entry"]}", "{row["image"]}", {{{named}}}, {{{values}}}, '
        f"{_extent(launch['grid'][0], numbers)}, {', '.join(map(str, numbers_of))}, "
        f"tileproof_parameters_{number}, tileproof_values_{number}}}"
    )
