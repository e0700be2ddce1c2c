// The driver API's memory: allocations, copies, fills.
#include "runtime.hpp"

using namespace tileproof::record;
namespace abi = tileproof::abi;

namespace {

using Address = std::uint64_t;  // CUdeviceptr

int make(const char* call, void* out, std::size_t bytes, Place place) {
  Lock lock(calls());
  if (!bytes) return fail(call, abi::kInvalidValue, "an allocation of no bytes");
  const auto address = device().allocate(call, bytes, place);
  *static_cast<std::uint64_t*>(out) = address;
  return address ? 0 : abi::kOutOfMemory;
}
void* at(Address address) { return reinterpret_cast<void*>(address); }
int move(const char* call, void* to, const void* from, std::size_t bytes, int kind) {
  Lock lock(calls());
  return copy(call, to, from, bytes, kind);
}
int move_in(void* stream, const char* call, void* to, const void* from, std::size_t bytes, int kind) {
  Lock lock(calls());
  const Into into(stream);
  return copy(call, to, from, bytes, kind);
}
int set(const char* call, Address to, const void* value, std::size_t size, std::size_t count) {
  Lock lock(calls());
  return fill(call, to, value, size, count);
}
int set_in(void* stream, const char* call, Address to, const void* value, std::size_t size,
           std::size_t count) {
  Lock lock(calls());
  const Into into(stream);
  return fill(call, to, value, size, count);
}

}  // namespace

TILEPROOF_API int cuMemAlloc_v2(Address* out, std::size_t bytes) {
  return make("cuMemAlloc", out, bytes, Place::device);
}
TILEPROOF_API int cuMemAllocAsync(Address* out, std::size_t bytes, void* stream) {
  const Into into(stream);
  return make("cuMemAllocAsync", out, bytes, Place::device);
}
TILEPROOF_API int cuMemAllocManaged(Address* out, std::size_t bytes, unsigned) {
  return make("cuMemAllocManaged", out, bytes, Place::managed);
}
TILEPROOF_API int cuMemAllocHost_v2(void** out, std::size_t bytes) {
  return make("cuMemAllocHost", out, bytes, Place::pinned);
}
TILEPROOF_API int cuMemHostAlloc(void** out, std::size_t bytes, unsigned) {
  return make("cuMemHostAlloc", out, bytes, Place::pinned);
}
TILEPROOF_API int cuMemAllocPitch_v2(Address* out, std::size_t* pitch, std::size_t width, std::size_t height,
                                     unsigned) {
  *pitch = (width + 511) / 512 * 512;
  return make("cuMemAllocPitch", out, *pitch * height, Place::device);
}
TILEPROOF_API int cuMemFree_v2(Address pointer) {
  Lock lock(calls());
  return device().free("cuMemFree", pointer, false);
}
TILEPROOF_API int cuMemFreeAsync(Address pointer, void* stream) {
  const Into into(stream);
  return cuMemFree_v2(pointer);
}
TILEPROOF_API int cuMemFreeHost(void* pointer) {
  Lock lock(calls());
  return device().free("cuMemFreeHost", reinterpret_cast<Address>(pointer), true);
}
TILEPROOF_API int cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned) {
  Lock lock(calls());
  return device().adopt("cuMemHostRegister", pointer, bytes);
}
TILEPROOF_API int cuMemHostUnregister(void* pointer) {
  Lock lock(calls());
  return device().release("cuMemHostUnregister", pointer);
}
TILEPROOF_API int cuMemHostGetDevicePointer_v2(Address* out, void* host, unsigned) {
  Lock lock(calls());
  if (!device().holding(reinterpret_cast<Address>(host)))
    return fail("cuMemHostGetDevicePointer", abi::kInvalidValue,
                "that host memory is neither pinned nor registered");
  *out = reinterpret_cast<Address>(host);
  return 0;
}
TILEPROOF_API int cuMemGetAddressRange_v2(Address* base, std::size_t* bytes, Address pointer) {
  Lock lock(calls());
  std::uint64_t first = 0;
  const auto* found = device().holding(pointer, &first);
  if (!found) return fail("cuMemGetAddressRange", abi::kNotFound, "no allocation holds the address");
  if (base) *base = first;
  if (bytes) *bytes = found->bytes;
  return 0;
}
TILEPROOF_API int cuMemGetInfo_v2(std::size_t* available, std::size_t* total) {
  *total = std::size_t{192} << 30;
  *available = *total - (std::size_t{1} << 30);
  return 0;
}

