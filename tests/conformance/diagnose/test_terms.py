"""Causes of wrong sums of products, operands from elsewhere and lost stores, in every kind of stage."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.compare.compare import Divergence, wrong_elements
from tileproof.conformance.compare.scattered import Contribution, explain_scatter
from tileproof.conformance.diagnose.cause import cause
from tileproof.conformance.diagnose.faults import LAYOUTS
from tileproof.conformance.diagnose.steps import terms
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.base import TileCoord, Tiling
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

from tests.kit.dense_problems import CUT, small

COORDS = {
    "delta": TileCoord(1, 0, None),
    "P": TileCoord(1, 0, 1),
    "S": TileCoord(1, 0, 1),
    "dP": TileCoord(1, 0, 1),
    "dS": TileCoord(1, 0, 1),
    "dQ": TileCoord(1, 0, None),
    "dKV": TileCoord(1, 0, 1),
}


@dataclass
class Scene:
    """One tile of a stage, as a correct kernel has it, to be changed."""

    chain: Chain
    stage: str
    coord: TileCoord

    def __post_init__(self):
        self.region = self.chain.region(self.stage, self.coord)
        self.reference = self.chain.reference(self.stage, self.coord, *self.region)
        self.terms = terms(self.chain, self.stage, self.reference)

    def told(self, value, *others: StageTile, copy: bool = False) -> str:
        """The cause of the tile with these values beside others; the value must be wrong."""
        kind = ml_dtypes.bfloat16 if self.stage == "dQ" or copy else np.float32
        tile = StageTile(self.stage, self.coord, *self.region, value.astype(kind), np.ones(value.shape, bool))
        self.chain.own_tiles = {other.key: other for other in (*others, tile)}
        self.chain._wholes.clear()
        reference = self.chain.reference(self.stage, self.coord, *self.region)
        wrong = wrong_elements(tile, reference)
        assert wrong.any(), "the planted error is inside the bound"
        return cause(self.chain, Divergence(tile, reference, wrong))

    def part(self, term, at):
        """What the elements `at` of the summed axis contribute to the tile."""
        product = self.terms[term]
        return product.a[:, at] @ product.b[at]


def scene(stage, values="normal", coord=None):
    tokens = (Indices("permuted"), Indices("permuted"))
    inputs = SparseCase(576, 300, 2, tokens, values=values, seed=3).inputs()
    return Scene(Chain(inputs, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 2)), stage, coord or COORDS[stage])


@pytest.mark.parametrize("stage", ["P", "dP", "dQ", "dKV"])
def test_the_products_of_a_stage_sum_up_to_it(stage):
    here = scene(stage)
    total = sum(term.a @ term.b for term in here.terms)
    assert np.abs(total - here.reference.value).max() <= here.reference.bound.max()
    assert len(here.terms) == (2 if stage == "dKV" else 1)


@pytest.mark.parametrize("stage", ["delta", "S", "dS"])
def test_other_stages_have_no_products(stage):
    assert scene(stage).terms == []


@pytest.mark.parametrize(
    ("stage", "term", "at", "times", "says"),
    [
        ("dQ", 0, slice(32, 48), -1, "the contribution of slots 32..47 to dS k is missing"),
        ("dQ", 0, slice(80, 96), 1, "the contribution of slots 80..95 to dS k was added twice"),
        ("dKV", 1, slice(16, 32), -1, "the contribution of heads 16..31 to S dO is missing"),
        ("dKV", 0, slice(48, 64), -1, "the contribution of heads 48..63 to dS q is missing"),
        ("dKV", 1, slice(0, 16), -2, "the contribution of heads 0..15 to S dO was subtracted"),
        ("dP", 0, slice(64, 80), -2, "the contribution of columns 64..79 to dO v was subtracted"),
    ],
)
def test_a_step_missing_doubled_or_subtracted(stage, term, at, times, says):
    here = scene(stage)
    assert says in here.told(here.reference.value + times * here.part(term, at))


def test_a_missing_step_of_some_columns_only():
    here = scene("dKV")
    value = here.reference.value.copy()
    value[:, 128:256] -= here.part(0, slice(16, 32))[:, 128:256]
    assert here.told(value) == "the contribution of heads 16..31 to dS q is missing"


@pytest.mark.parametrize(("stage", "axis"), [("dQ", "slots"), ("dKV", "heads"), ("P", "columns")])
def test_a_step_that_read_another_operand(stage, axis):
    """Of one step the first operand is that of other elements: its address was wrong."""
    here = scene(stage)
    term = here.terms[0]
    other = term.a[:, 40:56] @ term.b[16:32]
    says = here.told(here.reference.value - here.part(0, slice(16, 32)) + other)
    assert f"{axis} 16..31 of operand {term.names[0]} were not read by the step" in says
    assert f"it read {axis} 40..55" in says


@pytest.mark.parametrize("half", [256, 288])
def test_a_step_of_each_share_that_read_another_operand(half):
    """Each of two CTAs has half of the columns, or of 512 of them; the same step of both read elsewhere."""
    here = scene("P")
    term = here.terms[0]
    value = here.reference.value.copy()
    for first in (32, 32 + half):
        step = slice(first, first + 16)
        value += np.roll(term.a, -8, axis=0)[:, step] @ term.b[step] - here.part(0, step)
    assert f"columns 32..47, {32 + half}..{47 + half} of operand q were not read by the step" in here.told(
        value
    )


def test_a_tile_of_each_share_of_the_first_columns_that_came_from_elsewhere():
    """The last 64 columns are shared out by themselves."""
    here = scene("P")
    term, q = here.terms[0], here.chain.inputs.q.astype(np.float64).reshape(-1, 576)
    value = here.reference.value.copy()
    for first in (64, 320):
        at = slice(first, first + 64)
        value += q[136:200, at] @ term.b[at] - here.part(0, at)
    says = "columns 64..127 and 320..383 of operand q came from 8 rows further: a wrong address or coordinate"
    assert here.told(value).startswith(says)


def test_a_tile_of_each_share_that_came_from_elsewhere():
    here = scene("delta")
    a, b = (here.reference.operands[name].value for name in ("o", "dO"))
    value = here.reference.value.copy()
    for first in (64, 320):
        columns = np.arange(first, first + 64)
        value[:, 0] += (a[:, columns] * (b[:, columns + 64] - b[:, columns])).sum(axis=1)
    says = (
        "columns 64..127 and 320..383 of operand dO came from 64 columns further: a wrong address or "
        "coordinate"
    )
    assert here.told(value).startswith(says)


@pytest.mark.parametrize(
    ("times", "says"),
    [
        (
            1,
            "P of k-block 0 was added: the accumulator was not cleared; the contribution of columns 0..15 to",
        ),
        (0.5, ""),
        (2, ""),
    ],
)
def test_a_first_step_that_was_lost_leaves_what_the_accumulator_held(times, says):
    here = scene("P")
    coord = TileCoord(1, 0, 0)
    rows, cols = here.chain.region("P", coord)
    held = here.chain.reference("P", coord, rows, cols).value.astype(np.float32)
    before = StageTile("P", coord, rows, cols, held, np.ones(held.shape, bool))
    value = here.reference.value - here.part(0, slice(0, 16)) + times * held
    told = here.told(value, before)
    assert told.startswith(says) if says else "accumulator" not in told


@pytest.mark.parametrize(
    ("axis", "step", "says"),
    [
        (1, 1, "slot of the tile holds values from 1 slot further"),
        (0, -8, "head of the tile holds values from 8 heads before"),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_tile_that_begins_elsewhere(axis, step, says, whole):
    """The last slots come from what lies behind; one wrong slot more, and it is another mistake."""
    here = scene("P")
    value = np.roll(here.reference.value, -step, axis)
    edge = np.arange(64)[-step:] if step > 0 else np.arange(-step)
    rest = np.moveaxis(value, axis, 0)
    rest[edge] = np.random.default_rng(0).standard_normal((edge.size, 64))
    if not whole:
        rest[20] *= 1.5
    assert here.told(value).startswith(f"each {says}") == whole


@pytest.mark.parametrize("name", ["q", "k"])
def test_column_tiles_that_are_all_one_other_tile(name):
    here = scene("P")
    term = here.terms[0]
    value = here.reference.value.copy()
    for first in (192, 448):
        at, read = slice(first, first + 64), slice(64, 128)
        a, b = (read, at) if name == "q" else (at, read)
        value += term.a[:, a] @ term.b[b] - here.part(0, at)
    says = f"columns 192..255, 448..511 of operand {name} are its columns 64..127: a wrong address"
    assert here.told(value) == says


@pytest.mark.parametrize("half", [False, True])
def test_all_steps_that_read_another_operand(half):
    """What lay at the address was part of q, in the CTA that has half of the columns, or in both."""
    here = scene("dQ")
    term, q = here.terms[0], here.chain.inputs.q.astype(np.float64)
    value = here.reference.value.copy()
    for cta, columns in enumerate((np.r_[0:256, 512:544], np.r_[256:512, 544:576])):
        read = q[0, : len(term.a), 64 * cta : 64 * cta + term.a.shape[1]]
        if not (half and cta):
            value[:, columns] = read @ term.b[:, columns]
    says = "slots 0..127 of operand dS were not read by the steps of dS k: it read elements of q"
    assert here.told(value).startswith(says)


@pytest.mark.parametrize(("side", "says"), [(0, "operand S 1 head before"), (1, "operand dO 1 head before")])
@pytest.mark.parametrize("noise", [False, True])
def test_an_operand_that_begins_elsewhere(side, says, noise):
    """What lies before the first head is not known, and of each CTA another."""
    here = scene("dKV")
    term = here.terms[1]
    rng = np.random.default_rng(1)
    value = here.reference.value.copy()
    for columns in (np.r_[0:256, 512:544], np.r_[256:512, 544:576]):
        a, b = term.a.copy(), term.b[:, columns].copy()
        if side == 0:
            a[:, 1:], a[:, 0] = term.a[:, :-1], rng.standard_normal(64) * np.abs(term.a).max()
        else:
            b[1:], b[0] = term.b[:-1, columns], rng.standard_normal(columns.size)
        value[:, columns] += a @ b - term.a @ term.b[:, columns]
    if noise:
        value[:, :512] += rng.standard_normal((64, 512)) * np.abs(value).max()
    told = here.told(value)
    assert told == ("" if noise else f"every step of S dO read {says}: its address")


def test_operands_of_both_products_that_begin_elsewhere():
    """The columns of q and dO, one head further; what lies behind the last head is not known."""
    here = scene("dKV")
    value = here.reference.value.copy()
    for term in here.terms:
        b = np.roll(term.b, -1, 0)
        b[-1] = np.where(term.b[-1] == 0, 0, np.random.default_rng(1).standard_normal(b.shape[1]))
        value += term.a @ b - term.a @ term.b
    says = "every step of dS q and S dO read operand q and dO 1 head further: its address"
    assert here.told(value) == says


@pytest.mark.parametrize("down", [8, -8, 5])
def test_a_step_whose_rows_are_others(down):
    """Of keys that many slots further; behind the last there are none."""
    here = scene("P")
    term = here.terms[0]
    keys = np.roll(term.b[32:48], -down, 1)
    keys[:, np.arange(64)[-down:] if down > 0 else np.arange(-down)] = 0
    value = here.reference.value - here.part(0, slice(32, 48)) + term.a[:, 32:48] @ keys
    told = here.told(value)
    assert told.startswith("columns 32..47 of operand k were not read by the step of q k: ")
    way = f"it read the same columns, 8 rows {'further' if down > 0 else 'before'} (or their sum"
    assert (way in told) == (abs(down) == 8)


def test_all_steps_that_read_what_the_first_one_reads():
    here = scene("dQ")
    term = here.terms[0]
    value = np.tile(term.a[:, :16], 8) @ term.b
    says = "slots 0..127 of operand dS were not read by the steps of dS k: each read slots 0..15"
    assert here.told(value) == says


def test_an_operand_whose_rows_are_exchanged_is_distinguished_from_the_other():
    """The sum is the same when those of the other operand are."""
    here = scene("dKV")
    term = here.terms[1]
    value = (
        here.reference.value - here.part(1, slice(16, 32)) + term.a[:, 16:32] @ np.roll(term.b[16:32], 3, 0)
    )
    says = "heads 16..31 of operand dO were not read by the step of S dO: it read other elements of dO"
    assert here.told(value).startswith(says)


@pytest.mark.parametrize("first", [0, 128])
def test_columns_that_were_added_to_others_of_the_tile(first):
    """dKV is made in parts of 128 columns, in the same accumulators."""
    here = scene("dKV")
    value = here.reference.value.copy()
    value[:, 256:384] += value[:, first : first + 128]
    says = f"columns {first}..{first + 127} of this tile was added: the accumulator was not cleared"
    assert here.told(value) == says


@pytest.mark.parametrize(("count", "hint"), [(3, True), (1, False)])
def test_a_sum_that_a_later_step_cleared(count, hint):
    here = scene("dKV")
    value = here.reference.value.copy()
    value[:, 512:] -= here.part(0, slice(0, 16 * count))[:, 512:]
    says = f"the contribution of heads 0..{16 * count - 1} to dS q is missing"
    more = f", as if the step of heads {16 * count}..{16 * count + 15} had cleared the sum"
    assert here.told(value) == says + more * hint


def test_steps_whose_keys_repeat_say_nothing_of_one_step():
    """Of 64 slots with one key of four each every step's keys span the same."""
    indices = tuple(np.arange(128) % 4)
    inputs = SparseCase(
        576, 300, 2, (Indices("permuted"), Indices("permuted")), values="normal", seed=3
    ).inputs()
    inputs.indices[1] = indices
    here = Scene(Chain(inputs, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 2)), "P", COORDS["P"])
    noise = np.random.default_rng(0).standard_normal((64, 576)) @ here.terms[0].b
    assert "were not read by the step" not in here.told(here.reference.value + noise)


