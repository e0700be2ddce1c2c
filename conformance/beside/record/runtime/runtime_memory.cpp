// The runtime API's memory: allocations, copies, fills, symbols.
#include <cstdlib>
#include <cstring>

#include "runtime.hpp"

using namespace tileproof::record;
namespace abi = tileproof::abi;

namespace {

int make(const char* call, void** out, std::size_t bytes, Place place) {
  Lock lock(calls());
  if (!out) return done(fail(call, abi::kInvalidValue, "its result goes to a null pointer"));
  *out = nullptr;
  if (!bytes) return 0;
  *out = reinterpret_cast<void*>(device().allocate(call, bytes, place));
  return done(*out ? 0 : abi::kOutOfMemory);
}

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

int symbol(const char* call, const void* host, std::uint64_t& address, std::size_t& bytes) {
  const auto found = device().variables.find(host);
  if (found == device().variables.end())
    return fail(call, abi::kInvalidSymbol, "the program registers no such variable");
  return symbol_address(call, found->second, address, bytes);
}

int symbol_copy(const char* call, const void* host, std::size_t offset, std::size_t count, const void* from,
                void* to, int kind) {
  Lock lock(calls());
  std::uint64_t address;
  std::size_t bytes;
  if (const int code = symbol(call, host, address, bytes)) return done(code);
  if (offset > bytes || count > bytes - offset)
    return done(fail(call, abi::kInvalidValue,
                     std::to_string(count) + " bytes at " + std::to_string(offset) + " of a variable of " +
                         std::to_string(bytes)));
  void* place = reinterpret_cast<void*>(address + offset);
  return done(to ? copy(call, to, place, count, kind) : copy(call, place, from, count, kind));
}

}  // namespace

TILEPROOF_API int cudaMalloc(void** out, std::size_t bytes) {
  return make("cudaMalloc", out, bytes, Place::device);
}
TILEPROOF_API int cudaMallocAsync(void** out, std::size_t bytes, void* stream) {
  const Into into(stream);
  return make("cudaMallocAsync", out, bytes, Place::device);
}
TILEPROOF_API int cudaMallocFromPoolAsync(void** out, std::size_t bytes, void*, void* stream) {
  const Into into(stream);
  return make("cudaMallocFromPoolAsync", out, bytes, Place::device);
}
TILEPROOF_API int cudaMallocManaged(void** out, std::size_t bytes, unsigned) {
  return make("cudaMallocManaged", out, bytes, Place::managed);
}
TILEPROOF_API int cudaMallocHost(void** out, std::size_t bytes) {
  return make("cudaMallocHost", out, bytes, Place::pinned);
}
TILEPROOF_API int cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  return make("cudaHostAlloc", out, bytes, Place::pinned);
}
TILEPROOF_API int cudaMallocPitch(void** out, std::size_t* pitch, std::size_t width, std::size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return make("cudaMallocPitch", out, *pitch * height, Place::device);
}
TILEPROOF_API int cudaMalloc3D(abi::Pitched* out, abi::Extent extent) {
  out->width = extent.width, out->height = extent.height;
  out->pitch = (extent.width + 511) / 512 * 512;
  return make("cudaMalloc3D", &out->data, out->pitch * extent.height * extent.depth, Place::device);
}

TILEPROOF_API int cudaFree(void* pointer) {
  Lock lock(calls());
  return done(device().free("cudaFree", number(pointer), false));
}
TILEPROOF_API int cudaFreeAsync(void* pointer, void* stream) {
  Lock lock(calls());
  const Into into(stream);
  return done(device().free("cudaFreeAsync", number(pointer), false));
}
TILEPROOF_API int cudaFreeHost(void* pointer) {
  Lock lock(calls());
  return done(device().free("cudaFreeHost", number(pointer), true));
}
TILEPROOF_API int cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  Lock lock(calls());
  return done(device().adopt("cudaHostRegister", pointer, bytes));
}
TILEPROOF_API int cudaHostUnregister(void* pointer) {
  Lock lock(calls());
  return done(device().release("cudaHostUnregister", pointer));
}
TILEPROOF_API int cudaHostGetDevicePointer(void** out, void* host, unsigned) {
  Lock lock(calls());
  if (!device().holding(number(host)))
    return done(fail("cudaHostGetDevicePointer", abi::kInvalidValue,
                     "that host memory is neither pinned nor registered"));
  *out = host;  // one address space
  return 0;
}
TILEPROOF_API int cudaHostGetFlags(unsigned* flags, void*) {
  *flags = 0;
  return 0;
}

