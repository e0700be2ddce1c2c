"""Relations between runs of head64: what must not change, or must change in a known way, when the inputs do.

Each needs no reference, and each has a planted defect that breaks it. Where every operation is the same up to
its place the bits must agree; where sums are reordered, both runs lie within the stage's own bound.
A relation returns what breaks it (an output or a stage), None when it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tileproof.spec import numerics
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, key_mask
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES
from tileproof.spec.problems.sparse_mla_bwd.tiling import gather, k_blocks

from tests.kit.backward_cases import exact_case, random_case
from tests.kit.corpus import UNMASKED, Plant, Seen, changed, far_below_zero, run, source

Array = np.ndarray[Any, Any]
Relation = Callable[[int, int, Plant | None], str | None]

few = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
seeds = st.integers(0, 2**32 - 1)
widths = st.sampled_from([576, 512])
PLANTED_SEEDS = range(3)


def other_bits(a: Seen, b: Seen, *names: str) -> str | None:
    """The first of these outputs whose bits differ."""
    return next((n for n in names if a.outputs[n].tobytes() != b.outputs[n].tobytes()), None)


def operands(seen: Seen, token: int) -> dict[str, Array]:
    """The dS operands ``[64, n]`` of all k-blocks of a token, and the keys ``[n, d_qk]``, float64."""
    inputs = seen.run.inputs
    cols = [slice(64 * k, 64 * k + 64) for k in range(k_blocks(inputs, token))]
    ds = [seen.run.tiles["dS", token, 0, k].astype(np.float64) for k in range(len(cols))]
    keys = np.concatenate([gather(inputs, token, c) for c in cols]).astype(np.float64)
    return {"dS": np.concatenate(ds, axis=1), "k": keys}


def dq_gate(seen: Seen) -> Array:
    """``[s_q, h_q, d_qk]``: how far dQ may lie from the exact sum of the products of this run's dS."""
    p = seen.run.inputs.problem
    gate = np.zeros((p.s_q, p.h_q, p.d_qk))
    for token in range(p.s_q):
        gate[token] = STAGES["dQ"].bound(copy=True, **operands(seen, token))
    return gate


def dkv_gate(seen: Seen) -> Array:
    """``[s_kv, d_qk]``: how far dKV may lie from the exact sum of the products of this run's S and dS."""
    inputs = seen.run.inputs
    p, mask = inputs.problem, key_mask(inputs)
    magnitude, bounds = np.zeros((p.s_kv, p.d_qk)), np.zeros((p.s_kv, p.d_qk))
    additions = np.zeros((p.s_kv, 1))
    for (stage, token, cta, k), tile in seen.run.tiles.items():
        if stage != "dS":
            continue
        cols = slice(64 * k, 64 * k + 64)
        S, dO, q = seen.run.tiles["S", token, cta, k], inputs.dO[token], inputs.q[token]
        known = STAGES["dKV"].bounded(S=S, dO=dO, dS=tile, q=q)
        bound, value = known.errors, known.value
        key = mask[token, cols]
        rows = inputs.indices[token, cols][key]
        np.add.at(magnitude, rows, np.abs(value[key]))
        np.add.at(bounds, rows, bound[key])
        np.add.at(additions, rows, 1.0)
    return numerics.bound_scatter(magnitude, bounds, additions)


def within(a: Array, b: Array, gate: Array) -> bool:
    """Whether |a - b| <= gate everywhere; a NaN is never within."""
    with np.errstate(invalid="ignore"):
        return bool((np.abs(a.astype(np.float64) - b.astype(np.float64)) <= gate).all())


