"""An sm_100a without a GPU, as Triton asks a driver for it: kernels stop at their PTX and are emulated."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import triton
from tileproof.conformance.frontends.host_launch import HostLaunch
from tileproof.conformance.frontends.host_memory import LaunchMemory
from tileproof.conformance.frontends.run import EmulatedRun
from tileproof.conformance.frontends.triton_arguments import TritonArguments
from tileproof.emulator import Module
from tileproof.emulator.errors import LaunchError
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver

# Triton keeps what it compiled by the device's number: none of a real device is taken for the emulator's.
DEVICE = 0x5100
_STAGE = "tileproof-ptx-2"  # in the key of Triton's cache: another number for another text
SHARED_LIMIT, PROCESSORS, THREADS = 232448, 148, 1024
# What an SM holds at once (CUDA C++ programming guide, compute capability 10.0).
_SM_SHARED, _SM_THREADS, _SM_CTAS, _RESERVED = 233472, 2048, 32, 1024
PROPERTIES = {
    "max_shared_mem": SHARED_LIMIT, "max_num_regs": 65536, "multiprocessor_count": PROCESSORS,
    "warpSize": 32, "sm_clock_rate": 1_800_000, "mem_clock_rate": 4_000_000, "mem_bus_width": 8192,
}  # fmt: skip


def stopped_at_ptx(file: str, *stages: Any) -> tuple[str, str] | None:
    """Triton's hook for its stages: without arguments the key of this pipeline, else puts the PTX where the
    cubin would stand.

    `file` is the kernel's: Triton's own key has its line, so that of two equal kernels one would have the
    other's file in its PTX.
    """
    if not stages:
        return f"{_STAGE} {file}", f"{_STAGE} {file}"
    stages[1]["cubin"] = lambda ptx, metadata: with_statement_lines(ptx).encode()
    return None


_ASM = re.compile(r"// begin inline asm\n.*?// end inline asm\n", re.S)


def with_statement_lines(ptx: str) -> str:
    """The PTX with the lines of Python statements alone: LLVM counts the lines of an inline assembly from
    that of its statement on, and those would name statements behind it. No line of the PTX moves.
    """
    return _ASM.sub(lambda asm: re.sub(r"(?m)^\s*\.loc\b.*$", "", asm[0]), ptx)


class _Utils:
    """What Triton asks of the CUDA driver."""

    modules: ClassVar[dict[bytes, Module]] = {}

    def get_device_properties(self, device: int) -> dict[str, int]:
        return dict(PROPERTIES)

    def load_binary(self, name: str, image: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """(module, function, registers, spills, most threads); modules are parsed once."""
        if image not in self.modules:
            self.modules[image] = Module.from_ptx(image.decode())
        return None, (self.modules[image], image.decode(), name), 0, 0, THREADS

    def unload_module(self, module: Any) -> None:
        """Nothing is held."""

    def set_printf_fifo_size(self, size: int) -> None:
        """All that is printed is kept."""


class Sm100Driver(GPUDriver):  # type: ignore[misc]
    """The driver that is active inside a block."""

    def __init__(self, run: EmulatedRun) -> None:
        self.run = run
        self.utils = _Utils()
        self.launcher_cls = Launcher
        self.get_device_capability = lambda device=0: (10, 0)
        self.get_current_stream = lambda device=0: 0
        self.get_current_device = lambda: DEVICE
        self.set_current_device = lambda device: None

    @staticmethod
    def is_active() -> bool:
        """For Triton's choice among drivers; this one is set by the block."""
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 100, 32)

    def get_active_torch_device(self) -> Any:
        """Where tensors have to be: on the CPU."""
        import torch

        return torch.device("cpu")

    def _no_clock(self, *args: Any, **named: Any) -> Any:
        raise LaunchError(
            "the emulator has no clock to benchmark with",
            where="triton.testing, inside emulate()",
            do="launch the kernel; an autotuner takes its first configuration",
        )

    get_benchmarker = get_device_interface = get_empty_cache_for_benchmark = clear_cache = _no_clock


class Launcher:
    """One compiled kernel's launcher; it outlives the block in Triton's caches."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.names, self.signature = tuple(source.signature), tuple(source.signature.values())
        self.kernel = source.fn.__name__ if hasattr(source, "fn") else source.name
        self.metadata = metadata

    def __call__(
        self, x: int, y: int, z: int, stream: int, function: Any, packed: Any, launch_metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        driver = triton.runtime.driver._active
        if not isinstance(driver, Sm100Driver):
            raise LaunchError(
                "a kernel that was compiled for the emulator is launched outside of its block",
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
        self, memory: LaunchMemory, grid: tuple[int, int, int], function: Any, args: tuple[Any, ...]
    ) -> HostLaunch:
        """The launch that these arguments make."""
        module, ptx, entry = function
        one = self.metadata
        if getattr(one, "instrumentation_mode", ""):
            raise LaunchError(
                "Triton's instrumentation needs a GPU",
                where=self.kernel,
                found=f"instrumentation_mode={one.instrumentation_mode!r}",
                do="leave it out: races are what the emulator checks",
            )
        arguments = TritonArguments(memory, self.kernel, list(getattr(one, "tensordesc_meta", None) or ()))
        for name, kind, value in zip(self.names, self.signature, args, strict=True):
            arguments.add(str(name), kind, value)
        ctas, (x, y, z) = one.num_ctas, grid
        for what in ("global", "profile"):
            size = getattr(one, f"{what}_scratch_size", 0) * x * y * z * ctas
            arguments.out.append(memory.scratch(size, f"{what} scratch"))
            arguments.names.append("")
        # With warp specialisation .reqntid has more warps than the metadata.
        stated = module.decode(entry).entry.directives.get("reqntid")
        threads = stated[0] if stated else 32 * one.num_warps
        cooperative = bool(getattr(one, "launch_cooperative_grid", False))
        if cooperative:
            self._check_resident(x * y * z * ctas, threads)
        return HostLaunch(
            self.kernel, f"Triton {triton.__version__}", module, ptx, entry,
            (x * ctas, y, z), (threads, 1, 1), (ctas, 1, 1), one.shared, tuple(arguments.out),
            programmatic=bool(getattr(one, "launch_pdl", False)),
            resident=x * y * z if cooperative else None, names=tuple(arguments.names),
        )  # fmt: skip

    def _check_resident(self, ctas: int, threads: int) -> None:
        """LaunchError when a cooperative grid has more CTAs than run at once."""
        each = min(_SM_SHARED // (self.metadata.shared + _RESERVED), _SM_THREADS // threads, _SM_CTAS)
        if ctas > PROCESSORS * each:
            raise LaunchError(
                "a cooperative grid has more CTAs than can run at once",
                where=self.kernel,
                expected=f"at most {PROCESSORS * each}: {each} on each of {PROCESSORS} processors",
                found=str(ctas),
            )