@pytest.mark.parametrize("share", [0, 256])
def test_one_step_of_another_layout(share):
    here = scene("P")
    term = here.terms[0]
    value = here.reference.value.copy()
    for first in {96, 96 + share}:
        at = slice(first, first + 16)
        keys = LAYOUTS["read transposed (MN-major instead of K-major)"](term.b.T, 1)
        value += term.a[:, at] @ keys[:, at].T - here.part(0, at)
    where = "columns 96..111, 352..367" if share else "columns 96..111"
    assert here.told(value) == f"{where} of operand k: read transposed (MN-major instead of K-major)"


def test_a_step_of_noise_is_located():
    here = scene("P")
    noise = np.random.default_rng(0).standard_normal((64, 16)) @ here.terms[0].b[96:112]
    says = here.told(here.reference.value + noise)
    assert "columns 96..111 of operand q were not read by the step" in says and "it read" not in says


@pytest.mark.parametrize("stage", ["P", "dQ", "dKV"])
def test_noise_everywhere_has_no_cause(stage):
    here = scene(stage)
    noise = np.random.default_rng(0).standard_normal(here.reference.value.shape)
    assert here.told(here.reference.value + noise * np.abs(here.reference.value).max()) == ""


@pytest.mark.parametrize(("down", "right"), [(1, 0), (0, 64), (64, 0), (-2, 0)])
def test_a_column_tile_of_q_from_elsewhere(down, right):
    here = scene("P")
    term, q = here.terms[0], here.chain.inputs.q.astype(np.float64).reshape(-1, 576)
    rows = 128 + np.arange(64) + down  # of the token's first CTA
    moved = q[rows][:, 64 + right : 128 + right] @ term.b[64:128]
    says = here.told(here.reference.value - here.part(0, slice(64, 128)) + moved)
    if (down, right) == (0, 64):
        assert says == "columns 64..127 of operand q are its columns 128..191: a wrong address"
        return
    assert says.startswith("columns 64..127 of operand q came from")
    assert (f"{abs(down)} row" in says) == (down != 0) and (f"{right} columns" in says) == (right != 0)


