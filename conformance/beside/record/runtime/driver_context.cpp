// The driver API's device, contexts, streams, events, errors and its table of functions.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "runtime.hpp"

using namespace tileproof::record;
namespace abi = tileproof::abi;

namespace {

char context;  // the one there is; programs carry its address about
thread_local bool current = false;

}  // namespace

namespace tileproof::record {

void* entry_point(const char* name) {
  static void* const self = [] {
    Dl_info where;
    return dladdr(&context, &where) ? dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  }();
  if (!self || !name || std::strncmp(name, "cu", 2) != 0 || !std::strncmp(name, "cuda", 4)) return nullptr;
  for (const char* version : {"_v4", "_v3", "_v2", ""}) {
    const std::string full = std::string(name) + version;
    if (per_thread())
      for (const char* own : {"_ptsz", "_ptds"})
        if (void* found = dlsym(self, (full + own).c_str())) return found;
    if (void* found = dlsym(self, full.c_str())) return found;
  }
  return nullptr;
}

}  // namespace tileproof::record

TILEPROOF_API int cuInit(unsigned) { return 0; }
TILEPROOF_API int cuDriverGetVersion(int* out) {
  *out = 13000;
  return 0;
}
TILEPROOF_API int cuDeviceGetCount(int* out) {
  *out = 1;
  return 0;
}
TILEPROOF_API int cuDeviceGet(int* out, int which) {
  *out = 0;
  return which ? fail("cuDeviceGet", abi::kInvalidDevice, "there is one device, 0") : 0;
}
TILEPROOF_API int cuDeviceGetName(char* out, int bytes, int) {
  std::snprintf(out, static_cast<std::size_t>(bytes), "NVIDIA B200 (tileproof record)");
  return 0;
}
TILEPROOF_API int cuDeviceGetUuid_v2(void* out, int) {
  std::memset(out, 0, 16);
  return 0;
}
TILEPROOF_API int cuDeviceTotalMem_v2(std::size_t* out, int) {
  *out = std::size_t{192} << 30;
  return 0;
}
TILEPROOF_API int cuDeviceGetAttribute(int* out, int attribute, int) {
  Lock lock(calls());
  if (!device_attribute(attribute, out))
    refuse("cuDeviceGetAttribute", "device attribute " + std::to_string(attribute) + " is not known here");
  return 0;
}
TILEPROOF_API int cuDeviceComputeCapability(int* major, int* minor, int) {
  *major = device().hopper ? 9 : 10, *minor = 0;
  return 0;
}

TILEPROOF_API int cuCtxCreate_v4(void** out, void*, unsigned, int) {
  *out = &context;
  current = true;
  return 0;
}
TILEPROOF_API int cuCtxDestroy_v2(void*) { return 0; }
TILEPROOF_API int cuDevicePrimaryCtxRetain(void** out, int) {
  *out = &context;
  return 0;
}
TILEPROOF_API int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
TILEPROOF_API int cuDevicePrimaryCtxReset_v2(int) { return 0; }
TILEPROOF_API int cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return 0; }
TILEPROOF_API int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0, *active = 1;
  return 0;
}
TILEPROOF_API int cuCtxSetCurrent(void* wanted) {
  current = wanted != nullptr;
  return 0;
}
TILEPROOF_API int cuCtxGetCurrent(void** out) {
  *out = current ? &context : nullptr;
  return 0;
}
TILEPROOF_API int cuCtxPushCurrent_v2(void* wanted) { return cuCtxSetCurrent(wanted); }
TILEPROOF_API int cuCtxPopCurrent_v2(void** out) {
  if (out) *out = &context;
  return 0;
}
TILEPROOF_API int cuCtxGetDevice(int* out) {
  *out = 0;
  return 0;
}
TILEPROOF_API int cuCtxGetApiVersion(void*, unsigned* out) {
  *out = 13000;
  return 0;
}
TILEPROOF_API int cuCtxSynchronize() {
  Lock lock(calls());
  wait_for_all();
  return 0;
}
TILEPROOF_API int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return 0;
}
TILEPROOF_API int cuCtxSetLimit(int, std::size_t) { return 0; }

