"""The program as the engine reads it: packed instructions, special registers, address windows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from tileproof.emulator import _engine
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.ptx import Entry
from tileproof.emulator.register_slots import RegisterFile
from tileproof.spec.machine.certificate import Doubt

NONE = -(2**31)
PARAM_WINDOW = 0x720000000000
LOCAL_WINDOW = 0x710000000000
SHARED_WINDOW = 0x700000000000
SHARED_SPAN = 1 << 24  # a shared address is (rank in the cluster << 24) | offset, as measured on hardware

PACKED = np.dtype(
    [
        ("imm", "<i8"),
        ("handler", "<i4"),
        ("pred", "<i4"),
        ("pred_neg", "<i4"),
        ("o", "<i4", 8),
        ("m", "<i4", 8),
        ("vec", "<i4"),
        ("nvec", "<i4"),
        ("target", "<i4"),
        ("rpc", "<i4"),
        ("line", "<i4"),
        ("source", "<i4"),
        ("name", "<i4"),
        ("written", "<i4", 2),
    ]
)

# The last two are not PTX: the CTA's rank << 24, to which a .shared symbol's offset is added.
_SPECIALS = enumeration(
    "Special",
    "%tid.x %tid.y %tid.z %ntid.x %ntid.y %ntid.z %ctaid.x %ctaid.y %ctaid.z %nctaid.x %nctaid.y %nctaid.z "
    "%cluster_ctaid.x %cluster_ctaid.y %cluster_ctaid.z %cluster_nctaid.x %cluster_nctaid.y "
    "%cluster_nctaid.z %cluster_ctarank %cluster_nctarank %clusterid.x %clusterid.y %clusterid.z "
    "%nclusterid.x %nclusterid.y %nclusterid.z %laneid %warpid %nwarpid "
    "%lanemask_eq %lanemask_lt %lanemask_le %lanemask_gt %lanemask_ge %dynamic_smem_size %total_smem_size "
    "%smid %nsmid %gridid shared_base32 shared_base64",
)
# Read again at each use: bytes, and 1 for the upper half (PTX ISA 10.17 to 10.24).
CLOCKS = {
    "%clock": (4, 0),
    "%clock_hi": (4, 1),
    "%clock64": (8, 0),
    "%globaltimer": (8, 0),
    "%globaltimer_lo": (4, 0),
    "%globaltimer_hi": (4, 1),
}
WIDE_SPECIALS = ("%gridid", "shared_base64")  # 64 bits
SPECIALS = {name: index for index, name in enumerate(_SPECIALS)}

# The lower and the upper half of the address of a cooperative grid's workspace, 0 of other grids. The driver
# defines them; CUDA's cooperative groups read them (driver_abi.h).
WORKSPACE = ("%envreg2", "%envreg1")

TYPE_BYTES = {
    "pred": 0,
    "b8": 1,
    "u8": 1,
    "s8": 1,
    "b16": 2,
    "u16": 2,
    "s16": 2,
    "f16": 2,
    "bf16": 2,
    "b32": 4,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "f16x2": 4,
    "bf16x2": 4,
    "b64": 8,
    "u64": 8,
    "s64": 8,
    "f64": 8,
    "f32x2": 8,
    "b128": 16,
}


@dataclass(frozen=True)
class Register:
    """A register's slot: byte offset in the warp's file, bytes per lane (0 for a predicate)."""

    offset: int
    bytes: int


@dataclass(frozen=True)
class Symbol:
    """A variable's address: `space` and offset, or absolute address for global and const."""

    space: str
    address: int


@dataclass(frozen=True)
class Parts:
    """What decoding an entry makes, as plain data: the store of decoded programs keeps it."""

    code: np.ndarray  # of PACKED, registers by offset
    vec: npt.NDArray[np.int32]  # operands of instructions with lists
    constants: bytes
    names: list[str]
    sources: list[str]
    specials: list[tuple[int, int]]  # register, number in SPECIALS
    registers: RegisterFile
    local_bytes: int
    static_shared: int
    dynamic_align: int
    opcodes: dict[str, int]
    uses_pairs: bool
    shared_symbols: dict[str, tuple[int, int]]

    def decoded(self, entry: Entry) -> Decoded:
        """The engine's program of these parts, which are those of `entry`."""
        file, placed = self.registers, self.code.copy()
        for operands in ("o", "pred"):
            placed[operands] = file.moved(self.code[operands])
        program = _engine.Program(
            kernel=entry.name,
            code=placed.tobytes(),
            vec=file.moved(self.vec).tobytes(),
            constants=self.constants,
            names=self.names,
            sources=self.sources,
            specials=[(file.of(slot), number) for slot, number in self.specials],
            register_bytes=file.size + 128,
            register_widths=file.widths + bytes(2),
            local_bytes=self.local_bytes,
            static_shared_bytes=self.static_shared,
        )
        return Decoded(
            entry,
            program,
            len(self.code),
            self.static_shared,
            self.dynamic_align,
            self.opcodes,
            self.uses_pairs,
            self.code,
            self.names,
            self.sources,
            self.constants,
            frozenset(slot for slot, _ in self.specials),
            self.shared_symbols,
            file,
            self.local_bytes,
            self.vec.tolist(),
        )


@dataclass
class Decoded:
    """A decoded entry: the engine's program, and the resources that a launch must provide."""

    entry: Entry
    program: _engine.Program
    instructions: int
    static_shared: int
    dynamic_align: int
    opcodes: dict[str, int]
    uses_pairs: bool
    code: np.ndarray
    names: list[str]
    sources: list[str]
    constants: bytes
    special_slots: frozenset[int]
    shared_symbols: dict[str, tuple[int, int]]  # name -> (offset in the CTA's shared memory, bytes)
    registers: RegisterFile  # where the registers of a warp are
    local_bytes: int  # of a thread
    vec: list[int]  # operands of instructions with lists
    # Of certificate.py: by what ran, and instructions that may be doubts.
    doubts: dict[bytes, tuple[Doubt, ...]] = field(default_factory=dict)
    schedule_dependent: tuple[tuple[int, int, Doubt], ...] | None = None
