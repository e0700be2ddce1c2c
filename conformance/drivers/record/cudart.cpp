// A CUDA runtime that writes down instead of running: `program` linked against it leaves, in the folder
// TILEPROOF_RECORD, the events of its device in order (record.jsonl) and the bytes that its host wrote
// (data.bin). Parameter sizes come from TILEPROOF_RECORD_ENTRIES, lines of "name size size ...". Kernels do
// not run: what the program reads back is what it wrote itself. A function that is not here fails to link, by
// its name.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t kBase = 0x1000'0000'0000;  // where the emulator's own buffers begin
constexpr std::uint64_t kGuard = 1 << 20;
constexpr int kSharedPerBlock = 232448;
constexpr char kMapTag[9] = "TPRECMAP";  // first bytes of a recorded tensor map; its number follows

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "tileproof record: %s\n", why.c_str());
  std::exit(2);
}

template <class T>
std::string list(const T* values, int count) {
  std::ostringstream out;
  out << "[";
  for (int i = 0; i < count; ++i) out << (i ? "," : "") << +values[i];
  out << "]";
  return out.str();
}

std::string list(dim3 d) {
  const unsigned values[3] = {d.x, d.y, d.z};
  return list(values, 3);
}

struct Recorder {
  std::ofstream events, data;
  std::uint64_t data_bytes = 0, next = kBase, maps = 0;
  std::map<std::string, std::vector<std::size_t>> parameters;
  std::map<const void*, std::string> kernels;
  std::map<std::uint64_t, std::uint64_t> allocations;  // address -> bytes
  int processors = 148;                                // of a B200

  Recorder() {
    const char* folder = std::getenv("TILEPROOF_RECORD");
    const char* entries = std::getenv("TILEPROOF_RECORD_ENTRIES");
    if (!folder || !entries) give_up("TILEPROOF_RECORD and TILEPROOF_RECORD_ENTRIES are not set");
    if (const char* count = std::getenv("TILEPROOF_RECORD_SMS")) processors = std::atoi(count);
    events.open(std::string(folder) + "/record.jsonl");
    data.open(std::string(folder) + "/data.bin", std::ios::binary);
    std::ifstream lines(entries);
    if (!events || !data || !lines) give_up("its folder or its list of entries cannot be opened");
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name;
      words >> name;
      for (std::size_t size; words >> size;) parameters[name].push_back(size);
      parameters[name];
    }
  }

  void event(const std::string& text) { events << "{" << text << "}" << std::endl; }

  // Whether [address, address + bytes) lies in one allocation.
  bool device(const void* pointer, std::size_t bytes) const {
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin()) return false;
    --after;
    return address + bytes <= after->first + after->second;
  }

  std::string bytes(const void* from, std::size_t count) {
    const std::string at = "\"at\":" + std::to_string(data_bytes) + ",\"bytes\":" + std::to_string(count);
    data.write(static_cast<const char*>(from), static_cast<std::streamsize>(count));
    data.flush();
    data_bytes += count;
    return at;
  }
};

Recorder& recorder() {
  static Recorder* one = new Recorder;  // programs free memory from their own destructors
  return *one;
}

std::string address_of(const void* pointer) {
  return std::to_string(reinterpret_cast<std::uint64_t>(pointer));
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, dim3 cluster, void** arguments,
                   std::size_t shared, bool overlaps) {
  auto& r = recorder();
  const auto kernel = r.kernels.find(function);
  if (kernel == r.kernels.end()) return cudaErrorInvalidDeviceFunction;
  const auto sizes = r.parameters.find(kernel->second);
  if (sizes == r.parameters.end()) give_up("no parameter sizes are known of " + kernel->second);
  std::string parameters;
  for (std::size_t i = 0; i < sizes->second.size(); ++i)
    parameters += (i ? ",{" : "{") + r.bytes(arguments[i], sizes->second[i]) + "}";
  r.event("\"event\":\"launch\",\"entry\":\"" + kernel->second + "\",\"grid\":" + list(grid) + ",\"block\":" +
          list(block) + ",\"cluster\":" + list(cluster) + ",\"shared\":" + std::to_string(shared) +
          ",\"overlaps\":" + (overlaps ? "true" : "false") + ",\"parameters\":[" + parameters + "]");
  return cudaSuccess;
}

