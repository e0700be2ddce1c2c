"""The corpus: bugs of public attention kernels, and for each the tests here that would have caught it.

A test says which rows it covers with ``@pytest.mark.corpus("I1")``. `coverage` finds the marks by reading the
test sources, without running or importing them. A link is `repository#number` on github.com, with the
shorthands of `REPOSITORIES`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.pages import write_or_check

Status = Literal["tested", "no test", "does not apply"]

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "corpus.md"

REPOSITORIES = {
    "FM": "deepseek-ai/FlashMLA",
    "FA": "Dao-AILab/flash-attention",
    "TL": "tile-ai/tilelang",
    "CFE": "NVIDIA/cudnn-frontend",
    "CUT": "NVIDIA/cutlass",
    "TXK": "mlc-ai/TIRx-kernels",
    "vllm": "vllm-project/vllm",
    "flashinfer": "flashinfer-ai/flashinfer",
    "sglang": "sgl-project/sglang",
    "DeepGEMM": "deepseek-ai/DeepGEMM",
}


@dataclass(frozen=True)
class CorpusRow:
    """One public bug; `why_not` is empty where it applies to the kernels here, else says why it does not."""

    id: str
    group: str
    bug: str
    links: tuple[str, ...]
    applies: str
    why_not: str = ""


@dataclass(frozen=True)
class Coverage:
    """A row with the tests that carry its mark, each ``path::name`` relative to the repository."""

    row: CorpusRow
    tests: tuple[str, ...]

    @property
    def status(self) -> Status:
        if self.tests:
            return "tested"
        if not self.row.why_not:
            return "no test"
        return "does not apply"


def _rows(group: str, table: Sequence[tuple[str, str, str, str]], why_not: str = "") -> tuple[CorpusRow, ...]:
    return tuple(
        CorpusRow(i, group, bug, tuple(links.split(", ")), what, why_not) for i, bug, links, what in table
    )


_INDICES = _rows(
    "index validity",
    (
        (
            "I1",
            "the sentinel -1 is scattered as an added 0.0, which flushes subnormals and quiets NaNs of a row "
            "that nobody selected; in a later batch that is another document's row",
            "FA#2755",
            "bits of dKV rows that no index selects stay, with sentinels in the first and the second token",
        ),
        (
            "I2",
            "an index is used as it comes and its score is not masked: exp2 overflows, inf * dP is NaN in dQ",
            "CFE#676, CFE#877",
            "each kind of invalid index in every slot",
        ),
        (
            "I3",
            "the slot's position is compared with s_kv in place of its index: with topk wider than s_kv dKV "
            "loses rows while dQ is right; the bug's own test clamped -1 to row 0",
            "CFE#298",
            "topk wider than s_kv with holes; the reference against autograd on the same input",
        ),
        (
            "I4",
            "padded slots read what lies before kv (0 * inf is NaN) and the backward adds outside dKV",
            "miles#2079",
            "no access outside a buffer; poison around the selected rows",
        ),
        (
            "I5",
            "a first tile without any key poisons a running maximum (inf - inf); trailing padding never does",
            "vllm#48366",
            "dead k-blocks first, in the middle, alternating",
        ),
        (
            "I6",
            "masked slots gather row 0 all the same, and row 0 holds NaN",
            "flashinfer#5075",
            "NaN in row 0 and in every row that no index selects",
        ),
        (
            "I7",
            "indices past topk_length, which may be anything, are gathered",
            "flashinfer#5075, CFE#817",
            "arbitrary int32 past topk_length",
        ),
        (
            "I8",
            "a topk_length above topk is not clamped: a few elements of dQ are wrong",
            "CFE#1048",
            "lengths below 0, around a tile's edges, above topk",
        ),
        (
            "I9",
            "one kv row chosen by many queries loses additions to dKV",
            "CFE#385",
            "all tokens share keys, evenly and Zipf-like",
        ),
        (
            "I10",
            "an index that repeats inside a token's list counts once",
            "attention-gym#244, CFE#569",
            "every slot holds the same index",
        ),
        (
            "I11",
            "row times stride overflows int32",
            "vllm#56748",
            "s_kv * d_qk above 2^31, over memory that is allocated lazily",
        ),
        (
            "I12",
            "a second front end forgets one size, every load is masked, all gradients are zero in silence",
            "CFE#351",
            "each scalar of the launch zeroed must be seen",
        ),
        ("I13", "the padding value is s_kv itself, one past the end", "TL", "padding with s_kv exactly"),
    ),
)

_EMPTY = _rows(
    "empty rows",
    (
        (
            "H1",
            "a token with topk_length 0 hangs the kernel",
            "CFE#433, CFE#439, CFE#676",
            "empty tokens first, last, all",
        ),
        (
            "H6",
            "without a tile the TMEM base is never published and the deallocation reads garbage",
            "CUT#2835",
            "CTAs without a k-block",
        ),
        (
            "H7",
            "an arrival loses its elected thread: 32 arrivals where one is expected",
            "apache/tvm#20250",
            "the arrivals of every phase",
        ),
        (
            "H8",
            "a row whose sink owns all mass gives NaN",
            "CFE#676, CFE#940",
            "sinks from -inf to +inf, with the largest finite ones",
        ),
    ),
)

_EMPTY_ORDERS = _rows(
    "empty rows",
    (
        (
            "H2",
            "n_block is -1: one warpgroup reads before the list, another waits alone",
            "CFE#785",
            "trip counts that differ between warpgroups and roles",
        ),
        (
            "H3",
            "one side arrives twice on a named barrier before the other syncs",
            "flashinfer#4732",
            "a named barrier that one side runs ahead of",
        ),
        (
            "H4",
            "setmaxnreg waits for a warp that has left; a scheduler deadlock",
            "flashinfer#4533",
            "the register pool of setmaxnreg; registers of warps that have left",
        ),
        (
            "H5",
            "a lock counts CTAs on one side and CTA pairs on the other",
            "PaddlePaddle/flash-attention#140",
            "odd tiles of a pair, counts of one CTA for two, multicasts that reach one",
        ),
    ),
)

_RACES = _rows(
    "races and order",
    (
        (
            "R2",
            "defects that hide while a buffer has one stage",
            "CFE#395",
            "another number of stages gives the same result",
        ),
        (
            "R7",
            "two kernels disagree on padded offsets; passes alone, fails on memory that others have used",
            "FA",
            "outputs that hold NaN or 0xA5 before the launch",
        ),
        (
            "R13",
            "the product of a CTA pair is read before it is complete in both: all-ones inputs show part of K",
            "MrChen314/test_operator",
            "all-ones inputs; commits and bytes of both CTAs",
        ),
        (
            "R14",
            "an MMA that clears and one that accumulates, one of them with an MN-major operand, go wrong",
            "MrChen314/test_operator",
            "sums of two products with both majors, exact",
        ),
    ),
)

_RACES_ORDERS = _rows(
    "races and order",
    (
        (
            "R1",
            "the next MMA overwrites TMEM columns that are still to be read",
            "CFE#396",
            "TMEM overwritten or freed before its reader, with each wait, fence and barrier left out",
        ),
        (
            "R3",
            "many threads write a staging buffer, one issues its bulk reduce: the others are not ordered",
            "CFE#426, CFE#1049, CFE#1135",
            "a staging tile with one issuing thread: each wait, fence and barrier left out",
        ),
        ("R4", "no proxy fence before a TMA store", "CFE#784", "each fence.proxy.async left out"),
        (
            "R5",
            "a warp syncs where the warpgroup should, around TMEM accesses",
            "FA#2033",
            "warp barriers for warpgroup ones; each tcgen05 fence and wait left out",
        ),
        (
            "R6",
            "a dependent launch reads delta before it is written",
            "FA#2481",
            "a second phase of one launch that does not wait for the first, in a CTA and between clusters",
        ),
        (
            "R8",
            "the compiler merges shared buffers that are both alive",
            "TL#2199, miles#1642",
            "two live tiles in the same bytes",
        ),
        (
            "R9",
            "the TMEM address is read without being ordered after the allocation",
            "TXK#7",
            "each barrier after tcgen05.alloc weakened",
        ),
        (
            "R10",
            "an mbarrier is used before its initialisation is visible",
            "TXK#6, TXK#9",
            "inits without barrier or fence, and by several warps",
        ),
        (
            "R11",
            "an aligned barrier is reached from several places",
            "TXK#21, TXK#66",
            "halves of a warp at two places of an aligned barrier",
        ),
        (
            "R12",
            "one lane publishes before the rest of its warp has arrived",
            "TXK#202",
            "a lane that arrives, stores or frees before its warp has joined; a whole warp in its place",
        ),
    ),
)

_NUMERICS = _rows(
    "numerics",
    (
        (
            "N1",
            "S and (dP - delta) * scale are each rounded to bf16 before their product",
            "FA#2893",
            "dS within the rounding of one conversion",
        ),
        (
            "N2",
            "delta loses bits: large logits show it in dQ and d_sink",
            "CFE#676, CFE#877",
            "logits times 1, 10, 100",
        ),
        (
            "N3",
            "zero-filled keys are no mask: exp2(0 - lse) overflows where lse is far below 0, inf * 0 is NaN",
            "CFE#1048",
            "all scores far below 0, with holes",
        ),
        (
            "N4",
            "a sink of 2.4e38 overflows when it is scaled by log2(e)",
            "CFE#1048, CFE#926",
            "the sinks of H8",
        ),
        (
            "N5",
            "one query with very negative scores: NaN where the exponent is split in two factors",
            "CFE#1072, CFE#160",
            "s_q = 1, lse far below 0",
        ),
        ("N6", "lse in another base than its reader takes", "FM#198, xtuner#2081", "rows of S sum to one"),
        (
            "N7",
            "dKV is not the same bits from run to run, dQ is: the gate must know",
            "CFE#684, CFE#395",
            "dQ to the bit, dKV within the bound of reordered additions",
        ),
        (
            "N8",
            "a mend of accuracy costs speed that nobody measured",
            "FM#192",
            "accuracy and instruction counts of one run together",
        ),
        (
            "N9",
            "a kernel author's list: delta, half of the mask, a fixed scale, the layout of S and dS",
            "MrChen314/FlashMLA",
            "one planted mistake each",
        ),
    ),
)

_BUILD = _rows(
    "layout and build",
    (
        (
            "L1",
            "an MMA shape that does not exist fails with an assertion only",
            "MrChen314/test_operator",
            "the shape, and the legal ones, are told from the build's log",
        ),
        (
            "L2",
            "half of the columns of a pair's product are right",
            "MrChen314/test_operator",
            "the wrong columns of a 2-CTA product are named as a block, with what they hold instead",
        ),
        (
            "L3",
            "cluster misconfiguration; names of two libraries collide",
            "MrChen314/test_operator",
            "the launch is refused, or the build's log explained, by what is wrong",
        ),
        (
            "L4",
            "layout errors that nobody can read",
            "CUT#3290, CUT#3393",
            "each operand's extents, major and swizzle are told from the types in the log",
        ),
    ),
)

_SINCE_HANGS = _rows(
    "found since: hangs and lifetimes",
    (
        (
            "H20",
            "a warp that exits early arrives once at a named barrier: the others' next round lacks it",
            "vllm#26026",
            "exits after each round, with an arrival for every round that is left or for one",
        ),
        (
            "H21",
            "the box of a tensor map brings fewer bytes than were announced to the mbarrier",
            "mirage#705",
            "every announcement 1024 bytes too large; the hang names the bytes that are missing",
        ),
        (
            "H22",
            "a wait names a parity that is complete already: a stage is filled again under its MMA",
            "TL#3087",
            "the parity of the ring for that of the step, on the one mbarrier of a loop's commits",
        ),
        (
            "H23",
            "a CTA retires while its peer still arrives at an mbarrier of its shared memory",
            "sglang#32954",
            "a peer that leaves without the cluster barrier, under every order",
        ),
        (
            "H24",
            "tcgen05.alloc or dealloc of cta_group::2 without a cluster barrier: unspecified launch failures",
            "CUT#3435, CUT#3316",
            "a peer that has not started, has not allocated, still uses the columns, or has left",
        ),
        (
            "H25",
            "rows of a group straddle a cluster, and the K loops of its CTAs differ: a hang, or lost K",
            "DeepGEMM#415, DeepGEMM#429",
            "a pair with unequal trip counts: one more on either side, two more, the larger for both",
        ),
    ),
)

_SINCE_ORDERS = _rows(
    "found since: ordering",
    (
        (
            "R20",
            "tensor memory is released after its registers were used, without tcgen05.wait::ld",
            "vllm-project/flash-attention#182, flashinfer#5334",
            "named barriers, mbarriers, cluster barriers and deallocations as the release",
        ),
        (
            "R21",
            "statistics of rows are stored to tensor memory and published without tcgen05.wait::st",
            "CUT#3653",
            "a store, an arrival, a load by the other warpgroup, with and without the wait",
        ),
        (
            "R22",
            "warps without rows load tensor memory all the same and never wait before it is freed",
            "CUT#3652",
            "loads by idle warps, and by lanes that do not take part in st.async, against the deallocation",
        ),
        (
            "R23",
            "an arrival of .cta scope at another CTA's mbarrier: its writes are not released to the waiter",
            "CUT#3643, CUT#3324, quack#63",
            "arrivals, waits, fences and atomics of each scope, within a cluster and between clusters",
        ),
        (
            "R24",
            "a multicast copy is issued before the other receiver has armed its mbarrier and freed the tile",
            "inclusionAI/humming#54, inclusionAI/humming#56",
            "tiles to two CTAs, with arrivals of both receivers or of the sender alone",
        ),
        (
            "R25",
            "the fence.proxy.async stands in a loop that an empty sequence skips, before a bulk store",
            "MoonshotAI/FlashKDA#24, MoonshotAI/FlashKDA#25",
            "0, 1 and 2 tiles, with the fence at the start and without; head128 with empty rows",
        ),
        (
            "R26",
            "an MMA of cta_group::1 and a commit of cta_group::2: the commit covers nothing",
            "TL#2287",
            "a kernel of both groups, with the commit of either after the MMA",
        ),
        (
            "R27",
            "programmatic launch: a grid reads before the one before it wrote, in 0.1 to 1% of launches",
            "FA#2756, flashinfer#2716, FA#2481",
            "delta of a preprocess grid that triggers early, read with and without griddepcontrol.wait",
        ),
        (
            "R28",
            "a tensor map is changed while copies that use it are in flight, or without its proxy fence",
            "DeepGEMM#343, CUT#3165, DeepGEMM#430",
            "a map changed between two groups, with the wait, the release and the acquire each left out",
        ),
        (
            "R29",
            "a mailbox in shared memory is written again before all its readers have read it",
            "cuda-oxide#1066",
            "two readers, counted both or one, of words that a thread stores and that a copy brings",
        ),
        (
            "R30",
            "a histogram is cleared for the next round while others still read it",
            "flashinfer#3529",
            "two rounds over one histogram, with and without the barrier after the read",
        ),
    ),
)

_SINCE_NUMERICS = _rows(
    "found since: numerics and inputs",
    (
        (
            "N20",
            "rows behind the last key of a partial tile hold NaN: a masked probability 0 times it is NaN",
            "FA#2407",
            "partial tiles whose other slots name rows of NaN",
        ),
        (
            "N21",
            "only dV is NaN: its sum starts from an accumulator that nobody cleared",
            "HKUSTDial/flash-sparse-attention#121",
            "NaN in the columns of dKV that hold dV and nowhere else; the stage named is dKV, dQ is right",
        ),
        (
            "N22",
            "padding rows of an output are never written, and a later reduction takes them in",
            "vllm#42426",
            "an output whose padding rows are left, cleared, and read by a second launch",
        ),
        (
            "N23",
            "the byte offset of a row overflows 32 bits from 16K tokens on",
            "fla-org/native-sparse-attention#6",
            "rows 16383 and 16384 of 256 KiB each: the offset in 32 and in 64 bits",
        ),
    ),
)

ROWS: Mapping[str, CorpusRow] = MappingProxyType(
    {
        row.id: row
        for table in (
            _INDICES,
            _EMPTY,
            _EMPTY_ORDERS,
            _RACES,
            _RACES_ORDERS,
            _NUMERICS,
            _BUILD,
            _SINCE_HANGS,
            _SINCE_ORDERS,
            _SINCE_NUMERICS,
        )
        for row in sorted(table, key=lambda r: (r.group, int(r.id[1:])))
    }
)


def marks(source: str, where: str) -> dict[str, list[str]]:
    """Row id -> names of the tests in `source` that carry its mark, by reading the source alone.

    TileproofError when a mark names no row of the corpus, or is not a plain string.
    """
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for decorator in node.decorator_list:
            if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.corpus"):
                continue
            for argument in decorator.args:
                name = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
                if name not in ROWS:
                    raise TileproofError(
                        "a test is marked with a row that the corpus does not have",
                        where=f"{where}:{decorator.lineno}",
                        expected=", ".join(ROWS),
                        found=str(name),
                    )
                found.setdefault(str(name), []).append(node.name)
    return found


def coverage(tests: Path = TESTS) -> list[Coverage]:
    """Every row with its tests under the folder `tests`; TileproofError where there is no such folder."""
    if not tests.is_dir():
        raise TileproofError(
            "the tests are not here, so that what they cover cannot be listed",
            where=str(tests),
            do="run this in a checkout of the repository",
        )
    found: dict[str, list[str]] = {name: [] for name in ROWS}
    for path in sorted(tests.rglob("test_*.py")):
        where = f"{tests.name}/{path.relative_to(tests)}"
        for name, names in marks(path.read_text(encoding="utf-8"), where).items():
            found[name] += [f"{where}::{test}" for test in names]
    return [Coverage(row, tuple(found[row.id])) for row in ROWS.values()]


def missing(rows: Sequence[Coverage]) -> list[str]:
    """Ids of the rows that apply and have no test."""
    return [one.row.id for one in rows if one.status == "no test"]


def link(text: str) -> str:
    """A row's link as Markdown, with the shorthand written out."""
    repository, _, number = text.partition("#")
    full = REPOSITORIES.get(repository, repository)
    if "/" not in full:
        return text
    address = f"https://github.com/{full}" + (f"/issues/{number}" if number else "")
    return f"[{text}]({address})"


