"""Pictures of a layout: where each element of a tile lies, as SVG or PNG."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tileproof.conformance.beside.layouts.table import I64, Table
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")
MAX_LINES = 32
MAX_LABELLED = 2048


def draw(table: Table, path: Path) -> None:
    """Write the picture of `table` to `path`, whose suffix chooses the format.

    TileproofError when the suffix is not known, matplotlib is missing or the file cannot be written.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise TileproofError(
            "unknown picture format",
            where=str(path),
            expected=", ".join(SUFFIXES),
            found=path.suffix or "none",
        )
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise TileproofError("a picture needs matplotlib", do="pip install 'tileproof[pictures]'") from None
    # Text stays text, and the same input gives the same file.
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "tileproof"
    parts = {"layout": _layout, "operand": _operand, "tmem": _tmem}
    figure = parts[table.kind](plt, table)
    height = figure.get_figheight()
    # Axes fill the figure; labels stand outside of it, and the file is cropped around everything.
    figure.subplots_adjust(left=0, right=1, bottom=0, top=1)
    figure.suptitle(table.title, fontsize=11, y=1 + 0.5 / height, va="bottom")
    for number, note in enumerate(table.notes):
        figure.text(0.5, -(0.45 + 0.2 * number) / height, note, ha="center", va="top", fontsize=8)
    metadata: UncheckedObject = {"Date": None} if path.suffix.lower() == ".svg" else {}
    try:
        figure.savefig(path, dpi=110, bbox_inches="tight", pad_inches=0.12, metadata=metadata)
    except (OSError, ValueError) as error:
        raise TileproofError("the picture cannot be written", where=str(path), found=str(error)) from None
    finally:
        plt.close(figure)


def _colours(plt: ModuleType) -> NDArray[np.float64]:
    return plt.get_cmap("Set3")(np.arange(12))


def _grid(axes: Axes, shade: I64, labels: list[list[str]], colours: NDArray[np.float64], size: float) -> None:
    """Coloured cells with a label each."""
    rows, columns = shade.shape
    image = colours[shade % len(colours)]
    axes.imshow(image, extent=(0, columns, rows, 0), aspect="auto", interpolation="nearest")
    axes.hlines(np.arange(rows + 1), 0, columns, color="white", linewidth=0.6)
    axes.vlines(np.arange(columns + 1), 0, rows, color="white", linewidth=0.6)
    for i, line in enumerate(labels):
        for j, label in enumerate(line):
            axes.text(j + 0.5, i + 0.5, label, ha="center", va="center", fontsize=size)
    axes.tick_params(length=0, labelsize=7)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _ticks(axes: Axes, count: int, step: int, scale: int = 1, *, along: str) -> None:
    where = np.arange(0, count, step)
    names = [str(int(i) * scale) for i in where]
    if along == "x":
        axes.set_xticks(where + 0.5, names)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
    else:
        axes.set_yticks(where + 0.5, names)


def _caption(axes: Axes, text: str) -> None:
    axes.annotate(
        text, (0.5, 0), (0, -5), "axes fraction", "offset points", ha="center", va="top", fontsize=8
    )