@pytest.mark.parametrize(("stage", "name"), [("P", "q"), ("dP", "dO")])
def test_a_column_tile_from_before_the_first_row(stage, name):
    """The first token's first row has none before it: zeros."""
    here = scene(stage, coord=TileCoord(0, 0, 0))
    term = here.terms[0]
    array = getattr(here.chain.inputs, name).astype(np.float64)
    rows = array.reshape(-1, array.shape[-1])[:64, 64:128]
    before = np.concatenate((np.zeros((1, 64)), rows[:-1]))
    says = here.told(here.reference.value - here.part(0, slice(64, 128)) + before @ term.b[64:128])
    assert says.startswith(f"columns 64..127 of operand {name} came from 1 row before")


def test_delta_of_which_half_is_subtracted():
    here = scene("delta")
    o, dO = (here.reference.operands[name].value for name in ("o", "dO"))
    value = here.reference.value - 2 * (o[:, 256:] * dO[:, 256:]).sum(axis=1, keepdims=True)
    says = "the contribution of columns 256..511 (second half of the row) was subtracted"
    assert here.told(value) == says


def test_few_rows_of_delta_are_not_explained_by_one_address():
    """Of small integers an address that fits three numbers is always found."""
    here = scene("delta", "integers")
    value = here.reference.value.copy()
    value[[3, 19, 40], 0] = 0
    assert here.told(value) == "every wrong element is zero"