TILEPROOF_API int cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  Lock lock(calls());
  return done(copy("cudaMemcpy", to, from, bytes, kind));
}
TILEPROOF_API int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void* stream) {
  Lock lock(calls());
  const Into into(stream);
  return done(copy("cudaMemcpyAsync", to, from, bytes, kind));
}
TILEPROOF_API int cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                               std::size_t width, std::size_t height, int kind) {
  Lock lock(calls());
  return done(copy_rows("cudaMemcpy2D", to, to_pitch, from, from_pitch, width, height, kind));
}
TILEPROOF_API int cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                    std::size_t width, std::size_t height, int kind, void* stream) {
  const Into into(stream);
  return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
TILEPROOF_API int cudaMemcpy3D(const abi::Copy3D* how) {
  Lock lock(calls());
  return done(copy_box("cudaMemcpy3D", *how));
}
TILEPROOF_API int cudaMemcpy3DAsync(const abi::Copy3D* how, void* stream) {
  const Into into(stream);
  return cudaMemcpy3D(how);
}
TILEPROOF_API int cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
  return cudaMemcpy(to, from, bytes, abi::kDeviceToDevice);
}

TILEPROOF_API int cudaMemset(void* to, int value, std::size_t bytes) {
  Lock lock(calls());
  return done(fill("cudaMemset", number(to), &value, 1, bytes));  // little-endian: its low byte
}
TILEPROOF_API int cudaMemsetAsync(void* to, int value, std::size_t bytes, void* stream) {
  Lock lock(calls());
  const Into into(stream);
  return done(fill("cudaMemsetAsync", number(to), &value, 1, bytes));
}
TILEPROOF_API int cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width,
                               std::size_t height) {
  Lock lock(calls());
  for (std::size_t row = 0; row < height; ++row)
    if (const int code = fill("cudaMemset2D", number(to) + row * pitch, &value, 1, width)) return done(code);
  return 0;
}
TILEPROOF_API int cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                                    std::size_t height, void* stream) {
  const Into into(stream);
  return cudaMemset2D(to, pitch, value, width, height);
}

TILEPROOF_API int cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                                     std::size_t offset, int kind) {
  return symbol_copy("cudaMemcpyToSymbol", symbol, offset, bytes, from, nullptr, kind);
}
TILEPROOF_API int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                          std::size_t offset, int kind, void* stream) {
  const Into into(stream);
  return symbol_copy("cudaMemcpyToSymbolAsync", symbol, offset, bytes, from, nullptr, kind);
}
TILEPROOF_API int cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                       int kind) {
  return symbol_copy("cudaMemcpyFromSymbol", symbol, offset, bytes, nullptr, to, kind);
}
TILEPROOF_API int cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes,
                                            std::size_t offset, int kind, void* stream) {
  const Into into(stream);
  return symbol_copy("cudaMemcpyFromSymbolAsync", symbol, offset, bytes, nullptr, to, kind);
}
TILEPROOF_API int cudaGetSymbolAddress(void** out, const void* host) {
  Lock lock(calls());
  std::uint64_t address = 0;
  std::size_t bytes;
  const int code = symbol("cudaGetSymbolAddress", host, address, bytes);
  *out = reinterpret_cast<void*>(address);
  return done(code);
}
TILEPROOF_API int cudaGetSymbolSize(std::size_t* out, const void* host) {
  Lock lock(calls());
  std::uint64_t address;
  return done(symbol("cudaGetSymbolSize", host, address, *out));
}

