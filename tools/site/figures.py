"""The figures of the site: ``python -m tileproof.tools.site.figures`` writes docs/figures, --check compares.

Figures are drawn from the spec (stages and their shapes, the tile walk, the kernels' plans) and evidence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tileproof.spec.machine import swizzle, tmem
from tileproof.spec.plan import KernelPlan, SmemTile, TmemTile
from tileproof.spec.plans import head64, head128_columns
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.inputs import keys_of
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES
from tileproof.spec.problems.sparse_mla_bwd.tiling import walk
from tileproof.spec.stage import Stage
from tileproof.tools.pages import paper_figures
from tileproof.tools.site.drawing import FAINT, Svg

NO_KEY = "#eab8b8"
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "figures"
# What an axis is long in the drawing of a stage, in units; its length in head64 at d_qk 576.
LENGTHS = {"h_q": (56, 64), "B_TOPK": (72, 64), "d_qk": (170, 576), "d_v": (152, 512)}


def _box(svg: Svg, x: float, middle: float, stage: Stage, name: str, colour: str, form: str) -> float:
    """The rectangle of a datum, its axes at its edges; the x of its right end."""
    axes = stage.tile if name == stage.name else stage.axes.get(name, ())
    rows = LENGTHS[axes[0]][0] if axes else 30
    cols = LENGTHS[axes[1]][0] if len(axes) > 1 else max(30, 7 * len(name) + 12)
    svg.rect(x, middle - rows / 2, cols, rows, colour)
    svg.text(x + cols / 2, middle - 1, name, bold=True)
    svg.text(x + cols / 2, middle + 11, form, size=10, colour=FAINT)
    if axes:
        svg.text(x - 4, middle, f"{axes[0]} {LENGTHS[axes[0]][1]}", size=10, colour=FAINT, turned=True)
    if len(axes) > 1:
        label = f"{axes[1]} {LENGTHS[axes[1]][1]}"
        svg.text(x + cols / 2, middle - rows / 2 - 5, label, size=10, colour=FAINT)
    return x + cols


def stage_tile(name: str) -> Svg:
    """The inputs of a stage as rectangles with their axes, and the tile that it makes."""
    stage = STAGES[name]
    middle, x = 72.0, 22.0
    svg = Svg(760, 140, f"Inputs and tile of stage {name}: {stage.formula}")
    for source in stage.inputs:
        colour = "stage" if source in STAGES else "input"
        x = _box(svg, x, middle, stage, source, colour, stage.reads[source].name) + 26
    svg.arrow(x - 14, middle, x + 22, middle)
    end = _box(svg, x + 44, middle, stage, name, "output", "f32")
    svg.width = end + 16
    return svg


def stage_graph() -> Svg:
    """The seven stages from left to right, each with the data that it reads; arrows between stages."""
    level: dict[str, int] = {}
    for name, stage in STAGES.items():
        level[name] = 1 + max((level.get(source, 0) for source in stage.inputs), default=0)
    columns = [[name for name in STAGES if level[name] == at] for at in range(1, max(level.values()) + 1)]
    svg = Svg(200 * len(columns) + 10, 250, "Which stage reads which data and stages")
    place = {}
    for column, names in enumerate(columns):
        for row, name in enumerate(names):
            place[name] = (200 * column + 20, svg.height * (row + 0.5) / len(names))
    for name, stage in STAGES.items():
        to_x, to_y = place[name]
        for source in stage.inputs:
            if source in STAGES:
                x, y = place[source]
                far = level[name] - level[source] > 1
                svg.arrow(x + 140, y, to_x - 1, to_y, bend=70 if far and y >= to_y - 80 else 0)
    for name, (x, y) in place.items():
        svg.rect(x, y - 24, 140, 48, "output" if name in ("dQ", "dKV") else "stage", radius=6)
        svg.text(x + 70, y - 3, name, bold=True, size=14)
        read = ", ".join(source for source in STAGES[name].inputs if source not in STAGES)
        svg.text(x + 70, y + 14, f"reads {read}", size=11, colour=FAINT)
    return svg


def overview() -> Svg:
    """What goes in, what runs, what is compared, and what comes out."""
    svg = Svg(760, 190, "A kernel runs on the emulator; its tiles are compared with a float64 reference")

    def box(x: float, y: float, w: float, colour: str, title: str, *words: str) -> None:
        svg.rect(x, y, w, 66, colour, radius=6)
        svg.text(x + w / 2, y + 22, title, bold=True)
        for number, line in enumerate(words):
            svg.text(x + w / 2, y + 40 + 15 * number, line, size=11, colour=FAINT)

    box(14, 14, 170, "input", "your kernel", "PTX, CUDA, Triton,", "Gluon, TileLang")
    box(214, 14, 190, "strong", "emulator", "TMA, mbarriers, tcgen05,", "TMEM, clusters; any order")
    box(434, 14, 130, "stage", "tiles, outputs", "and the order", "of every access")
    box(214, 110, 190, "input", "reference", "float64, with a derived", "bound for each element")
    box(434, 110, 130, "stage", "comparison", "values, races,", "hangs, coverage")
    box(594, 110, 152, "output", "verdict", "place, cause, replay;", "JSON, SARIF, JUnit")
    svg.arrow(184, 47, 212, 47)
    svg.arrow(404, 47, 432, 47)
    svg.arrow(499, 80, 499, 108)
    svg.arrow(404, 143, 432, 143)
    svg.arrow(564, 143, 592, 143)
    return svg


def tile_walk() -> Svg:
    """The tiles of a token: heads of two CTAs, k-blocks of slots, and the slots that are no keys."""
    holes = ((3, -1), (70, -1), (71, -1))
    case = SparseCase(
        d_qk=576, h_q=128, s_kv=200, blocks=4, tokens=(Indices("identity", holes=holes),), lengths=(150,),
    )  # fmt: skip
    inputs = case.inputs()
    keys = keys_of(inputs, 0)
    unit, top, left, half = 2.4, 46.0, 92.0, 70.0
    svg = Svg(left + unit * keys.size + 20, 250, "The tiles of a token with topk 256 and topk_length 150")
    svg.text(left, 18, "slots of the token: topk 256, topk_length 150, three indices -1", anchor="start")
    for cta in range(2):
        svg.text(left - 8, top + half * (cta + 0.5), f"CTA {cta}", anchor="end", bold=True)
        heads = f"heads {64 * cta}-{64 * cta + 63}"
        svg.text(left - 8, top + half * (cta + 0.5) + 14, heads, anchor="end", size=10, colour=FAINT)
        for block in range(4):
            svg.rect(left + unit * 64 * block, top + half * cta, unit * 64, half, "empty")
    for tile in walk(inputs, 64, 2):
        x, y = left + unit * tile.cols.start, top + half * tile.cta
        svg.rect(x, y, unit * 64, half, "stage")
    for slot in (i for i, key in enumerate(keys) if not key and i < 192):
        x = left + unit * slot
        svg.parts.append(
            f'<rect x="{x:g}" y="{top:g}" width="{unit:g}" height="{2 * half:g}" fill="{NO_KEY}"/>'
        )
    for tile in walk(inputs, 64, 2):
        x, y = left + unit * (tile.cols.start + 32), top + half * (tile.cta + 0.5) + 4
        svg.text(x, y, f"k-block {tile.k_block}")
    y = top + 2 * half
    for slot in (0, 64, 128, 192, 256):
        svg.text(left + unit * slot, y + 16, str(slot), size=10, colour=FAINT)
    for index, (colour, words) in enumerate(
        (("stage", "tile that the kernel computes"), ("empty", "no tile: past topk_length"))
    ):
        svg.rect(left + 240 * index, y + 34, 14, 14, colour)
        svg.text(left + 240 * index + 20, y + 46, words, anchor="start", size=11)
    svg.parts.append(f'<rect x="{left + 450:g}" y="{y + 34:g}" width="14" height="14" fill="{NO_KEY}"/>')
    svg.text(left + 470, y + 46, "slot in a tile that is no key", anchor="start", size=11)
    return svg


Span = tuple[str, float, float, str]  # name, start, length, and a label


def _memory(title: str, size: int, spans: Sequence[Span], marks: Sequence[tuple[int, str]]) -> Svg:
    """A memory as a bar of `size` units; spans that overlap others in it stand in a second row."""
    lanes: list[list[Span]] = [[], []]
    for span in spans:
        taken = any(span[1] < end[1] + end[2] and end[1] < span[1] + span[2] for end in lanes[0])
        lanes[int(taken)].append(span)
    rows = 2 if lanes[1] else 1
    svg = Svg(760, 64 + 58 * rows, title)
    svg.text(20, 18, title, anchor="start", bold=True)
    unit = 720 / size
    for row, some in enumerate(lanes[:rows]):
        y = 28 + 58 * row
        svg.rect(20, y, 720, 56, "empty", radius=0)
        for name, start, length, label in some:
            x, w = 20 + unit * start, unit * length
            svg.rect(x, y, w, 56, "strong", radius=0)
            if w > 7.0 * max(len(name), len(label) * 0.8) + 4:
                svg.text(x + w / 2, y + 26, name, bold=True, size=11)
                svg.text(x + w / 2, y + 42, label, size=10, colour=FAINT)
            elif w > 7.0 * len(name) + 4:
                svg.text(x + w / 2, y + 33, name, bold=True, size=11)
            elif w > 11:
                svg.text(x + w / 2 + 4, y + 52, name, size=9, anchor="start", turned=True)
    for at, words in marks:
        svg.text(20 + unit * at, 44 + 58 * rows, words, size=10, colour=FAINT)
    return svg


def _stages(
    tile: SmemTile | TmemTile, first: int, size: int, label: str
) -> Iterator[tuple[str, int, int, str]]:
    """The name, start, size and label of each stage of a tile."""
    for stage in range(tile.stages):
        yield f"{tile.name}[{stage}]" if tile.stages > 1 else tile.name, first + stage * size, size, label


def shared_memory(plan: KernelPlan) -> Svg:
    """The shared memory of a CTA by a kernel's plan, in bytes."""
    tiles = ((t, t.offset, t.bytes, f"{t.rows} x {t.cols}") for t in plan.smem)
    spans = [span for tile in tiles for span in _stages(*tile)]
    title = f"{plan.name}, d_qk 576: shared memory of a CTA, {plan.smem_bytes} bytes"
    marks = [(1024 * kib, f"{kib} KiB") for kib in range(0, plan.smem_bytes // 1024 + 1, 32)]
    return _memory(title, plan.smem_bytes, spans, marks)


def tensor_memory(plan: KernelPlan) -> Svg:
    """The columns of tensor memory by a kernel's plan."""
    tiles = ((t, t.column, t.columns, f"layout {t.layout}") for t in plan.tmem)
    spans = [span for tile in tiles for span in _stages(*tile)]
    title = f"{plan.name}, d_qk 576: tensor memory, {plan.tmem_columns} columns of 128 lanes"
    marks = [(column, str(column)) for column in range(0, plan.tmem_columns + 1, 64)]
    return _memory(title, plan.tmem_columns, spans, marks)


PASTEL = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9", "#d0e0e3", "#fce5cd", "#ead1dc")


def swizzled() -> Svg:
    """Eight lines of 128 bytes without and with the 128-byte swizzle, a colour for each chunk of 16 bytes."""
    svg = Svg(760, 250, "Where chunks of 16 bytes lie, without and with the 128-byte swizzle")
    for side, mode in enumerate(("none", "128B")):
        left = 44 + 372 * side
        svg.text(left, 20, f"swizzle {mode}", anchor="start", bold=True)
        for line in range(8):
            svg.text(left - 6, 50 + 24 * line, str(line), size=10, anchor="end", colour=FAINT)
            for index in range(8):
                x = left + 41 * swizzle.chunk(mode, line, index)
                place = f'x="{x}" y="{34 + 24 * line}" width="40" height="23"'
                svg.parts.append(f'<rect {place} fill="{PASTEL[index]}"/>')
                svg.text(x + 20, 50 + 24 * line, str(index), size=11)
    svg.text(
        44, 244, "rows: lines of 128 bytes; numbers: the chunk of a row of the tile", anchor="start", size=11
    )
    return svg


def data_paths() -> Svg:
    """Which rows and columns of an accumulator lie in which lanes and columns of tensor memory."""
    svg = Svg(760, 250, "Accumulators in tensor memory: data path layouts D, E and G")
    for number, (name, n) in enumerate((("D", 64), ("E", 64), ("G", 64))):
        left, path = 70 + 240 * number, tmem.layout(name)
        width = 2.4 * tmem.columns(name, n)
        svg.text(left, 20, f"layout {name}: M {path.m}, N {n}", anchor="start", bold=True)
        for part in range(path.parts):
            _, lane, _ = tmem.cell(name, n, 0, part * n // path.parts)
            y = 34 + 1.4 * int(lane)
            svg.rect(left, y, width, 1.4 * path.rows, ("stage", "input", "output", "strong")[part], radius=0)
            words = f"n {part * n // path.parts}-{(part + 1) * n // path.parts - 1}"
            svg.text(left + width / 2, y + 0.7 * path.rows + 4, words, size=10)
        for mark in (0, 32, 64, 96, 128):
            svg.text(left - 5, 38 + 1.4 * mark, str(mark), size=10, anchor="end", colour=FAINT)
        svg.text(left, 34 + 1.4 * 128 + 18, f"{tmem.columns(name, n)} columns", size=11, anchor="start")
    svg.text(26, 34 + 1.4 * 64, "lanes", size=11, turned=True)
    return svg


def figures() -> dict[str, Callable[[], Svg]]:
    """Every figure by the name of its file."""
    made: dict[str, Callable[[], Svg]] = {
        "data-paths": data_paths,
        "overview": overview,
        "stage-graph": stage_graph,
        "swizzle": swizzled,
        "tile-walk": tile_walk,
    }
    made |= {f"stage-{name}": partial(stage_tile, name) for name in STAGES}
    made |= paper_figures.FIGURES
    for module in (head64, head128_columns):
        plan = module.plan(576)
        made[f"smem-{plan.name}"] = partial(shared_memory, plan)
        made[f"tmem-{plan.name}"] = partial(tensor_memory, plan)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Write every figure, or with --check return 1 if a file differs, is missing or has no figure."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    texts = {f"{name}.svg": str(draw()) for name, draw in figures().items()}
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")}
    if "--check" in given:
        differ = sorted(name for name in {*texts, *there} if texts.get(name) != there.get(name))
        for name in differ:
            print(
                f"docs/figures/{name} is stale; run python -m tileproof.tools.site.figures", file=sys.stderr
            )
        return int(bool(differ))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
