// The runtime API's device, streams, events, errors and the way to the driver.
#include <cstdio>
#include <cstring>

#include "runtime.hpp"

using namespace tileproof::record;
namespace abi = tileproof::abi;

TILEPROOF_API int cudaGetDevice(int* out) {
  *out = 0;
  return 0;
}
TILEPROOF_API int cudaGetDeviceCount(int* out) {
  *out = 1;
  return 0;
}
TILEPROOF_API int cudaSetDevice(int which) {
  Lock lock(calls());
  return done(which ? fail("cudaSetDevice", abi::kInvalidDevice, "there is one device, 0") : 0);
}
TILEPROOF_API int cudaInitDevice(int which, unsigned, unsigned) { return cudaSetDevice(which); }
TILEPROOF_API int cudaSetDeviceFlags(unsigned) { return 0; }
TILEPROOF_API int cudaGetDeviceFlags(unsigned* out) {
  *out = 0;
  return 0;
}
TILEPROOF_API int cudaChooseDevice(int* out, const void*) { return cudaGetDevice(out); }
TILEPROOF_API int cudaDeviceReset() { return 0; }
TILEPROOF_API int cudaDeviceSynchronize() {
  Lock lock(calls());
  wait_for_all();
  return 0;
}
TILEPROOF_API int cudaDeviceGetLimit(std::size_t* out, int limit) {
  Lock lock(calls());
  constexpr std::size_t kDefaults[] = {1024, 1 << 20, 8 << 20};  // stack of a thread, printf, malloc
  if (limit < 0 || limit > 2)
    refuse("cudaDeviceGetLimit", "limit " + std::to_string(limit) + " is not known here");
  *out = kDefaults[limit];
  return 0;
}
TILEPROOF_API int cudaDeviceSetLimit(int, std::size_t) { return 0; }
TILEPROOF_API int cudaDeviceGetCacheConfig(int* out) {
  *out = 0;
  return 0;
}
TILEPROOF_API int cudaDeviceSetCacheConfig(int) { return 0; }
TILEPROOF_API int cudaCtxResetPersistingL2Cache() { return 0; }
TILEPROOF_API int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return 0;
}
TILEPROOF_API int cudaDeviceCanAccessPeer(int* out, int, int) {
  *out = 0;
  return 0;
}
TILEPROOF_API int cudaDeviceGetPCIBusId(char* out, int bytes, int) {
  std::snprintf(out, static_cast<std::size_t>(bytes), "0000:00:00.0");
  return 0;
}
TILEPROOF_API int cudaDeviceGetAttribute(int* out, int attribute, int) {
  Lock lock(calls());
  if (!device_attribute(attribute, out))
    refuse("cudaDeviceGetAttribute", "device attribute " + std::to_string(attribute) + " is not known here");
  return 0;
}
TILEPROOF_API int cudaGetDeviceProperties(abi::DeviceProperties* out, int which) {
  Lock lock(calls());
  if (which) return done(fail("cudaGetDeviceProperties", abi::kInvalidDevice, "there is one device, 0"));
  std::memset(out, 0, sizeof *out);
  std::strcpy(out->name,
              device().hopper ? "NVIDIA H200 (tileproof record)" : "NVIDIA B200 (tileproof record)");
  const auto get = [](int attribute) {
    int value = 0;
    device_attribute(attribute, &value);
    return value;
  };
  out->global_bytes = std::size_t{192} << 30;
  out->shared_per_block = kDefaultSharedBytes, out->shared_optin = kMaxSharedBytes;
  out->shared_per_processor = kProcessorSharedBytes, out->reserved_shared = kReservedSharedBytes;
  out->registers_per_block = out->registers_per_processor = kRegisters;
  out->warp_size = 32, out->pitch = 0x7FFFFFFF, out->threads_per_block = kMaxThreads;
  for (int i = 0; i < 3; ++i) out->block[i] = get(2 + i), out->grid[i] = get(5 + i);
  out->constant_bytes = 65536, out->major = get(75), out->minor = 0;
  out->texture_alignment = out->surface_alignment = 512, out->texture_pitch_alignment = 32;
  out->processors = device().processors, out->maps_host_memory = 1, out->concurrent_kernels = 1, out->ecc = 1;
  out->async_engines = get(40), out->unified_addressing = 1, out->bus_width = get(37),
  out->l2_bytes = get(38);
  out->threads_per_processor = kProcessorThreads, out->blocks_per_processor = kProcessorCtas;
  out->stream_priorities = out->global_l1 = out->local_l1 = out->managed_memory = 1;
  out->concurrent_managed = out->preemption = out->host_pointer_for_registered = out->cooperative_launch = 1;
  out->host_register = out->memory_pools = out->cluster_launch = 1;
  out->numa_id = out->host_numa = -1;
  return 0;
}

