// What a CUDA 13 program passes to its shared runtime and driver: layouts and numbers of the CUDA runtime API
// and driver API, as far as they are read or written here. A test holds them against the headers of the open
// package.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tileproof::abi {

enum Error : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidConfiguration = 9,
  kInvalidSymbol = 13,
  kInvalidImage = 200,
  kNoBinary = 209,
  kFileNotFound = 301,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCapturedEvent = 907,
  kInvalidClusterSize = 912,
};
enum RuntimeError : int {  // where the runtime's number is another one
  kInvalidPitch = 12,
  kInvalidDirection = 21,
  kInvalidFunction = 98,
  kInvalidDevice = 101,
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct Extent {
  std::size_t width, height, depth;
};
struct Pitched {
  void* data;
  std::size_t pitch, width, height;
};
struct Position {
  std::size_t x, y, z;
};
struct Copy3D {  // cudaMemcpy3DParms
  void* from_array;
  Position from_at;
  Pitched from;
  void* to_array;
  Position to_at;
  Pitched to;
  Extent extent;
  int kind;
};

enum AttributeId : int {
  kIgnore = 0,
  kAccessPolicy = 1,
  kCooperative = 2,
  kSynchronization = 3,
  kClusterDimension = 4,
  kClusterScheduling = 5,
  kProgrammatic = 6,
  kProgrammaticEvent = 7,
  kPriority = 8,
  kDomainMap = 9,
  kDomain = 10,
  kPreferredCluster = 11,
  kCompletionEvent = 12,
  kUpdatableNode = 13,
  kCarveout = 14,
};
struct Attribute {  // cudaLaunchAttribute, CUlaunchAttribute
  int id;
  int padding;
  union {
    unsigned dimension[3];
    int number;
    void* event;
    char bytes[64];
  } value;
};
struct LaunchConfig {  // cudaLaunchConfig_t
  Dim3 grid, block;
  std::size_t shared;
  void* stream;
  const Attribute* attributes;
  unsigned count;
};
struct DriverLaunchConfig {  // CUlaunchConfig
  unsigned grid[3], block[3], shared;
  void* stream;
  const Attribute* attributes;
  unsigned count;
};

struct KernelNode {  // cudaKernelNodeParams
  void* function;
  Dim3 grid, block;
  unsigned shared;
  void **arguments, **extra;
};
struct DriverKernelNode {  // CUDA_KERNEL_NODE_PARAMS_v2
  void* function;
  unsigned grid[3], block[3], shared;
  void **arguments, **extra;
  void *kernel, *context;
};
struct FillNode {  // cudaMemsetParams
  void* to;
  std::size_t pitch;
  unsigned value, element;
  std::size_t width, height;
};
struct HostNode {  // cudaHostNodeParams
  void (*function)(void*);
  void* data;
};

struct FunctionAttributes {  // cudaFuncAttributes
  std::size_t shared, constant, local;
  int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared, carveout;
  int cluster_must_be_set, cluster[3], cluster_scheduling, non_portable_cluster;
  int reserved[16];
};
enum FunctionAttribute : int {
  kMaxThreads = 0,
  kSharedBytes = 1,
  kConstantBytes = 2,
  kLocalBytes = 3,
  kRegisters = 4,
  kPtxVersion = 5,
  kBinaryVersion = 6,
  kCacheMode = 7,
  kMaxDynamicShared = 8,
  kSharedCarveout = 9,
  kClusterMustBeSet = 10,
  kClusterWidth = 11,
  kClusterHeight = 12,
  kClusterDepth = 13,
  kNonPortableCluster = 14,
  kClusterPolicy = 15,
};

enum MemoryType : int { kUnregistered = 0, kHost = 1, kDevice = 2, kManaged = 3 };
struct PointerAttributes {  // cudaPointerAttributes
  int type, device;
  void *on_device, *on_host;
  long reserved[8];
};
enum CopyKind : int {
  kHostToHost = 0,
  kHostToDevice = 1,
  kDeviceToHost = 2,
  kDeviceToDevice = 3,
  kDefault = 4
};

struct DeviceProperties {  // cudaDeviceProp of CUDA 13
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luid_node_mask;
  std::size_t global_bytes, shared_per_block;
  int registers_per_block, warp_size;
  std::size_t pitch;
  int threads_per_block, block[3], grid[3];
  std::size_t constant_bytes;
  int major, minor;
  std::size_t texture_alignment, texture_pitch_alignment;
  int processors, integrated, maps_host_memory;
  int texture_extents[39];
  std::size_t surface_alignment;
  int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, async_engines, unified_addressing;
  int bus_width, l2_bytes, persisting_l2_bytes, threads_per_processor, stream_priorities, global_l1, local_l1;
  std::size_t shared_per_processor;
  int registers_per_processor, managed_memory, multi_gpu_board, board_group, host_atomics, pageable_access;
  int concurrent_managed, preemption, host_pointer_for_registered, cooperative_launch;
  std::size_t shared_optin;
  int pageable_page_tables, direct_managed_from_host, blocks_per_processor, access_policy_window;
  std::size_t reserved_shared;
  int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, memory_pools, rdma;
  unsigned rdma_flush;
  int rdma_ordering;
  unsigned pool_handles;
  int deferred_arrays, ipc_events, cluster_launch, unified_functions, numa_config, numa_id, mps, host_numa;
  unsigned gpu_pci_device, gpu_pci_subsystem;
  int host_numa_multinode;
  int reserved[56];
};

}  // namespace tileproof::abi