CUresult remember(CUtensorMap* map, const std::string& fields) {
  auto& r = recorder();
  std::memset(map, 0xC5, sizeof *map);
  std::memcpy(map, kMapTag, 8);
  std::memcpy(reinterpret_cast<char*>(map) + 8, &r.maps, sizeof r.maps);
  r.event("\"event\":\"map\",\"number\":" + std::to_string(r.maps++) + "," + fields);
  return CUDA_SUCCESS;
}

std::string common(CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* shape,
                   const cuuint64_t* strides, const cuuint32_t* steps, CUtensorMapInterleave interleave,
                   CUtensorMapSwizzle swizzle, CUtensorMapFloatOOBfill fill) {
  const int n = static_cast<int>(rank);
  return "\"type\":" + std::to_string(type) + ",\"address\":" + address_of(address) +
         ",\"shape\":" + list(shape, n) + ",\"strides\":" + list(strides, n - 1) +
         ",\"element_strides\":" + list(steps, n) + ",\"interleave\":" + std::to_string(interleave) +
         ",\"swizzle\":" + std::to_string(swizzle) + ",\"fill\":" + std::to_string(fill);
}

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* shape, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  if (rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  return remember(map, "\"kind\":\"tiled\",\"box\":" + list(box, static_cast<int>(rank)) + "," +
                           common(type, rank, address, shape, strides, steps, interleave, swizzle, fill));
}

CUresult encode_im2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                       const cuuint64_t* shape, const cuuint64_t* strides, const int* lower, const int* upper,
                       cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                       CUtensorMapFloatOOBfill fill) {
  if (rank < 3 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  const int n = static_cast<int>(rank);
  return remember(map, "\"kind\":\"im2col\",\"lower\":" + list(lower, n - 2) +
                           ",\"upper\":" + list(upper, n - 2) + ",\"channels\":" + std::to_string(channels) +
                           ",\"pixels\":" + std::to_string(pixels) + "," +
                           common(type, rank, address, shape, strides, steps, interleave, swizzle, fill));
}

CUresult fill(CUdeviceptr to, const void* value, std::size_t size, std::size_t count) {
  auto& r = recorder();
  auto* at = reinterpret_cast<char*>(to);
  if (!r.device(at, size * count)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) std::memcpy(at + i * size, value, size);
  r.event("\"event\":\"write\",\"address\":" + address_of(at) + "," + r.bytes(at, size * count));
  return CUDA_SUCCESS;
}

// What `kernel<<<...>>>` pushes and its host function pops.
struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  void* stream = nullptr;
};
std::vector<Configuration> configurations;

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  recorder().kernels[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return cudaErrorInvalidConfiguration;
  const auto one = configurations.back();
  configurations.pop_back();
  *grid = one.grid, *block = one.block, *shared = one.shared, *static_cast<void**>(stream) = one.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t) {
  return launch(kernel, grid, block, dim3(1, 1, 1), arguments, shared, false);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t) {
  return launch(function, grid, block, dim3(1, 1, 1), arguments, shared, false);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  dim3 cluster(1, 1, 1);
  bool overlaps = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const auto& one = config->attrs[i];
    if (one.id == cudaLaunchAttributeClusterDimension)
      cluster = dim3(one.val.clusterDim.x, one.val.clusterDim.y, one.val.clusterDim.z);
    else if (one.id == cudaLaunchAttributeProgrammaticStreamSerialization)
      overlaps = one.val.programmaticStreamSerializationAllowed != 0;
  }
  return launch(function, config->gridDim, config->blockDim, cluster, arguments, config->dynamicSmemBytes,
                overlaps);
}