TILEPROOF_API int cudaRuntimeGetVersion(int* out) {
  *out = 13000;
  return 0;
}
TILEPROOF_API int cudaDriverGetVersion(int* out) { return cudaRuntimeGetVersion(out); }
TILEPROOF_API int cudaProfilerStart() { return 0; }
TILEPROOF_API int cudaProfilerStop() { return 0; }

TILEPROOF_API int cudaStreamCreateWithPriority(void** out, unsigned flags, int priority) {
  Lock lock(calls());
  return make_stream(out, flags, priority);
}
TILEPROOF_API int cudaStreamCreateWithFlags(void** out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
TILEPROOF_API int cudaStreamCreate(void** out) { return cudaStreamCreateWithPriority(out, 0, 0); }
TILEPROOF_API int cudaStreamDestroy(void* stream) {
  Lock lock(calls());
  return done(drop_stream("cudaStreamDestroy", stream));
}
TILEPROOF_API int cudaStreamSynchronize(void* stream) {
  Lock lock(calls());
  return done(wait_for_stream("cudaStreamSynchronize", stream));
}
TILEPROOF_API int cudaStreamQuery(void* stream) {
  Lock lock(calls());
  return done(wait_for_stream("cudaStreamQuery", stream));  // it says that all is done
}
TILEPROOF_API int cudaStreamWaitEvent(void* stream, void* mark, unsigned) {
  Lock lock(calls());
  return done(wait_mark("cudaStreamWaitEvent", stream, mark));
}
TILEPROOF_API int cudaStreamGetFlags(void* stream, unsigned* out) {
  Lock lock(calls());
  const auto* found = stream_of("cudaStreamGetFlags", stream);
  *out = found ? found->flags : 0;
  return 0;
}
TILEPROOF_API int cudaStreamGetPriority(void* stream, int* out) {
  Lock lock(calls());
  const auto* found = stream_of("cudaStreamGetPriority", stream);
  *out = found ? found->priority : 0;
  return 0;
}
TILEPROOF_API int cudaStreamGetId(void* stream, unsigned long long* out) {
  Lock lock(calls());
  *out = static_cast<unsigned long long>(stream_number(stream));
  return 0;
}
TILEPROOF_API int cudaStreamGetDevice(void*, int* out) { return cudaGetDevice(out); }
TILEPROOF_API int cudaThreadExchangeStreamCaptureMode(int*) { return 0; }
TILEPROOF_API int cudaStreamSetAttribute(void*, int, const void*) { return 0; }
TILEPROOF_API int cudaStreamAttachMemAsync(void*, void*, std::size_t, unsigned) { return 0; }

TILEPROOF_API int cudaEventCreateWithFlags(void** out, unsigned flags) {
  Lock lock(calls());
  return make_mark(out, flags);
}
TILEPROOF_API int cudaEventCreate(void** out) { return cudaEventCreateWithFlags(out, 0); }
TILEPROOF_API int cudaEventDestroy(void* mark) {
  Lock lock(calls());
  return done(drop_mark("cudaEventDestroy", mark));
}
TILEPROOF_API int cudaEventRecord(void* mark, void* stream) {
  Lock lock(calls());
  return done(record_mark("cudaEventRecord", mark, stream));
}
TILEPROOF_API int cudaEventRecordWithFlags(void* mark, void* stream, unsigned) {
  return cudaEventRecord(mark, stream);
}
TILEPROOF_API int cudaEventSynchronize(void* mark) {
  Lock lock(calls());
  return done(wait_for_mark("cudaEventSynchronize", mark));
}
TILEPROOF_API int cudaEventQuery(void* mark) {
  Lock lock(calls());
  return done(wait_for_mark("cudaEventQuery", mark));
}
TILEPROOF_API int cudaEventElapsedTime(float* out, void* from, void* to) {
  Lock lock(calls());
  return done(elapsed("cudaEventElapsedTime", out, from, to));
}

TILEPROOF_API int cudaPeekAtLastError() {
  Lock lock(calls());
  return device().last_error;
}
TILEPROOF_API int cudaGetLastError() {
  Lock lock(calls());
  const int code = device().last_error;
  if (code != abi::kLaunchFailed) device().last_error = 0;  // that one stays
  return code;
}
namespace {
struct Named {
  int code;
  const char *name, *text;
};
constexpr Named kErrors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {13, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {200, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {301, "cudaErrorFileNotFound", "file not found"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {500, "cudaErrorSymbolNotFound", "named symbol not found"},
    {401, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {903, "cudaErrorStreamCaptureUnmatched", "capture was not initiated in this stream"},
    {904, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {905, "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"},
    {907, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {912, "cudaErrorInvalidClusterSize", "invalid cluster size"},
};
const Named& named(int code) {
  static const Named other = {-1, "cudaErrorUnknown", "unknown error"};
  for (const auto& one : kErrors)
    if (one.code == code) return one;
  return other;
}
}  // namespace
TILEPROOF_API const char* cudaGetErrorName(int code) { return named(code).name; }
TILEPROOF_API const char* cudaGetErrorString(int code) { return named(code).text; }

TILEPROOF_API int cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned, unsigned long long,
                                                   int* found) {
  Lock lock(calls());
  constexpr int kFound = 0, kNoSymbol = 1;
  *out = entry_point(name);
  if (found) *found = *out ? kFound : kNoSymbol;
  if (!*out) tell(Event("unknown").text("call", "cudaGetDriverEntryPoint").text("name", name));
  return 0;
}
TILEPROOF_API int cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long flags,
                                          int* found) {
  return cudaGetDriverEntryPointByVersion(name, out, 13000, flags, found);
}

TILEPROOF_ALSO(cudaStreamSynchronize_ptsz, cudaStreamSynchronize);
TILEPROOF_ALSO(cudaStreamQuery_ptsz, cudaStreamQuery);
TILEPROOF_ALSO(cudaStreamWaitEvent_ptsz, cudaStreamWaitEvent);
TILEPROOF_ALSO(cudaStreamGetFlags_ptsz, cudaStreamGetFlags);
TILEPROOF_ALSO(cudaStreamGetPriority_ptsz, cudaStreamGetPriority);
TILEPROOF_ALSO(cudaStreamGetId_ptsz, cudaStreamGetId);
TILEPROOF_ALSO(cudaStreamGetDevice_ptsz, cudaStreamGetDevice);
TILEPROOF_ALSO(cudaStreamSetAttribute_ptsz, cudaStreamSetAttribute);
TILEPROOF_ALSO(cudaStreamAttachMemAsync_ptsz, cudaStreamAttachMemAsync);
TILEPROOF_ALSO(cudaEventRecord_ptsz, cudaEventRecord);
TILEPROOF_ALSO(cudaEventRecordWithFlags_ptsz, cudaEventRecordWithFlags);
TILEPROOF_ALSO(cudaGetDriverEntryPoint_ptsz, cudaGetDriverEntryPoint);
TILEPROOF_ALSO(cudaGetDriverEntryPointByVersion_ptsz, cudaGetDriverEntryPointByVersion);
