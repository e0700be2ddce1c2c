// The least or greatest of several f32, as redux and tcgen05.ld.red take it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tileproof {

// +0 > -0; NaNs are left out, unless `nan` says that one is enough or there is nothing else.
inline uint32_t extreme_f32(const uint32_t* a, int count, bool max, bool absolute, bool nan) {
  bool any = false;
  float r = 0;
  for (int k = 0; k < count; ++k) {
    float x;
    std::memcpy(&x, a + k, 4);
    if (x != x) {
      if (nan) return 0x7fffffff;
      continue;
    }
    if (absolute) x = std::fabs(x);
    const bool less = x < r || (x == r && std::signbit(x) && !std::signbit(r));
    const bool more = x > r || (x == r && !std::signbit(x) && std::signbit(r));
    if (!any || (max ? more : less)) r = x;
    any = true;
  }
  if (!any) return 0x7fffffff;
  uint32_t bits;
  std::memcpy(&bits, &r, 4);
  return bits;
}

}  // namespace tileproof
