"""Arguments of the CUDA driver's calls as `cuda-bindings` takes them: a launch, and a tensor map.

`api` is the module `cuda.bindings.driver`, which only callers on a machine with a card import.
Sources: CUDA driver API (cuLaunchKernelEx, cuTensorMapEncodeTiled).
"""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Protocol

from tileproof.kernels.launch.arguments import MAP_BYTES
from tileproof.kernels.launch.model import Extent3
from tileproof.spec.machine.tma import TensorMapFields


def launch_config(
    api: ModuleType,
    grid: Extent3,
    block: Extent3,
    shared_bytes: int,
    cluster: Extent3 | None = None,
    programmatic: bool = False,
) -> object:
    """The configuration of a launch on the default stream; without a cluster it is that of the PTX.

    `programmatic`: it may begin before the launch before it has ended (programmatic stream serialization).
    """
    config = api.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = shared_bytes
    attributes = []
    if cluster is not None:
        attribute = api.CUlaunchAttribute()
        attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        shape = attribute.value.clusterDim
        shape.x, shape.y, shape.z = cluster
        attributes.append(attribute)
    if programmatic:
        attribute = api.CUlaunchAttribute()
        attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    if attributes:
        config.attrs, config.numAttrs = attributes, len(attributes)
    return config


def tiled_map(api: ModuleType, fields: TensorMapFields) -> tuple[object, ...]:
    """The arguments of cuTensorMapEncodeTiled."""
    return (
        getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{fields.dtype.upper()}"),
        len(fields.shape),
        fields.address,
        [api.cuuint64_t(n) for n in fields.shape],
        [api.cuuint64_t(n) for n in fields.strides] or [api.cuuint64_t(0)],
        [api.cuuint32_t(n) for n in fields.box],
        [api.cuuint32_t(n) for n in fields.element_strides],
        api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{fields.swizzle.upper()}"),
        api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        api.CUtensorMapFloatOOBfill(int(fields.oob_fill == "nan")),
    )


class EncodedMap(Protocol):
    """A `CUtensorMap`."""

    def getPtr(self) -> int:
        """Its address."""
        ...


def map_bytes(encoded: EncodedMap) -> bytes:
    """The 128 bytes of an encoded tensor map."""
    return ctypes.string_at(encoded.getPtr(), MAP_BYTES)
