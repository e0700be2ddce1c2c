"""Types of the C++ engine (emulator/engine/bindings.cpp)."""

from typing import Unpack

from tileproof.emulator.engine_types import LaunchRequest, RawRun
from tileproof.spec.machine.types import Array

PACKED_INSTR_BYTES: int
PAGE_BYTES: int

class Ending(RuntimeError): ...

class Program:
    def __init__(
        self,
        kernel: str,
        code: bytes,
        vec: bytes,
        constants: bytes,
        names: list[str],
        sources: list[str],
        specials: list[tuple[int, int]],
        register_bytes: int,
        register_widths: bytes,
        local_bytes: int,
        static_shared_bytes: int,
    ) -> None: ...

class Clock:
    def __init__(self, other: Clock = ...) -> None: ...
    def advance(self, agent: int, lanes: int, tick: int) -> None: ...
    def join(self, other: Clock) -> None: ...
    def covers(self, agent: int, tick: int, lane: int, lanes: int) -> bool: ...
    def covers_other_lanes(self, agent: int, tick: int) -> bool: ...

class GridRecord:
    number: int
    where: str
    certified: bool
    part: bool
    kernel: str
    dependents: bool
    early: bool
    waited: bool
    def touch(self, buffer: tuple[int, int, int], first: int, count: int, write: bool, what: str) -> None: ...
    def meets(
        self, buffer: tuple[int, int, int], first: int, count: int, write: bool
    ) -> tuple[int, str, int, str, tuple[int, int, int], int, bool] | None: ...

TIMING_FIGURES: list[str]

class TimingResult:
    clocks: float
    ends: list[tuple[int, float]]
    remaining: list[tuple[int, int]]
    used: list[bool]
    issued: list[int]
    waits: list[tuple[int, int, int, int, float, float]]
    completed: list[tuple[int, float, tuple[int, float, str, float, float, int]]]
    busy: list[tuple[int, str, float]]
    spans: list[tuple[str, int, float, float, int]]
    def log(self, warp: int) -> tuple[list[float], list[int]]: ...

class TimingProgram:
    def __init__(self, tables: dict[str, object]) -> None: ...
    def simulate(
        self, figures: list[float], alone: bool, order: int = ..., working_set: float = ...
    ) -> TimingResult: ...

def launch(
    *,
    program: Program,
    buffers: list[tuple[int, int, int, int, int, bool, str]],
    params: bytes,
    known_params: bytes,
    param_names: list[tuple[int, int, str]],
    launch_registers: int = ...,
    grid_record: GridRecord | None = ...,
    in_flight: list[tuple[GridRecord, int]] = ...,
    **how: Unpack[LaunchRequest],
) -> RawRun: ...
def set_mma_rules(formats: list[object], matrix: list[object], shapes: list[object]) -> None: ...
def wrong_instruction(
    word: int, format: int, *, ws: bool = ..., sparse: bool = ..., a_in_tmem: bool = ...
) -> str: ...
def wrong_matrix(word: int, *, transposed_tf32: bool = ...) -> str: ...
def wrong_tensor_map(bytes: bytes) -> str: ...
def zero_columns(word: int, m: int, n: int) -> list[bool]: ...
def handlers() -> dict[str, int]: ...
def product_fast(
    level: str, c: list[float], a: list[float], b: list[float], plain: bool = False
) -> list[float] | None: ...
def product_exact(
    level: str,
    c: Array,
    a: Array,
    b: Array,
    *,
    a_emin: int,
    b_emin: int,
    half: bool,
    scale_a: Array,
    scale_b: Array,
    scale_emin: int,
    carefully: bool,
) -> int | None: ...
def tensor_core_products(c: Array, a: Array, b: Array, *, exact: bool, f16: bool) -> None: ...
def tensor_core_block(c: float, a: list[float], b: list[float], f16: bool = False) -> float: ...
def chunk_address(desc: int, mn_major: bool, mn: int, k: int) -> int: ...
def tmem_place(shape: int, t: int, i: int, second: int) -> tuple[int, int]: ...
def check_mma(idesc: int, cta_group: int, ws: bool, a: int, b: int, a_in_tmem: bool, d: int) -> str: ...
