"""How far waits and arrivals reach, counted in the machine code: each `.acquire.cluster` invalidates L1
(CCTL.IVALL), each `.release.cluster` is a fence of the whole device (MEMBAR.ALL.GPU).
"""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.timing.sass import assemble
from tileproof.kernels.registry import kernel

ARCH = "sm_100a"
# Kernel, d_qk -> invalidations and fences, at most. Each of the two cluster barriers has one of either,
# tcgen05.alloc an invalidation. The others: waits for what the peer completes too, twice each, as ptxas peels
# off the first try; in head128-part0 and -columns also arrivals at the peer. In head128-columns the load
# warps have a cluster wait of their own, and the last k-block its own waits for S and dS.
LARGEST = {
    ("head64", 512): (3, 2),
    ("head128-part0", 576): (17, 3),
    ("head128-columns", 512): (24, 4),
}


def counted(ptx: str, entry: str) -> tuple[int, int]:
    """Invalidations of L1 and device-wide fences in the machine code of `entry`."""
    opcodes = [sass.opcode for sass in assemble(ptx, ARCH, entry)]
    return opcodes.count("CCTL.IVALL"), opcodes.count("MEMBAR.ALL.GPU")


@pytest.mark.parametrize(("name", "d_qk"), LARGEST, ids=str)
def test_only_what_the_peer_signals_has_the_scope_of_the_cluster(name: str, d_qk: int) -> None:
    target = kernel(name)
    built = target.build(target.variant(d_qk=d_qk))
    found, most = counted(built.ptx, built.entry), LARGEST[name, d_qk]
    assert found[0] <= most[0] and found[1] <= most[1]


def test_a_scope_that_is_too_wide_is_seen() -> None:
    """Planted: every wait reaches over the cluster."""
    target = kernel("head64")
    built = target.build(target.variant(d_qk=512))
    wide = built.ptx.replace("try_wait.parity.acquire.cta", "try_wait.parity.acquire.cluster")
    assert counted(wide, built.entry)[0] > 40