TILEPROOF_API int cuStreamCreateWithPriority(void** out, unsigned flags, int priority) {
  Lock lock(calls());
  return make_stream(out, flags, priority);
}
TILEPROOF_API int cuStreamCreate(void** out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}
TILEPROOF_API int cuStreamDestroy_v2(void* stream) {
  Lock lock(calls());
  return drop_stream("cuStreamDestroy", stream);
}
TILEPROOF_API int cuStreamSynchronize(void* stream) {
  Lock lock(calls());
  return wait_for_stream("cuStreamSynchronize", stream);
}
TILEPROOF_API int cuStreamQuery(void* stream) { return cuStreamSynchronize(stream); }
TILEPROOF_API int cuStreamWaitEvent(void* stream, void* mark, unsigned) {
  Lock lock(calls());
  return wait_mark("cuStreamWaitEvent", stream, mark);
}
TILEPROOF_API int cuStreamGetCtx(void*, void** out) {
  *out = &context;
  return 0;
}
TILEPROOF_API int cuEventCreate(void** out, unsigned flags) {
  Lock lock(calls());
  return make_mark(out, flags);
}
TILEPROOF_API int cuEventDestroy_v2(void* mark) {
  Lock lock(calls());
  return drop_mark("cuEventDestroy", mark);
}
TILEPROOF_API int cuEventRecord(void* mark, void* stream) {
  Lock lock(calls());
  return record_mark("cuEventRecord", mark, stream);
}
TILEPROOF_API int cuEventSynchronize(void* mark) {
  Lock lock(calls());
  return wait_for_mark("cuEventSynchronize", mark);
}
TILEPROOF_API int cuEventQuery(void* mark) { return cuEventSynchronize(mark); }
TILEPROOF_API int cuEventElapsedTime_v2(float* out, void* from, void* to) {
  Lock lock(calls());
  return elapsed("cuEventElapsedTime", out, from, to);
}

TILEPROOF_API int cuPointerGetAttribute(void* out, int attribute, std::uint64_t pointer) {
  Lock lock(calls());
  std::uint64_t first = 0;
  const auto* found = device().holding(pointer, &first);
  if (!found) return abi::kInvalidValue;  // as for host memory that the driver does not know: no mistake
  const bool on_device = found->place == Place::device || found->place == Place::managed;
  switch (attribute) {
    case 1:
      *static_cast<void**>(out) = &context;
      return 0;
    case 2:
      *static_cast<unsigned*>(out) = on_device ? 2 : 1;
      return 0;
    case 3:
    case 4:
      *static_cast<std::uint64_t*>(out) = pointer;
      return attribute == 4 && found->place == Place::device ? abi::kInvalidValue : 0;
    case 8:
      *static_cast<unsigned*>(out) = found->place == Place::managed;
      return 0;
    case 9:
      *static_cast<int*>(out) = 0;
      return 0;
    case 11:
      *static_cast<std::uint64_t*>(out) = first;
      return 0;
    case 12:
      *static_cast<std::size_t*>(out) = found->bytes;
      return 0;
    default:
      refuse("cuPointerGetAttribute",
             "pointer attribute " + std::to_string(attribute) + " is not known here");
  }
}

TILEPROOF_API int cuGetErrorName(int code, const char** out) {
  *out = code ? "CUDA_ERROR" : "CUDA_SUCCESS";
  return 0;
}
TILEPROOF_API int cuGetErrorString(int code, const char** out) {
  *out = code ? "an error, which tileproof record names" : "no error";
  return 0;
}
TILEPROOF_API int cuGetProcAddress_v2(const char* name, void** out, int, std::uint64_t flags, int* found) {
  Lock lock(calls());
  constexpr std::uint64_t kPerThread = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
  if (flags == kPerThread && !per_thread()) {
    const PerThread scope;
    *out = entry_point(name);
  } else {
    *out = entry_point(name);
  }
  if (found) *found = *out ? 0 : 1;
  if (*out) return 0;
  tell(Event("unknown").text("call", "cuGetProcAddress").text("name", name));
  return abi::kNotFound;
}
// Private tables of functions: only NVIDIA's own runtime asks for them.
TILEPROOF_API int cuGetExportTable(const void**, const void*) {
  refuse("cuGetExportTable",
         "a CUDA runtime inside the program (-cudart static, nvcc's default) asks the driver for its private "
         "tables: "
         "link with -cudart shared");
}

TILEPROOF_ALSO(cuStreamSynchronize_ptsz, cuStreamSynchronize);
TILEPROOF_ALSO(cuStreamQuery_ptsz, cuStreamQuery);
TILEPROOF_ALSO(cuStreamWaitEvent_ptsz, cuStreamWaitEvent);
TILEPROOF_ALSO(cuStreamGetCtx_ptsz, cuStreamGetCtx);
TILEPROOF_ALSO(cuEventRecord_ptsz, cuEventRecord);
