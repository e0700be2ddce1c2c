"""The planted defects of sm90-gemm: wrong values are found on a card and on the emulator, wrong order on the
emulator.
"""

from __future__ import annotations

from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect, Reported, Sizes

KERNEL = "sm90-gemm"
SOURCE = "sm90/gemm/kernel.cu"
ROUND = Sizes(blocks=5)  # more k-blocks than the ring has stages
WAIT = "ptx::wait(ring.full(s), (k / kStages) & 1);"
COPY, READ = "cp.async.bulk.tensor", "ldmatrix"
COPY_OF_A = f"{SOURCE}: ptx::tma_load_2d(ring.a(s), &params.a, ring.full(s), k * TileA::cols, row);"


def _value(id: str, title: str, find: str, replace: str, place: str, code: str = "") -> PlantedDefect:
    return PlantedDefect(
        id, title, "", KERNEL, (Edit(Place(find, SOURCE), replace),), InStage("D", place, code=code)
    )


def _order(
    id: str, title: str, find: str, replace: str, expected: Reported, corpus: str = ""
) -> PlantedDefect:
    return PlantedDefect(
        id, title, corpus, KERNEL, (Edit(Place(find, SOURCE), replace),), expected, sizes=ROUND
    )


VALUES: tuple[PlantedDefect, ...] = (
    _value(
        "s90-swizzle-of-four-rows",
        "the chunk is XORed with the row modulo 4",
        "(chunk ^ (row & 7))",
        "(chunk ^ (row & 3))",
        "every tile: rows 4 to 7 of 8 read other columns of K",
    ),
    _value(
        "s90-last-step-left-out",
        "16 of each 64 of K are not multiplied",
        "step < kSteps; ++step",
        "step < kSteps - 1; ++step",
        "every tile",
    ),
    _value(
        "s90-b-fragments-exchanged",
        "the two halves of B's fragment are exchanged",
        "b[j / 2][2 * (j % 2)], b[j / 2][2 * (j % 2) + 1]",
        "b[j / 2][2 * (j % 2) + 1], b[j / 2][2 * (j % 2)]",
        "every tile",
    ),
    _value(
        "s90-beta-dropped",
        "C is added without beta",
        "params.alpha * x + params.beta * c.x, params.alpha * y + params.beta * c.y",
        "params.alpha * x + c.x, params.alpha * y + c.y",
        "every tile where beta is not 1",
    ),
    _value(
        "s90-lower-rows-not-stored",
        "rows 8 to 15 of each 16 go to rows 0 to 7",
        "row + 16 * i + 8 * half + lane / 4",
        "row + 16 * i + lane / 4",
        "rows 8..15 of every 16 are never written",
    ),
    _value(
        "s90-one-row-too-low",
        "D is written one row too low, past the end of the last tile",
        "*reinterpret_cast<float2*>(params.D + at) = d;",
        "*reinterpret_cast<float2*>(params.D + at + params.columns) = d;",
        "every row of a tile; row 0 is never written",
        code="global-out-of-bounds",
    ),
    _value(
        "s90-tiles-along-n-first",
        "the grid counts tiles along N first",
        "blockIdx.x % down * TileA::rows, column = blockIdx.x / down * TileB::rows",
        "blockIdx.x / down * TileA::rows, column = blockIdx.x % down * TileB::rows",
        "some tile is written twice or past the end where M and N are not equal",
        code="global-out-of-bounds",
    ),
    _value(
        "s90-k-beyond-4096-ignored",
        "k-blocks beyond 64 are loaded and not multiplied",
        "ptx::mma_m16n8k16(acc",
        "if (k < 64) ptx::mma_m16n8k16(acc",
        "every tile of more than 64 k-blocks",
    ),
    _value(
        "s90-offset-of-32-bits",
        "the offset of an element of D has 32 bits",
        "const int64_t m = row +",
        "const int m = row +",
        "rows from 2^31 elements of D on are never written",
        code="global-read-only",
    ),
    _value(
        "s90-tile-row-of-16-bits",
        "the number of a row of tiles has 16 bits",
        "row = blockIdx.x % down * TileA::rows",
        "row = uint16_t(blockIdx.x % down) * TileA::rows",
        "rows of tiles from 65,536 on are never written",
    ),
    _value(
        "s90-full-not-waited-for",
        "the multiplying warps do not wait for the tiles",
        WAIT,
        "",
        "tiles that have not arrived are multiplied",
        code="hang",
    ),
    _value(
        "s90-parity-of-the-first-round",
        "the multiplying warps wait for the first round's phase in every round",
        WAIT,
        "ptx::wait(ring.full(s), 0);",
        "from the fourth k-block on tiles of the round before are multiplied",
        code="hang",
    ),
)

ORDER: tuple[PlantedDefect, ...] = (
    _order(
        "s90-empty-not-waited-for",
        "tiles are loaded over tiles that are still read",
        "ptx::wait(ring.empty(s), ((k / kStages) & 1) ^ 1);",
        "",
        Reported("race-copy-unwaited", COPY, COPY, "mbarrier phase", second_at=COPY_OF_A),
    ),
    _order(
        "s90-empty-never-arrived-on",
        "the multiplying warps free no stage",
        "if (lane == 0) ptx::arrive(ring.empty(s));",
        "",
        Reported("hang", says=("empty[0]", "lacks 4 of 4 arrivals")),
    ),
    _order(
        "s90-freed-before-all-lanes-have-read",
        "one lane frees the stage without waiting for the others",
        "__syncwarp();  // every lane has read before one says so",
        "",
        Reported("race-unordered", COPY, READ, "bar.warp.sync", second_at=COPY_OF_A),
    ),
    _order(
        "s90-freed-without-proxy-fence",
        "no proxy fence between the reads of a stage and the copy over it",
        "ptx::fence_proxy_async_shared();",
        "",
        Reported("race-proxy-read", COPY, READ, "fence.proxy.async", second_at=COPY_OF_A, severity="note"),
    ),
)

DEFECTS = VALUES + ORDER

# Of the kernel with a bias: its own epilogue's.
OF_BIAS: tuple[PlantedDefect, ...] = (
    PlantedDefect(
        "s90-bias-of-the-next-columns",
        "the bias is that of two columns further",
        "",
        f"{KERNEL}-bias",
        (
            Edit(
                Place("params.C + column + 8 * j + lane % 4 * 2", SOURCE),
                "params.C + column + 8 * j + (lane + 1) % 4 * 2",
            ),
        ),
        InStage("D", "every tile"),
    ),
    PlantedDefect(
        "s90-bias-halves-exchanged",
        "the two bf16 of a word are exchanged",
        "",
        f"{KERNEL}-bias",
        (
            Edit(
                Place("params.alpha * x + bias.x, params.alpha * y + bias.y", SOURCE),
                "params.alpha * y + bias.y, params.alpha * x + bias.x",
            ),
        ),
        InStage("D", "every tile: neighbouring columns are exchanged"),
    ),
)
