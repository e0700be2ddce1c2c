// The driver API's modules, libraries, kernels and launches.
#include <fstream>
#include <iterator>
#include <memory>

#include "runtime.hpp"

using namespace tileproof::record;
namespace abi = tileproof::abi;

namespace {

int load(const char* call, void** out, const void* image) {
  Lock lock(calls());
  int code = 0;
  *out = device().load(image, true, call, &code);
  return code;
}

int load_file(const char* call, void** out, const char* path) {
  std::ifstream file(path, std::ios::binary);
  Lock lock(calls());
  if (!file) return fail(call, abi::kFileNotFound, std::string("it cannot be read: ") + path);
  // Kept: a module's image stays where it is.
  const auto* text = new std::string(std::istreambuf_iterator<char>(file), {});
  return load(call, out, text->c_str());
}

int find_kernel(const char* call, void** out, void* module, const char* name) {
  Lock lock(calls());
  auto* kernel = device().kernel(static_cast<Module*>(module), name);
  if (!device().describe(call, kernel))
    return fail(call, abi::kNotFound, "the module has no kernel " + std::string(name));
  *out = kernel;
  return 0;
}

int find_variable(const char* call, std::uint64_t* out, std::size_t* bytes, void* module, const char* name) {
  Lock lock(calls());
  Variable variable{static_cast<Module*>(module), name, 0, 0};
  std::uint64_t address;
  std::size_t size;
  const int code = symbol_address(call, &variable, address, size);
  if (code) return abi::kNotFound;
  if (out) *out = address;
  if (bytes) *bytes = size;
  return 0;
}

int start(const char* call, void* kernel, const Launch& how, void** arguments, void** extra) {
  Lock lock(calls());
  auto* found = device().kernel_of(kernel);
  if (arguments || !extra) return launch(call, found, how, arguments);
  const void* packed = nullptr;
  std::size_t bytes = 0;
  for (int i = 0; extra[i]; i += 2) {  // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE
    if (extra[i] == reinterpret_cast<void*>(1)) packed = extra[i + 1];
    if (extra[i] == reinterpret_cast<void*>(2)) bytes = *static_cast<std::size_t*>(extra[i + 1]);
  }
  return launch(call, found, how, nullptr, packed, bytes);
}

}  // namespace

TILEPROOF_API int cuModuleLoad(void** out, const char* path) { return load_file("cuModuleLoad", out, path); }
TILEPROOF_API int cuModuleLoadData(void** out, const void* image) {
  return load("cuModuleLoadData", out, image);
}
TILEPROOF_API int cuModuleLoadDataEx(void** out, const void* image, unsigned, int*, void**) {
  return load("cuModuleLoadDataEx", out, image);
}
TILEPROOF_API int cuModuleLoadFatBinary(void** out, const void* image) {
  return load("cuModuleLoadFatBinary", out, image);
}
TILEPROOF_API int cuModuleUnload(void*) { return 0; }
TILEPROOF_API int cuModuleGetFunction(void** out, void* module, const char* name) {
  return find_kernel("cuModuleGetFunction", out, module, name);
}
TILEPROOF_API int cuModuleGetGlobal_v2(std::uint64_t* out, std::size_t* bytes, void* module,
                                       const char* name) {
  return find_variable("cuModuleGetGlobal", out, bytes, module, name);
}
TILEPROOF_API int cuLibraryLoadData(void** out, const void* image, int*, void**, unsigned, int*, void**,
                                    unsigned) {
  return load("cuLibraryLoadData", out, image);
}
TILEPROOF_API int cuLibraryLoadFromFile(void** out, const char* path, int*, void**, unsigned, int*, void**,
                                        unsigned) {
  return load_file("cuLibraryLoadFromFile", out, path);
}
TILEPROOF_API int cuLibraryUnload(void*) { return 0; }
TILEPROOF_API int cuLibraryGetKernel(void** out, void* library, const char* name) {
  return find_kernel("cuLibraryGetKernel", out, library, name);
}
TILEPROOF_API int cuLibraryGetModule(void** out, void* library) {
  *out = library;
  return 0;
}
TILEPROOF_API int cuLibraryGetGlobal(std::uint64_t* out, std::size_t* bytes, void* library,
                                     const char* name) {
  return find_variable("cuLibraryGetGlobal", out, bytes, library, name);
}
TILEPROOF_API int cuKernelGetFunction(void** out, void* kernel) {
  *out = kernel;
  return 0;
}
TILEPROOF_API int cuFuncGetModule(void** out, void* function) {
  Lock lock(calls());
  auto* kernel = device().kernel_of(function);
  if (!kernel)
    return fail("cuFuncGetModule", abi::kInvalidHandle, "the program has no kernel of this handle");
  *out = kernel->module;
  return 0;
}
TILEPROOF_API int cuFuncGetName(const char** out, void* function) {
  Lock lock(calls());
  const auto* kernel = device().kernel_of(function);
  if (!kernel) return fail("cuFuncGetName", abi::kInvalidHandle, "the program has no kernel of this handle");
  *out = kernel->name.c_str();
  return 0;
}

