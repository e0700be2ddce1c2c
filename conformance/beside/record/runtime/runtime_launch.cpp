// The runtime API's kernels: what nvcc's host code registers, launches, attributes, occupancy, libraries.
#include <cstring>

#include "runtime.hpp"

using namespace tileproof::record;
namespace abi = tileproof::abi;

namespace {

struct Configuration {  // what <<<...>>> pushes and its host function pops
  abi::Dim3 grid, block;
  std::size_t shared = 0;
  void* stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

int launch_one(const char* call, const void* function, abi::Dim3 grid, abi::Dim3 block, void** arguments,
               std::size_t shared, void* stream, bool cooperative = false) {
  Lock lock(calls());
  Launch how{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, stream};
  how.cooperative = cooperative;
  return done(launch(call, device().kernel_of(function), how, arguments));
}

Module* module_of(void** handle) { return reinterpret_cast<Module*>(handle); }

unsigned cluster_size(const abi::LaunchConfig& config) {
  for (unsigned i = 0; i < config.count; ++i)
    if (config.attributes[i].id == abi::kClusterDimension) {
      const auto* d = config.attributes[i].value.dimension;
      return d[0] * d[1] * d[2];
    }
  return 1;
}

}  // namespace

TILEPROOF_API void** __cudaRegisterFatBinary(void* wrapper) {
  Lock lock(calls());
  return reinterpret_cast<void**>(device().load(wrapper, false, "__cudaRegisterFatBinary"));
}
TILEPROOF_API void __cudaRegisterFatBinaryEnd(void**) {}
TILEPROOF_API void __cudaUnregisterFatBinary(void**) {}
TILEPROOF_API char __cudaInitModule(void**) { return 1; }
TILEPROOF_API void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int,
                                          void*, void*, void*, void*, int*) {
  Lock lock(calls());
  device().functions[host] = device().kernel(module_of(module), name);
}
TILEPROOF_API void __cudaRegisterVar(void** module, char* host, char*, const char* name, int,
                                     std::size_t bytes, int, int) {
  Lock lock(calls());
  device().variables[host] = new Variable{module_of(module), name, 0, bytes};
}
TILEPROOF_API void __cudaRegisterManagedVar(void** module, void**, char*, const char* name, int, std::size_t,
                                            int, int) {
  Lock lock(calls());
  module_of(module)->managed = name;
}
TILEPROOF_API void __cudaRegisterHostVar(void**, const char*, char*, std::size_t) {}

TILEPROOF_API unsigned __cudaPushCallConfiguration(abi::Dim3 grid, abi::Dim3 block, std::size_t shared,
                                                   void* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
TILEPROOF_API int __cudaPopCallConfiguration(abi::Dim3* grid, abi::Dim3* block, std::size_t* shared,
                                             void* stream) {
  if (configurations.empty()) return abi::kInvalidConfiguration;
  const auto one = configurations.back();
  configurations.pop_back();
  *grid = one.grid, *block = one.block, *shared = one.shared, *static_cast<void**>(stream) = one.stream;
  return 0;
}
TILEPROOF_API int __cudaGetKernel(void** out, const void* function) {
  Lock lock(calls());
  *out = device().kernel_of(function);
  return done(*out ? 0
                   : fail("__cudaGetKernel", abi::kInvalidFunction, "the program registers no such kernel"));
}
TILEPROOF_API int cudaGetKernel(void** out, const void* function) { return __cudaGetKernel(out, function); }
TILEPROOF_API int cudaGetFuncBySymbol(void** out, const void* function) {
  return __cudaGetKernel(out, function);
}
TILEPROOF_API int __cudaLaunchKernel(void* kernel, abi::Dim3 grid, abi::Dim3 block, void** arguments,
                                     std::size_t shared, void* stream) {
  return launch_one("a launch by <<<...>>>", kernel, grid, block, arguments, shared, stream);
}
TILEPROOF_API int cudaLaunchKernel(const void* function, abi::Dim3 grid, abi::Dim3 block, void** arguments,
                                   std::size_t shared, void* stream) {
  return launch_one("cudaLaunchKernel", function, grid, block, arguments, shared, stream);
}
TILEPROOF_API int cudaLaunchCooperativeKernel(const void* function, abi::Dim3 grid, abi::Dim3 block,
                                              void** arguments, std::size_t shared, void* stream) {
  return launch_one("cudaLaunchCooperativeKernel", function, grid, block, arguments, shared, stream, true);
}
TILEPROOF_API int cudaLaunchKernelExC(const abi::LaunchConfig* config, const void* function,
                                      void** arguments) {
  Lock lock(calls());
  const auto &g = config->grid, &b = config->block;
  const Launch how{{g.x, g.y, g.z},    {b.x, b.y, b.z}, config->shared, config->stream,
                   config->attributes, config->count,   false};
  return done(launch("cudaLaunchKernelExC", device().kernel_of(function), how, arguments));
}
TILEPROOF_API int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  const auto work = [=](int) {
    function(data);
    return 0;
  };
  if (captured(stream_number(stream), work)) return 0;
  function(data);  // everything before it is done
  return 0;
}
TILEPROOF_API int cudaStreamAddCallback(void* stream, void (*function)(void*, int, void*), void* data,
                                        unsigned) {
  function(stream, 0, data);
  return 0;
}

