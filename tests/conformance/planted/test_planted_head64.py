"""Each defect planted in head64 is caught by `check` on the emulator, at the stage where it shows first."""

from __future__ import annotations

import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.under_test import on_emulator
from tileproof.kernels.edit import PlantedDefect
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm100.head64.defects import VALUES
from tileproof.spec.machine.finding_text import lines

from tests.kit.sampled import sampled

EXAMPLES = 100
# What the message, cause, pattern or code of the first finding must say, beyond its stage.
SAYS = {
    "h64-added-zero": "a row of dKV that no key selects was written",
    "h64-s-not-masked": "slots without a key are not masked",
    "h64-slot-against-s-kv": "zero",
    "h64-length-ignored": "slots without a key are not masked",
    "h64-length-not-clamped": "global-out-of-bounds",
    "h64-stored-not-added": "rows of dKV are not the sums of the kernel's own dKV tiles",
    "h64-pad-is-s-kv": "slots without a key are not masked",
    "h64-index-clamped": "holds kv row 0",
    "h64-second-half-gathered-twice": "wrong kv row gathered: slot",
    "h64-delta-half-row": "columns 256..511 (second half of the row) is missing",
    "h64-rope-not-multiplied": "the contribution of columns 512..575 (RoPE) is missing",
    "h64-p-not-cleared": "tmem-uninitialised",
    "h64-half-the-bytes": "NaN",
    "h64-lse-of-the-neighbour": "lse is that of the neighbouring head",
    "h64-without-log2e": "the factor log2(e) is missing",
    "h64-lse-base-e": "lse is taken as a natural logarithm",
    "h64-dp-column-tile": "the contribution of columns 448..511 is missing",
    "h64-ds-from-rounded-s": "it is made from the bf16 copy of S",
    "h64-ds-without-scale": "sm_scale is missing",
    "h64-ds-fixed-scale": "the scale is 1 / sqrt(d_qk), not sm_scale",
    "h64-ds-without-delta": "delta is not subtracted",
    "h64-delta-of-the-neighbour": "delta is that of the neighbouring head",
    "h64-one-lane-arrives": "s_ready[0] never completed for k-block 0 in CTA 0",
    "h64-dq-cleared": "only the last k-block counts: each k-block cleared the accumulator",
    "h64-dq-columns-swapped": "the columns of the tile are permuted",
    "h64-empty-token-forgotten": "it was never written",
    "h64-dkv-without-s": "S^T dO is missing",
    "h64-dkv-s-for-ds": "S is used instead of dS",
    "h64-dkv-not-cleared": "NaN",
    "h64-dkv-rope-forgotten": "nothing was added there",
    "h64-dkv-one-slot-off": "slot j XOR 1",
    "h64-dkv-one-block-off": "the rows of the previous k-block",
    "h64-tmem-not-freed": "tmem-leak",
    "h64-delta-13-bits": "no value has more than 13 significant bits",
    "h64-delta-sums-tf32": "delta differs from the spec",
    "h64-delta-sums-bf16": "delta differs from the spec",
    "h64-dkv-added-tf32": "rows of dKV are not the sums of the kernel's own dKV tiles",
    "h64-half-up": "not the bits of the products in the plan's order",
    "h64-rounded-twice": "a rounding or a less precise operation",
    "h64-ds-distributed": "dS differs from the spec",
    "h64-ds-toward-zero": "dS differs from the spec",
}
# With other values than zeros these show one stage earlier.
BEFORE = {
    # In examples without wrong values, or that end before them.
    ("", "h64-half-the-bytes"): "plan-barrier-bytes",
    ("dKV", "h64-pad-is-s-kv"): "global-out-of-bounds",
    ("P", "h64-slot-against-s-kv"): "holds zeros",
    ("P", "h64-length-ignored"): "still holds that row",
}


def test_every_defect_named_above_exists():
    assert set(SAYS) <= {planted.id for planted in VALUES} and len(VALUES) >= 25


SEEDS = 4


def stage(planted: PlantedDefect) -> object:
    """Where it shows first."""
    return getattr(planted.expected, "stage", "")


FIRST = {"h64-slot-against-s-kv": 3}  # the seed that explains it


@pytest.mark.parametrize("planted", sampled(VALUES, 6, stage), ids=lambda defect: defect.id)
def test_planted_defect_is_caught(planted):
    """Caught by the edges or by what is drawn, at its stage; what explains it is named once at least."""
    found = kernel(planted.target)
    under_test = on_emulator(found, found.variant(d_qk=576), planted=planted, races=False)  # by its values
    heard = []
    seeds = sorted(range(SEEDS), key=lambda seed: seed != FIRST.get(planted.id))
    for seed, with_edges in ((0, True), *((seed, False) for seed in seeds)):
        # Unshrunk: shrinking ends by the clock.
        report = engine.check(
            under_test, examples=EXAMPLES, seed=seed, shrink_seconds=0.0, with_edges=with_edges
        )
        assert report.failure is not None, f"{planted.id} was not caught in {EXAMPLES} examples"
        finding = report.failure.findings[0]
        said = "; ".join((finding.message, finding.cause, *finding.evidence, finding.pattern, finding.code))
        heard.append(f"{finding.problem.stage}: {said}")
        wanted = BEFORE.get((finding.problem.stage, planted.id))
        if wanted is None:
            assert planted.expected.fits(finding.problem.stage, finding.code), lines(finding)
            wanted = SAYS.get(planted.id, "")
        if wanted in said:
            return
    raise AssertionError(f"{planted.id} was never explained: {heard}")
