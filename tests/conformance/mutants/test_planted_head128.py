"""Each defect planted in head128 is caught by `check` on the emulator, at the stage where it shows first."""

from __future__ import annotations

import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.under_test import on_emulator
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm100.head128.mutants import VALUES

EXAMPLES = 100
# What the message, cause, pattern or code of the first finding must say, beyond its stage.
SAYS = {
    "h128-added-zero": "a row of dKV that no key selects was written",
    "h128-s-not-masked": "slots that are no key are not masked",
    "h128-slot-against-s-kv": "zero",
    "h128-length-ignored": "slots that are no key are not masked",
    "h128-length-not-clamped": "global-out-of-bounds",
    "h128-stored-not-added": "rows of dKV are not the sums of the kernel's own dKV tiles",
    "h128-pad-is-s-kv": "slots that are no key are not masked",
    "h128-index-clamped": "holds kv row 0",
    "h128-second-half-gathered-twice": "wrong kv row gathered: slot",
    "h128-delta-half-row": "columns 256..511 (second half of the row) is missing",
    "h128-rope-not-multiplied": "the contribution of columns 512..575 (RoPE) is missing",
    "h128-p-not-cleared": "NaN",
    "h128-half-the-bytes": "NaN",
    "h128-lse-of-the-neighbour": "lse is that of the neighbouring head",
    "h128-without-log2e": "the factor log2(e) is missing",
    "h128-lse-base-e": "lse is taken as a natural logarithm",
    "h128-dp-column-tile": "the contribution of columns 448..511 is missing",
    "h128-ds-from-rounded-s": "it is made from the bf16 copy of S",
    "h128-ds-without-scale": "sm_scale is missing",
    "h128-ds-fixed-scale": "the scale is 1 / sqrt(d_qk), not sm_scale",
    "h128-ds-without-delta": "delta is not subtracted",
    "h128-delta-of-the-neighbour": "delta is that of the neighbouring head",
    "h128-one-lane-arrives": "s_ready[0] never completed for k-block 0 in CTA 0 and 1",
    "h128-dq-cleared": "only the last k-block counts: each one cleared the accumulator",
    "h128-dq-columns-swapped": "the columns of the tile are permuted",
    "h128-empty-token-forgotten": "nothing was ever written there",
    "h128-dkv-without-s": "S^T dO is missing",
    "h128-dkv-s-for-ds": "S stands in the place of dS",
    "h128-dkv-not-cleared": "NaN",
    "h128-dkv-rope-forgotten": "nothing was added there",
    "h128-dkv-one-slot-off": "slot j XOR 1",
    "h128-dkv-one-block-off": "the rows of the k-block before it",
    "h128-tmem-not-freed": "tmem-leak",
}
# With other values than zeros these show one stage earlier.
BEFORE = {
    # In examples without wrong values, or that end before them.
    ("", "h128-half-the-bytes"): "plan-barrier-bytes",
    ("dKV", "h128-pad-is-s-kv"): "global-out-of-bounds",
    ("P", "h128-slot-against-s-kv"): "holds zeros",
    ("P", "h128-length-ignored"): "holds that row all the same",
}


def test_every_defect_named_above_exists():
    assert set(SAYS) <= {planted.id for planted in VALUES} and len(VALUES) >= 25


SEEDS = 4


@pytest.mark.parametrize("planted", VALUES, ids=lambda one: one.id)
def test_planted_defect_is_caught(planted):
    """Caught by the edges or by what is drawn, at its stage; what explains it is named once at least."""
    found = kernel(planted.target)
    under_test = on_emulator(found, found.variant(d_qk=576), planted=planted, races=False)  # by its values
    heard = []
    for seed, with_edges in ((0, True), *((seed, False) for seed in range(SEEDS))):
        # Unshrunk: shrinking ends by the clock.
        report = engine.check(
            under_test, examples=EXAMPLES, seed=seed, shrink_seconds=0.0, with_edges=with_edges
        )
        assert report.failure is not None, f"{planted.id} was not caught in {EXAMPLES} examples"
        finding = report.failure.findings[0]
        said = f"{finding.message}; {finding.cause}; {finding.pattern}; {finding.code}"
        heard.append(f"{finding.stage}: {said}")
        wanted = BEFORE.get((finding.stage, planted.id))
        if wanted is None:
            assert finding.stage == planted.expected.stage, finding.lines()
            wanted = SAYS.get(planted.id, "")
        if wanted in said:
            return
    raise AssertionError(f"{planted.id} was never explained: {heard}")
