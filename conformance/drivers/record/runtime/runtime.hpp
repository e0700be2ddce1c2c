// What the files of the runtime API share.
#pragma once
#include "device.hpp"

// A function of the API, as the program's linker sees it.
#define TILEPROOF_API extern "C" __attribute__((visibility("default")))
// The name of `of` for programs compiled with --default-stream per-thread: there is one order for all
// streams.
#define TILEPROOF_ALSO(name, of) TILEPROOF_API void name() __attribute__((alias(#of)))
#pragma GCC diagnostic ignored "-Wattribute-alias"

namespace tileproof::record {

// Ends the program: it calls a function of CUDA that is not recorded.
[[noreturn]] void not_recorded(std::string_view name);

// Keeps an error for cudaGetLastError.
inline int done(int code) {
  if (code) device().last_error = code;
  return code;
}

}  // namespace tileproof::record
