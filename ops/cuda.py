"""The backend `cuda`: the compiled kernels on a card, on the caller's current stream.

The driver's calls go through `cuda-bindings`. Nothing waits for the device, and no memory is allocated but by
torch. An entry is loaded at its first launch, so a call has to come before the capture of a CUDA graph.
Images: of the folder that TILEPROOF_KERNELS names, or of the installed package where it was built with them,
else compiled by nvcc at the first launch.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tileproof.kernels import manifest
from tileproof.kernels.cubin import cubins
from tileproof.kernels.launch.builder import MAP_ALIGNMENT
from tileproof.kernels.launch.driver_calls import launch_config, map_bytes, tiled_map
from tileproof.kernels.launch.layout import Layout, Number, RowsMap
from tileproof.ops import steps
from tileproof.ops.plan import CallStep, KernelEntry
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from types import ModuleType

    from cuda.bindings.driver import CUfunction, CUlaunchConfig, CUresult

FOLDER = "TILEPROOF_KERNELS"  # the environment variable
MAJOR = 10  # compute capability of the backward kernels: sm_100a and its family
MAPS = 64  # encoded tensor maps that are kept of a parameter
ADDRESS_BYTES = 8  # an address of a buffer is aligned to its size
FORMATS = {"s32": "i", "s64": "q", "f32": "f"}
EXTRA = "pip install 'tileproof[cuda]'"


_RUNS_ON: dict[torch.device, bool] = {}


def runs_on(device: torch.device) -> bool:
    """Whether the card has the backward's instructions."""
    if device.type != "cuda":
        return False
    if device not in _RUNS_ON:
        capable = torch.cuda.is_available() and torch.cuda.get_device_capability(device)[0] == MAJOR
        _RUNS_ON[device] = capable
    return _RUNS_ON[device]


def check_device(q: torch.Tensor) -> None:
    """TileproofError names a device without the backward's instructions."""
    if not runs_on(q.device):
        found = str(q.device)
        if q.device.type == "cuda" and torch.cuda.is_available():
            major, minor = torch.cuda.get_device_capability(q.device)
            found = f"{torch.cuda.get_device_name(q.device)}, compute capability {major}.{minor}"
        raise TileproofError(
            'backend="cuda" has no kernel for this device', where="q",
            expected=f"a CUDA device of compute capability {MAJOR}.x", found=found,
            do='use backend="reference", which runs on any device',
        )  # fmt: skip


def backward(call: steps.Call) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `steps.backward`, on the current stream of q's device."""
    device = call.q.device
    launcher = CudaLauncher(device, current_stream(device))
    if device.index == torch.cuda.current_device():
        return steps.backward(launcher, call)
    with torch.cuda.device(device):
        return steps.backward(launcher, call)


def current_stream(device: torch.device) -> int:
    """The handle of torch's current stream, as compiled code of torch asks for it."""
    return int(torch._C._cuda_getCurrentRawStream(device.index))


@dataclass
class CudaLauncher:
    """Launches on a stream of the current device."""

    device: torch.device
    stream: int

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """As `steps.KernelLauncher`."""
        return torch.empty(shape, dtype=dtype, device=self.device)

    def start(self, step: CallStep, tensors: steps.Tensors) -> None:
        """As `steps.KernelLauncher`; does not wait."""
        number = self.device.index or 0
        prepared = step.prepared.get(number)
        if not isinstance(prepared, Prepared):
            prepared = step.prepared[number] = Prepared(_loaded(number, step.entry), step)
        prepared.start(tensors, self.stream)


@dataclass(frozen=True)
class Loaded:
    """An entry in a device's context."""

    driver: ModuleType
    function: CUfunction


