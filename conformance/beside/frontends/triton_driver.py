"""Triton's driver interface for an sm_100a or sm_90a without a GPU: it compiles to PTX, which is emulated."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NoReturn

import triton
from tileproof.conformance.beside.frontends.host_launch import HostLaunch
from tileproof.conformance.beside.frontends.host_memory import LaunchMemory
from tileproof.conformance.beside.frontends.run import EmulatedRun
from tileproof.conformance.beside.frontends.triton_arguments import TritonArguments
from tileproof.emulator import Module
from tileproof.emulator.errors import LaunchError
from tileproof.spec.machine import limits
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver

if TYPE_CHECKING:
    import torch
    from triton.compiler import ASTSource
    from triton.compiler.compiler import KernelMetadata

_Function = tuple[Module, str, str]  # module, PTX, entry
# Triton caches kernels by device number: a number of its own keeps real devices' kernels apart.
DEVICE = 0x5100
THREAD_REGISTERS = 255  # the most that a thread may have
_STAGE = "tileproof-ptx-2"  # in the key of Triton's cache: another number for another text
PROPERTIES = {
    "max_shared_mem": limits.MAX_SHARED_BYTES, "max_num_regs": limits.REGISTERS,
    "multiprocessor_count": limits.PROCESSORS, "warpSize": 32, "sm_clock_rate": 1_800_000,
    "mem_clock_rate": 4_000_000, "mem_bus_width": 8192,
}  # fmt: skip


def stopped_at_ptx(file: str, *stages: dict[str, Callable[..., object]]) -> tuple[str, str] | None:
    """Triton's hook for its stages: without arguments return the key of this pipeline, else replace the cubin
    by the PTX.

    `file`: the kernel's file. Triton's own key has only the line, so the second of two equal kernels would
    get the first kernel's file in its PTX.
    """
    if not stages:
        return f"{_STAGE} {file}", f"{_STAGE} {file}"
    stages[1]["cubin"] = lambda ptx, metadata: with_statement_lines(ptx).encode()
    return None


_ASM = re.compile(r"// begin inline asm\n.*?// end inline asm\n", re.S)


def with_statement_lines(ptx: str) -> str:
    """The PTX with line information of Python statements only: LLVM numbers the lines of inline assembly on
    from its statement's line, which would name later statements. No line of the PTX moves.
    """
    return _ASM.sub(lambda asm: re.sub(r"(?m)^\s*\.loc\b.*$", "", asm[0]), ptx)


class _Utils:
    """The queries that Triton makes of the CUDA driver."""

    modules: ClassVar[dict[bytes, Module]] = {}

    def get_device_properties(self, device: int) -> dict[str, int]:
        return dict(PROPERTIES)

    def load_binary(
        self, name: str, image: bytes, shared: int, device: int
    ) -> tuple[None, _Function, int, int, int]:
        """(module, function, registers, spills, maximum threads); modules are parsed once.

        PTX has no number of registers: the most that a thread may have, as host code divides by it.
        """
        if image not in self.modules:
            self.modules[image] = Module.from_ptx(image.decode())
        function = (self.modules[image], image.decode(), name)
        return None, function, THREAD_REGISTERS, 0, limits.MAX_THREADS

    def unload_module(self, module: object) -> None:
        """No-op: no resource is held."""

    def set_printf_fifo_size(self, size: int) -> None:
        """No-op: a launch prints up to a card's default."""


class Sm100Driver(GPUDriver):  # type: ignore[misc]
    """The driver that is active inside a block."""

    def __init__(self, run: EmulatedRun) -> None:
        self.run = run
        self.utils = _Utils()
        self.launcher_cls = Launcher
        self.get_device_capability = lambda device=0: (9 if run.hopper else 10, 0)
        self.get_current_stream = lambda device=0: 0
        # Triton keeps the target of a function's kernels by the device's number.
        self.get_current_device = lambda: DEVICE + run.hopper
        self.set_current_device = lambda device: None

    @staticmethod
    def is_active() -> bool:
        """For Triton's choice among drivers; the block sets this driver explicitly."""
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90 if self.run.hopper else 100, 32)

    def get_active_torch_device(self) -> torch.device:
        """The device of the tensors: the CPU."""
        import torch

        return torch.device("cpu")

    def _no_clock(self, *args: object, **named: object) -> NoReturn:
        raise LaunchError(
            "the emulator has no clock for benchmarks",
            where="triton.testing, inside emulate()",
            do="launch the kernel; an autotuner takes its first configuration",
        )

    get_benchmarker = get_device_interface = get_empty_cache_for_benchmark = clear_cache = _no_clock


