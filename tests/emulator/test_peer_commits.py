"""A CTA that exits before the commits of its peer have arrived and waits for the last or for none."""

from __future__ import annotations

import pytest
from tileproof.emulator import Schedule

from tests.kit.ptx import CLUSTER_SYNC, POLICIES, init_barrier, run, wait

FIRST, LAST = 2048, 2056
COMMIT = (
    "@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [{}], %h1;"
)
# Rank 0 commits to both CTAs' mbarriers, waits, and is not left before rank 1 has arrived.
BODY = f"""
{init_barrier(FIRST)} {init_barrier(LAST)}
fence.mbarrier_init.release.cluster;
{CLUSTER_SYNC}
mov.u32 %r1, %cluster_ctarank; mov.b16 %h1, 3;
setp.eq.u32 %p1, %r1, 0; setp.eq.and.u32 %p2, %t, 0, %p1;
{COMMIT.format(FIRST)} {COMMIT.format(LAST)}
@!%p1 bra PEER;
{wait(FIRST)} {wait(LAST)}
bra END;
PEER:
WAITS
END: bar.sync 0;
"""


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
@pytest.mark.parametrize(
    ("waits", "code", "severity"),
    [
        ((FIRST, LAST), None, ""),
        ((LAST,), "race-commit-exit", "warning"),
        ((FIRST,), "race-exit", "error"),
        ((), "race-exit", "error"),
    ],
)
def test_the_last_commit_is_waited_for(
    schedule: Schedule, waits: tuple[int, ...], code: str | None, severity: str
) -> None:
    body = BODY.replace("WAITS", " ".join(map(wait, waits)))
    for strict in (False, True):
        ran = run(
            body, threads=64, cluster=2, shared_bytes=4096, schedule=schedule, races=True, strict=strict
        )
        # An arrival after the exit has a code of its own.
        found = {
            f.code: f.severity for f in ran.findings if f.code not in ("access-after-exit", "commit-at-exit")
        }
        if code is None or found:
            assert found == ({code: "error" if strict else severity} if code else {})
        else:
            assert code == "race-exit" and ran.errors
