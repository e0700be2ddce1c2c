// Holds the layouts and numbers of conformance/beside/record/runtime/abi.hpp against the headers of the open package; it
// is compiled, not run.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "abi.hpp"

namespace abi = tileproof::abi;
#define SAME(ours, a, theirs, b) \
  static_assert(offsetof(ours, a) == offsetof(theirs, b) && sizeof(ours::a) == sizeof(theirs::b))
#define SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs))

SIZE(abi::DeviceProperties, cudaDeviceProp);
#define PROPERTY(a, b) SAME(abi::DeviceProperties, a, cudaDeviceProp, b)
PROPERTY(name, name);
PROPERTY(uuid, uuid);
PROPERTY(global_bytes, totalGlobalMem);
PROPERTY(shared_per_block, sharedMemPerBlock);
PROPERTY(registers_per_block, regsPerBlock);
PROPERTY(warp_size, warpSize);
PROPERTY(pitch, memPitch);
PROPERTY(threads_per_block, maxThreadsPerBlock);
PROPERTY(block, maxThreadsDim);
PROPERTY(grid, maxGridSize);
PROPERTY(constant_bytes, totalConstMem);
PROPERTY(major, major);
PROPERTY(minor, minor);
PROPERTY(texture_alignment, textureAlignment);
PROPERTY(texture_pitch_alignment, texturePitchAlignment);
PROPERTY(processors, multiProcessorCount);
PROPERTY(maps_host_memory, canMapHostMemory);
PROPERTY(surface_alignment, surfaceAlignment);
PROPERTY(concurrent_kernels, concurrentKernels);
PROPERTY(ecc, ECCEnabled);
PROPERTY(async_engines, asyncEngineCount);
PROPERTY(unified_addressing, unifiedAddressing);
PROPERTY(bus_width, memoryBusWidth);
PROPERTY(l2_bytes, l2CacheSize);
PROPERTY(threads_per_processor, maxThreadsPerMultiProcessor);
PROPERTY(stream_priorities, streamPrioritiesSupported);
PROPERTY(global_l1, globalL1CacheSupported);
PROPERTY(local_l1, localL1CacheSupported);
PROPERTY(shared_per_processor, sharedMemPerMultiprocessor);
PROPERTY(registers_per_processor, regsPerMultiprocessor);
PROPERTY(managed_memory, managedMemory);
PROPERTY(concurrent_managed, concurrentManagedAccess);
PROPERTY(preemption, computePreemptionSupported);
PROPERTY(host_pointer_for_registered, canUseHostPointerForRegisteredMem);
PROPERTY(cooperative_launch, cooperativeLaunch);
PROPERTY(shared_optin, sharedMemPerBlockOptin);
PROPERTY(blocks_per_processor, maxBlocksPerMultiProcessor);
PROPERTY(reserved_shared, reservedSharedMemPerBlock);
PROPERTY(host_register, hostRegisterSupported);
PROPERTY(memory_pools, memoryPoolsSupported);
PROPERTY(cluster_launch, clusterLaunch);
PROPERTY(numa_id, deviceNumaId);
PROPERTY(host_numa, hostNumaId);

SIZE(abi::FunctionAttributes, cudaFuncAttributes);
#define FUNCTION(a, b) SAME(abi::FunctionAttributes, a, cudaFuncAttributes, b)
FUNCTION(shared, sharedSizeBytes);
FUNCTION(max_threads, maxThreadsPerBlock);
FUNCTION(registers, numRegs);
FUNCTION(ptx_version, ptxVersion);
FUNCTION(binary_version, binaryVersion);
FUNCTION(max_dynamic_shared, maxDynamicSharedSizeBytes);
FUNCTION(carveout, preferredShmemCarveout);
FUNCTION(cluster_must_be_set, clusterDimMustBeSet);
FUNCTION(cluster_scheduling, clusterSchedulingPolicyPreference);
FUNCTION(non_portable_cluster, nonPortableClusterSizeAllowed);

SIZE(abi::Attribute, cudaLaunchAttribute);
SIZE(abi::Attribute, CUlaunchAttribute);
SAME(abi::Attribute, id, CUlaunchAttribute, id);
SAME(abi::Attribute, value, CUlaunchAttribute, value);
SIZE(abi::LaunchConfig, cudaLaunchConfig_t);
SAME(abi::LaunchConfig, shared, cudaLaunchConfig_t, dynamicSmemBytes);
SAME(abi::LaunchConfig, stream, cudaLaunchConfig_t, stream);
SAME(abi::LaunchConfig, attributes, cudaLaunchConfig_t, attrs);
SAME(abi::LaunchConfig, count, cudaLaunchConfig_t, numAttrs);
SIZE(abi::DriverLaunchConfig, CUlaunchConfig);
SAME(abi::DriverLaunchConfig, stream, CUlaunchConfig, hStream);
SAME(abi::DriverLaunchConfig, attributes, CUlaunchConfig, attrs);
SIZE(abi::Copy3D, cudaMemcpy3DParms);
SAME(abi::Copy3D, from, cudaMemcpy3DParms, srcPtr);
SAME(abi::Copy3D, to_at, cudaMemcpy3DParms, dstPos);
SAME(abi::Copy3D, extent, cudaMemcpy3DParms, extent);
SIZE(abi::PointerAttributes, cudaPointerAttributes);
SAME(abi::PointerAttributes, on_host, cudaPointerAttributes, hostPointer);

#define NUMBER(a, b) static_assert(static_cast<int>(abi::a) == static_cast<int>(b))
NUMBER(kInvalidValue, cudaErrorInvalidValue);
NUMBER(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
NUMBER(kOutOfMemory, cudaErrorMemoryAllocation);
NUMBER(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
NUMBER(kInvalidConfiguration, cudaErrorInvalidConfiguration);
NUMBER(kInvalidSymbol, cudaErrorInvalidSymbol);
NUMBER(kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
NUMBER(kFileNotFound, CUDA_ERROR_FILE_NOT_FOUND);
NUMBER(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
NUMBER(kInvalidHandle, cudaErrorInvalidResourceHandle);
NUMBER(kNotFound, CUDA_ERROR_NOT_FOUND);
NUMBER(kLaunchFailed, cudaErrorLaunchFailure);
NUMBER(kInvalidClusterSize, cudaErrorInvalidClusterSize);
NUMBER(kInvalidPitch, cudaErrorInvalidPitchValue);
NUMBER(kInvalidDirection, cudaErrorInvalidMemcpyDirection);
NUMBER(kInvalidFunction, cudaErrorInvalidDeviceFunction);
NUMBER(kInvalidDevice, cudaErrorInvalidDevice);
NUMBER(kClusterDimension, cudaLaunchAttributeClusterDimension);
NUMBER(kProgrammatic, cudaLaunchAttributeProgrammaticStreamSerialization);
NUMBER(kPreferredCluster, cudaLaunchAttributePreferredClusterDimension);
NUMBER(kCooperative, cudaLaunchAttributeCooperative);
NUMBER(kCarveout, cudaLaunchAttributePreferredSharedMemoryCarveout);
NUMBER(kMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
NUMBER(kNonPortableCluster, cudaFuncAttributeNonPortableClusterSizeAllowed);
NUMBER(kClusterWidth, cudaFuncAttributeRequiredClusterWidth);
NUMBER(kManaged, cudaMemoryTypeManaged);
NUMBER(kDeviceToHost, cudaMemcpyDeviceToHost);