TILEPROOF_API int cuMemcpy(Address to, Address from, std::size_t bytes) {
  return move("cuMemcpy", at(to), at(from), bytes, abi::kDefault);
}
TILEPROOF_API int cuMemcpyAsync(Address to, Address from, std::size_t bytes, void* stream) {
  return move_in(stream, "cuMemcpyAsync", at(to), at(from), bytes, abi::kDefault);
}
TILEPROOF_API int cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
  return move("cuMemcpyHtoD", at(to), from, bytes, abi::kHostToDevice);
}
TILEPROOF_API int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* stream) {
  return move_in(stream, "cuMemcpyHtoDAsync", at(to), from, bytes, abi::kHostToDevice);
}
TILEPROOF_API int cuMemcpyDtoH_v2(void* to, Address from, std::size_t bytes) {
  return move("cuMemcpyDtoH", to, at(from), bytes, abi::kDeviceToHost);
}
TILEPROOF_API int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void* stream) {
  return move_in(stream, "cuMemcpyDtoHAsync", to, at(from), bytes, abi::kDeviceToHost);
}
TILEPROOF_API int cuMemcpyDtoD_v2(Address to, Address from, std::size_t bytes) {
  return move("cuMemcpyDtoD", at(to), at(from), bytes, abi::kDeviceToDevice);
}
TILEPROOF_API int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void* stream) {
  return move_in(stream, "cuMemcpyDtoDAsync", at(to), at(from), bytes, abi::kDeviceToDevice);
}

TILEPROOF_API int cuMemsetD8_v2(Address to, unsigned char value, std::size_t count) {
  return set("cuMemsetD8", to, &value, sizeof value, count);
}
TILEPROOF_API int cuMemsetD16_v2(Address to, unsigned short value, std::size_t count) {
  return set("cuMemsetD16", to, &value, sizeof value, count);
}
TILEPROOF_API int cuMemsetD32_v2(Address to, unsigned value, std::size_t count) {
  return set("cuMemsetD32", to, &value, sizeof value, count);
}
TILEPROOF_API int cuMemsetD8Async(Address to, unsigned char value, std::size_t count, void* stream) {
  return set_in(stream, "cuMemsetD8Async", to, &value, sizeof value, count);
}
TILEPROOF_API int cuMemsetD16Async(Address to, unsigned short value, std::size_t count, void* stream) {
  return set_in(stream, "cuMemsetD16Async", to, &value, sizeof value, count);
}
TILEPROOF_API int cuMemsetD32Async(Address to, unsigned value, std::size_t count, void* stream) {
  return set_in(stream, "cuMemsetD32Async", to, &value, sizeof value, count);
}
TILEPROOF_API int cuMemAdvise_v2(Address, std::size_t, int, std::uint64_t) { return 0; }
TILEPROOF_API int cuMemPrefetchAsync_v2(Address, std::size_t, std::uint64_t, unsigned, void*) { return 0; }

TILEPROOF_ALSO(cuMemAllocAsync_ptsz, cuMemAllocAsync);
TILEPROOF_ALSO(cuMemFreeAsync_ptsz, cuMemFreeAsync);
TILEPROOF_ALSO(cuMemcpy_ptds, cuMemcpy);
TILEPROOF_ALSO(cuMemcpyAsync_ptsz, cuMemcpyAsync);
TILEPROOF_ALSO(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2);
TILEPROOF_ALSO(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2);
TILEPROOF_ALSO(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2);
TILEPROOF_ALSO(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2);
TILEPROOF_ALSO(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2);
TILEPROOF_ALSO(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2);
TILEPROOF_ALSO(cuMemsetD8_v2_ptds, cuMemsetD8_v2);
TILEPROOF_ALSO(cuMemsetD16_v2_ptds, cuMemsetD16_v2);
TILEPROOF_ALSO(cuMemsetD32_v2_ptds, cuMemsetD32_v2);
TILEPROOF_ALSO(cuMemsetD8Async_ptsz, cuMemsetD8Async);
TILEPROOF_ALSO(cuMemsetD16Async_ptsz, cuMemsetD16Async);
TILEPROOF_ALSO(cuMemsetD32Async_ptsz, cuMemsetD32Async);
TILEPROOF_ALSO(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync_v2);
