// createpolicy (PTX ISA 9.7.9.18): an opaque word. Only .L2::cache_hint operands take it, and hints change
// nothing here; so only its operands are checked.
#include "machine.hpp"
#include "slots/cache_policy.hpp"

namespace tileproof {
namespace {

constexpr uint64_t kPolicy = 0x1000000000000000;  // as CUTLASS's constant of evict_normal

Step by_fraction(Exec& x, const Instr& i) {
  const float* fraction = x.src<float>(i.o[slot::createpolicy_fractional::fraction]);
  uint64_t* policy = x.dst<uint64_t>(i.o[slot::createpolicy_fractional::dst]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    if (!(fraction[l] > 0 && fraction[l] <= 1))
      x.e.error("cache-policy",
                "createpolicy.fractional of " + std::to_string(fraction[l]) +
                    "; a fraction is above 0 and at most 1",
                x.origin(l));
    policy[l] = kPolicy;
  }
  return Step::Next;
}

Step by_range(Exec& x, const Instr& i) {
  namespace s = slot::createpolicy_range;
  const uint32_t *primary = x.src<uint32_t>(i.o[s::primary]), *total = x.src<uint32_t>(i.o[s::total]);
  uint64_t* policy = x.dst<uint64_t>(i.o[s::dst]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    if (primary[l] > total[l])
      x.e.error("cache-policy",
                "createpolicy.range of " + std::to_string(primary[l]) + " bytes, and the whole has " +
                    std::to_string(total[l]),
                x.origin(l));
    policy[l] = kPolicy;
  }
  return Step::Next;
}

const Registrar policies({{"createpolicy.fractional", by_fraction}, {"createpolicy.range", by_range}});

}  // namespace
}  // namespace tileproof
