"""Places of registers in a warp's register file: registers whose values never meet share a place.

PTX numbers thousands of registers and assigns most of them once: with a place for each, the file of a warp is
larger than a processor's caches. A register occupies its place from its first to its last instruction, in
program order, and through every block where it is live (backward liveness) or where a `tcgen05.ld` into it
may be pending (forward, until `tcgen05.wait::ld`). A linear scan over these intervals assigns the places
among registers of the same width ("Linear Scan Register Allocation", ACM TOPLAS 21, 1999), without spilling.

Registers that are read before they are written on some path keep a place of their own, and so does what the
diagnosis of a hang reads out of a warp that waits elsewhere (reach.py).
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.emulator.cfg import BasicBlocks
from tileproof.emulator.slots import layout_of

I64 = npt.NDArray[np.int64]
UNIT = 64  # bytes: the unit of `register_widths`
# Instructions that write registers later than they run, in a way that is not followed here.
_ASYNCHRONOUS = ("wgmma.",)
_LOAD, _WAIT = "tcgen05.ld", "tcgen05.wait.ld"


@dataclass(frozen=True)
class RegisterFile:
    """Where each register is: `place[offset // 64]` of its offset in the program, and the file's size."""

    place: I64
    size: int  # bytes
    widths: bytes  # of each 64 bytes: bytes of a lane, 0 for a predicate

    def of(self, offset: int) -> int:
        """The place of the register that the program names by `offset`."""
        return int(self.place[offset // UNIT])

    def moved(self, operands: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Operands by place; constants and absent operands, which are negative, stay."""
        if not self.place.size:
            return operands
        return np.where(operands < 0, operands, self.place[np.maximum(operands, 0) // UNIT]).astype("<i4")


@dataclass(frozen=True)
class _Touches:
    """Each register operand, in program order: its instruction, its number, whether it is written."""

    at: I64
    register: I64
    written: npt.NDArray[np.bool_]


def units(width: int) -> int:
    """The units of a register of `width` bytes a lane; a predicate (0) is a mask of 32 bits."""
    return max(1, -(-width * 32 // UNIT))


def as_declared(widths: bytes) -> RegisterFile:
    """Each register in a place of its own."""
    return RegisterFile(np.arange(len(widths), dtype=np.int64) * UNIT, len(widths) * UNIT, widths)


def register_file(
    code: np.ndarray,
    vec: list[int],
    names: dict[int, str],
    blocks: BasicBlocks,
    widths: bytes,
    own: Iterable[int],
) -> RegisterFile:
    """The places of the registers of a decoded program. `names`: of the handlers, by number; `own`: registers
    by offset that get a place of their own.
    """
    handlers = code["handler"]
    if any(names[number].startswith(_ASYNCHRONOUS) for number in set(handlers.tolist())):
        return as_declared(widths)
    offsets, touches = _touches(code, vec, names)
    if not offsets.size:
        return as_declared(widths)
    live, pending = _liveness(code, names, touches, blocks)
    apart = np.isin(offsets, np.fromiter(own, np.int64))
    apart[_bits(live[0][0])] = True  # read before it is written
    first, last = _intervals(touches, offsets.size, blocks, (live, pending))
    return _scan(offsets, first, last, apart, widths)


def _touches(code: np.ndarray, vec: list[int], names: dict[int, str]) -> tuple[I64, _Touches]:
    """The registers that the program uses, by offset, and each use."""
    handlers = code["handler"].tolist()
    bits = {number: layout_of(names[number]).written for number in set(handlers)}
    direct = np.concatenate([code["o"], code["pred"][:, None]], axis=1).astype(np.int64)
    written = np.zeros(direct.shape, bool)
    masks = np.array([bits[number] for number in handlers], np.int64)
    written[:, :-1] = masks[:, None] >> np.arange(direct.shape[1] - 1) & 1
    at = np.broadcast_to(np.arange(len(code))[:, None], direct.shape)

    count = code["nvec"].astype(np.int64)
    row = np.repeat(np.arange(len(code)), count)
    place = np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
    listed = np.asarray(vec, np.int64)[code["vec"].astype(np.int64)[row] + place]
    ends = code["written"][row]
    filled = (place >= ends[:, 0]) & (place < ends[:, 1])

    all_at = np.concatenate([at.ravel(), row])
    offset = np.concatenate([direct.ravel(), listed])
    is_written = np.concatenate([written.ravel(), filled])
    order = np.argsort(all_at[offset >= 0], kind="stable")
    all_at, is_written, offset = (part[offset >= 0][order] for part in (all_at, is_written, offset))
    # Not np.unique: its C++ ends the process in a thread that runs while the interpreter ends.
    offsets = np.array(sorted(set(offset.tolist())), np.int64)
    return offsets, _Touches(all_at, np.searchsorted(offsets, offset), is_written)


def _bits(mask: int) -> list[int]:
    """The numbers of the registers in a set."""
    raw = np.frombuffer(mask.to_bytes(mask.bit_length() // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little")).tolist()


Sets = tuple[list[int], list[int]]  # at the start and at the end of each block, a bit for each register


@dataclass(frozen=True)
class _Effects:
    """What a block does: registers that it reads before it writes them, that it surely writes, and that its
    loads of tensor memory leave pending; and whether it waits for earlier loads.
    """

    read: int
    ended: int
    loaded: int
    waits: bool


def _effects(
    rows: range, read: list[int], written: list[int], handlers: list[str], guarded: list[bool]
) -> _Effects:
    """The effects of the instructions `rows`. A guarded one may leave its destinations as they were."""
    used, ended, loaded, waits = 0, 0, 0, False
    for at in rows:
        used |= read[at] & ~ended
        if handlers[at] == _LOAD:
            loaded |= written[at]
        if not guarded[at]:
            ended |= written[at]
            if handlers[at] == _WAIT:
                loaded, waits = 0, True
    return _Effects(used, ended, loaded, waits)


def _liveness(
    code: np.ndarray, names: dict[int, str], touches: _Touches, blocks: BasicBlocks
) -> tuple[Sets, Sets]:
    """The registers that are live, and those of tcgen05.ld that may be pending, around each block."""
    guarded = (code["pred"] >= 0).tolist()
    handlers = [names[number] for number in code["handler"].tolist()]
    read, written = [0] * len(code), [0] * len(code)
    for at, register, is_written in zip(
        touches.at.tolist(), touches.register.tolist(), touches.written.tolist(), strict=True
    ):
        (written if is_written else read)[at] |= 1 << register
    effects = [
        _effects(range(first, last + 1), read, written, handlers, guarded)
        for first, last in zip(blocks.starts, blocks.last, strict=True)
    ]
    after = [
        [to for to in successors if to != blocks.exit] for successors in blocks.successors[: blocks.exit]
    ]
    before: list[list[int]] = [[] for _ in effects]
    for number, successors in enumerate(after):
        for to in successors:
            before[to].append(number)
    at_end, at_start = _fixed_point(
        after, before, lambda block, live: effects[block].read | live & ~effects[block].ended
    )
    pending = _fixed_point(
        before, after, lambda block, open_: effects[block].loaded | (0 if effects[block].waits else open_)
    )
    return (at_start, at_end), pending


def _fixed_point(
    sources: list[list[int]], users: list[list[int]], transfer: Callable[[int, int], int]
) -> Sets:
    """The sets that flow into each block from its `sources`, and what `transfer` makes of them."""
    into, made = [0] * len(sources), [0] * len(sources)
    queue = deque(range(len(sources)))
    queued = [True] * len(sources)
    while queue:
        block = queue.pop()
        queued[block] = False
        into[block] = 0
        for source in sources[block]:
            into[block] |= made[source]
        new = transfer(block, into[block])
        if new != made[block]:
            made[block] = new
            for user in users[block]:
                if not queued[user]:
                    queued[user] = True
                    queue.append(user)
    return into, made


def _intervals(
    touches: _Touches, count: int, blocks: BasicBlocks, sets: tuple[Sets, Sets]
) -> tuple[I64, I64]:
    """The first and the last instruction of each register's interval."""
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(first, touches.register, touches.at)
    np.maximum.at(last, touches.register, touches.at)
    for starts, ends in sets:
        for block, (start, end) in enumerate(zip(blocks.starts, blocks.last, strict=True)):
            if starts[block]:
                at = _bits(starts[block])
                first[at] = np.minimum(first[at], start)
            if ends[block]:
                at = _bits(ends[block])
                last[at] = np.maximum(last[at], end)
    return first, last


def _scan(offsets: I64, first: I64, last: I64, apart: npt.NDArray[np.bool_], widths: bytes) -> RegisterFile:
    """Places for the intervals: those of `apart` are never shared."""
    place = np.zeros(len(widths), np.int64)
    free: dict[int, list[int]] = defaultdict(list)
    busy: list[tuple[int, int, int]] = []
    made = bytearray()
    for number in np.argsort(first, kind="stable").tolist():
        unit = int(offsets[number]) // UNIT
        width = widths[unit]
        while busy and busy[0][0] < first[number]:
            _, freed, of = heapq.heappop(busy)
            heapq.heappush(free[of], freed)
        if not apart[number] and free[width]:
            at = heapq.heappop(free[width])
        else:
            at = len(made) * UNIT
            made += bytes([width]) * units(width)
        place[unit] = at
        if not apart[number]:
            heapq.heappush(busy, (int(last[number]), at, width))
    return RegisterFile(place, len(made) * UNIT, bytes(made))