@pytest.mark.parametrize("name", ["o", "dO"])
def test_delta_with_rows_from_elsewhere(name):
    here = scene("delta")
    arrays = {n: getattr(here.chain.inputs, n).astype(np.float64).reshape(-1, 512) for n in ("o", "dO")}
    rows = 128 + np.arange(64)
    moved = {n: array[rows].copy() for n, array in arrays.items()}
    moved[name][:, :256] = arrays[name][rows + 8][:, :256]
    value = (moved["o"] * moved["dO"]).sum(axis=1, keepdims=True)
    assert f"columns 0..255 of operand {name} came from 8 rows further" in here.told(value)


def test_lost_and_misplaced_stores():
    here = scene("dQ")
    right = here.reference.value
    lost, kv = right.copy(), here.chain.inputs.kv.astype(np.float64)
    lost[:, 8:16] = kv[:64, 64:72]
    assert "they hold elements of kv" in here.told(lost)
    swapped = right.astype(ml_dtypes.bfloat16).astype(np.float64)
    swapped[:, 8:16], swapped[:, 24:32] = swapped[:, 24:32].copy(), swapped[:, 8:16].copy()
    assert "other vectors of the tile" in here.told(swapped)
    moved = right.astype(ml_dtypes.bfloat16).astype(np.float64)
    moved[:, 8:16], moved[:, 40:48] = kv[:64, 64:72], moved[:, 8:16].copy()
    assert "some hold other vectors of the tile, the rest elements of kv" in here.told(moved)