class Launcher:
    """The launcher of a compiled kernel; it outlives the block in Triton's caches."""

    def __init__(self, source: ASTSource, metadata: KernelMetadata) -> None:
        self.names, self.signature = tuple(source.signature), tuple(source.signature.values())
        self.kernel = source.fn.__name__ if hasattr(source, "fn") else source.name
        self.metadata = metadata

    def __call__(
        self, x: int, y: int, z: int, stream: int, function: _Function, packed: object,
        launch_metadata: object, enter: Callable[[object], object] | None,
        leave: Callable[[object], object] | None, *args: object,
    ) -> None:  # fmt: skip
        driver = triton.runtime.driver._active
        if not isinstance(driver, Sm100Driver):
            raise LaunchError(
                "a kernel compiled for the emulator is launched outside its block",
                where=self.kernel,
                do="launch it inside `with emulate()`",
            )
        run = driver.run
        run.check_usable(self.kernel)
        if x * y * z == 0:
            run.note(f"{self.kernel}: a launch with an empty grid {(x, y, z)} does nothing")
            return
        if enter is not None:
            enter(launch_metadata)
        memory = LaunchMemory(run.addresses, self.kernel)
        run.run(self.stated(memory, (x, y, z), function, args), memory)
        if leave is not None:
            leave(launch_metadata)

    def stated(
        self, memory: LaunchMemory, grid: tuple[int, int, int], function: _Function, args: tuple[object, ...]
    ) -> HostLaunch:
        """The launch with these arguments."""
        module, ptx, entry = function
        metadata = self.metadata
        if getattr(metadata, "instrumentation_mode", ""):
            raise LaunchError(
                "Triton's instrumentation needs a GPU",
                where=self.kernel,
                found=f"instrumentation_mode={metadata.instrumentation_mode!r}",
                do="omit it: the emulator checks for races itself",
            )
        arguments = TritonArguments(
            memory, self.kernel, list(getattr(metadata, "tensordesc_meta", None) or ())
        )
        for name, kind, value in zip(self.names, self.signature, args, strict=True):
            arguments.add(str(name), kind, value)
        ctas, (x, y, z) = metadata.num_ctas, grid
        for what in ("global", "profile"):
            size = getattr(metadata, f"{what}_scratch_size", 0) * x * y * z * ctas
            arguments.out.append(memory.scratch(size, f"{what} scratch"))
            arguments.names.append("")
        # With warp specialisation .reqntid has more warps than the metadata.
        stated = module.decode(entry).entry.directives.get("reqntid")
        threads = stated[0] if stated else 32 * metadata.num_warps
        cooperative = bool(getattr(metadata, "launch_cooperative_grid", False))
        if cooperative:
            self._check_resident(x * y * z * ctas, threads)
        return HostLaunch(
            self.kernel, f"Triton {triton.__version__}", module, ptx, entry,
            (x * ctas, y, z), (threads, 1, 1), (ctas, 1, 1), metadata.shared, tuple(arguments.out),
            programmatic=bool(getattr(metadata, "launch_pdl", False)),
            resident=x * y * z if cooperative else None, names=tuple(arguments.names),
        )  # fmt: skip

    def _check_resident(self, ctas: int, threads: int) -> None:
        """Raise LaunchError if a cooperative grid has more CTAs than can be resident."""
        shared = self.metadata.shared + limits.RESERVED_SHARED_BYTES
        each = min(
            limits.PROCESSOR_SHARED_BYTES // shared,
            limits.PROCESSOR_THREADS // threads,
            limits.PROCESSOR_CTAS,
        )
        if ctas > limits.PROCESSORS * each:
            raise LaunchError(
                "a cooperative grid has more CTAs than can run at once",
                where=self.kernel,
                expected=f"at most {limits.PROCESSORS * each}: {each} on each of {limits.PROCESSORS}",
                found=str(ctas),
            )