def _layout(plt: ModuleType, table: Table) -> Figure:
    """One grid: element -> index, as numbers or, where they would be too small, as a scale of colours."""
    index = table.places["index"]
    rows, columns = index.shape
    labelled = rows * columns <= MAX_LABELLED and columns <= 64
    cell_x, cell_y = (0.36, 0.26) if labelled else (min(0.36, 9 / columns), min(0.26, 7 / rows))
    figure, axes = plt.subplots(figsize=(max(columns * cell_x, 2.5), max(rows * cell_y, 1.2)))
    if labelled:
        if "byte" in table.places:
            shade, meaning = table.places["byte"] // 16 % 8, "the 16-byte chunk of a 128-byte line"
        else:
            shade, meaning = index // 8 % 8, "index / 8, modulo 8"
        _grid(axes, shade, [[str(value) for value in line] for line in index.tolist()], _colours(plt), 6.5)
        _caption(axes, f"in the cell: index; colour: {meaning}")
    else:
        image = axes.imshow(index, extent=(0, columns, rows, 0), aspect="auto", interpolation="nearest")
        figure.colorbar(image, ax=axes, label="index", pad=0.02)
        axes.tick_params(length=0, labelsize=7)
    _ticks(axes, columns, max(1, columns // 16), along="x")
    _ticks(axes, rows, max(1, rows // 32), along="y")
    axes.set_xlabel(table.axes[1], fontsize=8)
    axes.set_ylabel(table.axes[0], fontsize=8)
    return figure


def _operand(plt: ModuleType, table: Table) -> Figure:
    """Left the tile in chunks of 16 bytes, each with its byte address; right the memory, line by line."""
    down, across = table.chunk
    byte = table.places["byte"][::down, ::across]
    rows, columns = byte.shape
    # A chunk has one colour on both sides: its number along the contiguous mode.
    number = np.arange(columns)[None, :] if across > 1 else np.arange(rows)[:, None]
    shade = np.broadcast_to(number % 8, byte.shape)
    # The contiguous mode runs to the right, as in the memory lines.
    turned = down > 1
    lines = min(MAX_LINES, int(byte.max()) // 128 + 1)
    memory = np.full((lines, 8), -1, dtype=np.int64)
    labels = [[""] * 8 for _ in range(lines)]
    for i in range(rows):
        for j in range(columns):
            line, chunk = divmod(int(byte[i, j]) // 16, 8)
            if line < lines:
                memory[line, chunk] = shade[i, j]
                labels[line][chunk] = f"{i * down},{j * across}"
    tile = byte.T if turned else byte
    tile_shade = shade.T if turned else shade
    shown = min(tile.shape[0], MAX_LINES)
    tile, tile_shade = tile[:shown], tile_shade[:shown]
    if tile.shape[1] > 16:
        tile, tile_shade = tile[:, :16], tile_shade[:, :16]
    height = max(len(tile), lines) * 0.23
    width = tile.shape[1] * 0.52
    figure, (left, right) = plt.subplots(
        1,
        2,
        figsize=(width + 8 * 0.62 + 1.2, height),
        width_ratios=(width, 8 * 0.62),
        gridspec_kw={"wspace": 0.16},
    )
    _grid(left, tile_shade, [[f"{value:x}" for value in row] for row in tile.tolist()], _colours(plt), 7)
    _grid(right, np.where(memory < 0, 0, memory), labels, _colours(plt), 7)
    for axes in (left, right):
        axes.set_ylim(max(len(tile), lines), 0)
    contiguous, other = ("MN", "K") if turned else ("K", "MN")
    _ticks(left, tile.shape[1], 1, max(table.chunk), along="x")
    _ticks(left, len(tile), 1, along="y")
    part = "" if (shown, tile.shape[1]) == (byte.T if turned else byte).shape else ", the first part of it"
    left.set_xlabel(f"{contiguous}: chunks of {max(table.chunk)} elements", fontsize=8)
    left.set_ylabel(other, fontsize=8)
    _caption(left, f"the tile{part}: byte address (hex) of each chunk")
    _ticks(right, 8, 1, 16, along="x")
    right.set_yticks(np.arange(lines) + 0.5, [f"{line * 128:x}" for line in range(lines)])
    right.set_xlabel("byte in the 128-byte line", fontsize=8)
    more = "" if int(byte.max()) // 128 < lines else f", the first {lines} lines"
    _caption(right, f"shared memory{more}: first element (mn,k) of each chunk")
    return figure


def _tmem(plt: ModuleType, table: Table) -> Figure:
    """Left the accumulator, right the lanes and columns of each CTA; a block has one colour on both sides."""
    from matplotlib.patches import Rectangle

    blocks = table.blocks()
    ctas = max(block.cta for block in blocks) + 1
    rows, columns = table.shape
    colours = _colours(plt)
    figure, parts = plt.subplots(
        1, 1 + ctas, figsize=(3.6 * (1 + ctas), 4.6), gridspec_kw={"wspace": 0.3}, squeeze=False
    )
    axes = list(parts[0])
    axes[0].set(xlim=(0, columns), ylim=(rows, 0), title="accumulator D")
    axes[0].set_xlabel(table.axes[1], fontsize=8)
    axes[0].set_ylabel(table.axes[0], fontsize=8)
    axes[0].set_xticks(sorted({0, columns, *(b.n[0] for b in blocks)}))
    axes[0].set_yticks(sorted({0, rows, *(b.m[0] for b in blocks)}))
    width = int(table.places["column"].max()) + 1
    for cta in range(ctas):
        place = axes[1 + cta]
        place.set(xlim=(0, width), ylim=(128, 0), title=f"TMEM of CTA {cta}" if ctas > 1 else "TMEM")
        place.set_xlabel("column", fontsize=8)
        place.set_ylabel("lane", fontsize=8)
        place.set_yticks(range(0, 129, 16))
        place.set_xticks(sorted({0, width, *(b.column for b in blocks)}))
        place.hlines(range(0, 129, 32), 0, width, color="0.75", linewidth=0.6, linestyle="--")
    for number, block in enumerate(blocks):
        height, length = block.m[1] - block.m[0], block.n[1] - block.n[0]
        words = f"m {block.m[0]}..{block.m[1] - 1}\nn {block.n[0]}..{block.n[1] - 1}"
        where = f"to CTA {block.cta}\n" if ctas > 1 else "to "
        where += f"lanes {block.lane}..{block.lane + height - 1}"
        where += f"\ncolumns {block.column}..{block.column + length - 1}"
        for place, x, y, text in (
            (axes[0], block.n[0], block.m[0], f"{words}\n{where}"),
            (axes[1 + block.cta], block.column, block.lane, words),
        ):
            place.add_patch(
                Rectangle(
                    (x, y), length, height, facecolor=colours[number % 12], edgecolor="0.3", linewidth=0.8
                )
            )
            flat = height * 4.6 / place.get_ylim()[0] < 0.9
            place.text(
                x + length / 2,
                y + height / 2,
                text.replace("\n", "  ") if flat else text,
                ha="center",
                va="center",
                fontsize=6.5,
                bbox={"facecolor": colours[number % 12], "edgecolor": "none", "pad": 1.5},
            )
    for place in axes:
        place.tick_params(labelsize=7)
        place.title.set_fontsize(9)
    return figure