def test_errors_little_beyond_the_bound_are_distinguished_from_other_data():
    here = scene("P")
    off = 2.5 * here.reference.bound
    side = np.where(np.arange(off.size).reshape(off.shape) % 2, 1, -1)
    assert "up to 2.5 times the bound: rounded up" in here.told(here.reference.value + off)
    assert "less precise operation" in here.told(here.reference.value + off * side)
    assert here.told(here.reference.value + 100 * off * side) == ""


@pytest.mark.parametrize("what", ["P", "zero"])
def test_a_lost_load_of_dP(what):
    here = scene("dS")
    terms_ = {
        name: operand.value if hasattr(operand, "errors") else operand
        for name, operand in here.reference.operands.items()
    }
    terms_["dP"] = here.chain.value_of("P", here.coord) if what == "P" else np.zeros_like(terms_["dP"])
    says = here.told(here.chain.stage("dS").exact(**terms_))
    assert says.startswith("P is in the place of dP" if what == "P" else "dP is taken as 0")


@pytest.mark.parametrize("stage", ["dP", "dQ"])
@pytest.mark.parametrize("block", [0, 1])
def test_tiles_that_are_cut_short_are_no_stale_ones(stage, block):
    """The last block of queries has 18 rows, the others 32: neither is the other, nor was added to it."""
    inputs = small(heads=1, h_kv=1, right=None).inputs()
    problem = problem_type("dense_attention_bwd")
    here = Scene(Chain(inputs, problem=problem, tiling=CUT), stage, TileCoord(0, 0, block))
    assert len(here.reference.value) == (32, 18)[block]
    noise = np.random.default_rng(0).standard_normal(here.reference.value.shape)
    assert "k-block" not in here.told(here.reference.value + noise * np.abs(here.reference.value).max())