class Prepared:
    """A step's launch on a device: the memory of its parameters, which holds all sizes, and its latest
    tensor maps. A launch writes the addresses and the maps.
    """

    def __init__(self, loaded: Loaded, step: CallStep) -> None:
        layout, self._driver = step.entry.layout, loaded.driver
        cluster = None if layout.cluster == (1, 1, 1) else layout.cluster
        grid, block = (layout.grid.of(step.sizes), 1, 1), (layout.threads, 1, 1)
        self._config: CUlaunchConfig = launch_config(
            self._driver, grid, block, layout.shared_bytes, cluster, step.programmatic
        )
        self._memory, starts = parameter_memory(layout)
        self._words = memoryview(self._memory).cast("Q")
        self._addresses: list[tuple[int, str]] = []  # which of the words, and of which of the call's tensors
        self._maps: list[RowsAt] = []
        for start, parameter in zip(starts, layout.parameters, strict=True):
            for offset, value in parameter.values:
                at = start + offset
                if isinstance(value, Number):
                    struct.pack_into(f"<{FORMATS[value.type]}", self._memory, at, step.sizes[value.name])
                elif isinstance(value, RowsMap):
                    tensor = step.tensors[value.buffer]
                    assert tensor is not None
                    self._maps.append(RowsAt(at, tensor, value, value.rows.of(step.sizes)))
                elif (name := step.tensors[value.name]) is not None:
                    self._addresses.append((at // ADDRESS_BYTES, name))
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._pointers = (ctypes.c_void_p * len(starts))(*[base + start for start in starts])
        self._given = loaded.function, ctypes.addressof(self._pointers), 0
        self._lock = threading.Lock()

    def start(self, tensors: steps.Tensors, stream: int) -> None:
        """Writes the addresses and launches; the driver copies the parameters before it returns."""
        with self._lock:
            for at, name in self._addresses:
                self._words[at] = tensors[name].data_ptr()  # type: ignore[union-attr]
            for each in self._maps:
                address = tensors[each.tensor].data_ptr()  # type: ignore[union-attr]
                if address != each.written:
                    self._memory[each.at : each.at + RowsMap.bytes] = self.tensor_map(each, address)
                    each.written = address
            self._config.hStream = stream
            code = self._driver.cuLaunchKernelEx(self._config, *self._given)[0]
        if int(code):
            raise failed(self._driver, "cuLaunchKernelEx", code)

    def tensor_map(self, rows: RowsAt, address: int) -> bytes:
        """The tensor map over the rows at an address, as the driver encodes it."""
        maps = rows.maps
        if address in maps:
            maps.move_to_end(address)
            return maps[address]
        fields = rows.value.fields(rows.rows, address)
        encoded = called(self._driver, "cuTensorMapEncodeTiled", *tiled_map(self._driver, fields))
        maps[address] = made = map_bytes(encoded)
        if len(maps) > MAPS:
            maps.popitem(last=False)
        return made


@dataclass
class RowsAt:
    """A tensor map at a place of the parameters' memory: over `rows` rows of one of the call's tensors, the
    maps of its latest addresses, and the address whose map is written there.
    """

    at: int
    tensor: str
    value: RowsMap
    rows: int
    maps: OrderedDict[int, bytes] = field(default_factory=OrderedDict)
    written: int = -1


def parameter_memory(layout: Layout) -> tuple[bytearray, Sequence[int]]:
    """Zeroed memory for the parameters, and where in it each begins, aligned as a tensor map."""
    ends = [0]
    for parameter in layout.parameters:
        ends.append(ends[-1] + -(-parameter.bytes // MAP_ALIGNMENT) * MAP_ALIGNMENT)
    memory = bytearray(ends[-1] + MAP_ALIGNMENT)
    first = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % MAP_ALIGNMENT
    return memory, [first + end for end in ends[:-1]]


_LOADED: dict[tuple[int, str], Loaded] = {}
_LOADING = threading.Lock()


def _loaded(device: int, entry: KernelEntry) -> Loaded:
    """The entry in the current context, loaded once per device."""
    key = device, entry.name
    with _LOADING:
        if key not in _LOADED:
            _LOADED[key] = load(entry)
    return _LOADED[key]


def load(entry: KernelEntry) -> Loaded:
    """The entry in the current context; TileproofError where the driver refuses it, or there is no driver."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise TileproofError(
            'backend="cuda" needs cuda-bindings', where="backend", found=str(error), do=EXTRA
        ) from error
    library = called(driver, "cuLibraryLoadData", _image(entry), [], [], 0, [], [], 0)
    kernel = called(driver, "cuLibraryGetKernel", library, entry.name.encode())
    function = called(driver, "cuKernelGetFunction", kernel)
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    called(driver, "cuFuncSetAttribute", function, limit, entry.layout.shared_bytes)
    return Loaded(driver, function)


def _image(entry: KernelEntry) -> bytes:
    """The fat binary of the entry's module."""
    chosen = os.environ.get(FOLDER)
    folder = Path(chosen) if chosen else manifest.packaged_images()
    if folder is not None:
        return manifest.image_in(folder, entry.name, entry.layout)
    built = entry.built()
    return manifest.fat_binary(built, cubins(built))


def called(driver: ModuleType, name: str, *given: object) -> Any:
    """The result of a call of the driver; TileproofError where it fails."""
    code, *values = getattr(driver, name)(*given)
    if int(code):
        raise failed(driver, name, code)
    return values[0] if values else None


def failed(driver: ModuleType, name: str, code: CUresult) -> TileproofError:
    """The error of a call of the driver, with the name that the driver has for its code."""
    _, text = driver.cuGetErrorName(code)
    found = text.decode() if text else str(int(code))
    return TileproofError("a call of the CUDA driver failed", where=name, found=found)