TILEPROOF_API int cudaFuncSetAttribute(const void* function, int attribute, int value) {
  Lock lock(calls());
  return done(set_attribute("cudaFuncSetAttribute", device().kernel_of(function), attribute, value));
}
TILEPROOF_API int cudaKernelSetAttributeForDevice(void* kernel, int attribute, int value, int) {
  Lock lock(calls());
  return done(set_attribute("cudaKernelSetAttributeForDevice", device().kernel_of(kernel), attribute, value));
}
TILEPROOF_API int cudaFuncSetCacheConfig(const void*, int) { return 0; }
TILEPROOF_API int cudaFuncSetSharedMemConfig(const void*, int) { return 0; }
TILEPROOF_API int cudaFuncGetAttributes(abi::FunctionAttributes* out, const void* function) {
  Lock lock(calls());
  std::memset(out, 0, sizeof *out);
  auto* kernel = device().kernel_of(function);
  int value = 0, code = 0;
  const auto get = [&](int attribute) {
    if (!code) code = get_attribute("cudaFuncGetAttributes", kernel, attribute, &value);
    return value;
  };
  out->max_threads = get(abi::kMaxThreads);
  out->shared = static_cast<std::size_t>(get(abi::kSharedBytes));
  out->registers = get(abi::kRegisters);
  out->ptx_version = get(abi::kPtxVersion);
  out->binary_version = get(abi::kBinaryVersion);
  out->max_dynamic_shared = get(abi::kMaxDynamicShared);
  out->carveout = get(abi::kSharedCarveout);
  for (int i = 0; i < 3; ++i) out->cluster[i] = get(abi::kClusterWidth + i);
  out->non_portable_cluster = get(abi::kNonPortableCluster);
  return done(code);
}
TILEPROOF_API int cudaFuncGetName(const char** out, const void* function) {
  Lock lock(calls());
  const auto* kernel = device().kernel_of(function);
  *out = kernel ? kernel->name.c_str() : nullptr;
  return done(
      kernel ? 0 : fail("cudaFuncGetName", abi::kInvalidFunction, "the program registers no such kernel"));
}
TILEPROOF_API int cudaFuncGetParamInfo(const void* function, std::size_t index, std::size_t* offset,
                                       std::size_t* size) {
  Lock lock(calls());
  auto* kernel = device().kernel_of(function);
  if (!kernel || !device().describe("cudaFuncGetParamInfo", kernel) || index >= kernel->sizes.size())
    return done(fail("cudaFuncGetParamInfo", abi::kInvalidValue, "the kernel has no such parameter"));
  *offset = kernel->offsets[index];
  if (size) *size = kernel->sizes[index];
  return 0;
}

TILEPROOF_API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                         int threads, std::size_t shared,
                                                                         unsigned) {
  Lock lock(calls());
  return done(resident_blocks("cudaOccupancyMaxActiveBlocksPerMultiprocessor", device().kernel_of(function),
                              threads, shared, blocks));
}
TILEPROOF_API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                                int threads, std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
TILEPROOF_API int cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* out, const void*, int blocks, int) {
  if (blocks < 1)
    return done(fail("cudaOccupancyAvailableDynamicSMemPerBlock", abi::kInvalidValue, "no blocks"));
  const int each = kProcessorSharedBytes / blocks - kReservedSharedBytes;
  *out = static_cast<std::size_t>(each < 0 ? 0 : each > kMaxSharedBytes ? kMaxSharedBytes : each);
  return 0;
}
TILEPROOF_API int cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                 const abi::LaunchConfig* config) {
  Lock lock(calls());
  int blocks = 0;
  const auto& b = config->block;
  if (const int code = resident_blocks("cudaOccupancyMaxActiveClusters", device().kernel_of(function),
                                       static_cast<int>(b.x * b.y * b.z), config->shared, &blocks))
    return done(code);
  *clusters = device().processors * blocks / static_cast<int>(cluster_size(*config));
  return 0;
}
TILEPROOF_API int cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                       const abi::LaunchConfig*) {
  Lock lock(calls());
  const auto* kernel = device().kernel_of(function);
  *size = kernel && kernel->attributes[abi::kNonPortableCluster] ? 16 : 8;
  return 0;
}

// Libraries: images that are loaded while the program runs.
namespace {
int load_library(const char* call, void** out, const void* image) {
  Lock lock(calls());
  int code = 0;
  *out = device().load(image, true, call, &code);
  return done(code);
}
}  // namespace
TILEPROOF_API int cudaLibraryLoadData(void** out, const void* image, int*, void**, unsigned, int*, void**,
                                      unsigned) {
  return load_library("cudaLibraryLoadData", out, image);
}
TILEPROOF_API int cudaLibraryGetKernel(void** out, void* library, const char* name) {
  Lock lock(calls());
  auto* kernel = device().kernel(static_cast<Module*>(library), name);
  if (!device().describe("cudaLibraryGetKernel", kernel))
    return done(
        fail("cudaLibraryGetKernel", abi::kNotFound, "the library has no kernel " + std::string(name)));
  *out = kernel;
  return 0;
}
TILEPROOF_API int cudaLibraryUnload(void*) { return 0; }

TILEPROOF_ALSO(__cudaLaunchKernel_ptsz, __cudaLaunchKernel);
TILEPROOF_ALSO(cudaLaunchKernel_ptsz, cudaLaunchKernel);
TILEPROOF_ALSO(cudaLaunchCooperativeKernel_ptsz, cudaLaunchCooperativeKernel);
TILEPROOF_ALSO(cudaLaunchKernelExC_ptsz, cudaLaunchKernelExC);
TILEPROOF_ALSO(cudaLaunchHostFunc_ptsz, cudaLaunchHostFunc);
TILEPROOF_ALSO(cudaStreamAddCallback_ptsz, cudaStreamAddCallback);