# ---- sums of two CTAs' shares


@pytest.mark.parametrize(("stage", "operand"), [("S", "P"), ("dS", "dP")])
@pytest.mark.parametrize("slots", [slice(0, 64), slice(32, 64), slice(40, 41)])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda own, peer: own, "lacks the peer's share of the CTA that finishes the slot"),
        (lambda own, peer: peer, "lacks the own share of the CTA that finishes the slot"),
        (
            lambda own, peer: own + np.roll(peer, -1, axis=1),
            "the peer's share in * is that of the slot 1 further",
        ),
        (lambda own, peer: own - peer, "the peer's share in * is subtracted"),
        (lambda own, peer: 2 * own, "* has the own share twice and lacks the peer's"),
        (lambda own, peer: own + 0.7 * peer, ""),
    ],
)
def test_a_share_of_a_sum_that_was_lost_or_is_another_slots(stage, operand, slots, change, says):
    here = scene(stage)
    term = scene(operand).terms[0]
    rope = np.arange(512, term.a.shape[1])
    columns = np.concatenate([np.arange(256), rope[: rope.size // 2]])
    zero, other_share = (
        term.a[:, at] @ term.b[at] for at in (columns, np.setdiff1d(np.arange(term.a.shape[1]), columns))
    )
    first = np.arange(64) < 32
    made = change(np.where(first, zero, other_share), np.where(first, other_share, zero))
    value = here.chain.stage(stage).bounded(**{**here.reference.operands, operand: made}).value
    right = here.reference.value.copy()
    right[:, slots] = value[:, slots]
    told = here.told(right)
    assert (says.replace("*", operand) in told) if says else "share" not in told, told


def test_a_store_of_ds_that_was_lost_leaves_s():
    here = scene("dS")
    value = here.reference.value.copy()
    value[:, 8:16] = here.chain.copy_of("S", here.coord)[:, 8:16]
    assert here.told(value, copy=True) == "S is in the place of dS: the store of dS was lost"
    value[:, 8:16] *= 1.25
    assert "S stands" not in here.told(value, copy=True)


def test_a_store_of_s_that_was_lost_leaves_ds_of_the_k_block_before():
    here = scene("dKV")
    stale = dict(here.reference.operands)
    before = scene("dKV", coord=TileCoord(1, 0, 0)).reference.operands["dS"].value
    whole = here.chain.stage("dKV").bounded(**{**stale, "S": before}).value
    value = here.reference.value.copy()
    value[8:16, :256] = whole[8:16, :256]  # one store of each CTA, of eight slots; its columns alone read it
    value[40:48, 256:512] = whole[40:48, 256:512]
    assert "dS of k-block 0 is in the place of S: the store of S was lost" in here.told(value)


# ---- rows that tiles are added to


def scattered(change, kind: type[np.floating] = np.float64, bound=1e-9):
    """What is said of 64 rows to which two tiles of 64 slots add, in sums of `kind`; `change` makes them
    wrong.
    """
    rng = np.random.default_rng(1)
    values = rng.standard_normal((2, 64, 128))
    rows = [rng.permutation(64) for _ in range(2)]
    right, found = np.zeros((64, 128)), np.zeros((64, 128), kind)
    for tile in range(2):
        for slot in range(64):
            right[rows[tile][slot]] += values[tile, slot]
            for row, value in change(tile, slot, rows[tile], values[tile]):
                found[row] += value
    wrong = ~(np.abs(found - right) <= (1e-9 if kind is np.float64 else 1e-3))
    assert wrong.any()
    contributions = [
        Contribution(slot, int(rows[tile][slot]), values[tile, slot])
        for tile in range(2)
        for slot in range(64)
    ]
    return explain_scatter(contributions, found - right, np.full(right.shape, bound), wrong, "slot")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t, s, r, v: [] if s == 5 else [(r[s], v[s])], "the contribution of some slots is missing"),
        (lambda t, s, r, v: [(r[s], v[s])] * (2 if s in (3, 9) else 1), "some slots was added twice"),
        (lambda t, s, r, v: [(r[s], v[(s + 4) % 64])], "slot j's contribution went to the row of slot j - 4"),
        (
            lambda t, s, r, v: [(r[s], np.concatenate([v[s][64:], v[s][64:]]))],
            "those columns hold contributions from 64 columns behind",
        ),
        (lambda t, s, r, v: [(r[s], v[s] * np.nan)], "NaN or infinity was added there"),
        (lambda t, s, r, v: [(r[s], v[s] + np.sin(np.arange(128) * (s + 2)))], ""),
    ],
)
def test_what_went_wrong_with_contributions(change, says):
    told = scattered(change)
    assert says in told and bool(told) == bool(says)


