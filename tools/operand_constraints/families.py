"""The operand combinations compared with nvcc: families that each vary a single property.

Made by enumeration and a seeded choice, so that the same rows are made again.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from tileproof.spec.machine.contracts import MmaForm
from tileproof.spec.machine.contracts.algebra import IntTuple
from tileproof.spec.machine.contracts.view import atom
from tileproof.spec.machine.types import Json, UncheckedObject
from tileproof.tools.operand_constraints.rows import LoadRow, OperandForm, OperandRow

SEED = 20
SWIZZLES = ("none", "32B", "64B", "128B")
MAJORS = ("K", "MN")


def rows() -> list[OperandRow]:
    """All rows, each once, in a fixed order."""
    pick = random.Random(SEED)
    families = (
        _fitting, _shapes, _extents, _majors, _spans, _raw, _swizzles, _types, _spaces, _columns, _cuts,
        _random,
    )  # fmt: skip
    made = [row for family in families for row in family(pick)]
    return list(dict.fromkeys(made))


def load_rows() -> list[LoadRow]:
    """Accumulators of every data path under loads of every shape."""
    forms = [MmaForm(64, n) for n in (16, 64, 96, 256)]
    forms += [MmaForm(128, n) for n in (16, 64, 96, 256)]
    forms += [MmaForm(m, n, cta_group=2) for m in (128, 256) for n in (32, 96, 256)]
    forms += [MmaForm(m, n, ws=True) for m in (32, 64) for n in (64, 128, 256)]
    loads = [("32x32b", n) for n in (1, 16, 64, 128)] + [("16x256b", n) for n in (1, 4, 16)]
    loads += [("16x128b", n) for n in (2, 16)] + [("16x64b", n) for n in (4, 32)] + [("16x32bx2", 16)]
    return [LoadRow(form, *load) for form in forms for load in loads]


def _tile(mn: int, k: int, major: str = "K", swizzle: str = "128B", **more: Json) -> OperandForm:
    return OperandForm("tile", (mn, k), major, swizzle, **more)


def _raw_of(
    shape: IntTuple, stride: IntTuple, bits: tuple[int, int, int] = (0, 4, 3), **more: Json
) -> OperandForm:
    return OperandForm("raw", shape=shape, stride=stride, bits=bits, **more)


def _a(form: MmaForm, k: int, swizzle: str = "none", tiles: int = 1) -> OperandForm:
    """A that fits `form`."""
    if form.a_space == "tmem":
        return OperandForm("tmem", (tiles * form.a_rows, k), dtype=form.a_type)
    return _tile(tiles * form.a_rows, k, form.a_major, swizzle, dtype=form.a_type)


def _b(form: MmaForm, k: int, swizzle: str = "none", tiles: int = 1) -> OperandForm:
    return _tile(tiles * form.b_rows, k, form.b_major, swizzle, dtype=form.b_type)


def _c(form: MmaForm, tiles_m: int = 1, tiles_n: int = 1) -> tuple[int, int]:
    return tiles_m * form.a_rows, tiles_n * form.n


def _swizzles_for(pick: random.Random, mn: int, k: int, major: str) -> str:
    """A swizzle whose atom divides the extents."""
    fitting = []
    for mode in SWIZZLES:
        along, across = atom(major, mode, "bf16")  # type: ignore[arg-type]
        extent, other = (k, mn) if major == "K" else (mn, k)
        if extent % along == 0 and other % across == 0:
            fitting.append(mode)
    return pick.choice(fitting)


Mode = int | tuple[int, int]  # an extent, or the extents of two parts
FORMS: tuple[UncheckedObject, ...] = (
    {},
    {"a_space": "tmem"},
    {"cta_group": 2},
    {"cta_group": 2, "a_space": "tmem"},
    {"ws": True},
    {"ws": True, "a_space": "tmem"},
)


def _ms(options: UncheckedObject) -> tuple[int, ...]:
    if options.get("ws"):
        return (64, 128) if options.get("a_space") else (32, 64, 128)
    return (128, 256) if options.get("cta_group") == 2 else (64, 128)


def _fitting(pick: random.Random) -> Iterator[OperandRow]:
    """Operands that fit, over forms, majors, swizzles, N and K."""
    for options in FORMS:
        ns = (64, 128, 256) if options.get("ws") else (32, 64, 96, 128, 160, 256)
        for m, a_major, b_major in itertools.product(_ms(options), MAJORS, MAJORS):
            if options.get("a_space") and a_major == "MN":
                continue
            for k in pick.sample((16, 32, 64, 128), 2):
                form = MmaForm(m, pick.choice(ns), a_major=a_major, b_major=b_major, **options)  # type: ignore[arg-type]
                a = _a(form, k, _swizzles_for(pick, form.a_rows, k, a_major))
                b = _b(form, k, _swizzles_for(pick, form.b_rows, k, b_major))
                yield OperandRow("fitting", form, a, b, _c(form))


def _shapes(pick: random.Random) -> Iterator[OperandRow]:
    """M and N that exist and that do not, over the forms."""
    for options in FORMS:
        for m in (32, 64, 96, 128, 192, 256):
            form = MmaForm(m, 64 if options.get("ws") else pick.choice((32, 64, 96)), **options)
            yield OperandRow("shape", form, _a(form, 32), _b(form, 32), _c(form))
        for n in (8, 24, 40, 48, 80, 112, 192, 248, 264, 288, 512):
            form = MmaForm(pick.choice(_ms(options)), n, **options)
            yield OperandRow("shape", form, _a(form, 32), _b(form, 32), _c(form))


def _extents(pick: random.Random) -> Iterator[OperandRow]:
    """K of A against K of B, rows against the accumulator, transposed buffers, several tiles."""
    for options in FORMS:
        m, n = _ms(options)[-1], 64 if options.get("ws") else pick.choice((64, 96, 128))
        form = MmaForm(m, n, **options)
        fit_a, fit_b, fit_c = _a(form, 64), _b(form, 64), _c(form)
        yield OperandRow("extent", form, _a(form, 128), fit_b, fit_c)
        yield OperandRow("extent", form, fit_a, _b(form, 32), fit_c)
        yield OperandRow("extent", form, fit_a, _b(form, 72), fit_c)
        yield OperandRow("extent", form, fit_a, _b(form, 56), fit_c)
        yield OperandRow("extent", form, _a(form, 40), _b(form, 40), fit_c)
        yield OperandRow("extent", form, fit_a, _tile(2 * form.b_rows, 64, "K", "none"), fit_c)
        yield OperandRow("extent", form, fit_a, _tile(form.b_rows // 2, 64, "K", "none"), fit_c)
        yield OperandRow("extent", form, fit_a, _tile(form.b_rows + 8, 64, "K", "none"), fit_c)
        yield OperandRow("extent", form, fit_a, _tile(64, form.b_rows, "K", "none"), fit_c)
        yield OperandRow("extent", form, fit_a, fit_b, (form.a_rows, 2 * n))
        yield OperandRow("extent", form, fit_a, fit_b, (form.a_rows, n + 8))
        yield OperandRow("extent", form, fit_a, fit_b, (2 * form.a_rows, n))
        if form.a_space == "smem":
            yield OperandRow("extent", form, _tile(2 * form.a_rows, 64, "K", "64B"), fit_b, fit_c)
            yield OperandRow("extent", form, _tile(form.a_rows // 2, 64, "K", "64B"), fit_b, fit_c)
            yield OperandRow("extent", form, _tile(64, form.a_rows, "K", "64B"), fit_b, fit_c)
        if form.cta_group == 1:
            yield OperandRow("extent", form, _a(form, 64, tiles=2), fit_b, _c(form, 2))
            yield OperandRow("extent", form, fit_a, _b(form, 64, tiles=2), _c(form, 1, 2))
            yield OperandRow("extent", form, _a(form, 64, tiles=2), fit_b, _c(form, 1, 2))
        # The wall of issue 5: B [64, 256] K-major where [256, 64] MN-major is meant, and the same turned.
        wide = MmaForm(m, 256, b_major="MN", **options)
        tile = _tile(64, wide.b_rows, "K", "128B")
        yield OperandRow("extent", wide, _a(wide, 64), tile, _c(wide))
        yield OperandRow(
            "extent", wide, _a(wide, 64), _tile(64, wide.b_rows, "K", "128B", transposed=True), _c(wide)
        )


def _majors(pick: random.Random) -> Iterator[OperandRow]:
    """Buffers of one major-ness under a descriptor of the other, over swizzles."""
    for options in FORMS[:5]:
        for swizzle, b_major in itertools.product(SWIZZLES, MAJORS):
            m, n = _ms(options)[-1], 64 if options.get("ws") else 128
            form = MmaForm(m, n, b_major=b_major, **options)  # type: ignore[arg-type]
            other = "MN" if b_major == "K" else "K"
            turned = pick.random() < 0.3
            b = _tile(form.b_rows, 64, other, swizzle)
            if turned:
                b = _tile(64, form.b_rows, b_major, swizzle, transposed=True)
            yield OperandRow("major", form, _a(form, 64), b, _c(form))
    for swizzle in SWIZZLES:
        form = MmaForm(128, 64, a_major="MN")
        yield OperandRow("major", form, _tile(128, 64, "K", swizzle), _b(form, 64), _c(form))
        yield OperandRow("major", MmaForm(128, 64), _tile(128, 64, "MN", swizzle), _b(form, 64), _c(form))
        form = MmaForm(64, 64, a_space="tmem", a_major="MN")
        yield OperandRow("major", form, _a(form, 64), _b(form, 64, swizzle), _c(form))


def _spans(pick: random.Random) -> Iterator[OperandRow]:
    """Extents that the swizzle's atom does not divide, and those that it does."""
    for swizzle, b_major in itertools.product(SWIZZLES, MAJORS):
        along, _ = atom(b_major, swizzle, "bf16")  # type: ignore[arg-type]
        for extent in sorted({along // 2, along, along + 8, 3 * along // 2, 3 * along}):
            if b_major == "K":
                n, k = pick.choice((64, 96)), max(extent, 8)
            else:
                n, k = max(extent, 8), 48
            form = MmaForm(128, n, b_major=b_major)  # type: ignore[arg-type]
            yield OperandRow("span", form, _tile(128, k, "K", "none"), _b(form, k, swizzle), _c(form))
    for n in (
        8,
        16,
        24,
        40,
        48,
        56,
        72,
        80,
        104,
    ):  # N smaller than the tile that holds it, and beside the atom
        form = MmaForm(64, n, b_major="MN")
        yield OperandRow("span", form, _a(form, 32), _tile(64, 32, "MN", "128B"), _c(form))
        yield OperandRow("span", form, _a(form, 32), _tile(-(-n // 32) * 32, 32, "MN", "64B"), _c(form))


def _raw(pick: random.Random) -> Iterator[OperandRow]:
    """Layouts written by hand: padded rows, other tile orders, plain row- and column-major buffers."""
    k = 64
    sw128, sw64, sw32, plain = (3, 4, 3), (2, 4, 3), (1, 4, 3), (0, 4, 3)
    for n, b_major in itertools.product((64, 128), MAJORS):
        made: list[tuple[tuple[Mode, Mode], tuple[Mode, Mode], tuple[int, int, int]]] = [
            ((n, k), (k, 1), plain),
            ((n, k), (k, 1), sw128),
            ((n, k), (k, 1), sw64),
            ((n, k), (k + 8, 1), sw128),
            ((n, k), (k + 8, 1), plain),
            ((n, k), (k + 4, 1), plain),
            ((n, k), (2 * k, 1), sw128),
            ((n, k), (1, n), plain),
            ((n, k), (1, n), sw128),
            ((n, k), (1, n), sw64),
            ((n, k), (1, n + 8), sw128),
            ((n, k), (2, 2 * n), plain),
            ((n, k), (0, 1), sw128),
            ((n, 32), (32, 1), sw64),
            ((n, 16), (16, 1), sw32),
            (((8, n // 8), (64, 2)), ((64, 1024), (1, 512)), sw128),
            (((8, n // 8), (8, k // 8)), ((8, 64), (1, 8 * n)), plain),
            (((8, n // 8), (8, k // 8)), ((8, 8 * k), (1, 64)), plain),
            (((64, n // 64), (8, k // 8)), ((1, 64 * k), (64, 512)), sw128),
            (((64, n // 64), (8, k // 8)), ((1, 512), (64, 512 * (n // 64))), sw128),
            (((32, n // 32), (8, k // 8)), ((1, 32 * k), (32, 256)), sw64),
            (((16, n // 16), (8, k // 8)), ((1, 16 * k), (16, 128)), sw32),
        ]
        for shape, stride, bits in made:
            form = MmaForm(pick.choice((64, 128)), n, b_major=b_major)  # type: ignore[arg-type]
            depth = shape[1] if isinstance(shape[1], int) else shape[1][0] * shape[1][1]
            yield OperandRow("raw", form, _a(form, depth), _raw_of(shape, stride, bits), _c(form))


def _swizzles(pick: random.Random) -> Iterator[OperandRow]:
    """Swizzles that are no mode of the descriptor, and the 32-byte-atom mode."""
    for bits in ((3, 3, 3), (2, 3, 3), (3, 4, 4), (4, 4, 4), (2, 5, 2), (1, 5, 2), (2, 5, 3), (3, 4, 3)):
        form = MmaForm(128, 64)
        b = _raw_of(((8, 8), 64), ((64, 512), 1), bits)
        yield OperandRow("swizzle", form, _a(form, 64), b, _c(form))
        turned = MmaForm(128, 64, b_major="MN")
        b = _raw_of((64, (8, 8)), (1, (64, 512)), bits)
        yield OperandRow("swizzle", turned, _a(turned, 64), b, _c(turned))
    for mn, k in ((64, 64), (64, 16), (32, 32), (128, 32)):
        form = MmaForm(128, mn, b_major="MN")
        yield OperandRow("swizzle", form, _a(form, k), _tile(mn, k, "MN", "128B_ATOM_32B"), _c(form))


def _types(pick: random.Random) -> Iterator[OperandRow]:
    """Element types: of the form, and of the buffers against it."""
    tf32 = {"kind": "tf32", "a_type": "tf32", "b_type": "tf32"}
    combinations: list[tuple[dict[str, str], str, str]] = [
        ({}, "f16", "bf16"),
        ({}, "bf16", "f16"),
        ({}, "f16", "f16"),
        ({}, "f32", "bf16"),
        ({}, "bf16", "s8"),
        ({"a_type": "f16", "b_type": "f16"}, "f16", "f16"),
        ({"a_type": "f16", "b_type": "f16"}, "bf16", "f16"),
        ({"a_type": "f16", "b_type": "f16", "c_type": "f16"}, "f16", "f16"),
        ({"c_type": "f16"}, "bf16", "bf16"),
        ({"c_type": "bf16"}, "bf16", "bf16"),
        ({"c_type": "s32"}, "bf16", "bf16"),
        ({"a_type": "f32", "b_type": "f32"}, "f32", "f32"),
        ({"a_type": "s8", "b_type": "s8"}, "s8", "s8"),
        ({"a_type": "e4m3", "b_type": "e4m3"}, "e4m3", "e4m3"),
        ({"a_type": "tf32", "b_type": "tf32"}, "tf32", "tf32"),
        (tf32, "tf32", "tf32"),
        (tf32, "f32", "tf32"),
        (tf32, "bf16", "bf16"),
        ({**tf32, "c_type": "f16"}, "tf32", "tf32"),
        ({**tf32, "a_type": "bf16", "b_type": "bf16"}, "bf16", "bf16"),
    ]
    for options in ({}, {"a_space": "tmem"}, {"cta_group": 2}):
        for types, a_type, b_type in combinations:
            if options.get("a_space") and a_type != types.get("a_type", "bf16"):
                continue
            form = MmaForm(128, 64, **{**options, **types})  # type: ignore[arg-type]
            if options.get("a_space"):
                a = OperandForm("tmem", (form.a_rows, 64), dtype=a_type)
            else:
                a = _tile(form.a_rows, 64, swizzle="none", dtype=a_type)
            yield OperandRow("type", form, a, _tile(form.b_rows, 64, swizzle="64B", dtype=b_type), _c(form))


def _spaces(pick: random.Random) -> Iterator[OperandRow]:
    """Operands in the wrong memory."""
    plain = MmaForm(128, 64)
    from_tmem = MmaForm(128, 64, a_space="tmem")
    in_gmem = _raw_of((64, 64), (64, 1), space="gmem")
    yield OperandRow("space", plain, _a(plain, 64), in_gmem, _c(plain))
    yield OperandRow("space", plain, _raw_of((128, 64), (64, 1), space="gmem"), _b(plain, 64), _c(plain))
    yield OperandRow("space", from_tmem, _a(from_tmem, 64), in_gmem, _c(plain))
    yield OperandRow("space", from_tmem, _a(plain, 64), _b(plain, 64), _c(plain))
    yield OperandRow("space", plain, _a(from_tmem, 64), _b(plain, 64), _c(plain))


def _columns(pick: random.Random) -> Iterator[OperandRow]:
    """Accumulators and A that fill tensor memory, and more."""
    for m, n, tiles_m, tiles_n in (
        (128, 256, 1, 2), (128, 256, 2, 1), (128, 256, 3, 1), (128, 256, 2, 2), (128, 128, 2, 2),
        (128, 128, 5, 1), (64, 256, 2, 2), (64, 256, 4, 1), (64, 256, 5, 1), (64, 128, 3, 3),
    ):  # fmt: skip
        for options in ({}, {"a_space": "tmem"}, {"ws": True}):
            form = MmaForm(m, n, **options)  # type: ignore[arg-type]
            a = _a(form, 16, tiles=tiles_m)
            yield OperandRow("columns", form, a, _b(form, 16, tiles=tiles_n), _c(form, tiles_m, tiles_n))
    for k in (512, 1024, 2048):
        form = MmaForm(128, 64, a_space="tmem")
        yield OperandRow("columns", form, _a(form, k), _b(form, k), _c(form))


def _cuts(pick: random.Random) -> Iterator[OperandRow]:
    """Tiles cut for the MMA before, as NVIDIA's tutorials do: several tiles, other majors, other extents."""
    for options in FORMS:
        for b_major, tiles in itertools.product(MAJORS, (1, 2)):
            form = MmaForm(_ms(options)[-1], 128, b_major=b_major, **options)  # type: ignore[arg-type]
            k = pick.choice((32, 64, 128))
            mode = _swizzles_for(pick, form.b_rows, k, b_major)
            a = _a(form, k) if form.a_space == "tmem" else OperandForm("cut", (form.a_rows, k), "K", "64B")
            b = OperandForm("cut", (tiles * form.b_rows, k), b_major, mode)
            yield OperandRow("cut", form, a, b, _c(form, 1, tiles))
        turned = OperandForm("cut", (form.b_rows, 64), "K" if b_major == "MN" else "MN", "64B")
        yield OperandRow("cut", form, _a(form, 64), turned, _c(form))
        yield OperandRow(
            "cut", form, _a(form, 64), OperandForm("cut", (form.b_rows, 32), b_major, "64B"), _c(form)
        )
        yield OperandRow(
            "cut", form, _a(form, 64), OperandForm("cut", (form.b_rows, 64), b_major, "64B"), _c(form, 1, 2)
        )


def _random(pick: random.Random) -> Iterator[OperandRow]:
    """Forms, tiles and nested layouts drawn without regard to what fits."""
    for _ in range(200):
        options = pick.choice(FORMS)
        n = 64 if options.get("ws") else 16 * pick.randint(1, 16)
        b_major = pick.choice(MAJORS)
        form = MmaForm(pick.choice(_ms(options)), n, b_major=b_major, **options)  # type: ignore[arg-type]
        k = pick.choice((16, 32, 48, 64, 96, 128))
        a = _a(form, k if pick.random() < 0.9 else pick.choice((16, 64)))
        tiles_m = 2 if form.cta_group == 1 and pick.random() < 0.1 else 1
        b = _random_operand(pick, form.b_rows, k, b_major)
        yield OperandRow("random", form, a, b, _c(form, tiles_m))


def _random_operand(pick: random.Random, mn: int, k: int, major: str) -> OperandForm:
    if pick.random() < 0.3:
        extents = (
            (mn, k) if pick.random() < 0.7 else (pick.choice((32, 64, 128, 256)), pick.choice((32, 64, 128)))
        )
        return _tile(*extents, pick.choice(MAJORS), pick.choice(SWIZZLES), transposed=pick.random() < 0.2)
    mode = pick.choice(SWIZZLES)
    along, across = atom(major, mode, "bf16")  # type: ignore[arg-type]
    contiguous, other = (k, mn) if major == "K" else (mn, k)
    inner = pick.choice([d for d in (8, along, contiguous) if contiguous % d == 0] or [contiguous])
    rows = pick.choice([d for d in (across, other, 16) if other % d == 0] or [other])
    step = pick.choice((along, along, inner, contiguous, along + 8, 2 * along))
    ahead = pick.choice((rows * step, rows * step, 512, 1024, 8 * contiguous, 24))
    further = pick.choice((other * step, inner * rows, inner, 512, 4096))
    mode_c = ((inner, contiguous // inner), (1, further)) if inner < contiguous else (contiguous, 1)
    mode_o = ((rows, other // rows), (step, ahead)) if rows < other else (other, step)
    first, second = (mode_o, mode_c) if major == "K" else (mode_c, mode_o)
    bits = ({"none": 0, "32B": 1, "64B": 2, "128B": 3}[mode], 4, 3)
    return _raw_of((first[0], second[0]), (first[1], second[1]), bits)