cudaError_t cudaMalloc(void** out, size_t bytes) {
  auto& r = recorder();
  *out = nullptr;
  if (!bytes) return cudaSuccess;
  const std::size_t room = (bytes + kGuard - 1) / kGuard * kGuard;
  void* at = mmap(reinterpret_cast<void*>(r.next), room, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return cudaErrorMemoryAllocation;
  r.next += room + kGuard;
  r.allocations[reinterpret_cast<std::uint64_t>(at)] = bytes;
  r.event("\"event\":\"malloc\",\"address\":" + address_of(at) + ",\"bytes\":" + std::to_string(bytes));
  *out = at;
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  auto& r = recorder();
  if (!pointer) return cudaSuccess;
  const auto found = r.allocations.find(reinterpret_cast<std::uint64_t>(pointer));
  if (found == r.allocations.end()) return cudaErrorInvalidValue;
  munmap(pointer, found->second);
  r.allocations.erase(found);
  r.event("\"event\":\"free\",\"address\":" + address_of(pointer));
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  auto& r = recorder();
  if (!bytes) return cudaSuccess;
  const bool onto = r.device(to, bytes), off = r.device(from, bytes);
  if (onto && off)
    r.event("\"event\":\"copy\",\"address\":" + address_of(to) + ",\"source\":" + address_of(from) +
            ",\"bytes\":" + std::to_string(bytes));
  else if (onto)
    r.event("\"event\":\"write\",\"address\":" + address_of(to) + "," + r.bytes(from, bytes));
  else if (off)
    r.event("\"event\":\"read\",\"address\":" + address_of(from) + ",\"bytes\":" + std::to_string(bytes));
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  auto& r = recorder();
  if (!bytes) return cudaSuccess;
  if (!r.device(to, bytes)) return cudaErrorInvalidValue;
  std::memset(to, value, bytes);
  r.event("\"event\":\"write\",\"address\":" + address_of(to) + "," + r.bytes(to, bytes));
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(to, value, bytes);
}

// The driver's memsets by width, which programs call directly.
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream) {
  return fill(to, &value, sizeof value, count);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream) {
  return fill(to, &value, sizeof value, count);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream) {
  return fill(to, &value, sizeof value, count);
}
CUresult cuGetErrorString(CUresult error, const char** out) {
  *out = error == CUDA_SUCCESS ? "no error" : "recording failed";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** out) {
  *out = error == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR";
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device ? cudaErrorInvalidDevice : cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int) {
  std::memset(out, 0, sizeof *out);
  std::strcpy(out->name, "tileproof record");
  out->major = 10, out->minor = 0;
  out->warpSize = 32, out->maxThreadsPerBlock = 1024, out->regsPerBlock = 65536;
  out->multiProcessorCount = recorder().processors;
  out->totalGlobalMem = std::size_t{192} << 30;
  out->sharedMemPerBlock = 49152, out->sharedMemPerBlockOptin = kSharedPerBlock;
  out->sharedMemPerMultiprocessor = 233472;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = recorder().processors;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      return cudaSuccess;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = 65536;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 233472;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      *value = 0x7FFFFFFF;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = 65535;
      return cudaSuccess;
    default:
      give_up("the program asks for device attribute " + std::to_string(attribute));
  }
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void*) {
  std::memset(out, 0, sizeof *out);
  out->maxThreadsPerBlock = 1024, out->numRegs = 64;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t,
                                                                   unsigned) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t* config) {
  unsigned size = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
      const auto& c = config->attrs[i].val.clusterDim;
      size = c.x * c.y * c.z;
    }
  *clusters = recorder().processors / static_cast<int>(size);
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const std::string symbol = name;
  *out = symbol == "cuTensorMapEncodeTiled"    ? reinterpret_cast<void*>(&encode_tiled)
         : symbol == "cuTensorMapEncodeIm2col" ? reinterpret_cast<void*>(&encode_im2col)
                                               : nullptr;
  if (found) *found = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  if (!*out) give_up("the program asks for the driver's " + symbol);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t* out) {
  *out = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* out) {
  *out = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;  // a program may divide by it
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "recording failed";
}
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaError"; }

}  // extern "C"
