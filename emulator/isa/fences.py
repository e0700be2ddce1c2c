"""Fences of threads and proxies (PTX ISA 9.7.13.4)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.isa.memory import scope_of
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Immediate, Instruction
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

# spaces: of a proxy fence; of a thread fence its scope, and 8 for .sc.
slots("fence", modifiers="kind spaces")
# What a fence orders: nothing that is modelled; fence.acq_rel, fence.sc, membar; fence.proxy.async; ...
FENCES = enumeration("Fence", "none thread proxy_async mbarrier_init before_thread_sync after_thread_sync")
NO_FENCE, THREAD_FENCE, PROXY_FENCE, INIT_FENCE, BEFORE_FENCE, AFTER_FENCE = range(len(FENCES))

_FENCES = (
    "[.{sc,acq_rel,acquire,release}].{cta,cluster,gpu,sys} @sm_70; "
    ".acquire.sync_restrict::shared::cluster.cluster @sm_90 @ptx8.6; "
    ".release.sync_restrict::shared::cta.cluster @sm_90 @ptx8.6; "
    ".mbarrier_init.release.cluster @sm_90 @ptx8.0; "
    ".proxy.alias @sm_70 @ptx7.5; .proxy.async[.{global,shared::cta,shared::cluster}] @sm_90 @ptx8.0; "
    ".proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster @sm_90 @ptx8.6; "
    ".proxy.async::generic.release.sync_restrict::shared::cta.cluster @sm_90 @ptx8.6; "
    ".proxy.tensormap::generic.{acquire,release}.{cta,cluster,gpu,sys} @sm_90 @ptx8.3"
)


@instruction(
    "fence",
    group="fences",
    forms=_FENCES,
    section="9.7.13.4",
    grade="order only",
    note="changes no value: generic accesses take effect at once in program order; the race checker "
    "reports a missing fence",
)
@instruction(
    "membar",
    group="fences",
    forms=".{cta,gl,sys}; .proxy.alias @sm_70 @ptx7.5",
    section="9.7.13.4",
    grade="order only",
    note="as fence",
)
def fence(d: Decoder, i: Instruction, m: Modifiers) -> None:
    words = i.opcode.split(".")[1:]
    m.types()
    if "mbarrier_init" in words:
        d.emit("fence", kind=INIT_FENCE)
    elif "proxy" not in words:
        words = ["gpu" if word == "gl" else word for word in words]
        sc = "sc" in words or i.opcode.startswith("membar")
        d.emit("fence", kind=THREAD_FENCE, spaces=scope_of(words, "sys") | (8 if sc else 0))
    elif "tensormap::generic" in words:
        address, size = i.operands if "acquire" in words else (None, None)
        if size is not None and not (isinstance(size, Immediate) and size.value == 128):
            raise ValueError("the size is 128")
        d.emit(
            "tensormap.fence",
            map=NONE if address is None else d.address_slot(address, 8),
            acquires=int("acquire" in words),
        )
    elif "alias" in words:
        d.emit("fence", kind=NO_FENCE)
    else:
        d.emit("fence", kind=PROXY_FENCE, spaces=_proxy_spaces(words))


def _proxy_spaces(words: list[str]) -> int:
    """1 for shared memory, 2 for global memory, 3 for both."""
    if "global" in words:
        return 2
    return 1 if any(word.startswith("shared") or "shared::" in word for word in words) else 3
