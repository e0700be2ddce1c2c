"""The findings that the engine can report: one row per code, with its severity and its meaning.

`docs/instructions.md` prints this table. A test compares it with the C++ sources and with the tests of
findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileproof.emulator.enumerations import enumeration

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Code:
    """A code. `stops`: the launch ends at the finding, because hardware would trap, hang or continue with
    undefined behaviour.

    `strict` and `strict_stops`: severity and `stops` in `launch(strict=True)`, which follows the letter of
    the ISA.
    """

    code: str
    group: str
    severity: Severity
    stops: bool
    meaning: str
    strict: Severity
    strict_stops: bool


_ROWS = """
memory|global-out-of-bounds|error|stops|an access of a thread or a copy engine is not inside a single buffer
memory|global-uninitialised|error|continues|a read of bytes of a buffer that nothing has written
memory|uninitialised-unused|note|continues|a read of bytes that nothing has written, whose value decides nothing: it is dropped, or overwritten
memory|global-read-only|error|stops|a write into a buffer over a read-only array, or into .const memory
memory|local-out-of-bounds|error|stops|an access outside the thread's local memory
memory|param-out-of-bounds|error|stops|a read outside the kernel's parameters
memory|param-unset|error|continues|a read of bytes of the kernel's parameters that the caller never set
memory|param-written|error|stops|a generic store into the parameter window
memory|misaligned|error|stops|an address without the alignment that the access, mbarrier, copy or tensor map requires
memory|shared-out-of-bounds|error|stops|shared bytes outside [0x400, end) of the CTA
memory|shared-uninitialised|error|continues|a read of shared bytes that nothing has written
memory|shared-pending|error|continues|a read of shared bytes whose asynchronous copy has not completed: a wait is missing
memory|shared-write-under-copy|error|continues|a store into shared bytes that a copy in flight will write
memory|shared-wrong-window|error|stops|a .shared::cta access, or a wait, with an address of another CTA
memory|shared-no-such-cta|error|stops|an address, mapa or CTA mask that names a rank outside the cluster
memory|access-after-exit|error|stops|shared memory, an mbarrier or TMEM of a CTA is used after that CTA exited
mbarrier|mbarrier-uninitialised|error|stops|an mbarrier operation where no mbarrier was initialised
mbarrier|mbarrier-reinit|error|continues|mbarrier.init on a live mbarrier
mbarrier|mbarrier-inval-unwaited|error|continues|mbarrier.inval while bytes of its phase are to come, or before any thread has waited for the bytes that completed its last phase
mbarrier|mbarrier-count|error|stops|an arrival count outside 1 .. 2^20-1
mbarrier|mbarrier-over-arrival|error|stops|more arrivals than the phase still expects
mbarrier|mbarrier-no-complete|error|continues|an arrival with .noComplete completes its phase
mbarrier|mbarrier-parity|warning>error|continues|a wait for a phase whose parity is neither 0 nor 1: the lowest bit is used; an error with strict
mbarrier|mbarrier-state|error|continues|mbarrier.pending_count of a state that no arrival with .noComplete gave
mbarrier|mbarrier-tx-range|error|stops|a transaction count beyond +-(2^20-1)
mbarrier|mbarrier-overwritten|error|continues|a store or a copy hits the bytes of a live mbarrier
mbarrier|mbarrier-read-as-data|error|continues|a load, a copy or the tensor core reads the bytes of a live mbarrier
barriers|barrier-operands|error|stops|a named barrier beyond 15, a thread count that is not a multiple of 32, or lanes with different operands
barriers|barrier-count-mismatch|error|stops|a named barrier used with two thread counts in the same phase
barriers|barrier-arrived-twice|error|continues|a warp arrives at a named barrier twice in the same phase: bar.arrive runs ahead
barriers|barrier-mixed|error|continues|bar.red and bar.sync or bar.arrive on the same named barrier in the same phase
barriers|cluster-barrier-twice|error|stops|a thread arrives at the cluster barrier again without having waited
barriers|cluster-barrier-wait|error|stops|a thread waits at the cluster barrier without having arrived
barriers|cluster-barrier-parted|error|continues|with strict: barrier.cluster with .aligned after a divergent branch, without a reconvergence of the lanes in between (bar.warp.sync, another .sync instruction, a barrier of the CTA)
barriers|sync-mask|error|stops|a .sync instruction whose member mask omits a lane that executes it, or names a lane that skips it
barriers|aligned-partial|error|stops|an .aligned instruction that lanes of the warp skip by a predicate; except for barriers, also when lanes of the warp have exited
barriers|shfl-inactive|error|continues|shfl.sync reads a lane that does not participate
copies|tensormap-invalid|error|stops|the 128 bytes are not an encoded tensor map
copies|tensormap-field|error|stops|a field of a tensor map in memory holds a value that the driver refuses, or tensormap.replace writes such a value
copies|tensormap-null|note>error|continues|fence.proxy.tensormap acquires a map at address 0, as CUTLASS has warps do that store nothing: without effect on an H200; an error with strict
copies|tensormap-rank|error|stops|the dimension of the instruction differs from the rank of the map
copies|tensormap-gather4|error|stops|gather4 or scatter4 with a map that is not of rank 2 with one row per box
copies|tma-coordinate|error|stops|the innermost coordinate of a tensor copy is not a multiple of 16 bytes, or that coordinate of a store is negative: an illegal instruction on hardware
copies|tma-store-tail|warning|continues|a tensor store writes past the end of the innermost dimension: hardware clips it in units of 16 bytes
copies|bulk-store-at-exit|warning>error|continues>stops|a CTA exits while its bulk store still reads shared memory: wait_group.read is missing
copies|tensormap-mode|error|stops|a tile copy with an im2col map, or an im2col copy with a tiled map
copies|tensormap-type|error|stops|a tensor reduction that does not exist for the element type of the map
copies|tma-barrier-cta|error|stops|a copy signals an mbarrier in a CTA that this form cannot signal
copies|copy-size|error|stops|cp.async with a src-size beyond its cp-size
memory|cache-policy|error|continues|createpolicy with a fraction outside (0, 1], or a primary size beyond the total size
copies|clc-after-refusal|error|continues|clusterlaunchcontrol.try_cancel by a CTA that has already observed a failed request
copies|clc-response|error|continues|clusterlaunchcontrol.query_cancel of bytes that are not a response, or something depends on get_first_ctaid of a failed request
tensor memory|tmem-alloc|error|stops|an illegal tcgen05.alloc: columns, growing sizes, after relinquish
tensor memory|tmem-dealloc|error|stops|tcgen05.dealloc of columns that are not a live allocation
tensor memory|tmem-dealloc-warp|error|continues|with strict: tcgen05.dealloc by a different warp than the warp that allocated the columns
tensor memory|tmem-dealloc-in-flight|error|continues|tcgen05.dealloc of columns that an operation in flight will write
tensor memory|tmem-leak|error|continues|a CTA exits with columns allocated
tensor memory|tmem-not-allocated|error|stops|an access of columns that are not allocated
tensor memory|tmem-uninitialised|error|continues|the tensor core reads a cell that nothing has written, or a register that tcgen05.ld filled from such a cell is used
tensor memory|tmem-pending|error|continues|a read of a cell whose asynchronous write has not completed: a wait is missing
tensor memory|tmem-address-uniform|error|stops|the threads of a warp pass different columns to tcgen05.ld or st
tensor memory|tmem-lane-quarter|warning>error|continues|the address names lanes of another warp's quarter: the warp always accesses its own quarter, and traps in code compiled for debugging
tensor memory|tmem-lane-offset|note|continues|the address names a lane of the warp's own quarter other than the lane where the access starts
tensor memory|tmem-ld-not-waited|note|continues|a register of tcgen05.ld is used without wait::ld; the hardware waits for it
races|race-unordered|error|continues|two accesses of threads that no barrier orders (or lanes that no bar.warp.sync does)
races|race-same-value|note|continues|two unordered writes leave the same bytes: generic writes of replicated layouts, or a store that several lanes of a warp issue; also a read that is ordered after one of the two only
races|race-weak-flag|warning>error|continues|a weak store and a strong load (.relaxed, .acquire, .volatile) of the same bytes, which nothing orders: the load reads the old or the new value, and orders nothing; an error with strict
races|race-relaxed-barrier|warning>error|continues|two accesses to a CTA's shared memory with a .relaxed cluster barrier between them: by threads of that CTA, or, after a barrier of that CTA, the second a write from another CTA; an error with strict
races|race-rounded-value|warning>error|continues|as race-same-value, but the two f32 values differ by rounding, at most 2^-16 of the largest value beside them: which value stays is undefined; an error with strict
races|race-copy-unwaited|error|continues|an access to bytes of a TMA or bulk copy whose completion its thread has not observed
races|race-mma-unwaited|error|continues|an access to the operands or the destination of tcgen05.mma or cp, without a commit and a wait for it
races|race-wgmma-unwaited|error|continues|an access to shared memory that a wgmma.mma_async reads, without a wait_group for its group and a barrier
races|race-tmem-unwaited|error|continues|an access to cells that tcgen05.ld or st of another warp accesses, without wait::ld or wait::st
races|race-tmem-allocated|error|continues|an access of tensor memory that nothing orders after the alloc of its columns
races|race-tmem-released|error|continues|cells of a tcgen05.ld are released (an arrival, a barrier, dealloc) after its registers were used, without wait::ld
races|race-tmem-reused|warning>error|continues|a warp overwrites cells after it used the registers of their tcgen05.ld, without wait::ld; an error with strict
races|race-proxy-fence|error|continues|generic writes and an asynchronous access, with a barrier but without fence.proxy.async
races|race-proxy-reader|note|continues|as race-proxy-fence, with the fence on the reading side only
races|race-proxy-read|note|continues|generic reads, then an asynchronous write, with only a barrier, as CUTLASS pipelines do
races|race-proxy-write|warning>error|continues|generic writes to shared memory, then an asynchronous write to the same bytes, with a barrier but without fence.proxy.async
races|race-tcgen05-fence|error|continues|TMEM accessed by a thread that did not itself wait for the commit of tcgen05.mma or cp, with a barrier but without tcgen05.fence before or after it
races|race-waited-fence|warning>error|continues|TMEM accesses of two threads with a barrier, the first a tcgen05.ld or st that its wait completed, without tcgen05.fence before or after the barrier; an error with strict
races|race-commit-fence|warning>error|continues|TMEM accessed after an acquiring wait on the commit, without tcgen05.fence::after_thread_sync; an error with strict
races|race-operand-fence|note>error|continues|tcgen05.mma or cp reads shared memory after a wait, without tcgen05.fence::after_thread_sync
races|race-mma-pipeline|error|continues|two tcgen05 operations of one thread on the same cells, the first a write, whose order the pipeline does not guarantee
races|race-mma-reused|warning>error|continues|a tcgen05 operation writes cells that an earlier MMA of the same thread reads, in an order that the pipeline does not guarantee; an error with strict
races|race-mbarrier-init|error|continues|an mbarrier is used by a thread or engine that is not ordered after its mbarrier.init
races|race-mbarrier-init-relaxed|warning>error|continues|a thread uses an mbarrier after mbarrier.init and a relaxed cluster barrier, without fence.mbarrier_init; an error with strict
races|race-mbarrier-init-fence|note|continues|as race-mbarrier-init, ordered by a releasing barrier, without fence.mbarrier_init
races|phase-overrun|error|continues|an arrival, a delivery, an announcement of bytes or the end of an mbarrier (or an arrival at a named barrier) that no order keeps out of the phase before or after it: another schedule counts it there
races|phase-lapped|error|continues|a wait for a phase of an mbarrier that may start before the phase before is complete, or during which the next phase may end: parity shows every second phase only
races|phase-lapped-lanes|warning>error|continues|as phase-lapped, where a lane of the wait's warp goes on without the others: they wait apart, and nothing brings them together; an error with strict
races|race-exit|error|continues|a CTA exits while another CTA may still access its shared memory
races|race-store-exit|warning>error|continues>stops|a CTA exits while its own bulk store may still read shared memory: cp.async.bulk.wait_group.read is missing; an error with strict
races|race-commit-exit|warning>error|continues|a CTA exits while its own tcgen05.commit, or a commit of another CTA before one whose phase it has waited for, may still arrive at its mbarrier: no thread has waited for that phase; an error with strict
races|race-grids|error|continues|a grid of a stream accesses bytes that an earlier grid in flight wrote, or writes bytes that it read: griddepcontrol.wait is missing
races|race-launches|error|continues|two launches of different streams, or a launch and a copy of the host, access the same bytes, at least one of them writes, and no event or synchronisation orders them
races|race-tensormap-fence|error|continues|a copy uses a tensor map that the kernel wrote, without fence.proxy.tensormap::generic.release by the writer or .acquire before the copy
races|race-scope|error|continues|two strong accesses, where the scope of one does not include the thread of the other
races|race-scope-default|warning>error|continues|two accesses of different CTAs, ordered only by mbarrier arrivals or waits of the default scope, .cta; an error with strict
races|race-clusters|error|continues|two clusters access the same global bytes, and nothing orders them
end|setmaxnreg-count|error|stops|setmaxnreg.inc to fewer registers than the warp has, or setmaxnreg.dec to more
tensor core|mma-operands|error|stops|an illegal shape, descriptor or address of tcgen05.mma or cp
tensor core|mma-many-threads|warning|continues|several threads of a warp each issue the same tcgen05.mma
tensor core|mma-collector|warning|continues|tcgen05.mma uses a collector buffer that is empty or holds another matrix
tensor core|wgmma-fence|error|continues|wgmma.mma_async without a wgmma.fence before the first of a warp, or between it and another access to a register of its D or A
tensor core|wgmma-in-flight|error|continues|an access to a register of D, or a write to a register of A, of a wgmma.mma_async in flight: wgmma.wait_group is missing
tensor core|wgmma-a-read|warning>error|continues|a read of a register of A of a wgmma.mma_async in flight; an error with strict
tensor core|wgmma-uniform|error|stops|the threads of a warpgroup pass different descriptors or scale-d to wgmma.mma_async
tensor core|wgmma-warpgroup|error|stops|wgmma by warps that are no warpgroup of four, or that execute different wgmma.mma_async
tensor core|cta-group-mixed|warning>error|continues|a kernel with tcgen05 instructions of both values of .cta_group: ptxas 13 refuses it
tensor core|cta-pair|error|stops|a cta_group::2 instruction without a CTA pair, or that does not match the other CTA's
tensor memory|pair-left|error|stops|a CTA of a pair exits without its part of a cta_group::2 alloc, dealloc or relinquish
races|pair-not-started|error|continues|a cta_group::2 alloc, dealloc or relinquish by a warp that nothing orders after the start of the other CTA of the pair
races|pair-not-allocated|error|continues|a cta_group::2 dealloc, or with strict an access, that nothing orders after the other CTA's part of the alloc
races|pair-in-use|error|continues|a cta_group::2 dealloc while the other CTA may still use the columns
races|pair-may-hang|error|continues|one CTA executes its part of a cta_group::2 instruction after the other CTA's part is over: the other CTA may block
end|mbarrier-left-over|note|continues|with strict: the current phase of an mbarrier has some but not all arrivals when its CTA has exited
end|mbarrier-bytes-left|error|continues|with strict: the transaction count of the current phase of an mbarrier is not zero when its CTA has exited: expected bytes are missing, or bytes arrived that no expect_tx covers
end|output-unwritten|error|continues|bytes of an output (as named by the caller) that the launch did not write
end|async-pending-at-exit|warning|continues|an operation was in flight when the last thread of the cluster exited
end|commit-at-exit|warning>error|continues>stops|tcgen05.commit arrives at an mbarrier of its own CTA after that CTA exited: nothing waited for it
end|hang|error|stops|no warp can make progress; the finding lists each waiter and what it waits for
end|livelock|error|stops|warps execute instructions without any effect
end|instruction-limit|error|stops|the launch ran longer than its instruction_limit
end|time-limit|error|stops|the launch ran longer than its seconds_limit
end|memory-limit|error|stops|the launch holds more of the host's memory than it may: operations in flight, captures, uncollected groups of copies
end|trap|error|stops|the kernel executed trap
end|trap-beside|error|stops|the kernel executed trap beside a CTA of another kernel, which has the first columns of tensor memory, where two CTAs of the launch do not fit onto a processor; launch files and kernels are run again alone, and it is a warning there unless strict
end|branch-index|error|stops|the index of brx.idx lies outside its list of targets
end|device-assert|error|stops|the kernel called __assertfail
"""  # noqa: E501


def _code(line: str) -> Code:
    """Parse a row: group, code, severity, "stops" or "continues", meaning; "a>b" is a, and b when strict."""
    group, code, severity, end, meaning = line.split("|")
    usual, _, strict = severity.partition(">")
    ends, _, strictly = end.partition(">")
    return Code(code, group, usual, ends == "stops", meaning, strict or usual, (strictly or ends) == "stops")  # type: ignore[arg-type]


CODES: dict[str, Code] = {code.code: code for code in map(_code, _ROWS.strip().splitlines())}
SEVERITIES = enumeration("Severity", "note warning error", bits=8)


def strict_weights() -> list[tuple[str, int, bool]]:
    """(code, severity number, stops) of the codes that differ in a strict launch."""
    return [
        (c.code, SEVERITIES.index(c.strict), c.strict_stops)
        for c in CODES.values()
        if (c.strict, c.strict_stops) != (c.severity, c.stops)
    ]