TILEPROOF_API int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, void* stream, void** arguments,
                                 void** extra) {
  return start("cuLaunchKernel", function, {{gx, gy, gz}, {bx, by, bz}, shared, stream}, arguments, extra);
}
TILEPROOF_API int cuLaunchCooperativeKernel(void* function, unsigned gx, unsigned gy, unsigned gz,
                                            unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                            void* stream, void** arguments) {
  Launch how{{gx, gy, gz}, {bx, by, bz}, shared, stream};
  how.cooperative = true;
  return start("cuLaunchCooperativeKernel", function, how, arguments, nullptr);
}
TILEPROOF_API int cuLaunchKernelEx(const abi::DriverLaunchConfig* c, void* function, void** arguments,
                                   void** extra) {
  const Launch how{{c->grid[0], c->grid[1], c->grid[2]},
                   {c->block[0], c->block[1], c->block[2]},
                   c->shared,
                   c->stream,
                   c->attributes,
                   c->count,
                   false};
  return start("cuLaunchKernelEx", function, how, arguments, extra);
}
TILEPROOF_API int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  const auto work = [=](int) {
    function(data);
    return 0;
  };
  if (captured(stream_number(stream), work)) return 0;
  function(data);
  return 0;
}

TILEPROOF_API int cuFuncSetAttribute(void* function, int attribute, int value) {
  Lock lock(calls());
  return set_attribute("cuFuncSetAttribute", device().kernel_of(function), attribute, value);
}
TILEPROOF_API int cuKernelSetAttribute(int attribute, int value, void* kernel, int) {
  Lock lock(calls());
  return set_attribute("cuKernelSetAttribute", device().kernel_of(kernel), attribute, value);
}
TILEPROOF_API int cuFuncSetCacheConfig(void*, int) { return 0; }
TILEPROOF_API int cuFuncGetAttribute(int* out, int attribute, void* function) {
  Lock lock(calls());
  return get_attribute("cuFuncGetAttribute", device().kernel_of(function), attribute, out);
}
TILEPROOF_API int cuKernelGetAttribute(int* out, int attribute, void* kernel, int) {
  return cuFuncGetAttribute(out, attribute, kernel);
}
TILEPROOF_API int cuFuncLoad(void*) { return 0; }
TILEPROOF_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, void* function, int threads,
                                                              std::size_t shared) {
  Lock lock(calls());
  return resident_blocks("cuOccupancyMaxActiveBlocksPerMultiprocessor", device().kernel_of(function), threads,
                         shared, out);
}
TILEPROOF_API int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, void* function, int threads,
                                                                       std::size_t shared, unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(out, function, threads, shared);
}
TILEPROOF_API int cuOccupancyMaxActiveClusters(int* out, void* function, const abi::DriverLaunchConfig* c) {
  int blocks = 0;
  const int threads = static_cast<int>(c->block[0] * c->block[1] * c->block[2]);
  if (const int code = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, c->shared))
    return code;
  unsigned size = 1;
  for (unsigned i = 0; i < c->count; ++i)
    if (c->attributes[i].id == abi::kClusterDimension) {
      const auto* d = c->attributes[i].value.dimension;
      size = d[0] * d[1] * d[2];
    }
  *out = device().processors * blocks / static_cast<int>(size);
  return 0;
}

