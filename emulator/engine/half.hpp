// f16 and bf16 values as their 16 bits.
#pragma once

#include "alu.hpp"

namespace tileproof::half {

// GCC 12 has _Float16 in C++ on x86-64 only; __fp16 is the same format there, and is converted likewise.
#ifdef __aarch64__
using F16 = __fp16;
#else
using F16 = _Float16;
#endif

inline float from_bf16(uint16_t v) { return bits_as<float>(static_cast<uint32_t>(v) << 16); }
// Round to nearest even; NaN is canonical (PTX ISA 9.7.9.21).
inline uint16_t to_bf16(float f) {
  if (f != f) return 0x7fff;
  const uint32_t u = bits_as<uint32_t>(f);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
inline float from_f16(uint16_t v) { return static_cast<float>(bits_as<F16>(v)); }
inline uint16_t to_f16(float f) {
  if (f != f) return 0x7fff;
  return bits_as<uint16_t>(static_cast<F16>(f));
}

}  // namespace tileproof::half