TILEPROOF_API int cudaPointerGetAttributes(abi::PointerAttributes* out, const void* pointer) {
  Lock lock(calls());
  std::memset(out, 0, sizeof *out);
  const auto* found = device().holding(number(pointer));
  if (!found) {
    out->on_host = const_cast<void*>(pointer);
    out->device = -2;  // cudaInvalidDeviceId
    return 0;
  }
  out->type = found->place == Place::device    ? abi::kDevice
              : found->place == Place::managed ? abi::kManaged
                                               : abi::kHost;
  out->on_device = const_cast<void*>(pointer);
  out->on_host = found->place == Place::device ? nullptr : const_cast<void*>(pointer);
  return 0;
}
TILEPROOF_API int cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  *total = std::size_t{192} << 30;
  *available = *total - (std::size_t{1} << 30);
  return 0;
}
TILEPROOF_API int cudaMemAdvise(const void*, std::size_t, int, std::uint64_t) { return 0; }
TILEPROOF_API int cudaMemPrefetchAsync(const void*, std::size_t, std::uint64_t, unsigned, void*) { return 0; }

// Pools: all memory is of one.
TILEPROOF_API int cudaDeviceGetDefaultMemPool(void** out, int) {
  static char pool;
  *out = &pool;
  return 0;
}
TILEPROOF_API int cudaDeviceGetMemPool(void** out, int device) {
  return cudaDeviceGetDefaultMemPool(out, device);
}
TILEPROOF_API int cudaDeviceSetMemPool(int, void*) { return 0; }
TILEPROOF_API int cudaMemPoolCreate(void** out, const void*) { return cudaDeviceGetDefaultMemPool(out, 0); }
TILEPROOF_API int cudaMemPoolDestroy(void*) { return 0; }
TILEPROOF_API int cudaMemPoolSetAttribute(void*, int, void*) { return 0; }
TILEPROOF_API int cudaMemPoolTrimTo(void*, std::size_t) { return 0; }

// Of textures and arrays, which are refused when one is made.
struct ChannelFormat {
  int x, y, z, w, kind;
};
TILEPROOF_API ChannelFormat cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}

TILEPROOF_ALSO(cudaMallocAsync_ptsz, cudaMallocAsync);
TILEPROOF_ALSO(cudaMallocFromPoolAsync_ptsz, cudaMallocFromPoolAsync);
TILEPROOF_ALSO(cudaFreeAsync_ptsz, cudaFreeAsync);
TILEPROOF_ALSO(cudaMemcpy_ptds, cudaMemcpy);
TILEPROOF_ALSO(cudaMemcpyAsync_ptsz, cudaMemcpyAsync);
TILEPROOF_ALSO(cudaMemcpy2D_ptds, cudaMemcpy2D);
TILEPROOF_ALSO(cudaMemcpy2DAsync_ptsz, cudaMemcpy2DAsync);
TILEPROOF_ALSO(cudaMemcpy3D_ptds, cudaMemcpy3D);
TILEPROOF_ALSO(cudaMemcpy3DAsync_ptsz, cudaMemcpy3DAsync);
TILEPROOF_ALSO(cudaMemset_ptds, cudaMemset);
TILEPROOF_ALSO(cudaMemsetAsync_ptsz, cudaMemsetAsync);
TILEPROOF_ALSO(cudaMemset2D_ptds, cudaMemset2D);
TILEPROOF_ALSO(cudaMemset2DAsync_ptsz, cudaMemset2DAsync);
TILEPROOF_ALSO(cudaMemcpyToSymbol_ptds, cudaMemcpyToSymbol);
TILEPROOF_ALSO(cudaMemcpyToSymbolAsync_ptsz, cudaMemcpyToSymbolAsync);
TILEPROOF_ALSO(cudaMemcpyFromSymbol_ptds, cudaMemcpyFromSymbol);
TILEPROOF_ALSO(cudaMemcpyFromSymbolAsync_ptsz, cudaMemcpyFromSymbolAsync);
TILEPROOF_ALSO(cudaMemPrefetchAsync_ptsz, cudaMemPrefetchAsync);
