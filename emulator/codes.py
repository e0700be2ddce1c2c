"""The findings that the engine can report: one row per code, with its severity and what it means.

`docs/instructions.md` prints this table; a test holds it against the C++ sources and the tests of findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileproof.emulator.enumerations import enumeration

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Code:
    """`stops` tells whether the launch ends there: hardware would trap, hang or go on undefined.

    `strict` and `strict_stops` are what `launch(strict=True)` makes of it: the ISA by the letter.
    """

    code: str
    group: str
    severity: Severity
    stops: bool
    meaning: str
    strict: Severity
    strict_stops: bool


_ROWS = """
memory|global-out-of-bounds|error|stops|an access, also of a copy engine, is not inside one buffer
memory|global-uninitialised|error|goes on|a read of bytes of a buffer that nothing has written
memory|global-read-only|error|stops|a write into a buffer over a read-only array, or into .const memory
memory|local-out-of-bounds|error|stops|an access outside the thread's local memory
memory|param-out-of-bounds|error|stops|a read outside the kernel's parameters
memory|param-unset|error|goes on|a read of bytes of the kernel's parameters that the caller never set
memory|param-written|error|stops|a generic store into the parameter window
memory|misaligned|error|stops|an address that is not a multiple of what the access, mbarrier, copy or tensor map needs
memory|shared-out-of-bounds|error|stops|shared bytes outside [0x400, end) of the CTA
memory|shared-uninitialised|error|goes on|a read of shared bytes that nothing has written
memory|shared-pending|error|goes on|a read of shared bytes whose asynchronous copy has not completed: a wait is missing
memory|shared-write-under-copy|error|goes on|a store into shared bytes that a copy in flight is going to write
memory|shared-wrong-window|error|stops|a .shared::cta access, or a wait, with an address of another CTA
memory|shared-no-such-cta|error|stops|an address, mapa or CTA mask that names a rank which the cluster does not have
memory|access-after-exit|error|stops|shared memory, an mbarrier or TMEM of a CTA is used after that CTA exited
mbarrier|mbarrier-uninitialised|error|stops|an mbarrier operation where no mbarrier was initialised
mbarrier|mbarrier-reinit|error|goes on|mbarrier.init on a live mbarrier
mbarrier|mbarrier-count|error|stops|an arrival count outside 1 .. 2^20-1
mbarrier|mbarrier-over-arrival|error|stops|more arrivals than the phase still expects
mbarrier|mbarrier-no-complete|error|goes on|an arrival with .noComplete completes its phase
mbarrier|mbarrier-parity|warning>error|goes on|a wait for a phase whose parity is neither 0 nor 1: the lowest bit is taken; by the letter an error
mbarrier|mbarrier-state|error|goes on|mbarrier.pending_count of a state that no arrival with .noComplete gave
mbarrier|mbarrier-tx-range|error|stops|a transaction count beyond +-(2^20-1)
mbarrier|mbarrier-overwritten|error|goes on|a store or a copy hits the bytes of a live mbarrier
mbarrier|mbarrier-read-as-data|error|goes on|a load, a copy or the tensor core reads the bytes of a live mbarrier
barriers|barrier-operands|error|stops|a named barrier beyond 15, or a thread count that is no multiple of 32
barriers|barrier-count-mismatch|error|stops|a named barrier used with two thread counts in one round
barriers|barrier-arrived-twice|error|goes on|a warp arrives at a named barrier twice in one round: bar.arrive runs ahead
barriers|barrier-mixed|error|goes on|bar.red and bar.sync or bar.arrive on one named barrier in one round
barriers|cluster-barrier-twice|error|stops|a thread arrives at the cluster barrier again without having waited
barriers|cluster-barrier-wait|error|stops|a thread waits at the cluster barrier without having arrived
barriers|cluster-barrier-parted|error|goes on|with strict: barrier.cluster with .aligned after a branch has parted the lanes of its warp, and nothing in between made them wait for one another (bar.warp.sync, another .sync instruction, a barrier of the CTA)
barriers|sync-mask|error|stops|a .sync instruction whose member mask misses a lane that executes it, or names one that skips it
barriers|aligned-partial|error|stops|an .aligned instruction that lanes of the warp skip by a predicate; of a barrier apart also when lanes of the warp have exited
barriers|shfl-inactive|error|goes on|shfl.sync reads a lane that does not take part
copies|tensormap-invalid|error|stops|the 128 bytes are no encoded tensor map
copies|tensormap-rank|error|stops|the dimension of the instruction is not the rank of the map
copies|tensormap-gather4|error|stops|gather4 or scatter4 with a map that is not rank 2 with one row a box
copies|tma-coordinate|error|stops|the innermost coordinate of a tensor copy is no multiple of 16 bytes, or one of a store is below 0: an illegal instruction on the card
copies|tma-store-tail|warning|goes on|a tensor store writes past the end of the innermost dimension: the card clips it in units of 16 bytes
copies|bulk-store-at-exit|warning>error|goes on>stops|a CTA exits while its bulk store still reads shared memory: wait_group.read is missing
copies|tensormap-mode|error|stops|a tile copy with an im2col map, or the other way round
copies|tensormap-type|error|stops|a tensor reduction that the element type of the map does not have
copies|tma-barrier-cta|error|stops|a copy signals an mbarrier in a CTA that this form cannot signal
copies|copy-size|error|stops|cp.async with a src-size beyond its cp-size
memory|cache-policy|error|goes on|createpolicy with a fraction outside (0, 1], or a primary size beyond the total size
copies|clc-after-refusal|error|goes on|clusterlaunchcontrol.try_cancel by a CTA that has seen a request refused
copies|clc-response|error|goes on|clusterlaunchcontrol.query_cancel of what is no response, or the first CTA of a refused one
tensor memory|tmem-alloc|error|stops|an illegal tcgen05.alloc: columns, growing sizes, after relinquish
tensor memory|tmem-dealloc|error|stops|tcgen05.dealloc of what is no live allocation
tensor memory|tmem-dealloc-warp|error|goes on|with strict: tcgen05.dealloc by another warp than the one that allocated the columns
tensor memory|tmem-dealloc-in-flight|error|goes on|tcgen05.dealloc of columns that an operation in flight is going to write
tensor memory|tmem-leak|error|goes on|a CTA exits with columns allocated
tensor memory|tmem-not-allocated|error|stops|an access of columns that are not allocated
tensor memory|tmem-uninitialised|error|goes on|a cell that nothing has written is read by the tensor core, or a register that tcgen05.ld took it to is used
tensor memory|tmem-pending|error|goes on|a read of a cell whose asynchronous write has not completed: a wait is missing
tensor memory|tmem-address-uniform|error|stops|the threads of a warp pass different columns to tcgen05.ld or st
tensor memory|tmem-lane-quarter|warning>error|goes on|the address names lanes of another warp's quarter: the warp reaches its own in any case, and traps in code compiled for debugging
tensor memory|tmem-lane-offset|note|goes on|the address names a lane of the warp's own quarter that the access does not start at
tensor memory|tmem-ld-not-waited|note|goes on|a register of tcgen05.ld is used without wait::ld; the hardware waits for it
races|race-unordered|error|goes on|two accesses of threads that no barrier orders (or lanes that no bar.warp.sync does)
races|race-same-value|note|goes on|two writes that nothing orders leave the same bytes: generic ones of replicated layouts, or one store that several lanes of a warp issue; each is still ordered before its readers
races|race-rounded-value|warning>error|goes on|as race-same-value, where the two leave f32 values that differ by rounding, at most 2^-16 of the largest beside them: which of them stays is not defined; by the letter an error
races|race-copy-unwaited|error|goes on|an access to bytes of a TMA or bulk copy whose completion its thread has not seen
races|race-mma-unwaited|error|goes on|an access to what tcgen05.mma or cp reads or writes, without its commit and a wait for it
races|race-tmem-unwaited|error|goes on|an access to what tcgen05.ld or st of another warp touches, without wait::ld or wait::st
races|race-tmem-released|error|goes on|cells of a tcgen05.ld are released (an arrival, a barrier, dealloc) after its registers were used, without wait::ld
races|race-tmem-reused|warning>error|goes on|a warp stores over cells whose tcgen05.ld it has used, without wait::ld; by the letter an error
races|race-proxy-fence|error|goes on|generic writes and an asynchronous access, with a barrier but without fence.proxy.async
races|race-proxy-reader|note|goes on|as race-proxy-fence, with the fence on the reading side only
races|race-proxy-read|note|goes on|generic reads, then an asynchronous write, with a barrier only: what CUTLASS pipelines do
races|race-proxy-write|warning>error|goes on|generic writes to shared memory, then an asynchronous write over them, with a barrier but without fence.proxy.async
races|race-tcgen05-fence|error|goes on|TMEM accessed by another thread than the one that saw the commit of tcgen05.mma or cp, with a barrier, without tcgen05.fence before or after it
races|race-waited-fence|warning>error|goes on|TMEM accesses of two threads with a barrier, the first tcgen05.ld or st and complete by its wait, without tcgen05.fence before or after it; by the letter an error
races|race-commit-fence|warning>error|goes on|TMEM accessed after an acquiring wait on the commit, without tcgen05.fence::after_thread_sync; by the letter an error
races|race-operand-fence|note>error|goes on|tcgen05.mma or cp reads shared memory after a wait, without tcgen05.fence::after_thread_sync
races|race-mma-pipeline|error|goes on|two tcgen05 operations of one thread on the same cells, the first of which writes, that the pipeline does not keep in order
races|race-mma-reused|warning>error|goes on|a tcgen05 operation writes cells that an earlier MMA of the same thread reads, in an order that the pipeline does not promise; by the letter an error
races|race-mbarrier-init|error|goes on|an mbarrier is used by who is not ordered after its mbarrier.init
races|race-mbarrier-init-relaxed|warning>error|goes on|a thread uses an mbarrier after a relaxed cluster barrier that its mbarrier.init came before, without fence.mbarrier_init; by the letter an error
races|race-mbarrier-init-fence|note|goes on|as race-mbarrier-init, ordered by a releasing barrier, without fence.mbarrier_init
races|race-exit|error|goes on|a CTA exits while an access of another CTA to its shared memory may still come
races|race-store-exit|warning>error|goes on>stops|a CTA exits while its own bulk store may still read shared memory: cp.async.bulk.wait_group.read is missing; by the letter an error
races|race-commit-exit|warning>error|goes on|a CTA exits while a tcgen05.commit of its own may still arrive at its mbarrier: no thread has waited for that phase; by the letter an error
races|race-grids|error|goes on|a grid of a stream touches what an earlier grid in flight wrote, or writes what it read: griddepcontrol.wait is missing before it
races|race-launches|error|goes on|two launches of different streams, or a launch and a copy of the host, touch the same bytes and one writes; no event and no synchronisation orders them
races|race-tensormap-fence|error|goes on|a copy uses a tensor map that the kernel wrote, without fence.proxy.tensormap::generic.release by the writer or .acquire before the copy
races|race-scope|error|goes on|two strong accesses, of which the scope of one does not include the other's thread
races|race-scope-default|warning>error|goes on|two accesses that only mbarrier arrivals or waits of .cta scope, as one that is left out, order between CTAs; by the letter an error
races|race-clusters|error|goes on|two clusters access the same global bytes, and nothing orders them
end|setmaxnreg-count|error|stops|setmaxnreg.inc to fewer registers than the warp has, or .dec to more
tensor core|mma-operands|error|stops|an illegal shape, descriptor or address of tcgen05.mma or cp
tensor core|mma-many-threads|warning|goes on|several threads of a warp each issue the same tcgen05.mma
tensor core|mma-collector|warning|goes on|tcgen05.mma uses a collector buffer that holds another matrix, or none
tensor core|cta-group-mixed|warning>error|goes on|a kernel with tcgen05 instructions of both values of .cta_group: ptxas 13 refuses it
tensor core|cta-pair|error|stops|a cta_group::2 instruction without a pair, or other than its twin's
tensor memory|pair-left|error|stops|a CTA of a pair exits without its part of a cta_group::2 alloc, dealloc or relinquish
races|pair-not-started|error|goes on|a cta_group::2 alloc, dealloc or relinquish by a warp that does not know that the other CTA of the pair has started
races|pair-not-allocated|error|goes on|a cta_group::2 dealloc that nothing orders after the other CTA's part of the alloc
races|pair-in-use|error|goes on|a cta_group::2 dealloc while the other CTA may still use the columns
races|pair-may-hang|error|goes on|one CTA's part of a cta_group::2 instruction comes after the other's is over: that one may block for it
end|mbarrier-left-over|note|goes on|with strict: an mbarrier whose phase under way has some of its arrivals when its CTA has exited
end|mbarrier-bytes-left|error|goes on|with strict: an mbarrier whose phase under way lacks announced bytes, or has bytes that nobody announced, when its CTA has exited
end|output-unwritten|error|goes on|bytes of a buffer that the caller names as an output and that the launch did not write
end|async-pending-at-exit|warning|goes on|an operation was in flight when the last thread of the cluster exited
end|commit-at-exit|warning>error|goes on>stops|tcgen05.commit arrives at an mbarrier of its own CTA after that CTA exited: nothing waited for it
end|hang|error|stops|nothing can move; the finding lists who waits for what
end|livelock|error|stops|warps run and nothing happens
end|instruction-limit|error|stops|the launch ran longer than its instruction_limit
end|time-limit|error|stops|the launch ran longer than its seconds_limit
end|trap|error|stops|the kernel executed trap
end|branch-index|error|stops|the index of brx.idx lies outside its list of targets
end|device-assert|error|stops|the kernel called __assertfail
"""  # noqa: E501


def _code(line: str) -> Code:
    """A row: code group, code, severity, stops or goes on, meaning; "a>b" is b when strict."""
    group, code, severity, end, meaning = line.split("|")
    usual, _, strict = severity.partition(">")
    ends, _, strictly = end.partition(">")
    return Code(code, group, usual, ends == "stops", meaning, strict or usual, (strictly or ends) == "stops")  # type: ignore[arg-type]


CODES: dict[str, Code] = {code.code: code for code in map(_code, _ROWS.strip().splitlines())}
SEVERITIES = enumeration("Severity", "note warning error", bits=8)


def strict_weights() -> list[tuple[str, int, bool]]:
    """(code, severity number, stops) of the codes that weigh otherwise in a strict launch."""
    return [
        (c.code, SEVERITIES.index(c.strict), c.strict_stops)
        for c in CODES.values()
        if (c.strict, c.strict_stops) != (c.severity, c.stops)
    ]
