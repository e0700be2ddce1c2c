#include "tmem_reduce.hpp"

#include <algorithm>

#include "extreme.hpp"
#include "enumerations/tcgen05.hpp"
#include "slots/tcgen05.hpp"

namespace tileproof {

void reduce_loaded(Engine& e, Warp& w, const PendingTmemLoad& load) {
  namespace s = slot::tcgen05_ld;
  const Instr& i = *load.instr;
  const bool max = i.m[s::max];
  uint32_t* out = reinterpret_cast<uint32_t*>(w.regs() + i.o[s::reduced]);
  const auto less = [](uint32_t a, uint32_t b) { return static_cast<int32_t>(a) < static_cast<int32_t>(b); };
  for (uint32_t m = load.mask; m; m &= m - 1) {
    const int t = __builtin_ctz(m);
    uint32_t loaded[128];
    for (int32_t k = 0; k < i.nvec; ++k)
      loaded[k] =
          reinterpret_cast<const uint32_t*>(w.regs() + e.program.vec[static_cast<size_t>(i.vec + k)])[t];
    const uint32_t* const first = loaded;
    const uint32_t* const end = first + i.nvec;
    switch (static_cast<LoadedType>(i.m[s::type])) {
      case LoadedType::U32:
        out[t] = max ? *std::max_element(first, end) : *std::min_element(first, end);
        break;
      case LoadedType::S32:
        out[t] = max ? *std::max_element(first, end, less) : *std::min_element(first, end, less);
        break;
      case LoadedType::F32:
        out[t] = extreme_f32(first, i.nvec, max, i.m[s::absolute] != 0, i.m[s::nan] != 0);
        break;
    }
  }
}

}  // namespace tileproof