def page(rows: Sequence[Coverage]) -> str:
    """docs/corpus.md."""
    counts = {status: sum(one.status == status for one in rows) for status in ("tested", "no test")}
    lines = [
        "# The corpus: public bugs, and the tests that would have caught them",
        "",
        "Generated from `conformance/corpus/rows.py` and the marks of the tests by `python -m "
        "tileproof.conformance.corpus.rows`. Edit those, not this page; `tileproof corpus` prints the same "
        "table.",
        "",
        "A tested row has a test in which a kernel (its launch, or the reference) with this defect planted "
        "fails where it should, and ours passes.",
        "",
        f"{len(rows)} rows: {counts['tested']} tested, {counts['no test']} without a test.",
    ]
    for group in dict.fromkeys(one.row.group for one in rows):
        lines += ["", f"## {group.capitalize()}", "", "| row | what went wrong | where | status | tests |"]
        lines += ["|---|---|---|---|---|"]
        for one in rows:
            if one.row.group == group:
                tests = "<br>".join(f"`{test.rpartition('::')[2]}`" for test in one.tests)
                state = one.row.why_not or f"{one.status}: {one.row.applies}"
                links = ", ".join(map(link, one.row.links))
                lines.append(f"| **{one.row.id}** | {one.row.bug} | {links} | {state} | {tests} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 when the one on disk is stale."""
    return write_or_check("tileproof.conformance.corpus.rows", PAGE, lambda: page(coverage()), arguments)


if __name__ == "__main__":
    sys.exit(main())
