// What the files of the runtime API share.
#pragma once
#include "device.hpp"

// A function of the API, as the program's linker sees it.
#define TILEPROOF_API extern "C" __attribute__((visibility("default")))
// The name of `of` for programs compiled with --default-stream per-thread.
#define TILEPROOF_ALSO(name, of)                                             \
  extern "C" __attribute__((used)) inline void* resolve_##name() {           \
    return reinterpret_cast<void*>(&tileproof::record::OfThread<&of>::call); \
  }                                                                          \
  TILEPROOF_API void name() __attribute__((ifunc("resolve_" #name)))
#pragma GCC diagnostic ignored "-Wattribute-alias"

namespace tileproof::record {

// A function called so that the default stream is the thread's own.
template <auto F>
struct OfThread;
template <class R, class... A, R (*F)(A...)>
struct OfThread<F> {
  __attribute__((visibility("hidden"))) static R call(A... arguments) {
    const PerThread scope;
    return F(arguments...);
  }
};

// Ends the program: it calls a function of CUDA that is not recorded.
[[noreturn]] void not_recorded(std::string_view name);

// Keeps an error for cudaGetLastError.
inline int done(int code) {
  if (code) device().last_error = code;
  return code;
}

}  // namespace tileproof::record