def test_rows_that_were_exact_are_rounded_where_others_are_added_to_them():
    lost = scattered(lambda t, s, r, v: [(r[s - 2 if s == 30 else s], v[s])], np.float32, 0.0)
    assert "went to wrong rows" in lost and "some slots is missing" in lost


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (lambda slot, low, high: ~(slot & low & high), "the mask is the other way round"),
        (lambda slot, low, high: low & high, "slots beyond topk_length are not masked"),
        (lambda slot, low, high: slot & high, "slots of a negative index are not masked"),
        (lambda slot, low, high: slot & low, "slots of an index beyond the last row are not masked"),
        (lambda slot, low, high: ~(slot & low) & high, "all but the last are the other way round"),
        (lambda slot, low, high: slot & low & ~high, "the last is the other way round"),
    ],
)
def test_slots_masked_by_other_conditions(condition, says):
    holes = ((67, -1), (81, 300), (95, -5), (96, 2**31 - 1))
    tokens = (Indices("permuted"), Indices("permuted", holes=holes))
    inputs = SparseCase(576, 300, 2, tokens, lengths=(128, 120), values="normal", seed=3).inputs()
    here = Scene(Chain(inputs, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 2)), "S", COORDS["S"])
    index = inputs.indices[1, 64:]
    mask = condition(np.arange(64, 128) < 120, index >= 0, index < 300)
    assert says in here.told(here.chain.stage("S").bounded(**{**here.reference.operands, "mask": mask}).value)


def test_a_key_that_is_taken_for_none_is_not_another_slots_mask():
    """Slots 30 and 62 are each the last but one of their half."""
    here = scene("S")
    value = here.reference.value.copy()
    value[:, [30, 62]] = 0
    assert here.told(value) == "slots that are keys are masked"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (np.arange(64) + 1, "the slot 1 further"),
        (np.arange(64) - 8, "the slot 8 before"),
        (np.where(np.arange(64) % 32 < 28, np.arange(64) + 4, -1), "the slot 4 further, within its half"),
        (np.arange(64) ^ 32, "the other half"),
    ],
)
def test_slots_masked_by_another_slot(source, says):
    holes = tuple((64 + slot, -1) for slot in (3, 17, 31, 32, 40, 61))
    tokens = (Indices("permuted"), Indices("permuted", holes=holes))
    inputs = SparseCase(576, 300, 2, tokens, values="normal", seed=3).inputs()
    here = Scene(Chain(inputs, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 2)), "S", COORDS["S"])
    operands = here.reference.operands
    assert operands["mask"].sum() == 58
    mask = np.where((source >= 0) & (source < 64), operands["mask"][np.clip(source, 0, 63)], False)
    value = here.chain.stage("S").bounded(**{**operands, "mask": mask}).value
    assert here.told(value) == f"the mask is that of {says}"