def permuted_keys(seed: int, d_qk: int, plant: Plant | None) -> str | None:
    """The top-k list in another order: the same dS a slot; dQ and dKV but for the order of additions."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 20, (2, 128)).astype(np.int32)  # with repetitions
    rows[rng.random((2, 128)) < 0.1] = -1
    a = random_case(seed, d_qk=d_qk, s_kv=20, indices=rows)
    order = rng.permutation(128)
    b = changed(a, indices=np.ascontiguousarray(rows[:, order]))
    base, permuted = run(a, plant), run(b, plant)
    for token in range(2):
        if (operands(base, token)["dS"][:, order] != operands(permuted, token)["dS"]).any():
            return "dS"
    if not within(base.outputs["dQ"], permuted.outputs["dQ"], dq_gate(base) + dq_gate(permuted)):
        return "dQ"
    if not within(base.outputs["dKV"], permuted.outputs["dKV"], dkv_gate(base) + dkv_gate(permuted)):
        return "dKV"
    return other_bits(base, permuted, "delta")


def permuted_keys_exact(seed: int, d_qk: int, plant: Plant | None) -> str | None:
    """The same where every sum is exact: all bits agree."""
    a = exact_case(seed, d_qk=d_qk)
    order = np.random.default_rng(seed).permutation(128)
    base = run(a, plant)
    permuted = run(changed(a, indices=np.ascontiguousarray(a.indices[:, order])), plant)
    if (base.outputs["dKV"] != permuted.outputs["dKV"]).any():  # -0 equals 0
        return "dKV"
    return other_bits(base, permuted, "delta", "dQ")


def permuted_heads(seed: int, d_qk: int, plant: Plant | None) -> str | None:
    """Heads in another order: dQ and delta move with them, to the bit."""
    a = random_case(seed, d_qk=d_qk, topk=64)
    order = np.random.default_rng(seed).permutation(a.problem.h_q)
    b = changed(a, **{n: np.ascontiguousarray(getattr(a, n)[:, order]) for n in ("q", "o", "dO", "lse")})
    base, permuted = run(a, plant), run(b, plant)
    for name in ("dQ", "delta"):
        if base.outputs[name][:, order].tobytes() != permuted.outputs[name].tobytes():
            return name
    return (
        None
        if within(base.outputs["dKV"], permuted.outputs["dKV"], dkv_gate(base) + dkv_gate(permuted))
        else "dKV"
    )


def split_tokens(seed: int, d_qk: int, plant: Plant | None) -> str | None:
    """Each token in a launch of its own, dKV handed on: dQ and delta to the bit."""
    whole = random_case(seed, d_qk=d_qk, s_q=3, topk=64, topk_length=np.array([64, 30, 50], np.int32))
    together = run(whole, plant)
    dKV = np.zeros_like(together.outputs["dKV"])
    for token in range(3):
        rows = slice(token, token + 1)
        names = ("q", "o", "dO", "lse", "indices", "topk_length")
        part = changed(whole, **{n: np.ascontiguousarray(getattr(whole, n)[rows]) for n in names})
        part = changed(part, problem=changed_problem(part, s_q=1))
        alone = run(part, plant, prefill={"dKV": dKV}, taps=False)
        dKV = alone.outputs["dKV"]
        for name in ("dQ", "delta"):
            if alone.outputs[name].tobytes() != np.ascontiguousarray(together.outputs[name][rows]).tobytes():
                return name
    return None if within(together.outputs["dKV"], dKV, 2 * dkv_gate(together)) else "dKV"


def changed_problem(inputs: Inputs, **sizes: int) -> Any:
    return changed(inputs.problem, **sizes)  # type: ignore[arg-type]


def appended_holes(seed: int, d_qk: int, plant: Plant | None) -> str | None:
    """A tile of invalid indices behind or before the keys: nothing changes, not even where exp2 overflows."""
    del d_qk  # the scores are moved through the RoPE columns
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 150, (2, 64)).astype(np.int32)
    a = far_below_zero(random_case(seed, topk=64, indices=keys))
    holes = rng.choice([-1, 150, 2**31 - 1, -(2**31)], (2, 64)).astype(np.int32)
    longer = changed_problem(a, topk=128)
    base = run(a, plant)
    for pair in ((a.indices, holes), (holes, a.indices)):
        longer_run = run(changed(a, problem=longer, indices=np.concatenate(pair, axis=1)), plant)
        if broken := other_bits(base, longer_run, "delta", "dQ"):
            return broken
        if not within(base.outputs["dKV"], longer_run.outputs["dKV"], 2 * dkv_gate(base)):
            return "dKV"
    return None


def repeated_index(seed: int, d_qk: int, plant: Plant | None) -> str | None:
    """One key in 1, 2 or 4 slots, lse as given: dQ counts it so often, to the bit; dKV within rounding."""
    rng = np.random.default_rng(seed)
    row, first = int(rng.integers(0, 150)), int(rng.integers(0, 60))
    a = random_case(seed, d_qk=d_qk, s_q=1, topk=64)

    def with_slots(count: int) -> Seen:
        indices = np.full((1, 64), -1, np.int32)
        indices[0, first : first + count] = row
        return run(changed(a, indices=indices), plant)

    once = with_slots(1)
    for count in (2, 4):
        more = with_slots(count)
        if not within(more.outputs["dQ"], count * once.outputs["dQ"].astype(np.float64), np.zeros(())):
            return "dQ"
        expected = count * once.outputs["dKV"].astype(np.float64)
        if not within(more.outputs["dKV"], expected, count * dkv_gate(once) + dkv_gate(more)):
            return "dKV"
    return None


def zero_dO(seed: int, d_qk: int, plant: Plant | None) -> str | None:
    """No gradient from above, none below."""
    a = random_case(seed, d_qk=d_qk, topk=64)
    seen = run(changed(a, dO=np.zeros_like(a.dO)), plant, taps=False)
    return next((n for n in ("delta", "dQ", "dKV") if seen.outputs[n].astype(np.float32).any()), None)


def scaled_dO(seed: int, d_qk: int, plant: Plant | None) -> str | None:
    """dO times +-2^n: every gradient times +-2^n, to the bit, as no rounding sees exponent or sign."""
    rng = np.random.default_rng(seed)
    factor = float(rng.choice([-1.0, 1.0])) * 2.0 ** int(rng.integers(1, 9))
    a = random_case(seed, d_qk=d_qk, topk=64)
    base = run(a, plant, taps=False)
    scaled = run(changed(a, dO=(a.dO.astype(np.float32) * factor).astype(a.dO.dtype)), plant, taps=False)
    for name in ("delta", "dQ", "dKV"):
        if (base.outputs[name].astype(np.float64) * factor != scaled.outputs[name].astype(np.float64)).any():
            return name
    return None


def shifted_scores(seed: int, d_qk: int, plant: Plant | None) -> str | None:
    """A constant added to every score and to lse: S is the same but for the rounding of both."""
    rng = np.random.default_rng(seed)
    a = random_case(seed, d_qk=d_qk, topk=64)
    q, kv = a.q.copy(), a.kv.copy()
    q[..., -1], kv[:, -1] = 0, 1
    a = changed(a, q=q, kv=kv)
    b = changed(a, q=q.copy())
    b.q[..., -1] = shift = float(2 ** int(rng.integers(2, 8)))
    scale = a.problem.sm_scale * LOG2_E
    b = changed(b, lse=(a.lse + shift * scale).astype(np.float32))
    base, shifted = run(a, plant), run(b, plant)
    mask = key_mask(a)
    for (stage, token, cta, k), S in base.run.tiles.items():
        if stage != "S":
            continue
        cols = slice(64 * k, 64 * k + 64)
        gate, slack = np.zeros(S.shape), np.zeros(S.shape)
        for seen in (base, shifted):
            P = seen.run.tiles["P", token, cta, k]
            keys, lse = gather(a, token, cols), seen.run.inputs.lse[token]
            own = {"P": P, "lse": lse, "mask": mask[token, cols], "sm_scale": a.problem.sm_scale}
            gate += STAGES["S"].bound(copy=True, **own)
            slack += scale * STAGES["P"].bound(q=seen.run.inputs.q[token], k=keys)
            slack += 2.0**-24 * np.abs(lse)[:, None]
        moved = S.astype(np.float64) * np.expm1(slack * np.log(2.0)) * (1 + 2.0**-7)
        if not within(S, shifted.run.tiles["S", token, cta, k], gate + moved):
            return "S"
    return None


def counts_neighbours_once() -> Plant:
    return source(
        "dkv_export.cuh",
        (
            "if (Every || row[j] >= 0) ptx",
            "if ((Every || row[j] >= 0) && (j == 0 || row[j] != row[max(j - 1, 0)])) ptx",
        ),
    )


LSE = "params.lse + this->first_head() + head)"
S_LINE = "ptx::exp2_approx(fmaf(x[j], params.sm_scale_log2e, -lse))"
LOWER_KEYS_TWICE = source(
    "mma.cuh",
    (
        "ptx::mma_ws_f16_ss(d, further(a, key * 2), further(b, key * kRowBytes)",
        "ptx::mma_ws_f16_ss(d, further(a, key % 32 * 2), further(b, key % 32 * kRowBytes)",
    ),
)
# Relation -> the defect that breaks it, and what breaks first.
RELATIONS: dict[str, tuple[Relation, Plant, str]] = {
    "permuted keys": (permuted_keys, LOWER_KEYS_TWICE, "dQ"),
    "permuted keys, dKV": (permuted_keys, counts_neighbours_once(), "dKV"),
    "permuted keys, exact": (permuted_keys_exact, LOWER_KEYS_TWICE, "dQ"),
    "permuted heads": (
        permuted_heads,
        source("softmax.cuh", (LSE, LSE.replace("head)", "(head ^ 1))"))),
        "dQ",
    ),
    "split tokens": (
        split_tokens,
        source("softmax.cuh", (LSE, LSE.replace("first_head()", "first_head() % Plan::h_q"))),
        "dQ",
    ),
    "appended holes": (appended_holes, UNMASKED, "dQ"),
    "repeated index": (repeated_index, counts_neighbours_once(), "dKV"),
    "zero dO": (
        zero_dO,
        source("mma.cuh", ("dkv_part(dO, s, part, false)", "dkv_part(q, s, part, false)")),
        "dKV",
    ),
    "scaled dO": (
        scaled_dO,
        source("softmax.cuh", ("(x[j] - delta)", "(x[j] - delta + 1.0f)")),
        "dQ",
    ),
    "shifted scores": (
        shifted_scores,
        source("softmax.cuh", (S_LINE, S_LINE.replace("-lse", "-lse * 1.44269504f"))),
        "S",
    ),
}


@pytest.mark.parametrize("name", RELATIONS)
@few
@given(seed=seeds, d_qk=widths)
def test_relation_holds(name: str, seed: int, d_qk: int) -> None:
    assert RELATIONS[name][0](seed, d_qk, None) is None


@pytest.mark.parametrize("name", RELATIONS)
def test_relation_breaks_with_its_defect(name: str) -> None:
    relation, plant, breaks = RELATIONS[name]
    assert {relation(seed, 576, plant) for seed in PLANTED_SEEDS} == {breaks}