// Tensor maps: the recorder checks the fields and gives the 128 bytes.
namespace {
int encode(const char* call, void* map, Event& event, int type, unsigned rank, std::uint64_t address,
           const std::uint64_t* shape, const std::uint64_t* strides, const unsigned* steps, int interleave,
           int swizzle, int promotion, int fill) {
  Lock lock(calls());
  if (rank < 1 || rank > 5) return fail(call, abi::kInvalidValue, "a rank of " + std::to_string(rank));
  event.number("type", type).address("address", address).list("shape", shape, rank);
  event.list("strides", strides, rank - 1)
      .list("element_strides", steps, rank)
      .number("interleave", interleave);
  event.number("swizzle", swizzle).number("promotion", promotion).number("fill", fill);
  const auto reply = ask(event);
  if (reply.code) return fail(call, reply.code, reply.bytes);
  reply.bytes.copy(static_cast<char*>(map), reply.bytes.size());
  return 0;
}
}  // namespace
TILEPROOF_API int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address,
                                         const std::uint64_t* shape, const std::uint64_t* strides,
                                         const unsigned* box, const unsigned* steps, int interleave,
                                         int swizzle, int promotion, int fill) {
  Event event("map");
  event.text("kind", "tiled").list("box", box, rank > 5 ? 0 : rank);
  return encode("cuTensorMapEncodeTiled", map, event, type, rank, reinterpret_cast<std::uint64_t>(address),
                shape, strides, steps, interleave, swizzle, promotion, fill);
}
TILEPROOF_API int cuTensorMapEncodeIm2col(void* map, int type, unsigned rank, void* address,
                                          const std::uint64_t* shape, const std::uint64_t* strides,
                                          const int* lower, const int* upper, unsigned channels,
                                          unsigned pixels, const unsigned* steps, int interleave, int swizzle,
                                          int promotion, int fill) {
  if (rank < 3)
    return fail("cuTensorMapEncodeIm2col", abi::kInvalidValue, "a rank of " + std::to_string(rank));
  Event event("map");
  const std::size_t corners = rank > 5 ? 0 : rank - 2;
  const unsigned box[2] = {channels, pixels};
  event.text("kind", "im2col")
      .list("box", box, 2)
      .list("lower", lower, corners)
      .list("upper", upper, corners);
  return encode("cuTensorMapEncodeIm2col", map, event, type, rank, reinterpret_cast<std::uint64_t>(address),
                shape, strides, steps, interleave, swizzle, promotion, fill);
}
TILEPROOF_API int cuTensorMapReplaceAddress(void* map, void* address) {
  Lock lock(calls());
  const auto reply = ask(Event("replace").address("address", reinterpret_cast<std::uint64_t>(address)),
                         {bytes_of(map, 128)});
  if (reply.code) return fail("cuTensorMapReplaceAddress", reply.code, reply.bytes);
  reply.bytes.copy(static_cast<char*>(map), reply.bytes.size());
  return 0;
}

TILEPROOF_ALSO(cuLaunchKernel_ptsz, cuLaunchKernel);
TILEPROOF_ALSO(cuLaunchKernelEx_ptsz, cuLaunchKernelEx);
TILEPROOF_ALSO(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel);
TILEPROOF_ALSO(cuLaunchHostFunc_ptsz, cuLaunchHostFunc);
