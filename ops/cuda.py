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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tileproof.kernels import manifest
from tileproof.kernels.cubin import cubins
from tileproof.kernels.launch.builder import MAP_ALIGNMENT
from tileproof.kernels.launch.layout import AddressField, Layout, RowsMap
from tileproof.ops import steps
from tileproof.spec.machine.errors import TileproofError

FOLDER = "TILEPROOF_KERNELS"  # the environment variable
MAJOR = 10  # compute capability of the backward kernels: sm_100a and its family
MAPS = 64  # encoded tensor maps that are kept
FORMATS = {"s32": "i", "s64": "q", "f32": "f"}
EXTRA = "pip install 'tileproof[cuda]'"


def runs_on(device: torch.device) -> bool:
    """Whether the card has the backward's instructions."""
    known = device.type == "cuda" and torch.cuda.is_available()
    return known and torch.cuda.get_device_capability(device)[0] == MAJOR


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
    with torch.cuda.device(call.q.device):
        return steps.backward(CudaLauncher(call.q.device, torch.cuda.current_stream().cuda_stream), call)


@dataclass
class CudaLauncher:
    """Launches on a stream of the current device."""

    device: torch.device
    stream: int

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """As `steps.KernelLauncher`."""
        return torch.empty(shape, dtype=dtype, device=self.device)

    def start(self, step: steps.CallStep) -> None:
        """As `steps.KernelLauncher`; does not wait."""
        given = dict(step.sizes)
        for name, tensor in step.tensors.items():
            given[name] = 0 if tensor is None else tensor.data_ptr()
        _loaded(self.device.index or 0, step.entry).start(given, self.stream)


@dataclass
class Loaded:
    """An entry in a device's context, with the memory of its parameters and its latest tensor maps."""

    entry: steps.KernelEntry
    driver: Any
    function: Any
    config: Any
    memory: bytearray
    packers: Sequence[Packer]
    pointers: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    maps: OrderedDict[tuple[str, int, int], bytes] = field(default_factory=OrderedDict)

    def start(self, given: Mapping[str, int | float], stream: int) -> None:
        """Packs the parameters and launches; the driver copies them before it returns. `given`: addresses and
        sizes by name.
        """
        with self.lock:
            for packer in self.packers:
                values = [
                    given[name] if of_map is None else self._map(of_map, int(given[name]), given)
                    for name, of_map in packer.values
                ]
                packer.form.pack_into(self.memory, packer.at, *values)
            config = self.config
            config.gridDimX = self.entry.layout.grid.of(given)
            config.hStream = stream
            _called(
                self.driver, "cuLaunchKernelEx", config, self.function, ctypes.addressof(self.pointers), 0
            )

    def _map(self, value: RowsMap, address: int, sizes: Mapping[str, int | float]) -> bytes:
        """The tensor map over the rows at an address, as the driver encodes it."""
        rows = value.rows.of(sizes)
        key = value.buffer, address, rows
        if key in self.maps:
            self.maps.move_to_end(key)
            return self.maps[key]
        api = self.driver
        encoded = _called(
            api, "cuTensorMapEncodeTiled", api.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
            address, [api.cuuint64_t(value.cols), api.cuuint64_t(rows)], [api.cuuint64_t(2 * value.cols)],
            [api.cuuint32_t(value.box_cols), api.cuuint32_t(value.box_rows)], [api.cuuint32_t(1)] * 2,
            api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{value.swizzle}"),
            api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )  # fmt: skip
        self.maps[key] = made = ctypes.string_at(int(encoded.getPtr()), value.bytes)
        if len(self.maps) > MAPS:
            self.maps.popitem(last=False)
        return made


@dataclass(frozen=True)
class Packer:
    """A parameter at a place of the memory of all: its values by name in the order of `form`, each with its
    tensor map, if any.
    """

    at: int
    form: struct.Struct
    values: Sequence[tuple[str, RowsMap | None]]


def packed(layout: Layout) -> tuple[bytearray, Sequence[Packer]]:
    """Zeroed memory for the parameters, each aligned as a tensor map, and how they are written there."""
    ends = [0]
    for parameter in layout.parameters:
        ends.append(ends[-1] + -(-parameter.bytes // MAP_ALIGNMENT) * MAP_ALIGNMENT)
    memory = bytearray(ends[-1] + MAP_ALIGNMENT)
    first = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % MAP_ALIGNMENT
    packers = []
    for start, parameter in zip(ends, layout.parameters, strict=False):
        form, end = "<", 0
        values: list[tuple[str, RowsMap | None]] = []
        for offset, value in parameter.values:
            if isinstance(value, RowsMap):
                code = f"{value.bytes}s"
                values.append((value.buffer, value))
            else:
                code = "Q" if isinstance(value, AddressField) else FORMATS[value.type]
                values.append((value.name, None))
            form += f"{offset - end}x{code}"
            end = offset + value.bytes
        packers.append(Packer(first + start, struct.Struct(form), values))
    return memory, packers


_LOADED: dict[tuple[int, str], Loaded] = {}
_LOADING = threading.Lock()


def _loaded(device: int, entry: steps.KernelEntry) -> Loaded:
    """The entry in the current context, loaded once per device."""
    key = device, entry.name
    if key not in _LOADED:
        with _LOADING:
            if key not in _LOADED:
                _LOADED[key] = load(entry)
    return _LOADED[key]


def load(entry: steps.KernelEntry) -> Loaded:
    """The entry in the current context; TileproofError where the driver refuses it, or there is no driver."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise TileproofError(
            'backend="cuda" needs cuda-bindings', where="backend", found=str(error), do=EXTRA
        ) from error
    layout = entry.layout
    library = _called(driver, "cuLibraryLoadData", _image(entry), [], [], 0, [], [], 0)
    kernel = _called(driver, "cuLibraryGetKernel", library, entry.name.encode())
    function = _called(driver, "cuKernelGetFunction", kernel)
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _called(driver, "cuFuncSetAttribute", function, limit, layout.shared_bytes)
    config = driver.CUlaunchConfig()
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
    config.blockDimX, config.sharedMemBytes = layout.threads, layout.shared_bytes
    if layout.cluster != (1, 1, 1):
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        shape = attribute.value.clusterDim
        shape.x, shape.y, shape.z = layout.cluster
        config.attrs, config.numAttrs = [attribute], 1
    memory, packers = packed(layout)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pointers = (ctypes.c_void_p * len(packers))(*[base + each.at for each in packers])
    return Loaded(entry, driver, function, config, memory, packers, pointers)


def _image(entry: steps.KernelEntry) -> bytes:
    """The fat binary of the entry's module."""
    chosen = os.environ.get(FOLDER)
    folder = Path(chosen) if chosen else manifest.packaged_images()
    if folder is not None:
        return manifest.image_in(folder, entry.name, entry.layout)
    built = entry.built()
    return manifest.fat_binary(built, cubins(built))


def _called(driver: Any, name: str, *given: Any) -> Any:
    """The result of a call of the driver; TileproofError where it fails."""
    code, *values = getattr(driver, name)(*given)
    if int(code):
        _, text = driver.cuGetErrorName(code)
        raise TileproofError(
            "a call of the CUDA driver failed", where=name, found=text.decode() if text else str(int(code))
        )
    return values[0] if values else None
